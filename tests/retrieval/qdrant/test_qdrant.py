import pickle
import shutil
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from knowgap.errors import (
    IndexDamaged,
    IndexFolderError,
    IndexForeign,
    IndexMissing,
    UsageError,
    ValueOutOfBounds,
)
from knowgap.retrieval import ColBERTIndex, open_index
from knowgap.retrieval.qdrant.index import QdrantIndex
from tests.retrieval.conformance import NEW, QUERIES, IndexConformance, UpdateConformance, corpus
from tests.retrieval.tiny import write_colbert

pytest.importorskip("qdrant_client", reason="Qdrant is an extra: pip install 'knowgap[qdrant]'")

from tests.retrieval.qdrant.qdrant_server import QdrantServer


class TestQdrantIndex(IndexConformance, UpdateConformance):
    index_class = QdrantIndex
    opened: list

    @pytest.fixture(scope="class", autouse=True)
    @classmethod
    def with_checkpoint(cls, checkpoint):
        cls.checkpoint, cls.opened = checkpoint, []
        yield
        for index in cls.opened:
            index.close()

    @classmethod
    def make(cls, passages, folder, **options):
        for index in cls.opened:
            if index.path == folder:
                index.close()
        index = QdrantIndex.build(passages, folder, checkpoint=cls.checkpoint, **options)
        cls.opened.append(index)
        return index

    def test_moved_and_copied(self, retriever, passages, tmp_path):
        expected = retriever.search(QUERIES, 7)
        self.make(passages, tmp_path / "first").close()
        shutil.copytree(tmp_path / "first", tmp_path / "copy")
        shutil.move(tmp_path / "first", tmp_path / "moved")
        for folder in (tmp_path / "copy", tmp_path / "moved"):
            with closing(open_index(folder, engine="qdrant")) as index:
                assert index.search(QUERIES, 7) == expected

    def test_a_wreck_is_replaced_by_building_again(self, passages, tmp_path):
        self.make(passages, tmp_path / "index").close()
        (tmp_path / "index" / "qdrant" / "meta.json").write_text("{", encoding="utf-8")
        with pytest.raises(IndexDamaged, match="cannot be read"):
            open_index(tmp_path / "index", engine="qdrant")
        assert len(self.make(passages, tmp_path / "index")) == len(passages)


@pytest.fixture
def index(tmp_path, checkpoint):
    with closing(QdrantIndex.build(corpus(), tmp_path / "index", checkpoint=checkpoint)) as index:
        yield index


@pytest.fixture
def server():
    with closing(QdrantServer()) as server:
        yield server


def test_scores_as_the_colbert_index_does(index, checkpoint, tmp_path):
    colbert = ColBERTIndex.build(corpus(), tmp_path / "colbert", checkpoint=checkpoint)
    for one, other in zip(index.search(QUERIES, 10), colbert.search(QUERIES, 10), strict=True):
        assert [hit.score for hit in one] == pytest.approx([hit.score for hit in other], abs=1e-2)


@pytest.mark.parametrize(("changed", "steps"), [(False, [64, 128, 150]), (True, [0, 64, 128, 150])])
def test_interrupted_build_continues_unless_the_checkpoint_has_changed(tmp_path, changed, steps):
    def stop(done, total, what):
        if done == 64:
            raise KeyboardInterrupt

    texts = [*map(str, corpus(150)), *QUERIES]
    arguments = {"path": tmp_path / "index", "checkpoint": write_colbert(tmp_path / "tiny", texts)}
    with pytest.raises(KeyboardInterrupt):
        QdrantIndex.build(corpus(150), progress=stop, **arguments)
    if changed:
        write_colbert(tmp_path / "tiny", [*texts, "another word"])
    seen = []
    built = QdrantIndex.build(corpus(150), progress=lambda done, total, what: seen.append(done), **arguments)
    with closing(built):
        assert seen == steps
        assert sorted(map(str, built)) == sorted(map(str, corpus(150)))


def test_on_a_server(server, index, checkpoint, tmp_path):
    arguments = {"url": server.url, "collection": "docs", "checkpoint": checkpoint, "shards": 6, "replicas": 2}
    with closing(QdrantIndex.build(corpus(), tmp_path / "served", **arguments)) as served:
        [made] = server.bodies("PUT", "/collections/docs")
        assert (made["shard_number"], made["replication_factor"], made["on_disk_payload"]) == (6, 2, True)
        assert made["vectors"]["tokens"]["on_disk"] is True
        assert made["vectors"]["tokens"]["hnsw_config"]["m"] == 0
        assert served.search(QUERIES, 7) == index.search(QUERIES, 7)
        assert {body["prefetch"]["using"] for body in server.bodies("POST", "/points/query")} == {"pooled"}
        wanted = [corpus()[3].id, corpus()[30].id]
        assert {hit.passage.id for hit in served.search(QUERIES[:1], 5, ids=wanted)[0]} == set(wanted)
        assert served.add(NEW) == len(NEW)
        assert served.delete([NEW[0].id]) == 1
        expected = served.search(QUERIES, 7)
    with closing(open_index(served.path)) as again:
        assert len(again) == len(list(again)) == len(corpus()) + len(NEW) - 1
        assert again.search(QUERIES, 7) == expected


