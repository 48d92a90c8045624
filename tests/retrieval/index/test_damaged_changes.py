"""Changes of an index that were lost or altered are refused."""

import hashlib
import json
from types import SimpleNamespace

import pytest

from knowgap.errors import IndexDamaged
from knowgap.retrieval import DenseIndex, Passage
from knowgap.retrieval.index import changes
from tests.retrieval.conformance import NEW, corpus
from tests.retrieval.index.conftest import assert_same, build, reopen
from tests.retrieval.test_dense import count_words

CHANGES = ["changes.json", "changes.jsonl", "changes.f16", "changes.i32", "changes.deleted.i64"]


@pytest.mark.parametrize("name", CHANGES)
def test_damaged_changes_are_refused(index, name):
    index.add(NEW)
    index.delete([NEW[0].id])
    path = index.path / name
    content = path.read_bytes()
    for damaged in (content[:-3], None, *(content[:i] + bytes([content[i] ^ 1]) + content[i + 1 :] for i in (1, -8))):
        path.unlink() if damaged is None else path.write_bytes(damaged)
        with pytest.raises(IndexDamaged, match=rf"{name}.*copy the index again, or build it again with overwrite"):
            len(reopen(index))
        with pytest.raises(IndexDamaged):
            index.manifest.verify(index.path)
        with pytest.raises(IndexDamaged, match=r"without what was added and deleted"):
            build(corpus(), index.path)
        with pytest.raises(IndexDamaged):
            len(index.refresh())
        path.write_bytes(content)
    assert len(reopen(index)) == len(index.refresh()) == len(corpus()) + len(NEW) - 1
    path.unlink()
    assert len(DenseIndex.build(corpus(), index.path, encoder=count_words, overwrite=True)) == len(corpus())


def test_losing_every_file_of_the_changes_at_once_is_noticed(index, tmp_path):
    index.add(NEW)
    for path in index.path.glob("changes.*"):
        path.unlink()
    with pytest.raises(IndexDamaged, match=r"changes\.json, the record of what was changed, is missing"):
        len(reopen(index))
    with pytest.raises(IndexDamaged, match=r"without what was added and deleted"):
        build(corpus(), index.path)
    rebuilt = DenseIndex.build(corpus(), index.path, encoder=count_words, overwrite=True)
    rebuilt.add(NEW)
    rebuilt.compact()
    assert_same(reopen(rebuilt), corpus() + NEW, tmp_path)


def test_a_record_that_fits_nothing_is_refused(index):
    index.delete([corpus()[0].id])
    path = index.path / "changes.json"
    record = json.loads(path.read_text(encoding="utf-8"))
    entry = record["files"]["changes.deleted.i64"]
    for wrong in (
        [],
        {},
        record | {"generation": 0},
        record | {"generation": -1},
        record | {"files": {}},
        record | {"files": {"../manifest.json": entry}},
        record | {"files": {"changes.deleted.i64": {"size": 8}}},
        record | {"files": {"changes.deleted.i64": entry | {"size": "8"}}},
    ):
        path.write_text(json.dumps(wrong), encoding="utf-8")
        with pytest.raises(IndexDamaged, match=r"changes.json cannot be read"):
            len(reopen(index))


def test_an_index_whose_record_of_changes_has_no_digests(index, tmp_path):
    """Earlier versions wrote such records; the next change gives them digests."""
    index.add(NEW[:2])
    index.delete([corpus()[0].id])
    now = reopen(index)._snapshot().changes
    text = (index.path / "changes.jsonl").stat().st_size
    old = {"generation": 2, "text": text, "added": 2, "vectors": len(now.vectors), "deleted": 1}
    (index.path / "changes.json").write_text(json.dumps(old), encoding="utf-8")
    assert_same(reopen(index), corpus()[1:] + NEW[:2], tmp_path)
    again = reopen(index)
    again.add([NEW[2]])
    assert_same(again, corpus()[1:] + NEW[:3], tmp_path)
    lines = (index.path / "changes.jsonl").read_bytes()
    (index.path / "changes.jsonl").write_bytes(lines.replace(b"Newcomer 0", b"Newcomer 9"))
    with pytest.raises(IndexDamaged, match=r"changes.jsonl was altered"):
        len(reopen(index))


def test_a_change_hashes_only_what_it_appends(index, monkeypatch):
    hashed = []

    class Sha:
        def __init__(self, sha=None):
            self.sha = sha or hashlib.sha256()
            self.hexdigest = self.sha.hexdigest

        def copy(self):
            return Sha(self.sha.copy())

        def update(self, block):
            hashed.append(len(block))
            self.sha.update(block)

    monkeypatch.setattr(changes, "hashlib", SimpleNamespace(sha256=Sha))
    index.add(NEW[:1])
    index.add([NEW[1]])
    hashed.clear()
    index.add([NEW[2]])
    second = sum(hashed)
    index.add([Passage(f"many {i}", "", "sea") for i in range(500)])
    hashed.clear()
    index.add([NEW[3]])
    assert sum(hashed) == second
    assert len(reopen(index)) == len(corpus()) + 504


def test_a_damaged_index_with_changes_is_not_built_again_unasked(index):
    index.delete([corpus()[0].id])
    vectors = index.path / "tokens.f16"
    content = vectors.read_bytes()
    for damaged in (content[:-1], bytes([content[0] ^ 1]) + content[1:]):
        vectors.write_bytes(damaged)
        with pytest.raises(IndexDamaged, match=r"tokens.f16.*without what was added and deleted"):
            build(corpus(), index.path)
    vectors.write_bytes(content)
    assert len(build(corpus(), index.path)) == len(corpus()) - 1
