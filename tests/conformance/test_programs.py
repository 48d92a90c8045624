"""The conformance suite on every program of the registry; one that is added there is covered at once."""

from conformance.program_suite import ProgramConformance

from knowgap.programs import PROGRAMS, get_program


def _suite(name):
    program = get_program(name)
    return type(f"Test{program.__name__}", (ProgramConformance,), {"program": program, "__module__": __name__})


globals().update({suite.__name__: suite for suite in map(_suite, PROGRAMS)})