def test_another_machine_needs_the_folder_alone(server, checkpoint, tmp_path):
    elsewhere = server.url.replace("127.0.0.1", "localhost")
    with closing(QdrantIndex.build(corpus(), tmp_path / "index", url=elsewhere, checkpoint=checkpoint)) as built:
        expected = built.search(QUERIES, 3)
    shutil.copytree(tmp_path / "index", tmp_path / "copy")
    with closing(open_index(tmp_path / "copy", url=server.url)) as again:
        assert again.search(QUERIES, 3) == expected


def test_a_collection_that_is_there_is_not_replaced_unasked(server, checkpoint, tmp_path):
    arguments = {"url": server.url, "checkpoint": checkpoint}
    QdrantIndex.build(corpus(), tmp_path / "one", **arguments).close()
    with pytest.raises(IndexFolderError, match="'knowgap' is there already"):
        QdrantIndex.build(corpus(20), tmp_path / "two", **arguments)
    with closing(QdrantIndex.build(corpus(20), tmp_path / "two", overwrite=True, **arguments)) as index:
        assert len(index) == 20
    server.store.delete_collection("knowgap")
    with pytest.raises(IndexDamaged, match="the collection 'knowgap' is gone"):
        open_index(tmp_path / "two")
    with closing(QdrantIndex.build(corpus(20), tmp_path / "two", **arguments)) as index:
        assert len(index) == 20
        index.delete([corpus()[0].id])
    server.store.delete_collection("knowgap")
    with pytest.raises(IndexDamaged, match="without what was added and deleted"):
        QdrantIndex.build(corpus(20), tmp_path / "two", **arguments)


def test_a_build_continued_with_other_settings_starts_anew(server, checkpoint, tmp_path):
    def stop(done, total, what):
        if done:
            raise KeyboardInterrupt

    arguments = {"url": server.url, "checkpoint": checkpoint}
    with pytest.raises(KeyboardInterrupt):
        QdrantIndex.build(corpus(), tmp_path / "index", progress=stop, **arguments)
    with closing(QdrantIndex.build(corpus(), tmp_path / "index", shards=2, **arguments)) as index:
        assert len(index) == len(corpus())
    assert [body.get("shard_number") for body in server.bodies("PUT", "/collections/knowgap")] == [None, 2]


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"url": "http://127.0.0.1:9"}, IndexMissing, r"127\.0\.0\.1:9: Qdrant does not answer"),
        ({"shards": 2}, UsageError, "give its URL"),
        ({"url": "http://127.0.0.1:9", "replicas": 0}, ValueOutOfBounds, "replicas = 0"),
    ],
)
def test_refuses_a_build(checkpoint, tmp_path, arguments, error, message):
    with pytest.raises(error, match=message):
        QdrantIndex.build(corpus(), tmp_path / "index", checkpoint=checkpoint, **arguments)


def test_refuses_to_open(index):
    with pytest.raises(IndexFolderError, match="the store is open elsewhere"):
        open_index(index.path, engine="qdrant")
    with pytest.raises(UsageError, match="engine qdrant, not bm25"):
        open_index(index.path, engine="bm25")
    with pytest.raises(UsageError, match="inside the folder"):
        QdrantIndex.open(index.path, url="http://127.0.0.1:9")


def test_a_store_runs_nothing(index):
    """A stranger's store is not opened unasked; one that is named holds points, or is refused before it runs."""
    index.close()
    with pytest.raises(IndexForeign, match="read with pickle"):
        open_index(index.path)
    marker = index.path / "ran"

    class Runs:
        def __reduce__(self):
            return Path.touch, (marker,)

    [file] = index.path.rglob("*.sqlite")
    with closing(sqlite3.connect(file)) as database, database:
        database.execute("INSERT INTO points VALUES ('x', ?)", (pickle.dumps(Runs()),))
    with pytest.raises(IndexDamaged, match="it would run pathlib"):
        open_index(index.path, engine="qdrant")
    assert not marker.exists()


def test_the_key_goes_only_to_a_server_that_the_user_named(server, checkpoint, tmp_path, monkeypatch):
    def keys():
        sent = set(server.keys)
        server.keys.clear()
        return sent

    monkeypatch.setenv("QDRANT_API_KEY", "secret")
    QdrantIndex.build(corpus(5), tmp_path / "index", url=server.url, checkpoint=checkpoint).close()
    assert keys() == {"secret"}
    open_index(tmp_path / "index").close()
    assert keys() == {None}
    open_index(tmp_path / "index", url=server.url).close()
    assert keys() == {"secret"}
    with pytest.raises(UsageError, match="name the server that it is for"):
        open_index(tmp_path / "index", api_key="secret")
    monkeypatch.setenv("QDRANT_URL", server.url)
    open_index(tmp_path / "index").close()
    assert keys() == {"secret"}
    with pytest.raises(UsageError, match="plain HTTP"):
        QdrantIndex.build(corpus(5), tmp_path / "far", url="http://192.0.2.1:6333", checkpoint=checkpoint)
    with pytest.raises(UsageError, match="leave out user name and password"):
        QdrantIndex.build(corpus(5), tmp_path / "far", url="https://me:pass@192.0.2.1", checkpoint=checkpoint)
    assert not (tmp_path / ".far.building").exists()
