"""Files of passages: their forms, and how their faults are named."""

import json

import pytest

from knowgap.compiling.data import read_corpus
from knowgap.errors import DataError
from knowgap.retrieval.passage import Passage

FLASHRAG = json.dumps({"id": "0", "contents": '"Orle Bridge"\nAda Venn built it.\nIt is old.'})
BOOK = "A long book. " * 20_000


@pytest.mark.parametrize(
    ("name", "text", "passages"),
    [
        (
            "corpus.jsonl",
            '{"id": "a", "title": "T", "text": "x"}\n{"_id": 2, "text": "y"}\n{"docid": "c", "contents": "z"}\n'
            '{"text": "no id"}',
            [("a", "T", "x"), ("2", "", "y"), ("c", "", "z"), ("4", "", "no id")],
        ),
        ("flashrag.jsonl", FLASHRAG, [("0", "Orle Bridge", "Ada Venn built it.\nIt is old.")]),
        (
            "psgs_w100.tsv",
            'id\ttext\ttitle\n1\t"He said ""no"" twice."\tSpeech\n2\tPlain "text\tOther\n',
            [("1", "Speech", 'He said "no" twice.'), ("2", "Other", 'Plain "text')],
        ),
        (
            "a.csv",
            'ID,Title,Text\nt,Tarn,"A town,\nsmall"\n,Orle, \n',
            [("t", "Tarn", "A town,\nsmall"), ("4", "Orle", "")],
        ),
        ("book.csv", f"title,text\nOrle,{BOOK}\n", [("2", "Orle", BOOK.strip())]),
    ],
)
def test_passages_of_a_file(tmp_path, name, text, passages):
    (tmp_path / name).write_text(text)
    assert list(read_corpus(tmp_path / name)) == [Passage(*passage) for passage in passages]


def test_a_table_without_a_column_of_texts_is_a_document(tmp_path):
    (tmp_path / "towns.csv").write_text("Name;Info;Year\nTarn;A town.;1200\nOrle;;1300\n")
    text = "\n".join(passage.text for passage in read_corpus(tmp_path / "towns.csv"))
    assert all(word in text for word in ("Info: A town.", "Year: 1200", "Year: 1300"))


def test_is_a_stream(tmp_path):
    path = tmp_path / "corpus.jsonl"
    path.write_text('{"id": "a", "text": "x"}\nnot json\n')
    passages = read_corpus(path)
    assert next(passages).id == "a"
    with pytest.raises(DataError, match=r"corpus.jsonl:2: is not JSON Lines"):
        next(passages)


@pytest.mark.parametrize(
    ("name", "text", "place"),
    [
        ("c.jsonl", '{"id": "a"}', r"1 \(text\)"),
        ("c.jsonl", '{"id": "a", "text": " "}', r"1 \(text\)"),
        ("c.jsonl", '{"id": "a", "text": 5}', r"1 \(text\)"),
        ("c.jsonl", '{"id": 1.5, "text": "x"}', r"1 \(id\)"),
        ("c.jsonl", '{"id": "a", "text": "x"}\n{"id": "a", "text": "y"}', r"2 \(id\)"),
        ("c.tsv", "id\ttext\n0\tx\n1\n", "3"),
        ("c.tsv", "0\tx\n1\ty\n", r"2 \(text\)"),  # names no columns
        ("c.tsv", "", " holds no records"),
        ("c.tsv", "text\tText\nTarn\tOrle\n", "1"),
        ("c.csv", "title,text\n , \n", r"2 \(text\)"),
    ],
)
def test_faults_are_named(tmp_path, name, text, place):
    (tmp_path / name).write_text(text)
    with pytest.raises(DataError, match=rf"{name}:{place}"):
        list(read_corpus(tmp_path / name))
