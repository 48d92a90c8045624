import json
import os
import signal
import subprocess
import sys

import pytest

from knowgap.errors import IndexDamaged, IndexFolderError, IndexForeign, IndexMissing
from knowgap.retrieval import BM25Index, Manifest, open_index
from knowgap.retrieval.index.build import start_build
from knowgap.retrieval.index.manifest import FORMAT_VERSION
from tests.retrieval.conformance import corpus


@pytest.fixture
def index(tmp_path):
    BM25Index.build(corpus(), tmp_path / "index")
    return tmp_path / "index"


def edit(index, **changes):
    path = index / "manifest.json"
    record = json.loads(path.read_text(encoding="utf-8"))
    record.update(changes)
    path.write_text(json.dumps({k: v for k, v in record.items() if v is not ...}), encoding="utf-8")


def test_nothing_there(tmp_path):
    with pytest.raises(IndexMissing, match="no index there; build one"):
        open_index(tmp_path / "absent")


def test_a_file(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(IndexForeign, match="a file, not an index folder"):
        open_index(tmp_path / "file")


def test_another_folder(tmp_path):
    with pytest.raises(IndexForeign, match="has no manifest"):
        open_index(tmp_path)


def test_a_half_built_folder(tmp_path):
    with pytest.raises(ZeroDivisionError), start_build(tmp_path / "index"):
        1 / 0  # noqa: B018  # any error in the midst of a build
    with pytest.raises(IndexDamaged, match="half-built"):
        open_index(tmp_path / ".index.building")


def test_newer_format(index):
    edit(index, version=FORMAT_VERSION + 1)
    with pytest.raises(IndexForeign, match=f"format {FORMAT_VERSION + 1}.*upgrade knowgap"):
        open_index(index)


def test_manifest_of_something_else(index):
    edit(index, format="web-extension")
    with pytest.raises(IndexForeign, match="not that of a knowgap index"):
        open_index(index)


def test_unknown_engine(index):
    edit(index, engine="alta vista")
    with pytest.raises(IndexForeign, match="'alta vista'; this knowgap opens bm25, colbert"):
        open_index(index)


def test_other_engine_than_asked_for(index):
    edit(index, engine="colbert")
    with pytest.raises(IndexForeign, match="'colbert', not 'bm25'"):
        BM25Index.open(index)


def test_incomplete_manifest(index):
    edit(index, corpus_digest=...)
    with pytest.raises(IndexDamaged, match="incomplete"):
        open_index(index)


def test_truncated_manifest(index):
    text = (index / "manifest.json").read_text(encoding="utf-8")
    (index / "manifest.json").write_text(text[:50], encoding="utf-8")
    with pytest.raises(IndexDamaged, match="cannot be read"):
        open_index(index)


def test_digest_says_what_an_index_is(index, tmp_path):
    other = BM25Index.build(corpus(), tmp_path / "other", k1=1.2)
    assert Manifest.read(index).digest != other.manifest.digest
    assert Manifest.read(index).passages == len(corpus())


def test_two_builders(tmp_path):
    with start_build(tmp_path / "index"), pytest.raises(IndexFolderError, match="another process is building"):
        BM25Index.build(corpus(), tmp_path / "index")
    assert len(BM25Index.build(corpus(), tmp_path / "index")) == len(corpus())


def test_a_killed_builder_holds_no_lock(tmp_path):
    script = (
        "import sys\nfrom knowgap.retrieval.index.build import start_build\n"
        "with start_build(sys.argv[1]) as build:\n    print('building', flush=True)\n    sys.stdin.read()\n"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", script, tmp_path / "index"], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    with process:
        assert process.stdout.readline().strip() == b"building"
        with pytest.raises(IndexFolderError, match="another process"), start_build(tmp_path / "index"):
            pass
        os.kill(process.pid, signal.SIGKILL)
    assert len(BM25Index.build(corpus(), tmp_path / "index")) == len(corpus())
