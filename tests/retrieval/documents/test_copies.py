"""Files with the same text: one has the passages, and the others are named with them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from knowgap.compiling.data.indexing import build_index
from knowgap.retrieval.documents.reading import Reading
from knowgap.retrieval.documents.sources import sources_of

PLAN = "# Plan\n\nThe fire wardens are Olga Ferrer and Dan Whitlock.\n"
FILES = {
    "a plan.md": PLAN,
    "b plan.md": PLAN,
    "plan.txt": PLAN.replace("# Plan", "Plan\n===="),
    "Berlin.txt": "Closed on Mondays.",
    "Hamburg.txt": "Closed on Mondays.",  # another title, and so another text
}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "documents").mkdir()
    for name, text in FILES.items():
        (tmp_path / "documents" / name).write_text(text)
    return tmp_path / "documents"


def index(folder: Path) -> tuple[dict[str, str], Any, Any]:
    """The places of all passages, by title; what reading has come to; and the sources of the index."""
    reading = Reading()
    built: Any = build_index(folder, folder.parent / "index", engine="bm25", reading=reading)
    sources: Any = sources_of(built)
    places = sources.find([passage.id for passage in built])
    return {passage.title: str(places[passage.id]) for passage in built}, reading, sources


def test_the_same_text_is_indexed_once_with_all_its_files(folder: Path):
    found, reading, sources = index(folder)
    assert found == {
        "Plan": "a plan.md; also b plan.md, plan.txt",
        "Berlin": "Berlin.txt",
        "Hamburg": "Hamburg.txt",
    }
    assert (reading.left_out, reading.documents) == ({"copies of other files": 2}, 3)
    assert {name.partition("#")[0] for name in sources.ids(("plan.txt",))} == {"a plan.md"}


def test_a_copy_takes_the_place_of_a_file_that_is_gone_or_has_changed(folder: Path):
    index(folder)
    (folder / "a plan.md").unlink()
    assert index(folder)[0]["Plan"] == "b plan.md; also plan.txt"
    (folder / "b plan.md").write_text("# Plan\n\nThe fire warden is Mikkel Aas.\n")
    found, reading, _ = index(folder)
    assert found["Plan"] in ("plan.txt", "b plan.md")
    assert len(found) == 3
    assert (reading.update.added, reading.update.removed) == (2, 1)
    (folder / "0 plan.md").write_text(PLAN)
    found, reading, _ = index(folder)
    assert "0 plan.md; also plan.txt" in found.values() or found["Plan"] == "b plan.md"
    assert (reading.update.added, reading.update.removed) == (1, 1)
    assert index(folder)[1].update.files == 0
