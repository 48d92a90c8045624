"""Files of records, of questions and of passages: their forms, and how their faults are named."""

import json

import pyarrow
import pyarrow.parquet
import pytest

from knowgap.compiling.data import load_dataset, read_corpus
from knowgap.errors import DataError
from knowgap.retrieval.passage import Passage

ROW = '{"question": "x?", "answer": "y"}'
FLASHRAG = json.dumps({"id": "0", "contents": '"Orle Bridge"\nAda Venn built it.\nIt is old.'})
BOOK = "A long book. " * 20_000


@pytest.mark.parametrize(
    ("name", "text", "problem"),
    [
        ("mine.jsonl", b"", r"mine.jsonl: holds no records"),
        ("mine.jsonl", b'{"question": "x?"}', r"mine.jsonl:1: .* question and answer"),
        ("mine.jsonl", f'{ROW}\n{{"question": "x?", answer}}'.encode(), r"mine.jsonl:2: is not JSON Lines"),
        ("mine.jsonl", f'{ROW}\n["list"]\n'.encode(), r"mine.jsonl:2: must be a JSON object"),
        ("mine.jsonl", f"{ROW}\n{ROW.replace('x', 'ü')}".encode("latin-1"), r"jsonl:2: is not UTF-8: byte 0xfc at"),
        ("mine.jsonl", f"[{ROW}, {ROW}] {ROW}".encode(), r"jsonl:3: is not JSON, or cut short: .*trailing garbage"),
        ("mine.jsonl", f"[{ROW}, {ROW.replace('x', 'ü')}]".encode("latin-1"), r"mine.jsonl:2: .*UTF8"),
        ("cut.parquet", b"hello", r"cut.parquet: is damaged, or not a"),
    ],
)
def test_faults_are_named_by_file_and_record(tmp_path, name, text, problem):
    (tmp_path / name).write_bytes(text)
    with pytest.raises(DataError, match=problem):
        load_dataset(tmp_path / name)


@pytest.mark.parametrize("text", [f"{ROW}\n" * 3, f"[{ROW}, {ROW}, {ROW}]"])
def test_a_byte_order_mark(tmp_path, text):
    (tmp_path / "marked.jsonl").write_text(text, encoding="utf-8-sig")
    assert len(load_dataset(tmp_path / "marked.jsonl", split_as="test").splits["test"]) == 3


def test_rows_of_parquet_are_records_and_columns_of_columns_are_lists(tmp_path):
    facts = {"title": ["A", "B"], "sent_id": [0, 1]}
    context = {"title": ["A", "B"], "sentences": [["One.", " Two."], ["Three."]]}
    row = {"question": "Which?", "answer": "Tarn", "supporting_facts": facts, "context": context}
    table = pyarrow.Table.from_pylist([row | {"id": f"q{n}"} for n in range(3)])
    pyarrow.parquet.write_table(table, tmp_path / "dev.parquet")
    found = load_dataset(tmp_path / "dev.parquet", split_as="test")
    assert (found.name, [example.id for example in found.splits["test"]]) == ("hotpotqa", ["q0", "q1", "q2"])
    assert {passage.title: passage.text for passage in found.corpus} == {"A": "One. Two.", "B": "Three."}
    assert len(found.splits["test"][0].gold_ids) == 2


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


@pytest.mark.parametrize(
    ("name", "text", "place"),
    [
        ("c.jsonl", '{"id": "a"}', r"1 \(text\)"),
        ("c.jsonl", '{"id": "a", "text": "x"}\n{"id": "a", "text": "y"}', r"2 \(id\)"),
        ("c.tsv", "id\ttext\n0\tx\n1\n", "3"),
        ("c.tsv", "", " holds no records"),
        ("c.csv", "title,text\n , \n", r"2 \(text\)"),
    ],
)
def test_faults_of_passages_are_named(tmp_path, name, text, place):
    (tmp_path / name).write_text(text)
    with pytest.raises(DataError, match=rf"{name}:{place}"):
        list(read_corpus(tmp_path / name))
