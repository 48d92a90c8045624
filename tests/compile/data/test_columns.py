"""Parquet files, as Hugging Face's data sets have them."""

from __future__ import annotations

from pathlib import Path

import pyarrow
import pyarrow.parquet
import pytest

from knowgap.compiling.data import load_dataset, read_corpus
from knowgap.errors import DataError

HOTPOT = [
    {
        "id": f"q{n}",
        "question": f"Question {n}?",
        "answer": "Tarn",
        "supporting_facts": {"title": ["A", "B"], "sent_id": [0, 1]},
        "context": {"title": ["A", "B"], "sentences": [["One.", " Two."], ["Three."]]},
    }
    for n in range(3)
]


def test_rows_are_records_and_columns_of_columns_are_lists(tmp_path: Path):
    pyarrow.parquet.write_table(pyarrow.Table.from_pylist(HOTPOT), tmp_path / "dev.parquet")
    found = load_dataset(tmp_path / "dev.parquet", split_as="test")
    assert (found.name, [example.id for example in found.splits["test"]]) == ("hotpotqa", ["q0", "q1", "q2"])
    assert {passage.title: passage.text for passage in found.corpus} == {"A": "One. Two.", "B": "Three."}
    assert len(found.splits["test"][0].gold_ids) == 2


def test_a_corpus_may_be_parquet(tmp_path: Path):
    rows = [{"id": "p", "title": "T", "text": "Some text."}]
    pyarrow.parquet.write_table(pyarrow.Table.from_pylist(rows), tmp_path / "corpus.parquet")
    assert [passage.to_dict() for passage in read_corpus(tmp_path / "corpus.parquet")] == rows


def test_damaged_files_are_named(tmp_path: Path):
    (tmp_path / "cut.parquet").write_bytes(b"hello")
    with pytest.raises(DataError, match=r"cut.parquet: is damaged, or not a"):
        load_dataset(tmp_path / "cut.parquet")
