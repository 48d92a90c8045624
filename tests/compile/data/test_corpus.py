"""Files of passages: their forms, the columns that are taken, and how their faults are named."""

import json

import pyarrow
import pyarrow.parquet
import pytest

from knowgap.compiling.data import build_index, read_corpus
from knowgap.compiling.data.corpus import read_passages
from knowgap.errors import DataError
from knowgap.retrieval.documents.reading import Reading
from knowgap.retrieval.passage import Passage

TOWNS = "Name;Info;Year\nTarn;A town.;1200\nOrle;;1300\n"
FLASHRAG = json.dumps({"id": "0", "contents": '"Orle Bridge"\nAda Venn built it.\nIt is old.'})
BOOK = "A long book. " * 20_000


@pytest.mark.parametrize(
    ("name", "text", "passages", "said"),
    [
        (
            "corpus.jsonl",
            '{"id": "a", "title": "T", "text": "x"}\n{"_id": 2, "text": "y"}\n{"docid": "c", "contents": "z"}\n'
            '{"text": "no id"}',
            [("a", "T", "x"), ("2", "", "y"), ("c", "", "z"), ("4", "", "no id")],
            "",
        ),
        ("flashrag.jsonl", FLASHRAG, [("0", "Orle Bridge", "Ada Venn built it.\nIt is old.")], ""),
        (
            "psgs_w100.tsv",
            'id\ttext\ttitle\n1\t"He said ""no"" twice."\tSpeech\n2\tPlain "text\tOther\n',
            [("1", "Speech", 'He said "no" twice.'), ("2", "Other", 'Plain "text')],
            "",
        ),
        ("a.csv", 'ID,Title,Text\nt,Tarn,"A town,\nsmall"\n', [("t", "Tarn", "A town,\nsmall")], ""),
        (
            "faq.csv",
            "Question,Answer,Author\nHow?,So.,Ada\n",
            [("2", "How?", "So.")],
            "columns: title is question, text is answer; not read: author",
        ),
        (
            "towns.csv",
            TOWNS,
            [("2", "Tarn", "info: A town.\nyear: 1200"), ("3", "Orle", "year: 1300")],
            "columns: title is name, text is every other column, with its name",
        ),
        ("book.csv", f"title,text\nOrle,{BOOK}\n", [("2", "Orle", BOOK.strip())], ""),
    ],
)
def test_passages_and_what_is_said_of_columns(tmp_path, name, text, passages, said):
    (tmp_path / name).write_text(text)
    notes: list[str] = []
    assert [passage for _, passage in read_passages(tmp_path / name, notes.append)] == [Passage(*p) for p in passages]
    assert notes == [said] * bool(said)


def test_a_corpus_may_be_parquet(tmp_path):
    rows = [{"id": "p", "title": "T", "text": "Some text."}]
    pyarrow.parquet.write_table(pyarrow.Table.from_pylist(rows), tmp_path / "corpus.parquet")
    assert [passage.to_dict() for passage in read_corpus(tmp_path / "corpus.parquet")] == rows


def test_is_a_stream(tmp_path):
    path = tmp_path / "corpus.jsonl"
    path.write_text('{"id": "a", "text": "x"}\nnot json\n')
    passages = read_corpus(path)
    assert next(passages).id == "a"
    with pytest.raises(DataError, match=r"corpus.jsonl:2: is not JSON"):
        next(passages)


@pytest.mark.parametrize(
    ("name", "text", "line", "field"),
    [
        ("c.jsonl", '{"id": "a", "title": "t"}', 1, "text"),
        ("c.jsonl", '{"id": "a", "text": " "}', 1, "text"),
        ("c.jsonl", '{"id": "a", "text": 5}', 1, "text"),
        ("c.jsonl", '{"id": 1.5, "text": "x"}', 1, "id"),
        ("c.jsonl", '{"id": "a", "text": "x"}\n{"id": "a", "text": "y"}', 2, "id"),
        ("c.tsv", "id\ttext\n0\tx\n1\n", 3, None),
        ("c.tsv", "0\tx\n1\ty\n", 2, None),  # names no columns
        ("c.tsv", "", None, None),
        ("c.csv", "name,Name,river,,\nTarn,Orle,Isk,,\n", 1, None),
        ("c.csv", "title,text\n , \n", 2, "text"),
    ],
)
def test_faults_are_named(tmp_path, name, text, line, field):
    (tmp_path / name).write_text(text)
    with pytest.raises(DataError) as caught:
        list(read_corpus(tmp_path / name))
    assert (caught.value.line, caught.value.field) == (line, field)


def test_an_index_of_a_table_follows_it(tmp_path):
    path, reading = tmp_path / "towns.csv", Reading()
    path.write_text("Name,Text\nTarn,A town.\n")
    assert len(build_index(path, tmp_path / "index", engine="bm25", reading=reading)) == 1
    assert "title is name" in reading.notes["towns.csv"]
    path.write_text("Name,Text\nTarn,A town.\nOrle,A bridge.\n")
    assert len(build_index(path, tmp_path / "index", engine="bm25")) == 2
