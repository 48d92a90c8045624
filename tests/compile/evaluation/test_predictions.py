"""The files that official scorers read: their layouts, and what is in them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from knowgap.compiling.data.dataset import make_example
from knowgap.compiling.evaluation.predictions import write_predictions
from knowgap.compiling.evaluation.provenance import Provenance
from knowgap.compiling.evaluation.results import Evaluation
from knowgap.compiling.evaluation.runner import QuestionRecord
from knowgap.errors import UnknownName, UsageError
from knowgap.programs.trace.trace import Trace
from knowgap.retrieval.passage import Passage

PASSAGES = [Passage("p0", "Tarn", "A town."), Passage("p1", "Orle", "A river."), Passage("p2", "Isk", "A hill.")]
EXAMPLES = [
    make_example(id="a", question="What is Tarn?", answers=["town"], type="x", candidates=["p0", "p1", "p2"]),
    make_example(id="a-unanswerable", question="What is Tarn?", answers=["unanswerable"], type="x", candidates=["p1"]),
    make_example(
        id="b",
        question="What is Orle?",
        answers=["It is a river."],
        type="x",
        decomposition=[{"question": "Which Orle?", "answer": "river"}],
        short_answers=[["river", "stream"]],
    ),
]
TRACE = Trace(program="rag", question="What is Orle?", passages={"t1": {"id": "t1", "title": "Orle", "text": "Water."}})
RECORDS = [
    QuestionRecord(id="a", question="What is Tarn?", answer="a town", passages=["p2", "p0", "elsewhere"]),
    QuestionRecord(id="a-unanswerable", question="What is Tarn?", answer="Unanswerable"),
    QuestionRecord(id="b", question="What is Orle?", answer="A river [2].", passages=["p1", "t1"], trace=TRACE),
]
EVALUATION = Evaluation(records=RECORDS, metrics=["f1"], provenance=Provenance(program="rag"))


def write(tmp_path: Path, form: str, evaluation: Evaluation = EVALUATION) -> str:
    return write_predictions(evaluation, EXAMPLES, form, tmp_path / "new" / "file", PASSAGES).read_text(
        encoding="utf-8"
    )


def test_hotpotqa_and_2wikimultihopqa_have_answers_by_id(tmp_path: Path):
    answers = {"a": "a town", "a-unanswerable": "Unanswerable", "b": "A river [2]."}
    nothing = {"a": [], "a-unanswerable": [], "b": []}
    assert json.loads(write(tmp_path, "hotpotqa")) == {"answer": answers, "sp": nothing}
    assert json.loads(write(tmp_path, "2wikimultihopqa")) == {"answer": answers, "sp": nothing, "evidence": nothing}


def test_musique_has_a_line_for_each_question_in_order(tmp_path: Path):
    lines = [json.loads(line) for line in write(tmp_path, "musique").splitlines()]
    keys = ("id", "predicted_answer", "predicted_support_idxs", "predicted_answerable")
    assert [tuple(line) for line in lines] == [keys] * 3
    assert [tuple(line.values()) for line in lines] == [
        ("a", "a town", [0, 2], True),
        ("a", "Unanswerable", [], False),  # MuSiQue-Full asks each question twice under one id
        ("b", "A river [2].", [], True),
    ]


def test_alce_has_the_output_with_the_passages_that_it_cites(tmp_path: Path):
    data = json.loads(write(tmp_path, "alce"))["data"]
    assert data[2] == {
        "sample_id": "b",
        "question": "What is Orle?",
        "answer": "It is a river.",
        "output": "A river [2].",
        "docs": [{"id": "p1", "title": "Orle", "text": "A river."}, {"id": "t1", "title": "Orle", "text": "Water."}],
        "qa_pairs": [{"question": "Which Orle?", "short_answers": ["river", "stream"]}],
    }


def test_trec_has_a_line_for_each_passage_of_the_answer(tmp_path: Path):
    lines = [line.split() for line in write(tmp_path, "trec").splitlines()]
    assert [(question, passage, rank) for question, _, passage, rank, *_ in lines] == [
        ("a", "p2", "1"),
        ("a", "p0", "2"),
        ("a", "elsewhere", "3"),
        ("b", "p1", "1"),
        ("b", "t1", "2"),
    ]
    assert {(zero, tag) for _, zero, *_, tag in lines} == {("Q0", "knowgap")}
    assert [float(score) for *_, score, _ in lines[:3]] == pytest.approx([1, 1 / 2, 1 / 3], abs=1e-6)
    blank = EVALUATION.model_copy(update={"records": [QuestionRecord(id="a", question="?", passages=["Grey moth"])]})
    with pytest.raises(UsageError, match="ids that contain spaces: question 'a', passage 'Grey moth'"):
        write(tmp_path, "trec", blank)


def test_wrong_formats_and_questions_are_refused(tmp_path: Path):
    with pytest.raises(UnknownName, match="unknown format of predictions 'squad'"):
        write(tmp_path, "squad")
    other = EVALUATION.model_copy(update={"records": [QuestionRecord(id="z", question="Who?")]})
    with pytest.raises(UsageError, match="'z' is not among"):
        write(tmp_path, "alce", other)
    assert not (tmp_path / "new").exists()
