"""Data sets of Hugging Face's: Parquet and Arrow files, and folders of `save_to_disk`."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow
import pyarrow.ipc
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
SQUAD = [
    {
        "id": "1",
        "title": "A_B",
        "context": "It opened in 1931.",
        "question": "When?",
        "answers": {"text": ["1931"] * 2},
    },
    {"id": "2", "title": "A_B", "context": "It opened in 1931.", "question": "Who?", "answers": {"text": []}},
]


def save(folder: Path, *shards: list[dict]) -> Path:
    """What `save_to_disk` writes: Arrow streams, and two files about them."""
    folder.mkdir(parents=True)
    for number, rows in enumerate(shards):
        table = pyarrow.Table.from_pylist(rows)
        with pyarrow.ipc.new_stream(folder / f"data-{number:05}-of-{len(shards):05}.arrow", table.schema) as writer:
            writer.write_table(table)
    for name in ("state.json", "dataset_info.json"):
        (folder / name).write_text("{}", encoding="utf-8")
    return folder


def test_a_saved_data_set_has_the_questions_of_all_its_shards(tmp_path: Path):
    found = load_dataset(save(tmp_path / "hotpot", HOTPOT[:2], HOTPOT[2:]), split_as="test")
    assert (found.name, [example.id for example in found.splits["test"]]) == ("hotpotqa", ["q0", "q1", "q2"])
    assert {passage.title: passage.text for passage in found.corpus} == {"A": "One. Two.", "B": "Three."}
    assert len(found.splits["test"][0].gold_ids) == 2


def test_a_saved_dictionary_of_data_sets_has_its_splits(tmp_path: Path):
    (tmp_path / "both").mkdir()
    (tmp_path / "both" / "dataset_dict.json").write_text(
        json.dumps({"splits": ["train", "validation"]}), encoding="utf-8"
    )
    save(tmp_path / "both" / "train", HOTPOT[:2])
    save(tmp_path / "both" / "validation", HOTPOT[2:])
    found = load_dataset(tmp_path / "both").splits
    assert {name: [example.id for example in each] for name, each in found.items()} == {
        "train": ["q0", "q1"],
        "dev": ["q2"],
        "test": [],
    }


def test_rows_of_squad_bring_their_paragraphs(tmp_path: Path):
    pyarrow.parquet.write_table(pyarrow.Table.from_pylist(SQUAD), tmp_path / "squad.parquet")
    found = load_dataset(tmp_path / "squad.parquet", split_as="dev")
    known, unknown = found.splits["dev"]
    assert (known.answer, unknown.answer) == ("1931", "unanswerable")
    assert [(p.title, p.text) for p in found.corpus] == [("A B", "It opened in 1931.")]
    assert known.gold_ids == [found.corpus[0].id]
    assert unknown.gold_ids == []


def test_a_corpus_may_be_parquet(tmp_path: Path):
    rows = [{"id": "p", "title": "T", "text": "Some text."}]
    pyarrow.parquet.write_table(pyarrow.Table.from_pylist(rows), tmp_path / "corpus.parquet")
    assert [passage.to_dict() for passage in read_corpus(tmp_path / "corpus.parquet")] == rows
    assert [passage.to_dict() for passage in read_corpus(save(tmp_path / "saved", rows))] == rows


@pytest.mark.parametrize("name", ["cut.parquet", "wrong.arrow"])
def test_damaged_files_are_named(tmp_path: Path, name: str):
    (tmp_path / name).write_bytes(b"hello")
    with pytest.raises(DataError, match=rf"{name}: is damaged, or not a"):
        load_dataset(tmp_path / name)
    save(tmp_path / "empty")
    with pytest.raises(DataError, match="holds no records"):
        load_dataset(tmp_path / "empty")
