"""Files with the same text: one has the passages, and the others are named with them."""

from __future__ import annotations

from pathlib import Path

import pytest

from knowgap.compiling.data.indexing import build_index
from knowgap.retrieval.documents.reading import Reading
from knowgap.retrieval.documents.sources import sources_of

PLAN = "# Plan\n\nThe fire wardens are Olga Ferrer and Dan Whitlock.\n"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = tmp_path / "documents"
    folder.mkdir()
    for name in ("a plan.md", "b plan.md", "plan.txt"):
        (folder / name).write_text(PLAN.replace("# Plan", "Plan\n====") if name.endswith("txt") else PLAN)
    (folder / "Berlin.txt").write_text("Closed on Mondays.")
    (folder / "Hamburg.txt").write_text("Closed on Mondays.")  # another title, and so another text
    return folder


def index(folder: Path) -> tuple[dict[str, str], Reading]:
    """The places of all passages, by title; and what reading has come to."""
    reading = Reading()
    built = build_index(folder, folder.parent / "index", engine="bm25", reading=reading)
    sources = sources_of(built)
    assert sources is not None
    passages = [built[n] for n in range(len(built))] if hasattr(built, "__getitem__") else list(built)
    places = sources.find([passage.id for passage in passages])
    return {passage.title: str(places[passage.id]) for passage in passages}, reading


def test_the_same_text_is_indexed_once_with_all_its_files(folder: Path):
    found, reading = index(folder)
    assert found == {
        "Plan": "a plan.md; also b plan.md, plan.txt",
        "Berlin": "Berlin.txt",
        "Hamburg": "Hamburg.txt",
    }
    assert (reading.left_out, reading.documents) == ({"copies of other files": 2}, 3)
    sources = sources_of(build_index(folder, folder.parent / "index", engine="bm25"))
    assert sources is not None
    assert {name.partition("#")[0] for name in sources.ids(("plan.txt",))} == {"a plan.md"}


def test_a_copy_takes_the_place_of_a_file_that_is_gone_or_has_changed(folder: Path):
    index(folder)
    (folder / "a plan.md").unlink()
    assert index(folder)[0]["Plan"] == "b plan.md; also plan.txt"
    (folder / "b plan.md").write_text("# Plan\n\nThe fire warden is Mikkel Aas.\n")
    found, reading = index(folder)
    assert found["Plan"] in ("plan.txt", "b plan.md")
    assert len(found) == 3
    assert reading.update is not None
    assert (reading.update.added, reading.update.removed) == (2, 1)
    (folder / "0 plan.md").write_text(PLAN)
    found, reading = index(folder)
    assert "0 plan.md; also plan.txt" in found.values() or found["Plan"] == "b plan.md"
    assert reading.update is not None
    assert (reading.update.added, reading.update.removed) == (1, 1)
    assert index(folder)[1].update.files == 0  # pyright: ignore[reportOptionalMemberAccess]
