"""What every retriever must do. An engine's tests subclass `RetrieverConformance`, its index `IndexConformance`."""

import copy
import shutil
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, ClassVar

import pytest

from knowgap.errors import DataError, IndexDamaged, IndexForeign, IndexMissing, UsageError, ValueOutOfBounds
from knowgap.retrieval import Passage, Retriever, open_index

_TOPICS = {
    "river": "The river {0} rises in the hills of {1} and flows through {0} valley to the cold northern sea.",
    "film": "{0} is a drama film directed by {1}, released in 19{2:02d} to warm reviews at several festivals.",
    "band": "The band {0} was formed in {1} in 19{2:02d} by two brothers, a drummer and a violinist.",
    "city": "{0} is a city of {2} thousand people; its mayor {1} lives near the old harbour.",
}
_NAMES = ["Aldren", "Brisk", "Corvane", "Dellow", "Ermine", "Foxhall", "Gandry", "Hollin", "Ispar", "Jorvale"]


def corpus(n=40):
    """Passages on a few topics, in an order that is not that of their ids."""
    passages = []
    for i in range(n):
        topic = list(_TOPICS)[i % 4]
        name, other = _NAMES[i % 10] + "abcdefgh"[i // 10 % 8], _NAMES[(7 * i + 3) % 10]
        text = _TOPICS[topic].format(name, other, (i * 13) % 90 + 10)
        passages.append(Passage(f"p{(i * 17) % 1000:03d}", f"{name} ({topic})", text))
    return passages


def cut_off(path):
    path.write_bytes(path.read_bytes()[:-1])


def flip_last_bit(path):
    content = path.read_bytes()
    path.write_bytes(content[:-1] + bytes([content[-1] ^ 1]))


QUERIES = [
    "Which film did Dellow direct?",
    "Where does the river Aldrena flow?",
    "band formed by brothers with a violinist",
    "mayor of the city of Hollinb",
    "cold northern sea",
]


class RetrieverConformance:
    """Subclasses give `make(passages, folder)`, which returns a retriever over the passages."""

    @classmethod
    def make(cls, passages, folder):
        raise AssertionError("a subclass says how its retriever is made")

    @pytest.fixture(scope="class")
    @classmethod
    def passages(cls):
        return corpus()

    @pytest.fixture(scope="class")
    @classmethod
    def folder(cls, tmp_path_factory):
        return tmp_path_factory.mktemp("retriever")

    @pytest.fixture(scope="class")
    @classmethod
    def retriever(cls, passages, folder):
        return cls.make(passages, folder / "index")

    def test_order_ranks_and_uniqueness(self, retriever, passages):
        assert isinstance(retriever, Retriever)
        for hits in retriever.search(QUERIES, 10):
            assert 0 < len(hits) <= 10
            assert [hit.rank for hit in hits] == list(range(1, len(hits) + 1))
            assert [(-hit.score, hit.passage.id) for hit in hits] == sorted((-h.score, h.passage.id) for h in hits)
            assert len({hit.passage.id for hit in hits}) == len(hits)
            assert all(hit.passage in passages for hit in hits)

    def test_finds_the_passage_that_is_asked_for(self, retriever, passages):
        wanted = passages[::7]
        found = retriever.search([str(passage) for passage in wanted], 3)
        assert [hits[0].passage for hits in found] == wanted

    def test_smaller_k_is_a_prefix(self, retriever):
        few, many = retriever.search(QUERIES, 2), retriever.search(QUERIES, 12)
        assert min(map(len, many)) > 2  # a search does not keep the k of an earlier one
        assert [[hit.passage for hit in hits] for hits in few] == [[hit.passage for hit in hits[:2]] for hits in many]

    def test_no_and_blank_queries(self, retriever):
        assert retriever.search([], 5) == []
        assert retriever.search(["", " \n\t", QUERIES[0]], 3) == [[], [], retriever.search([QUERIES[0]], 3)[0]]

    def test_bounds_of_k(self, retriever, passages):
        for hits in retriever.search(QUERIES, 10 * len(passages)):
            assert 0 < len(hits) <= len(passages)
        for k in (0, -1):
            with pytest.raises(ValueOutOfBounds, match="k = "):
                retriever.search(QUERIES, k)

    @pytest.mark.parametrize("query", ["北京是中国的首都", "Ærøskøbing \u202e 🦊 \ud83d", "a\x00b", "word " * 2000])
    def test_odd_queries(self, retriever, query):
        (hits,) = retriever.search([query], 5)
        assert len(hits) <= 5

    def test_single_queries_in_threads_equal_a_batch(self, retriever):
        queries = [*(f"{query} {i % 3}" for i, query in enumerate(QUERIES * 3)), *QUERIES, *QUERIES]
        with ThreadPoolExecutor(8) as pool:
            single = list(pool.map(lambda query: retriever.search([query], 5)[0], queries))
        assert single == retriever.search(queries, 5)

    def test_copies_are_the_retriever_itself(self, retriever):
        assert copy.deepcopy({"retriever": retriever})["retriever"] is copy.copy(retriever) is retriever

    def test_equal_passages_are_ordered_by_id(self, tmp_path):
        twins = [Passage(name, "Twin", "The very same words about a lighthouse.") for name in ("c", "a", "d", "b")]
        retriever = self.make([*twins, *corpus(12)], tmp_path / "twins")
        (hits,) = retriever.search(["Twin: The very same words about a lighthouse."], 3)
        assert [hit.passage.id for hit in hits] == ["a", "b", "c"]

    def test_one_passage(self, tmp_path):
        (only,) = corpus(1)
        (hits,) = self.make([only], tmp_path / "one").search([str(only)], 10)
        assert [hit.passage for hit in hits] == [only]


class IndexConformance(RetrieverConformance):
    """For indexes in folders: `index_class` has `build(passages, path, **options)`."""

    index_class = None
    options: ClassVar[dict[str, Any]] = {}

    @classmethod
    def make(cls, passages, folder, **options):
        return cls.index_class.build(passages, folder, **cls.options, **options)

    def test_moved(self, retriever, passages, tmp_path):
        self.make(passages, tmp_path / "first")
        (tmp_path / "elsewhere").mkdir()
        moved = open_index(shutil.move(tmp_path / "first", tmp_path / "elsewhere" / "moved"))
        assert moved.search(QUERIES, 7) == retriever.search(QUERIES, 7)

    def test_building_again(self, retriever, passages, tmp_path):
        assert self.make(passages, tmp_path / "index").digest == retriever.digest
        before = (tmp_path / "index" / "manifest.json").stat().st_mtime_ns
        self.make(passages, tmp_path / "index")
        assert (tmp_path / "index" / "manifest.json").stat().st_mtime_ns == before
        with pytest.raises(UsageError, match="another index is already there"):
            self.make(passages[2:], tmp_path / "index")
        other = self.make(passages[2:], tmp_path / "index", overwrite=True)
        assert (len(other), other.digest != retriever.digest) == (len(passages) - 2, True)
        assert [path.name for path in tmp_path.iterdir()] == ["index"]

    def test_something_else_is_never_replaced(self, passages, tmp_path):
        (tmp_path / "letters").mkdir()
        (tmp_path / "letters" / "dear.txt").touch()
        with pytest.raises(IndexForeign, match="not an index"):
            self.make(passages, tmp_path / "letters", overwrite=True)
        assert (tmp_path / "letters" / "dear.txt").exists()

    def test_interrupted_build_leaves_nothing_that_opens(self, passages, tmp_path):
        def stream():
            yield from passages[:5]
            raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt):
            self.make(stream(), tmp_path / "index")
        with pytest.raises(IndexMissing, match="not finished"):
            open_index(tmp_path / "index")
        assert len(self.make(passages, tmp_path / "index")) == len(passages)
        assert [path.name for path in tmp_path.iterdir()] == ["index"]

    def test_bad_corpora(self, passages, tmp_path):
        with pytest.raises(DataError, match="unique"):
            self.make([*passages, passages[0]], tmp_path / "index")
        with pytest.raises(DataError, match="no passages"):
            self.make([], tmp_path / "index")

    def test_every_damaged_file_is_noticed_and_a_wreck_is_replaced_if_that_is_said(
        self, retriever, passages, folder, tmp_path
    ):
        index = shutil.copytree(folder / "index", tmp_path / "index")
        for name in retriever.manifest.files:
            path, content = index / name, (index / name).read_bytes()
            for damage in (cut_off, flip_last_bit, Path.unlink):
                damage(path)
                with pytest.raises(IndexDamaged, match=name):
                    open_index(index)
                path.write_bytes(content)
        assert len(open_index(index)) == len(retriever)
        flip_last_bit(index / "segment-0" / "passages.bin")
        with pytest.raises(IndexDamaged, match="--overwrite"):
            self.make(passages, index)
        assert len(self.make(passages, index, overwrite=True)) == len(passages)


