"""The conformance suite on every program of the registry; one that is added there is covered at once."""

from functools import lru_cache

import pytest
from conformance.program_suite import ProgramConformance

from knowgap.lms.ra_isf.sub_models import load_sub_model
from knowgap.programs import PROGRAMS, get_program
from tests.lms.ra_isf.tiny import write_sub_model


def _suite(name):
    program = get_program(name)
    return type(f"Test{program.__name__}", (ProgramConformance,), {"program": program, "__module__": __name__})


globals().update({suite.__name__: suite for suite in map(_suite, PROGRAMS)})


def remembered(judge):
    """What a sub-model says of each list of questions or pairs, computed once, since the tests ask the same ones."""
    computed = lru_cache(maxsize=None)(judge)
    return lambda items: list(computed(tuple(items)))


class TestRAISFWithTrainedModels(ProgramConformance):
    """RA-ISF whose sub-modules are models of random weights; what is known and relevant is fixed by thresholds."""

    program = get_program("ra_isf")

    @pytest.fixture(autouse=True, scope="class")
    @classmethod
    def sub_models(cls, tmp_path_factory):
        folder = tmp_path_factory.mktemp("sub_models")
        settings = {"know": {"threshold": 1.0}, "relevant": {"threshold": 0.0}, "decompose": {"max_tokens": 48}}
        cls.models = {
            task: load_sub_model(task, write_sub_model(folder / task, task, kind, **settings[task]))
            for task, kind in (("know", "cross_encoder"), ("relevant", "seq2seq"), ("decompose", "causal"))
        }
        for model, judge in zip(cls.models.values(), ("knows", "relevant", "decompose"), strict=True):
            setattr(model, judge, remembered(getattr(model, judge)))

    def make(self, retriever=None, **kwargs):
        together = {"relevant": None} if kwargs.get("judge_together") else {}
        return super().make(retriever, **{**self.models, **together, **kwargs})
