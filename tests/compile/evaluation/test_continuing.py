"""Evaluations that continue from their files of answers: nothing is asked twice, and what was lost is asked again."""

import dspy
import pytest
from compile_helpers import failing_on, reading_lm, reading_rule
from dspy.utils.exceptions import LMAuthError, LMBillingError, LMTimeoutError
from support import UNREADABLE, by_output, scripted_lm

from knowgap.compiling import evaluate
from knowgap.compiling.data.dataset import Dataset
from knowgap.compiling.run import Run
from knowgap.errors import LanguageModelError, LanguageModelUnreachable, UsageError


@pytest.fixture
def path(tmp_path):
    return tmp_path / "deep" / "answers.jsonl"


@pytest.mark.parametrize(
    ("fault", "error", "asked"),
    [
        (LanguageModelUnreachable("connection refused"), LanguageModelUnreachable, 0),
        (LMAuthError("no key"), LanguageModelError, 0),
        (LMBillingError("no quota"), LanguageModelError, 0),
        (UNREADABLE, LanguageModelError, 6),  # three questions, each in two formats
    ],
)
def test_a_model_that_cannot_be_asked_ends_the_run_and_the_same_call_goes_on(
    program, examples, path, fault, error, asked
):
    def rule(outputs, inputs):
        if isinstance(fault, Exception) and faulty:
            raise fault
        return fault if faulty else reading_rule(outputs, inputs)

    (lm, engine), faulty = scripted_lm(rule), True
    with pytest.raises(error):
        evaluate(program, examples, "f1", run=Run(lm=lm, num_threads=1), output=path)
    assert len(engine.calls) == asked
    faulty = False
    found = evaluate(program, examples, "f1", run=Run(lm=lm, num_threads=1), output=path)
    assert (found.failures, found.mean(), len(engine.calls)) == ([], 1.0, asked + len(examples))


@pytest.mark.parametrize("act", ["answer", "correct"])  # a call of the program, and one of the judge
def test_a_lost_question_is_named_and_asked_again_by_the_next_run(program, examples, path, caplog, act):
    def rule(outputs, inputs):
        if act in outputs and inputs["question"] == examples[4].question and not caplog.records:
            raise LMTimeoutError("connection reset", model="test/scripted")
        return {"correct": True} if "correct" in outputs else reading_rule(outputs, inputs)

    (lm, engine), metrics = scripted_lm(rule), ["f1", "judged_accuracy"]
    found = evaluate(program, examples, metrics, run=Run(lm=lm), output=path)
    assert (found.lost, found.mean("judged_accuracy")) == ([examples[4].id], 7 / 8)
    assert (found.summary()["lost"], found.summary()["failed"]) == (1, 1)
    [said] = [record.getMessage() for record in caplog.records if record.name == "knowgap"]
    assert f"1 of 8 questions could not reach the language model and count as failed ({examples[4].id})" in said
    again = evaluate(program, examples, metrics, run=Run(lm=lm), output=path)
    assert again.lost == again.failures == []
    assert len(engine.calls) == 2 * 8 + (act == "correct")  # the answer that was not judged is asked for again


def test_a_judge_that_refuses_the_key_ends_the_run_as_a_program_does(program, examples):
    def refuse(outputs, inputs):
        raise LMAuthError("no", model="test/scripted")

    lm, _ = scripted_lm(by_output({"correct": refuse, "answer": reading_rule}))
    with pytest.raises(LanguageModelError):
        evaluate(program, examples, "judged_accuracy", run=Run(lm=lm))


def test_answers_without_traces_are_asked_again_for_them(program, examples, path):
    lm, engine = scripted_lm(failing_on("q3"))
    found = [evaluate(program, examples, "f1", run=Run(lm=lm), output=path, traces=t) for t in (False, True, True)]
    assert [sum(each.trace is not None for each in every.records) for every in found] == [0, 7, 7]
    assert len(engine.calls) == 7 + 7  # the question that failed, which counts no call here, has no trace


def test_a_killed_run_continues_and_more_questions_go_on_from_fewer(program, examples, path):
    lm, engine = reading_lm()
    data = Dataset("houses", {"dev": examples}, [], "digest")

    def asked(limit=None):
        before = len(engine.calls)
        found = evaluate(program, data, "f1", run=Run(lm=lm), limit=limit, output=path)
        assert [(each.id, each.scores["f1"]) for each in found.records] == [(e.id, 1.0) for e in examples[:limit]]
        return len(engine.calls) - before

    assert [asked(limit) for limit in (2, 5, 3, None)] == [2, 3, 0, 3]
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join(lines[:4]) + lines[4][:25])  # three answers and a part of one
    assert [asked(), asked()] == [5, 0]


def test_a_question_whose_gold_passages_were_corrected_is_asked_again(program, examples, path):
    lm, engine = scripted_lm(lambda outputs, inputs: {"answer": "Tarn"})
    evaluate(program, examples, "exact_match", run=Run(lm=lm), output=path)
    corrected = [examples[0].copy(gold_ids=["q1"]).with_inputs("question"), *examples[1:]]
    for _ in range(2):
        found = evaluate(program, corrected, "exact_match", run=Run(lm=lm), output=path)
        assert found.records[0].gold == ["q1"]
        assert len(engine.calls) == len(examples) + 1


def test_answers_that_depend_on_something_else_are_refused(program, examples, path, lm):
    evaluate(program, examples, "exact_match", run=Run(lm=lm), output=path)
    with pytest.raises(UsageError, match="differs in: metrics"):
        evaluate(program, examples, "f1", run=Run(lm=lm), output=path)
    program.answer.demos = [dspy.Example(question="x", passages=[], style="short", answer="y")]
    program.retriever.name = "another"
    with pytest.raises(UsageError, match="differs in: retriever, state"):
        evaluate(program, examples, "exact_match", run=Run(lm=lm), output=path)
