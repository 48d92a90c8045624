import hashlib
import shutil
from contextlib import closing

import pytest

from knowgap.errors import IndexDamaged, IndexFolderError, IndexMissing, UsageError, ValueOutOfBounds
from knowgap.retrieval import ColBERTIndex, open_index
from knowgap.retrieval.qdrant import QdrantIndex
from tests.retrieval.conformance import NEW, QUERIES, IndexConformance, UpdateConformance, corpus
from tests.retrieval.tiny import write_colbert

pytest.importorskip("qdrant_client", reason="Qdrant is an extra: pip install 'knowgap[qdrant]'")

from tests.retrieval.qdrant_server import QdrantServer


@pytest.fixture
def server(monkeypatch):
    with closing(QdrantServer()) as server:
        monkeypatch.setenv("QDRANT_URL", server.url)
        yield server


@pytest.fixture
def index(server, tmp_path, checkpoint):
    with closing(QdrantIndex.build(corpus(), tmp_path / "index", url=server.url, checkpoint=checkpoint)) as index:
        yield index


class TestQdrantIndex(IndexConformance, UpdateConformance):
    index_class = QdrantIndex

    @pytest.fixture(scope="class", autouse=True)
    @classmethod
    def with_server(cls, checkpoint):
        with closing(QdrantServer()) as server, pytest.MonkeyPatch.context() as environment:
            environment.setenv("QDRANT_URL", server.url)
            cls.options = {"url": server.url, "checkpoint": checkpoint}
            yield

    @classmethod
    def make(cls, passages, folder, **options):
        collection = hashlib.sha256(str(folder).encode()).hexdigest()
        return QdrantIndex.build(passages, folder, collection=collection, **cls.options, **options)

    def test_building_again(self, retriever, passages, tmp_path):
        built = self.make(passages, tmp_path / "index")
        before = (tmp_path / "index" / "manifest.json").stat().st_mtime_ns
        assert self.make(passages, tmp_path / "index").manifest.digest == built.manifest.digest
        assert (tmp_path / "index" / "manifest.json").stat().st_mtime_ns == before

    def test_a_wreck_is_replaced_by_building_again(self, passages, tmp_path):
        index = self.make(passages, tmp_path / "index")
        index.client.delete_collection(index.manifest.settings["collection"])
        with pytest.raises(IndexDamaged, match=r"the collection .* no longer exists"):
            open_index(tmp_path / "index")
        assert len(self.make(passages, tmp_path / "index")) == len(passages)


def test_scores_as_the_colbert_index_does(index, checkpoint, tmp_path):
    colbert = ColBERTIndex.build(corpus(), tmp_path / "colbert", checkpoint=checkpoint)
    for one, other in zip(index.search(QUERIES, 10), colbert.search(QUERIES, 10), strict=True):
        assert [hit.score for hit in one] == pytest.approx([hit.score for hit in other], abs=1e-2)


@pytest.mark.parametrize(
    ("seed", "options", "steps"),
    [(1, {}, [64, 128, 150]), (2, {}, [0, 64, 128, 150]), (1, {"shards": 2}, [0, 64, 128, 150])],
)
def test_interrupted_build_continues_unless_checkpoint_or_settings_have_changed(server, tmp_path, seed, options, steps):
    def stop(done, total, what):
        if done == 64:
            raise KeyboardInterrupt

    texts = [*map(str, corpus(150)), *QUERIES]
    arguments = {"path": tmp_path / "index", "url": server.url, "checkpoint": write_colbert(tmp_path / "tiny", texts)}
    with pytest.raises(KeyboardInterrupt):
        QdrantIndex.build(corpus(150), progress=stop, **arguments)
    write_colbert(tmp_path / "tiny", texts, seed=seed)
    seen = []
    arguments |= {"progress": lambda done, total, what: seen.append(done), **options}
    with closing(QdrantIndex.build(corpus(150), **arguments)) as built:
        assert seen == steps
        assert sorted(map(str, built)) == sorted(map(str, corpus(150)))
    assert server.bodies("PUT", "/collections/knowgap")[-1].get("shard_number") == options.get("shards")


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


