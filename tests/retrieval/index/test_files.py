"""The files of an index: its manifest, its locks and its passages."""

import json

import pytest
from filelock import FileLock

from knowgap.errors import IndexDamaged, IndexFolderError, IndexForeign, IndexMissing, UnknownName
from knowgap.retrieval import BM25Index, Manifest, Passage, PassageStore, open_index
from knowgap.retrieval.index.manifest import FORMAT_VERSION
from tests.retrieval.conformance import NEW, corpus


@pytest.fixture
def index(tmp_path):
    BM25Index.build(corpus(), tmp_path / "index")
    return tmp_path / "index"


@pytest.mark.parametrize(("name", "error"), [("absent", IndexMissing), ("file", IndexForeign), (".", IndexForeign)])
def test_what_is_no_index(tmp_path, name, error):
    (tmp_path / "file").touch()
    with pytest.raises(error, match=name):
        open_index(tmp_path / name)


@pytest.mark.parametrize(
    ("changes", "error", "message"),
    [
        ({"version": FORMAT_VERSION + 1}, IndexForeign, f"{FORMAT_VERSION + 1}"),
        ({"format": "web-extension"}, IndexForeign, "web-extension"),
        ({"engine": "alta vista"}, UnknownName, "alta vista"),
        (None, IndexDamaged, "manifest"),
    ],
)
def test_manifests_that_are_refused(index, changes, error, message):
    path = index / "manifest.json"
    text = path.read_text(encoding="utf-8")
    path.write_text(json.dumps(json.loads(text) | changes) if changes else text[:50], encoding="utf-8")
    with pytest.raises(error, match=message):
        open_index(index)


def test_a_manifest_is_of_an_engine_and_its_settings(index, tmp_path):
    assert Manifest.read(index).digest != BM25Index.build(corpus(), tmp_path / "other", stemmer=None).digest
    with pytest.raises(IndexForeign, match="'bm25', not 'colbert'"):
        Manifest.read(index, engine="colbert")


@pytest.mark.parametrize(("lock", "problem"), [(".index.lock", "building"), ("index/.writer.lock", "changing")])
def test_one_at_a_time_builds_or_changes_an_index(index, lock, problem):
    acts = {
        "building": lambda: BM25Index.build(corpus(), index, overwrite=True),
        "changing": lambda: BM25Index.open(index).add(NEW),
    }
    with FileLock(index.parent / lock):
        with pytest.raises(IndexFolderError, match=f"another process is {problem}"):
            acts[problem]()
        assert len(BM25Index.open(index).search(["river"], 3)[0]) == 3
    acts[problem]()


def test_digest_depends_on_content_and_order(tmp_path):
    corpora = [corpus(), corpus()[::-1], [Passage("a", "b", "")], [Passage("a", "", "b")]]
    assert len({PassageStore.build(iter(passages), tmp_path)[1] for passages in [*corpora, corpus()]}) == len(corpora)
