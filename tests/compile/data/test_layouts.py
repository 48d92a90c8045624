"""Every layout: a small file of it is told apart, read whole, and its faults are named by record and field."""

import json
import re
from pathlib import Path

import pytest

from knowgap.compiling.data import SPLITS, load_dataset
from knowgap.compiling.data.layouts import detect_layout
from knowgap.errors import DataError

CONTEXT = [["Orle", ["Orle is a town.", " It has a bridge."]], ["Ada Venn", ["Ada Venn built bridges."]]]
TEXTS = ["Orle is a town. It has a bridge.", "Ada Venn built bridges."]
PARAGRAPHS = [
    {"title": "Orle", "paragraph_text": "A town.", "is_supporting": True},
    {"title": "Orle", "paragraph_text": "A river.", "is_supporting": False},
]
READINGS = [{"short_answers": ["1900", "in 1900"]}, {"short_answers": ["1950"]}]
CHOICES = [{"text": "snow", "label": "A"}, {"text": "grass", "label": "B"}]
RECORDS = {
    "hotpotqa": (
        {"_id": "h1", "question": "Who?", "answer": "Ada Venn", "type": "bridge", "context": CONTEXT,
         "supporting_facts": [["Ada Venn", 0], ["Orle", 1]]},
        {"gold_ids": ["Ada Venn", "Orle"], "candidates": ["Orle", "Ada Venn"]}, TEXTS,
    ),
    "2wikimultihopqa": (  # a repeated paragraph is pooled once
        {"_id": "w1", "question": "Who?", "answer": "Ada Venn", "context": [*CONTEXT, CONTEXT[0]],
         "supporting_facts": [["Orle", 1]], "evidences": [["Orle bridge", "architect", "Ada Venn"]]},
        {"aliases": ["Ada Venn"]}, TEXTS,
    ),
    "musique": (
        {"id": "2hop__1_2", "question": "Who?", "answer": "Ada Venn", "answer_aliases": ["Venn"], "answerable": True,
         "paragraphs": PARAGRAPHS, "question_decomposition": []},
        {"gold_ids": ["Orle"], "candidates": ["Orle", "Orle#2"], "type": "2hop", "aliases": ["Ada Venn", "Venn"]},
        ["A town.", "A river."],
    ),
    "strategyqa": (
        {"qid": "s1", "term": "Orle", "question": "Is Orle a town?", "answer": True,
         "evidence": [[[["Orle-1"]], ["operation"]], [[["Orle-1", "Orle-2"], "no_evidence"], ["operation"]]]},
        {"gold_ids": ["Orle-1", "Orle-2"], "answer": "yes"}, [],
    ),
    "asqa": (
        {"sample_id": "-17", "question": "When?", "answer": "Either 1900 or 1950.", "qa_pairs": READINGS,
         "docs": [{"id": "55", "title": "Orle", "text": "Built 1900.", "score": 1.5}]},
        {"short_answers": [["1900", "in 1900"], ["1950"]], "candidates": ["55"]}, ["Built 1900."],
    ),
    "triviaqa": (
        {"QuestionId": "tc_1", "Question": "Who?", "Answer": {"Value": "Ada Venn", "Aliases": ["Ada", "Ada Venn"]}},
        {"aliases": ["Ada Venn", "Ada"]}, [],
    ),
    "arc_challenge": (
        {"id": "Mercury_1", "question": {"stem": "Green?", "choices": CHOICES}, "answerKey": "B"},
        {"question": "Green?\nA. snow\nB. grass", "aliases": ["B", "grass"]}, [],
    ),
    "arc_challenge, flat": (
        {"id": "7-1", "question_stem": "Green?", "choices": {"text": ["snow", "grass"], "label": ["A", "B"]},
         "answerKey": "B"},
        {"question": "Green?\nA. snow\nB. grass", "aliases": ["B", "grass"]}, [],
    ),
    "nq_open": ({"question": "who built it", "answer": ["Ada Venn", "Venn"]}, {"aliases": ["Ada Venn", "Venn"]}, []),
    "flashrag": (
        {"id": "test_0", "question": "Who?", "golden_answers": ["Ada Venn", "Venn"], "metadata": {}},
        {"aliases": ["Ada Venn", "Venn"]}, [],
    ),
    "jsonl": ({"question": "Who?", "answer": "Ada Venn", "type": "mine"}, {"type": "mine"}, []),
}  # fmt: skip
"""By layout (and form), a record of it, fields of its example, and the texts of its passages."""


def numbered(name: str, count: int) -> list[dict]:
    """Records of a layout that differ in id or question."""
    record, *_ = RECORDS[name]
    fields = record.keys() & {"_id", "id", "qid", "sample_id", "QuestionId"} or {"question"}
    return [record | {field: f"{record[field]}{n}" for field in fields} for n in range(count)]


