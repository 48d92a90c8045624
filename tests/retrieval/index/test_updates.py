import random
import shutil
import subprocess
import sys

import pytest

from knowgap.errors import IndexFolderError, UsageError
from knowgap.retrieval import ColBERTIndex, DenseIndex, Passage, open_index
from knowgap.retrieval.index import changes, updates, vector_index
from tests.retrieval.conformance import NEW, QUERIES, corpus
from tests.retrieval.index.conftest import assert_same, build, reopen
from tests.retrieval.test_dense import count_words


def test_nothing_to_compact_and_texts_of_any_kind(index):
    index.compact()
    files = {path.name for path in index.path.iterdir()} - {".writer.lock", ".checked.json"}
    assert files == {"manifest.json", *index.manifest.files}
    odd = [Passage("lone", chr(0xD800), "\x00\n\u2028 🦊"), Passage("", "", "")]
    index.add(odd)
    assert [passage for passage in reopen(index) if passage in odd] == odd


def test_digests_and_compaction(index, tmp_path):
    before = index.digest
    assert before == index.manifest.digest
    index.add(NEW)
    assert index.digest != before
    index.delete(passage.id for passage in corpus()[::2])
    left = corpus()[1::2] + NEW
    for _ in range(2):
        digest = index.corpus_digest
        index.compact()
        assert_same(index, left, tmp_path)
        index.manifest.verify(index.path)
        assert index.corpus_digest == digest == index.manifest.corpus_digest
        assert index.digest == build(left, tmp_path / f"fresh {len(left)} {left[0].id}").digest
        assert len([path for path in index.path.iterdir() if path.is_dir()]) == 1
        left.append(left.pop(0))
        index.delete([left[-1].id])
        index.add([left[-1]])
    moved = shutil.move(index.path, tmp_path / "moved")
    assert_same(DenseIndex.open(moved, encoder=count_words), left, tmp_path)


def test_an_emptied_index(index):
    index.delete([passage.id for passage in corpus()])
    assert len(index) == 0
    assert index.search(QUERIES, 5) == [[]] * len(QUERIES)
    with pytest.raises(UsageError, match="every passage was deleted"):
        index.compact()
    index.add(NEW[:1])
    index.compact()
    assert [hit.passage for hit in index.search(QUERIES[:1], 5)[0]] == NEW[:1]


def test_a_thousand_steps_equal_a_rebuild(index, tmp_path):
    rng = random.Random(2)
    pool = corpus() + [Passage(f"extra {i}", f"Extra {i}", f"{'wave ' * (i % 5)}and sand {i % 17}") for i in range(60)]
    live = {passage.id: passage for passage in corpus()}
    for step in range(1, 1001):
        chosen = rng.sample(pool, rng.randint(1, 3))
        for passage in chosen:
            live.pop(passage.id, None)
        if rng.random() < 0.5:
            index.add(chosen, replace=True)
            live |= {passage.id: passage for passage in chosen}
        else:
            index.delete(passage.id for passage in chosen)
        if step % 100 == 0:
            if step % 300 == 0:
                index.compact()
            assert_same(index, list(live.values()), tmp_path)
            index = reopen(index)


class _Killed(BaseException):
    pass


def killed(monkeypatch, act, step, targets):
    """Whether the act was killed before the given call among the named functions, which write to disk."""
    calls = 0

    def guard(function):
        def call(*args, **kwargs):
            nonlocal calls
            calls += 1
            if calls == step:
                raise _Killed
            return function(*args, **kwargs)

        return call

    with monkeypatch.context() as patch:
        for owner, name in targets:
            patch.setattr(owner, name, guard(getattr(owner, name)))
        try:
            act()
        except _Killed:
            return True
    return False


CHANGE = [(changes.Changes, "_append"), (changes, "write_json")]
COMPACTION = [
    (updates.PassageStore, "build"),
    (updates, "record_files"),
    (updates, "write_manifest"),
    (updates, "_sweep"),
    (updates.shutil, "rmtree"),
]


@pytest.mark.parametrize("step", range(1, 7))
def test_killed_between_any_two_writes_of_a_change(index, tmp_path, monkeypatch, step):
    index.add(NEW[:2])
    stopped = killed(monkeypatch, lambda: index.add([NEW[3], corpus()[0]], replace=True), step, CHANGE)
    assert stopped == (step <= 5)
    after = [*corpus()[1:], *NEW[:2], NEW[3], corpus()[0]]
    again = reopen(index)
    assert_same(again, corpus() + NEW[:2] if stopped else after, tmp_path)
    again.add([NEW[3], corpus()[0]], replace=True)
    assert_same(again, after, tmp_path)


