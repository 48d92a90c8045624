"""An index of own documents: built once, and then changed as far as the documents have changed."""

import json
from pathlib import Path
from typing import Any

import pytest

from knowgap.compiling.data.dataset import Dataset
from knowgap.compiling.data.indexing import build_index
from knowgap.errors import DataError
from knowgap.retrieval import DenseIndex, Passage, open_index
from knowgap.retrieval.documents.reading import Reading, Update
from knowgap.retrieval.documents.sources import sources_of
from knowgap.retrieval.passage import document_id
from tests.retrieval.test_indexes import count_words

FILES = {
    "bridge.md": "# Orle Bridge\n\nIt was designed by Ada Venn.\n\n## Opening\n\nIt opened in 1931.\n",
    "people/venn.txt": "Ada Venn was an engineer, born in Tarn.",
    "people/reth.txt": "Jon Reth built the hall in 1870.",
}


def follow(*arguments: Any, **options: Any) -> tuple[Any, Any]:
    """Build or change an index; also return what was read."""
    reading = Reading()
    return build_index(*arguments, reading=reading, **options), reading


@pytest.fixture
def docs(tmp_path: Path) -> Path:
    for name, text in FILES.items():
        path = tmp_path / "docs" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return tmp_path / "docs"


def write_jsonl(path: Path, texts: dict[str, str]) -> Path:
    path.write_text("".join(json.dumps({"id": id, "text": text}) + "\n" for id, text in texts.items()), "utf-8")
    return path


def test_only_what_has_changed_is_encoded_again(docs: Path, tmp_path: Path):
    asked: list[str] = []

    def embed(texts: list[str]) -> Any:
        asked.extend(texts)
        return count_words(texts)

    def index() -> tuple[Any, Reading, list[str]]:
        asked.clear()
        made, reading = follow(docs, tmp_path / "ix", engine="dense", encoder=embed)
        return made, reading, [text for text in asked if "lighthouse" not in text]  # the index's own probe

    built, reading, _ = index()
    first = {passage.id for passage in built}
    assert reading.update is None
    _, reading, encoded = index()
    assert (reading.update, encoded) == ((0, 0, 0), [])
    (docs / "bridge.md").write_text(FILES["bridge.md"].replace("1931", "1932"), encoding="utf-8")
    (docs / "people" / "reth.txt").unlink()
    (docs / "new.txt").write_text("The Isk is a river.", encoding="utf-8")
    changed, reading, encoded = index()
    assert reading.update == Update(files=3, added=2, removed=2)
    assert encoded == ["Orle Bridge / Opening: It opened in 1932.", "new: The Isk is a river."]
    now = {passage.id for passage in changed}
    assert (len(now), len(first & now)) == (4, 2)
    assert sources_of(changed).find(now).keys() == now


@pytest.mark.parametrize("then", [FILES["people/venn.txt"], "Ada Venn was a sculptor."])
def test_an_update_that_was_cut_off_is_done_by_the_next(
    docs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, then: str
):
    follow(docs, tmp_path / "ix", engine="dense", encoder=count_words)
    (docs / "people" / "venn.txt").write_text("Ada Venn was a painter.", encoding="utf-8")
    with monkeypatch.context() as patched:
        patched.setattr(DenseIndex, "delete", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt):
            follow(docs, tmp_path / "ix", engine="dense", encoder=count_words)
    (docs / "people" / "venn.txt").write_text(then, encoding="utf-8")
    for files_changed in (1, 0):
        index, reading = follow(docs, tmp_path / "ix", engine="dense", encoder=count_words)
        files = sorted(passage.id.partition("#")[0] for passage in index)
        assert files == ["bridge.md", "bridge.md", "people/reth.txt", "people/venn.txt"]
        assert {passage.text for passage in index if "venn" in passage.id} == {then}
        assert (reading.update.files, bool(reading.update.added)) == (files_changed, bool(files_changed))
    assert not [path for path in tmp_path.iterdir() if path.name.startswith(".ix.sources")]


