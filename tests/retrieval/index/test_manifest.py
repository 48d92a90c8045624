import json
import subprocess
import sys

import pytest

from knowgap.errors import IndexDamaged, IndexFolderError, IndexForeign, IndexMissing
from knowgap.retrieval import BM25Index, Manifest, open_index
from knowgap.retrieval.index.build import start_build
from knowgap.retrieval.index.manifest import FORMAT_VERSION
from knowgap.storage import manifest
from tests.retrieval.conformance import corpus, flip_last_bit


@pytest.fixture
def index(tmp_path):
    BM25Index.build(corpus(), tmp_path / "index")
    return tmp_path / "index"


def test_what_is_no_index(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(ZeroDivisionError), start_build(tmp_path / "index"):
        1 / 0  # noqa: B018  # any error in the midst of a build
    for name, error, message in (
        ("absent", IndexMissing, "no index there; build one"),
        ("file", IndexForeign, "a file, not an index folder"),
        (".", IndexForeign, "has no manifest"),
        ("index", IndexMissing, "not finished; run the same command again"),
        (".index.building", IndexForeign, "has no manifest"),
    ):
        with pytest.raises(error, match=message):
            open_index(tmp_path / name)


@pytest.mark.parametrize(
    ("changes", "error", "message"),
    [
        ({"version": FORMAT_VERSION + 1}, IndexForeign, f"format {FORMAT_VERSION + 1}, but this knowgap reads"),
        ({"format": "web-extension"}, IndexForeign, "does not belong to a knowgap index"),
        ({"engine": "alta vista"}, IndexForeign, "'alta vista'; this knowgap opens bm25, colbert"),
        (None, IndexDamaged, "cannot be read"),
    ],
)
def test_manifests_that_are_refused(index, changes, error, message):
    path = index / "manifest.json"
    text = path.read_text(encoding="utf-8")
    path.write_text(json.dumps(json.loads(text) | changes) if changes else text[:50], encoding="utf-8")
    with pytest.raises(error, match=message):
        open_index(index)


def test_a_flipped_bit_is_noticed_when_an_index_is_opened_and_right_files_are_hashed_once(index, monkeypatch):
    open_index(index)
    with monkeypatch.context() as patch:
        patch.setattr(manifest, "file_digest", lambda path: "hashed again")
        open_index(index)
    flip_last_bit(index / "segment-0" / "passages.bin")
    for _ in range(2):
        with pytest.raises(IndexDamaged, match=r"passages\.bin was altered"):
            open_index(index)


def test_a_manifest_is_of_an_engine_and_its_settings(index, tmp_path):
    assert Manifest.read(index).digest != BM25Index.build(corpus(), tmp_path / "other", k1=1.2).digest
    with pytest.raises(IndexForeign, match="'bm25', not 'colbert'"):
        Manifest.read(index, engine="colbert")


def test_a_killed_builder_holds_no_lock(tmp_path):
    script = (
        "import sys\nfrom knowgap.retrieval.index.build import start_build\n"
        "with start_build(sys.argv[1]) as build:\n    print('building', flush=True)\n    sys.stdin.read()\n"
    )
    command = [sys.executable, "-c", script, tmp_path / "index"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout.readline().strip() == b"building"
        with pytest.raises(IndexFolderError, match="another process is building"):
            BM25Index.build(corpus(), tmp_path / "index")
        process.kill()
    assert len(BM25Index.build(corpus(), tmp_path / "index")) == len(corpus())