@pytest.mark.parametrize("step", range(1, 9))
def test_killed_between_any_two_writes_of_the_first_change(index, tmp_path, monkeypatch, step):
    writes = [*CHANGE, (vector_index, "write_manifest")]
    stopped = killed(monkeypatch, lambda: index.add([NEW[3], corpus()[0]], replace=True), step, writes)
    assert stopped == (step <= 7)
    assert_same(reopen(index), corpus() if stopped else [*corpus()[1:], NEW[3], corpus()[0]], tmp_path)


@pytest.mark.parametrize("step", range(1, 8))
def test_killed_between_any_two_writes_of_a_compaction(index, tmp_path, monkeypatch, step):
    index.delete([corpus()[0].id])
    index.compact()
    index.add(NEW)
    assert killed(monkeypatch, index.compact, step, COMPACTION) == (step <= 6)
    again = reopen(index)
    assert_same(again, corpus()[1:] + NEW, tmp_path)
    again.delete([NEW[0].id])
    again.compact()
    assert_same(again, corpus()[1:] + NEW[1:], tmp_path)
    assert {path.name for path in index.path.iterdir()} == {
        *(".writer.lock", ".checked.json", "manifest.json", again.manifest.root)
    }


def test_readers_see_changes_when_they_refresh_and_writers_always(index, tmp_path):
    other = reopen(index)
    before = other.search(QUERIES, 5)
    index.add(NEW[:3])
    index.delete([before[0][0].passage.id])
    assert other.search(QUERIES, 5) == before
    assert other.refresh() is other
    assert other.search(QUERIES, 5) == index.search(QUERIES, 5) != before
    other.add(NEW[3:])
    index.delete([NEW[4].id])
    left = [passage for passage in corpus() + NEW if passage.id not in (before[0][0].passage.id, NEW[4].id)]
    assert_same(index, left, tmp_path)
    index.compact()
    assert other.search(QUERIES, 5) == index.search(QUERIES, 5)  # from files that are removed
    assert len(other) == len(other.refresh()) + 1 == len(index) + 1


def test_an_index_that_is_compacted_before_its_first_search(index):
    for _ in range(2):  # the first compaction moves the files, the second removes the folder that the manifest names
        reader = reopen(index)
        index.add([NEW[0]], replace=True)
        index.compact()
        assert reader.search(QUERIES, 5) == index.search(QUERIES, 5)


def test_another_process_is_writing(index):
    script = (
        "import sys\nfrom filelock import FileLock\n"
        "with FileLock(sys.argv[1]):\n    print('held', flush=True)\n    sys.stdin.read()\n"
    )
    command = [sys.executable, "-c", script, index.path / ".writer.lock"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout.readline().strip() == b"held"
        with pytest.raises(IndexFolderError, match="another process is changing"):
            index.add(NEW)
        assert len(index.search(QUERIES, 3)[0]) == 3
        process.kill()
    assert index.add(NEW) == len(NEW)


@pytest.mark.parametrize("options", [{}, {"clustered": True}, {"nbits": 2}])
def test_colbert_indexes_change_too(checkpoint, tmp_path, options):
    index = ColBERTIndex.build(corpus(), tmp_path / "index", checkpoint=checkpoint, **options)
    index.add(NEW)
    index.delete(passage.id for passage in corpus()[::5])
    left = [passage for i, passage in enumerate(corpus()) if i % 5] + NEW
    for quality in ("fast", "exact"):
        hits = open_index(index.path, quality=quality).search(QUERIES[:1], 100)[0]
        assert {hit.passage.id for hit in hits} == {passage.id for passage in left}
    before = index.search(QUERIES, 5)
    index.compact()
    fresh = ColBERTIndex.build(left, tmp_path / "fresh", checkpoint=checkpoint, **options)
    assert index.digest == fresh.digest
    after, expected = index.search(QUERIES, 5), fresh.search(QUERIES, 5)
    assert [[hit.passage.id for hit in hits] for hits in after] == [[h.passage.id for h in hits] for hits in expected]
    if "nbits" not in options:
        assert after == before
    assert open_index(tmp_path / "index").search(QUERIES, 5) == after
