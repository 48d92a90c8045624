"""Evaluations that continue from their files of answers: nothing is asked twice, and what was lost is asked again."""

from __future__ import annotations

import dspy
import pytest
from compile_helpers import reading_lm, reading_rule
from support import UNREADABLE, scripted_lm

from knowgap.compiling import evaluate
from knowgap.compiling.data.dataset import Dataset
from knowgap.compiling.run import Run
from knowgap.errors import LanguageModelError, LanguageModelUnreachable, UsageError


def test_a_lost_language_model_ends_the_run_and_is_asked_again(program, examples, tmp_path):
    path = tmp_path / "answers.jsonl"
    gone = {"now": False}

    def rule(outputs, inputs):
        if gone["now"]:
            raise LanguageModelUnreachable("connection refused")
        return reading_rule(outputs, inputs)

    lm, engine = scripted_lm(rule)
    gone["now"] = True
    with pytest.raises(LanguageModelUnreachable, match=r"questions in a row .* connection refused"):
        evaluate(program, examples, "f1", run=Run(lm=lm, num_threads=1), output=path)
    gone["now"] = False
    found = evaluate(program, examples, "f1", run=Run(lm=lm, num_threads=1), output=path)
    assert not found.failures
    assert len(engine.calls) == 8


def test_a_lost_question_is_named_and_asked_again_by_the_next_run(program, examples, tmp_path, caplog):
    path, losses = tmp_path / "answers.jsonl", {"left": 1}
    question = examples[4].question

    def rule(outputs, inputs):
        if inputs["question"] == question and losses["left"]:
            losses["left"] -= 1
            raise LanguageModelUnreachable("connection reset")
        return reading_rule(outputs, inputs)

    lm, engine = scripted_lm(rule)
    found = evaluate(program, examples, "f1", run=Run(lm=lm), output=path)
    assert found.lost == [examples[4].id]
    assert (found.summary()["lost"], found.summary()["failed"]) == (1, 1)
    [said] = [record.getMessage() for record in caplog.records if record.name == "knowgap"]
    assert f"1 of 8 questions could not reach the language model and count as failed ({examples[4].id})" in said
    again = evaluate(program, examples, "f1", run=Run(lm=lm), output=path)
    assert again.lost == again.failures == []
    assert len(engine.calls) == 8


def test_a_run_whose_first_replies_are_all_unreadable_stops_and_can_be_continued(program, examples, tmp_path):
    lm, engine = scripted_lm(lambda *_: UNREADABLE)
    with pytest.raises(LanguageModelError, match="none of 6 replies"):
        evaluate(program, examples, "exact_match", run=Run(lm=lm, num_threads=1), output=tmp_path / "answers.jsonl")
    assert len(engine.calls) == 6  # three questions, each in two formats
    lm, engine = reading_lm()
    found = evaluate(program, examples, "exact_match", run=Run(lm=lm, num_threads=1), output=tmp_path / "answers.jsonl")
    assert found.mean() == 1.0
    assert len(engine.calls) == len(examples)


def test_a_killed_run_continues_from_its_file(program, examples, tmp_path):
    path = tmp_path / "deep" / "answers.jsonl"
    lm, engine = reading_lm()
    whole = evaluate(program, examples, "exact_match", run=Run(lm=lm), output=path)
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join(lines[:4]) + lines[4][:25])  # three answers and a part of one
    again = evaluate(program, examples, "exact_match", run=Run(lm=lm), output=path)
    assert len(engine.calls) == 8 + 5
    assert [(r.id, r.scores) for r in again.records] == [(r.id, r.scores) for r in whole.records]
    evaluate(program, examples, "exact_match", run=Run(lm=lm), output=path)
    assert len(engine.calls) == 13


def test_more_questions_go_on_from_the_answers_of_fewer(program, examples, tmp_path):
    lm, engine = reading_lm()
    data = Dataset("houses", {"dev": examples}, [], "digest")
    for questions, name in ((data, "data.jsonl"), (examples, "list.jsonl")):
        asked = []
        for limit in (2, 5, 3, None):
            before = len(engine.calls)
            found = evaluate(program, questions, "f1", run=Run(lm=lm), limit=limit, output=tmp_path / name)
            assert [record.id for record in found.records] == [example.id for example in examples[:limit]]
            asked.append(len(engine.calls) - before)
        assert asked == [2, 3, 0, 3]


def test_a_question_whose_gold_passages_were_corrected_is_asked_again(program, examples, tmp_path):
    lm, engine = scripted_lm(lambda outputs, inputs: {"answer": "Tarn"})
    path, named = tmp_path / "answers.jsonl", [e.copy(gold_ids=["orle"]).with_inputs("question") for e in examples]
    evaluate(program, named, "exact_match", run=Run(lm=lm), output=path)
    asked = len(engine.calls)
    corrected = [named[0].copy(gold_ids=["venn"]).with_inputs("question"), *named[1:]]
    for _ in range(2):
        found = evaluate(program, corrected, "exact_match", run=Run(lm=lm), output=path)
        assert [record.gold for record in found.records] == [["venn"], *[["orle"]] * (len(named) - 1)]
        assert len(engine.calls) == asked + 1


def test_answers_that_depend_on_something_else_are_refused(program, examples, tmp_path, lm):
    path = tmp_path / "answers.jsonl"
    evaluate(program, examples, "exact_match", run=Run(lm=lm), output=path)
    with pytest.raises(UsageError, match="holds answers about another metrics"):
        evaluate(program, examples, "f1", run=Run(lm=lm), output=path)
    with pytest.raises(UsageError, match="about another data, state"):
        evaluate(program.deepcopy().configure(top_k=2), examples[:4], "exact_match", run=Run(lm=lm), output=path)
    program.answer.demos = [dspy.Example(question="x", passages=[], style="short", answer="y")]
    program.retriever.name = "another"
    with pytest.raises(UsageError, match="about another retriever, state"):
        evaluate(program, examples, "exact_match", run=Run(lm=lm), output=path)
