"""What a study chose is taken only if it is better on questions that the study has not seen."""

import json

import pytest
from compile_helpers import Tunable, make_examples, make_retriever, quality_lm, reading_lm

from knowgap.compiling import Evaluations, StudyConfig, compare, compile
from knowgap.compiling.hold_out import split_off
from knowgap.compiling.run import Run


@pytest.mark.parametrize(
    ("sizes", "number", "parts"),
    [
        ((60, 300), None, (40, 240, 80)),
        ((45, 60), None, (25, 40, 40)),
        ((39, 0), None, (39, 0, 0)),
        ((10, 60), None, (10, 40, 20)),
        ((9, 60), 4, (5, 60, 4)),
        ((9, 60), 0, (9, 60, 0)),
    ],
)
def test_a_third_is_held_out_and_at_least_twenty(sizes, number, parts):
    questions = range(sizes[0]), range(100, 100 + sizes[1])
    study, train, held_out = found = split_off(*questions, number, seed=3)
    assert tuple(map(len, found)) == parts
    assert sorted([*study, *train, *held_out]) == [*questions[0], *questions[1]]
    assert found == split_off(*questions, number, seed=3)


def tuned(examples, dev=None, trainset=None, output=None, lm=None, program=None, **settings):
    study = StudyConfig(**{"n_trials": 12, "demos": "none", "prune": False, **settings})
    run = Run(lm or quality_lm(examples, cache=True)[0])
    common = {"trainset": trainset, "output": output, "study": study, "run": run}
    return compile(program or Tunable(make_retriever(examples)), dev or examples, "exact_match", **common)


def test_a_better_choice_is_taken():
    found = tuned(make_examples(90))
    assert (len(found.held_out), found.verdict.better, compare(*found.evaluations.values()).n) == (30, True, 30)
    assert found.program.values() == found.study.program.values() != found.before.values()
    assert {*found.study.objective.questions}.isdisjoint(example.id for example in found.held_out)


def test_of_few_questions_the_program_as_it_was_is_kept(tmp_path):
    found = tuned(make_examples(10), output=tmp_path)
    assert found.program.values() == found.before.values() != found.study.program.values()
    assert found.verdict.better is False
    config = json.loads((tmp_path / "artifact" / "config.json").read_text())
    assert [*config["evaluations"]] == ["dev before"]
    assert [*Evaluations.load(tmp_path)] == ["dev before", "dev after"]
    untested = tuned(make_examples(10), hold_out=0)
    assert untested.verdict is None
    assert untested.program.values() == untested.study.program.values()


def test_a_choice_that_is_not_better_is_not_taken():
    found = tuned(make_examples(26), hold_out=6)
    assert list(found.evaluations) == ["held-out before", "held-out after"]
    tested = compare(*found.evaluations.values())
    assert (found.verdict.better, tested.n, tested.difference > 0) == (False, 6, True)


def test_within_a_tolerance_the_cheaper_program_is_taken():
    examples = make_examples(60)
    program = Tunable(make_retriever(examples), top_k=5, careful=True)
    found = tuned(examples, lm=reading_lm()[0], program=program, tolerance=0.05, n_trials=6)
    assert found.verdict.better
    assert "1 instead of 2 LM calls a question" in found.verdict.text
    assert found.program.values()["careful"] is False
