"""Layouts of other toolkits, tables with commas, and what the methods' releases leave out of a record."""

import json

import pytest

from knowgap.compiling.data import detect_layout, load_dataset
from knowgap.compiling.data.corpus import read_corpus
from knowgap.compiling.data.registry import layout_named

FLASHRAG = {"id": "test_0", "question": "Who?", "golden_answers": ["Ada Venn", "Venn"], "metadata": {"type": "bridge"}}
DPR = {
    "question": "Who?", "answers": ["Ada Venn"],
    "positive_ctxs": [{"title": "Orle", "text": "Ada Venn built it.", "passage_id": "7", "score": 3}],
    "negative_ctxs": [], "hard_negative_ctxs": [{"title": "Tarn", "text": "A town.", "passage_id": "9"}],
}  # fmt: skip
KILT = {
    "id": "k1", "input": "Who?",
    "output": [{"answer": "Ada Venn", "provenance": [{"wikipedia_id": "290", "title": "Orle"}]}, {"answer": "Venn"},
               {"provenance": [{"wikipedia_id": "290"}, {"wikipedia_id": "17"}]}],
}  # fmt: skip
SQUAD = {
    "version": "v2.0",
    "data": [{"title": "Orle_Bridge", "paragraphs": [{"context": "Ada Venn built it.", "qas": [
        {"id": "1", "question": "Who?", "answers": [{"text": "Ada Venn", "answer_start": 0}] * 2},
        {"id": "2", "question": "When?", "answers": [], "is_impossible": True},
    ]}]}],
}  # fmt: skip


def load(tmp_path, text, name="dev.jsonl"):
    path = tmp_path / name
    path.write_text(text, encoding="utf-8")
    data = load_dataset(path, split_as="dev")
    return data, data.questions("dev")


@pytest.mark.parametrize("indent", [None, 1])
@pytest.mark.parametrize(
    ("name", "records", "aliases", "gold", "texts"),
    [
        ("flashrag", [FLASHRAG], ["Ada Venn", "Venn"], [], []),
        ("dpr", [DPR], ["Ada Venn"], ["7"], ["Ada Venn built it.", "A town."]),
        ("kilt", [KILT], ["Ada Venn", "Venn"], ["290", "17"], []),
    ],
)
def test_layouts_of_toolkits(tmp_path, name, records, aliases, gold, texts, indent):
    text = json.dumps(records, indent=indent) if indent else "\n".join(map(json.dumps, records))
    data, [example] = load(tmp_path, text, "dev.json")
    assert detect_layout(tmp_path / "dev.json") == name
    assert (example.question, example.aliases, example.gold_ids) == ("Who?", aliases, gold)
    assert [passage.text for passage in data.corpus] == texts


@pytest.mark.parametrize("indent", [None, 2])
def test_squad(tmp_path, indent):
    data, [known, impossible] = load(tmp_path, json.dumps(SQUAD, indent=indent), "dev.json")
    [passage] = data.corpus
    assert (passage.title, known.aliases, known.gold_ids) == ("Orle Bridge", ["Ada Venn"], [passage.id])
    assert (impossible.answer, impossible.gold_ids, impossible.candidates) == ("unanswerable", [], [passage.id])


def test_records_of_a_release_that_differ_in_their_fields(tmp_path):
    records = [
        {"question": "How many?", "answer": ["A simple majority"], "context": "", "title": "x"},
        {"question": "Who?", "short_answers": ["President"], "context": ""},
        {"question": "Where?", "answer": "Orle", "context": "It stands in Orle."},
    ]
    data, examples = load(tmp_path, "\n".join(map(json.dumps, records)))
    assert [example.answer for example in examples] == ["A simple majority", "President", "Orle"]
    assert [passage.text for passage in data.corpus] == ["It stands in Orle."]


@pytest.mark.parametrize("mark", [",", ";"])
def test_questions_in_a_table_with_commas(tmp_path, mark):
    rows = [["Question", "Answer", "ID"], ['"Who, and when?"', "Ada Venn", "q1"], ["Where?", '"Orle\nBridge"', "q2"]]
    _, examples = load(tmp_path, "\n".join(mark.join(row) for row in rows), "dev.csv")
    asked = [(example.id, example.question, example.answer) for example in examples]
    assert asked == [("q1", "Who, and when?", "Ada Venn"), ("q2", "Where?", "Orle\nBridge")]


def test_a_corpus_of_flashrag(tmp_path):
    path = tmp_path / "corpus.jsonl"
    path.write_text(json.dumps({"id": "0", "contents": '"Orle Bridge"\nAda Venn built it.\nIt is old.'}))
    [passage] = read_corpus(path)
    assert (passage.id, passage.title, passage.text) == ("0", "Orle Bridge", "Ada Venn built it.\nIt is old.")


def test_the_layout_of_a_name_is_that_of_the_file_unless_its_records_are_others(tmp_path):
    official = {"_id": "1", "question": "Who?", "answer": "Ada", "supporting_facts": [], "context": []}
    path = tmp_path / "dev.json"
    for record, layout in (
        (official, "hotpotqa"),
        ({"question": "Who?", "answer": ["Ada"]}, None),
        ({"query": "Who?"}, "hotpotqa"),
    ):
        path.write_text(json.dumps([record]))
        assert layout_named("hotpotqa", path) == layout
    assert layout_named("hotpotqa", tmp_path / "nowhere") is None
    assert layout_named("own", path) is None
    assert layout_named("strategyqa", tmp_path) == "strategyqa"
