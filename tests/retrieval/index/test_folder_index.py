import random
import shutil

import pytest

from knowgap.retrieval import ColBERTIndex, DenseIndex, HybridIndex, Manifest, Passage
from tests.retrieval.conformance import NEW, QUERIES, corpus
from tests.retrieval.test_indexes import count_words
from tests.storage.test_storage import killed_at_every_step


def build(passages, folder):
    return DenseIndex.build(passages, folder, encoder=count_words)


def reopen(index):
    return DenseIndex.open(index.path, encoder=count_words)


@pytest.fixture
def index(tmp_path):
    return build(corpus(), tmp_path / "index")


def assert_same(index, passages, tmp_path):
    """The index, and the index on disk, search as one does that was built from these passages."""
    folder = tmp_path / "rebuilt"
    shutil.rmtree(folder, ignore_errors=True)
    rebuilt = build(passages, folder)
    for each in (index, reopen(index)):
        for k in (1, 7, 1000):
            assert each.search(QUERIES, k) == rebuilt.search(QUERIES, k)
        assert sorted(map(str, each)) == sorted(map(str, passages))
        assert len(each) == len(passages)


def test_an_emptied_index(index):
    index.delete([passage.id for passage in corpus()])
    assert len(index) == 0
    assert index.search(QUERIES, 5) == [[]] * len(QUERIES)
    assert reopen(index).digest == index.digest
    index.add(NEW[:1])
    assert [hit.passage for hit in index.search(QUERIES[:1], 5)[0]] == NEW[:1]


def test_many_steps_equal_a_rebuild(index, tmp_path):
    rng = random.Random(2)
    pool = corpus() + [Passage(f"extra {i}", f"Extra {i}", f"{'wave ' * (i % 5)}and sand {i % 17}") for i in range(60)]
    live, segments = {passage.id: passage for passage in corpus()}, list[int]()
    for step in range(1, 121):
        chosen = rng.sample(pool, rng.randint(1, 3))
        for passage in chosen:
            live.pop(passage.id, None)
        if rng.random() < 0.5:
            index.add(chosen, replace=True)
            live |= {passage.id: passage for passage in chosen}
        else:
            index.delete(passage.id for passage in chosen)
        segments.append(len(index.manifest.segments))
        if step % 40 == 0:
            assert_same(index, list(live.values()), tmp_path)
            index = reopen(index)
    assert max(segments) == 4


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_change_that_is_killed_at_any_step_was_made_or_not(tmp_path):
    before, change, seen = corpus() + NEW[:3], [NEW[3], corpus()[0]], set()
    states = {"before": before, "after": [*before[1:], *change]}
    expected = [build(passages, tmp_path / name).search(QUERIES, 99) for name, passages in states.items()]
    whole = build(corpus(), tmp_path / "whole")
    for passage in NEW[:3]:  # each a segment, which the change merges with its own
        whole.add([passage])
    index = DenseIndex.open(shutil.copytree(whole.path, tmp_path / "index"), encoder=count_words)
    for survived in killed_at_every_step(lambda: reopen(index).add(change, replace=True)):
        again = reopen(index)
        made = len(again) - len(before)
        seen.add((survived, made))
        assert again.search(QUERIES, 99) == expected[made]
        again.add(change, replace=True)
        assert again.search(QUERIES, 99) == expected[1]
        shutil.rmtree(index.path)
        shutil.copytree(whole.path, index.path)
    assert seen == {(False, 0), (False, 1), (True, 1)}


def test_readers_see_changes_when_they_refresh_and_writers_always(index, tmp_path, monkeypatch):
    other = reopen(index)
    before = other.search(QUERIES, 5)
    index.add(NEW[:3])
    index.delete([before[0][0].passage.id])
    assert other.search(QUERIES, 5) == before
    opened = other._snapshot.segments[0]
    assert other.refresh() is other
    assert other._snapshot.segments[0] is opened  # what has not changed stays open
    assert other.search(QUERIES, 5) == index.search(QUERIES, 5) != before
    other.add(NEW[3:])
    index.delete([NEW[4].id])
    left = [passage for passage in corpus() + NEW if passage.id not in (before[0][0].passage.id, NEW[4].id)]
    assert_same(index, left, tmp_path)
    index.delete(passage.id for passage in corpus()[:20])
    assert len(other.search(QUERIES[:1], 99)[0]) == len(other) > len(index)  # from files that are removed
    assert len(other.refresh()) == len(index)
    stale = reopen(index).manifest
    index.delete(passage.id for passage in corpus()[20:30])  # removes the files that a reader is about to open
    seen = iter([stale, stale])
    monkeypatch.setattr(Manifest, "parse", lambda path, engine=None: next(seen, index.manifest))
    late = reopen(index)
    assert (late.manifest, late.search(QUERIES, 5)) == (index.manifest, index.search(QUERIES, 5))


@pytest.mark.parametrize("kind", [ColBERTIndex, HybridIndex])
def test_a_merged_index_is_the_index_of_what_is_left(checkpoint, tmp_path, kind):
    index = kind.build(corpus(), tmp_path / "index", encoder=checkpoint)
    index.add(NEW)
    index.delete(passage.id for passage in corpus()[::5])
    assert len(Manifest.read(index.path).segments) == 2
    index.delete(passage.id for passage in NEW[:2])  # now more than a fifth is deleted
    fresh = kind.build([p for n, p in enumerate(corpus()) if n % 5] + NEW[2:], tmp_path / "fresh", encoder=checkpoint)
    assert index.digest == fresh.digest
    after, expected = index.search(QUERIES, 5), fresh.search(QUERIES, 5)
    assert [[hit.passage.id for hit in hits] for hits in after] == [[h.passage.id for h in hits] for hits in expected]
    assert {path.name for path in index.path.iterdir() if path.is_dir()} == {index.manifest.segments[0].name}