def test_a_collection_that_is_there_is_not_replaced_unasked(server, checkpoint, tmp_path):
    arguments = {"url": server.url, "checkpoint": checkpoint}
    QdrantIndex.build(corpus(), tmp_path / "one", **arguments).close()
    with pytest.raises(IndexFolderError, match="'knowgap' already exists"):
        QdrantIndex.build(corpus(20), tmp_path / "two", **arguments)
    with closing(QdrantIndex.build(corpus(20), tmp_path / "two", overwrite=True, **arguments)) as index:
        assert len(index) == 20
        index.delete([corpus()[0].id])
    server.store.delete_collection("knowgap")
    with pytest.raises(UsageError, match="another index is already there"):
        QdrantIndex.build(corpus(20), tmp_path / "two", **arguments)


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"url": "http://127.0.0.1:9"}, IndexMissing, r"127\.0\.0\.1:9: Qdrant does not answer"),
        ({}, UsageError, "give its URL"),
        ({"url": "http://127.0.0.1:9", "replicas": 0}, ValueOutOfBounds, "replicas = 0"),
    ],
)
def test_refuses_a_build(checkpoint, tmp_path, arguments, error, message):
    with pytest.raises(error, match=message):
        QdrantIndex.build(corpus(), tmp_path / "index", checkpoint=checkpoint, **arguments)


@pytest.mark.filterwarnings("ignore:Batch upload failed")
@pytest.mark.parametrize(
    "work",
    [
        len,
        list,
        lambda index: index.search(QUERIES[:1], 1),
        lambda index: index.missing_ids(["1"]),
        lambda index: index.add(NEW),
        lambda index: index.add(NEW, replace=True),
        lambda index: index.delete(["1"]),
    ],
)
def test_a_server_that_has_gone_is_named(server, checkpoint, tmp_path, work):
    with closing(QdrantIndex.build(corpus(5), tmp_path / "index", url=server.url, checkpoint=checkpoint)) as index:
        server.close()
        with pytest.raises(IndexMissing, match=rf"{server.url}: Qdrant does not answer"):
            work(index)


def test_only_a_server_that_the_user_named_is_asked(server, checkpoint, tmp_path, monkeypatch):
    def keys():
        sent = set(server.keys)
        server.keys.clear()
        return sent

    monkeypatch.setenv("QDRANT_API_KEY", "secret")
    QdrantIndex.build(corpus(5), tmp_path / "index", url=server.url, checkpoint=checkpoint).close()
    assert keys() == {"secret"}
    for elsewhere in ("", "https://qdrant.example:6333", server.url.replace("127.0.0.1", "127.0.0.2")):
        monkeypatch.setenv("QDRANT_URL", elsewhere)
        with pytest.raises(UsageError, match=r"index names the Qdrant server http://127.0.0.1.*QDRANT_URL=http"):
            open_index(tmp_path / "index")
        with pytest.raises(UsageError, match="names the Qdrant server"):
            open_index(tmp_path / "index", api_key="secret")
    assert keys() == set()
    shutil.copytree(tmp_path / "index", tmp_path / "copy")
    open_index(tmp_path / "copy", url=server.url).close()
    assert keys() == {"secret"}
    monkeypatch.setenv("QDRANT_URL", server.url)
    open_index(tmp_path / "index").close()
    assert keys() == {"secret"}
    with pytest.raises(UsageError, match="plain HTTP"):
        QdrantIndex.build(corpus(5), tmp_path / "far", url="http://192.0.2.1:6333", checkpoint=checkpoint)
    with pytest.raises(UsageError, match="leave out user name and password"):
        QdrantIndex.build(corpus(5), tmp_path / "far", url="https://me:pass@192.0.2.1", checkpoint=checkpoint)
    assert not (tmp_path / ".far.building").exists()