NEW = [
    Passage(f"new {i}", f"Newcomer {i}", f"The newcomer {i} tells of a film about the sea and {i} boats.")
    for i in range(9)
]


ODD = [
    Passage("", "empty id", "is an id, too"),
    Passage("é", "Ünïcödé", "ス 🦊 \u202e \x00"),
    Passage("lone", "\ud800", "surrogate"),
    Passage("nothing", "", ""),
]


class UpdateConformance:
    """For indexes whose passages can be added, deleted and replaced."""

    @pytest.fixture
    def index(self, passages, tmp_path):
        return self.make(passages, tmp_path / "index")

    def test_add_delete_and_replace(self, index, passages):
        before = index.digest
        assert index.add([]) == index.delete([]) == 0
        assert index.digest == before
        assert index.add(NEW) == len(NEW)
        assert index.digest != before
        assert index.search([str(NEW[3])], 1)[0][0].passage == NEW[3]
        gone = [passage.id for passage in (passages + NEW)[1::4]]
        assert index.delete([*gone, *gone, "unheard of"]) == len(gone)
        assert index.delete(gone) == 0
        left = [passage for passage in passages + NEW if passage.id not in gone]
        assert sorted(map(str, index)) == sorted(map(str, left))
        new = Passage(passages[0].id, "Another", "Another text altogether, on lighthouses.")
        with pytest.raises(DataError, match=f"'{new.id}' is already in use"):
            index.add([new])
        with pytest.raises(DataError, match="unique"):
            index.add([left[1], new, left[1]], replace=True)
        assert index.add([new], replace=True) == 1
        assert sorted(map(str, index)) == sorted(map(str, [*left[1:], new]))
        assert len(index) == len(left)

    def test_odd_passages_are_kept_as_they_are(self, tmp_path):
        index = self.make([*ODD, *corpus(12)], tmp_path / "index")
        assert [*index] == [*ODD, *corpus(12)]
        half = Passage("half", "Half", "until it is cut off here \ud83d")
        assert index.add([half]) == 1
        assert index.search([str(half)], 1)[0][0].passage == half
        assert index.delete(each.id for each in ODD) == len(ODD)

    def test_a_damaged_file_of_a_change_is_noticed(self, index):
        index.add(NEW)
        flip_last_bit(index.path / "segment-1" / "passages.bin")
        with pytest.raises(IndexDamaged, match=r"segment-1/passages\.bin"):
            open_index(index.path)