def test_a_file_that_cannot_be_read_any_more_keeps_its_passages_and_is_named(docs: Path, tmp_path: Path):
    follow(docs, tmp_path / "ix", engine="bm25")
    (docs / "people" / "venn.txt").write_bytes(b"\0\1\2")
    for _ in range(2):
        index, reading = follow(docs, tmp_path / "ix")
        assert (len(index), reading.problems) == (4, {"people/venn.txt": "is not text"})
        assert index.search(["Ada Venn engineer"], 1)[0][0].passage.id.startswith("people/venn.txt#")
    with pytest.warns(UserWarning, match=r"people/venn\.txt: is not text"):
        build_index(docs, tmp_path / "ix")
    (docs / "people" / "venn.txt").write_text("Ada Venn was a painter.", encoding="utf-8")
    _, reading = follow(docs, tmp_path / "ix")
    assert (reading.problems, reading.update.added, reading.update.removed) == ({}, 1, 1)


def test_long_records_are_split_and_can_be_found_by_the_id_of_the_document(tmp_path: Path):
    long = " ".join(f"Sentence {n} of the long story is here." for n in range(100)) + " The key is under the mat."
    corpus = write_jsonl(tmp_path / "docs.jsonl", {"short": "A short one.", "long": long})
    index, reading = follow(corpus, tmp_path / "ix", engine="bm25")
    parts = len(index) - 1
    assert (reading.documents, parts > 1) == (2, True)
    [[hit]] = index.search(["Where is the key?"], 1)
    assert document_id(hit.passage.id) == "long"
    assert str(sources_of(index).find([hit.passage.id])[hit.passage.id]) == "docs.jsonl, line 2"
    assert index.missing_ids(["short", "long", "other"]) == ["other"]
    write_jsonl(corpus, {"short": "A shorter one.", "long": long + " And so it ends.", "new": "New."})
    assert follow(corpus, tmp_path / "ix")[1].update == Update(files=1, added=3, removed=1)


PLAN = "# Plan\n\nThe fire wardens are Olga Ferrer and Dan Whitlock.\n"
COPIES = {
    "a plan.md": PLAN,
    "b plan.md": PLAN,
    "plan.txt": PLAN.replace("# Plan", "Plan\n===="),
    "Berlin.txt": "Closed on Mondays.",
    "Hamburg.txt": "Closed on Mondays.",  # another title, and so another text
}


def test_the_same_text_is_indexed_once_with_all_its_files_and_a_copy_takes_the_place_of_a_file(tmp_path: Path):
    folder = tmp_path / "docs"
    folder.mkdir()
    for name, text in COPIES.items():
        (folder / name).write_text(text)

    def places() -> tuple[dict[str, str], Any]:
        index, reading = follow(folder, tmp_path / "ix", engine="bm25")
        found = sources_of(index).find([passage.id for passage in index])
        return {passage.title: str(found[passage.id]) for passage in index}, reading

    found, reading = places()
    assert found == {
        "Plan": "a plan.md; also b plan.md, plan.txt",
        "Berlin": "Berlin.txt",
        "Hamburg": "Hamburg.txt",
    }
    assert (reading.left_out, reading.documents) == ({"copies of other files": 2}, 3)
    (folder / "a plan.md").unlink()
    assert places()[0]["Plan"] == "b plan.md; also plan.txt"
    (folder / "b plan.md").write_text("# Plan\n\nThe fire warden is Mikkel Aas.\n")
    found, reading = places()
    assert (len(found), found["Plan"] in ("plan.txt", "b plan.md")) == (3, True)
    assert (reading.update.added, reading.update.removed) == (2, 1)
    assert places()[1].update.files == 0


def test_a_data_set_and_passages_are_indexed_as_they_are(tmp_path: Path):
    passages = [Passage("isk", "Isk", "A river."), Passage("story", "", "A long story. " * 500)]
    for source in (passages, iter(passages), Dataset("rivers", {}, passages, "")):
        assert list(build_index(source, tmp_path / "ix", engine="bm25")) == passages


def test_a_folder_without_documents_is_refused_and_changes_nothing(docs: Path, tmp_path: Path):
    follow(docs, tmp_path / "ix", engine="bm25")
    for name in FILES:
        (docs / name).unlink()
    (docs / "picture.png").write_bytes(b"x")
    with pytest.raises(DataError, match=r"holds no documents that can be read \(1 \.png"):
        follow(docs, tmp_path / "ix")
    assert len(open_index(tmp_path / "ix")) == 4
    (docs / "empty.txt").write_bytes(b"")
    with pytest.raises(DataError, match=r"holds no documents that can be read \(.*empty\.txt: has no text\)"):
        follow(docs, tmp_path / "new", engine="bm25")
    assert not (tmp_path / "new").exists()