def save(folder: Path, name: str, records: list[dict]) -> Path:
    path = folder / "dev.json"
    whole = json.dumps({"Data": records, "Domain": "unfiltered-web"})
    path.write_text(whole if name == "triviaqa" else "\n".join(map(json.dumps, records)))
    return path


def load(folder: Path, name: str, *others: dict):
    return load_dataset(f"{layout_of(name)}:{save(folder, name, [RECORDS[name][0], *others])}", split_as="test")


def layout_of(name: str) -> str:
    return name.partition(",")[0]


@pytest.mark.parametrize("name", RECORDS)
def test_every_layout_is_told_apart_and_read_whole(tmp_path, name):
    _, fields, texts = RECORDS[name]
    data = load(tmp_path, name)
    assert [passage.text for passage in data.corpus] == texts
    assert {field: data.splits["test"][0][field] for field in fields} == fields
    path = save(tmp_path, name, numbered(name, 30))
    assert detect_layout(path) == ("jsonl" if name == "nq_open" else layout_of(name))
    data = load_dataset(f"{layout_of(name)}:{path}")
    assert data.name == ("dev" if name == "jsonl" else layout_of(name))
    every = [example for split in SPLITS for example in data.splits[split]]
    assert len({e.id for e in every}) == 30
    known = {p.id for p in data.corpus}
    for example in every:
        assert example.answer == example.aliases[0]
        assert set(example.candidates) <= known
        assert list(example.inputs().keys()) == ["question"]
        assert {"gold_ids", "type"} <= set(example.keys())


@pytest.mark.parametrize(
    ("name", "field", "value", "named"),
    [
        ("hotpotqa", "answer", None, "answer"),
        ("asqa", "qa_pairs", [{"question": "x"}], "short_answers"),
        ("arc_challenge", "answerKey", "C", "C"),
        ("flashrag", "golden_answers", [], "answer"),
        ("nq_open", "answer", [1], "answer.0"),
    ],
)
def test_a_bad_record_is_named_by_number_and_field(tmp_path, name, field, value, named):
    records = numbered(name, 3)
    records[2][field] = value
    path = save(tmp_path, name, records)
    with pytest.raises(DataError, match=re.escape(f"{path}:3 ({named})")):
        load_dataset(f"{name}:{path}")


def test_musique_full_asks_each_question_twice_under_one_id(tmp_path):
    one, other = load(tmp_path, "musique", RECORDS["musique"][0] | {"answerable": False}).splits["test"]
    assert (other.id, other.answer, other.type) == (f"{one.id}-unanswerable", "unanswerable", "unanswerable")


def test_strategyqa_with_paragraphs(tmp_path):
    lines, release = tmp_path / "dev_paragraphs.jsonl", tmp_path / "dev_paragraphs.json"
    paragraphs = [{"title": "Orle", "para_index": n, "contents": f"Text {n}."} for n in (1, 2, 3)]
    lines.write_text("\n".join(map(json.dumps, paragraphs)))
    assert [passage.id for passage in load(tmp_path, "strategyqa").corpus] == ["Orle-1", "Orle-2", "Orle-3"]
    lines.unlink()
    release.write_text('{"Orle-1": {"title": "Orle", "para_index": 1, "content": "Text."}}')
    assert [passage.text for passage in load(tmp_path, "strategyqa").corpus] == ["Text."]


def test_own_questions_with_a_qid_are_no_strategyqa_and_given_gold_ids_stay(tmp_path):
    own = {"qid": "1", "question": "Who built the bridge?", "answer": "Ada Venn", "gold_ids": ["b-1"], "evidence": "x"}
    (example,) = load_dataset(save(tmp_path, "own", [own]), split_as="test").splits["test"]
    assert (example.type, example.answer, example.gold_ids) == ("question", "Ada Venn", ["b-1"])
    (_, given) = load(tmp_path, "strategyqa", RECORDS["strategyqa"][0] | {"qid": "s2", "gold_ids": ["b-1"]}).splits[
        "test"
    ]
    assert given.gold_ids == ["b-1"]


def test_popqa(tmp_path):
    path = tmp_path / "popQA.tsv"
    header = "id\tsubj\tprop\tobj\ts_pop\tquestion\tpossible_answers\n"
    path.write_text(header + '42\tAda\toccupation\tx\t127\tWhat is Ada?\t"[""builder"", ""engineer""]"\n')
    assert detect_layout(path) == "popqa"
    (example,) = load_dataset(path, split_as="test").splits["test"]
    assert (example.id, example.aliases, example.type) == ("42", ["builder", "engineer"], "occupation")
    path.write_text(header + "1\tAda\n")
    with pytest.raises(DataError, match=r"popQA\.tsv:2"):
        load_dataset(f"popqa:{path}")
