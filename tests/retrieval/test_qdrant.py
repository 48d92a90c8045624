"""Qdrant indexes, over the engine that comes with qdrant-client."""

from contextlib import closing

import pytest

from knowgap.errors import DataError, IndexDamaged, IndexFolderError, IndexMissing, UsageError
from knowgap.retrieval import ColBERTIndex, open_index
from knowgap.retrieval.qdrant import QdrantIndex
from tests.retrieval.conformance import NEW, QUERIES, RetrieverConformance, corpus
from tests.tiny import write_colbert


@pytest.fixture
def build(tmp_path, checkpoint, monkeypatch):
    monkeypatch.setenv("QDRANT_URL", str(tmp_path / "points"))

    def build(passages, folder="index", **options):
        return QdrantIndex.build(passages, tmp_path / folder, **{"encoder": checkpoint} | options)

    return build


class TestQdrantIndex(RetrieverConformance):
    @pytest.fixture(scope="class", autouse=True)
    @classmethod
    def with_checkpoint(cls, checkpoint):
        with pytest.MonkeyPatch.context() as cls.patch:
            cls.checkpoint = checkpoint
            yield

    @classmethod
    def make(cls, passages, folder):
        cls.patch.setenv("QDRANT_URL", f"{folder}-points")
        return QdrantIndex.build(passages, folder, encoder=cls.checkpoint)


def test_scores_as_the_colbert_index_does(build, checkpoint, tmp_path):
    colbert = ColBERTIndex.build(corpus(), tmp_path / "colbert", encoder=checkpoint)
    with closing(build(corpus())) as index:
        for one, other in zip(index.search(QUERIES, 10), colbert.search(QUERIES, 10), strict=True):
            assert [hit.score for hit in one] == pytest.approx([hit.score for hit in other], abs=1e-2)


def test_changes_are_found_after_opening_again(build, tmp_path):
    with closing(build(corpus())) as index:
        before = index.digest
        assert index.add([]) == index.delete(["unheard of"]) == 0
        assert index.digest == before
        assert index.add(NEW) == len(NEW)
        assert index.delete([NEW[0].id, corpus()[0].id, "unheard of"]) == 2
        with pytest.raises(DataError, match=f"'{corpus()[1].id}'"):
            index.add([corpus()[0], corpus()[1]])
        with pytest.raises(DataError, match="unique"):
            index.add([corpus()[0], corpus()[0]], replace=True)
        assert index.add([corpus()[1], corpus()[0]], replace=True) == 2
        assert index.digest != before
        expected = index.search(QUERIES, 60)
    with closing(open_index(tmp_path / "index")) as again:
        assert len(again) == again.manifest.segments[0].passages == len(corpus()) + len(NEW) - 1
        assert again.search(QUERIES, 60) == expected
        assert {hit.passage for hit in expected[0]} == {*corpus(), *NEW[1:]}


@pytest.mark.parametrize(
    ("seed", "options", "steps"),
    [(1, {}, [64, 128]), (2, {"overwrite": True}, [0, 64, 128]), (1, {"collection": "other"}, [0, 64, 128])],
)
def test_an_interrupted_build_continues_unless_checkpoint_or_settings_have_changed(
    build, tmp_path, seed, options, steps
):
    def stop(done, total, what):
        if done == 64:
            raise KeyboardInterrupt

    texts = [*map(str, corpus(150)), *QUERIES]
    checkpoint = write_colbert(tmp_path / "tiny", texts)
    with pytest.raises(KeyboardInterrupt):
        build(corpus(150), encoder=checkpoint, progress=stop)
    write_colbert(tmp_path / "tiny", texts, seed=seed)
    seen = []
    options |= {"progress": lambda done, total, what: seen.append(done)}
    with closing(build(corpus(150), encoder=checkpoint, **options)) as built:
        assert seen == steps
        assert len(built) == 150


def test_a_collection_that_is_there_is_not_replaced_unasked(build, tmp_path):
    build(corpus()).close()
    for _ in range(2):
        with pytest.raises(IndexFolderError):
            build(corpus(20), "two")
    with closing(build(corpus(20), "two", overwrite=True)) as index:
        assert len(index) == 20
    with pytest.raises(UsageError):
        build(corpus(30), "two")
    with closing(build(corpus(20), "two")) as same:
        assert same.digest == index.digest
        same.points.ask("delete_collection")
    for _ in range(2):  # the first one leaves nothing open
        with pytest.raises(IndexDamaged):
            open_index(tmp_path / "two")


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # of the client that fails
def test_points_in_a_folder_have_one_user_and_an_index_that_is_let_go_is_none(build, tmp_path):
    index = build(corpus(5))
    with pytest.raises(IndexFolderError, match="points"):
        open_index(tmp_path / "index")
    del index
    with closing(open_index(tmp_path / "index")) as again:
        assert len(again) == 5


def test_an_index_whose_server_has_moved(build, tmp_path, monkeypatch):
    build(corpus(5)).close()
    (tmp_path / "points").rename(tmp_path / "moved")
    monkeypatch.setenv("QDRANT_URL", str(tmp_path / "moved"))
    with closing(open_index(tmp_path / "index")) as index:
        assert len(index) == 5


@pytest.mark.parametrize(("url", "error"), [("http://127.0.0.1:9", IndexMissing), ("", UsageError)])
def test_refuses_a_build(build, tmp_path, monkeypatch, url, error):
    monkeypatch.setenv("QDRANT_URL", url)
    with pytest.raises(error):
        build(corpus())
    assert [path.name for path in tmp_path.iterdir()] == []
