"""Indexes that others built or serve: real FAISS files; servers and Pyserini by the exchanges that they document."""

import json
import sys
from contextlib import ExitStack, closing
from types import SimpleNamespace

import faiss
import httpx
import numpy as np
import pytest

from knowgap.errors import IndexFolderError, IndexForeign, ValueOutOfBounds
from knowgap.lms import make_lm
from knowgap.programs.baselines.rag import RAG
from knowgap.retrieval import BM25Index, Passage, RemoteRetriever
from knowgap.retrieval.indexes import as_retriever
from knowgap.retrieval.minilm import sentence_vectors
from knowgap.retrieval.outside import open_outside
from knowgap.retrieval.passage_lines import passage_of
from knowgap.service import Server
from tests.retrieval.conformance import QUERIES, RetrieverConformance, corpus

ROWS = [
    {"id": "tarn", "contents": '"Tarn"\nTarn is a town on the river Isk.'},
    {"id": "moth", "contents": '"Grey moth"\nThe larvae of the moth feed on willow.'},
]
TARN = {"id": "tarn", "title": "Tarn", "text": "Tarn is a town on the river Isk."}


def write_faiss(folder, index=None):
    folder.mkdir()
    (folder / "corpus.jsonl").write_text("".join(json.dumps(row) + "\n" for row in ROWS), encoding="utf-8")
    vectors = np.asarray(sentence_vectors([row["contents"] for row in ROWS]), dtype=np.float32)
    index = index or faiss.IndexFlatIP(vectors.shape[1])
    index.add(vectors[:, : index.d].copy())
    faiss.write_index(index, str(folder / "flat.index"))
    return folder


@pytest.mark.parametrize("measure", [faiss.IndexFlatIP, faiss.IndexFlatL2])
def test_a_folder_of_faiss(tmp_path, measure):
    index = as_retriever(f"faiss:{write_faiss(tmp_path / 'faiss', measure(384))}")
    town, nothing, insect = index.search(["Which town is on the Isk?", " ", "moth larvae"], k=5)
    assert [hit.passage.id for hit in town] == ["tarn", "moth"]
    assert town[0].score > town[1].score
    assert town[0].passage.to_dict() == TARN
    assert nothing == []
    assert insect[0].passage.id == "moth"
    with pytest.raises(ValueOutOfBounds):
        index.search(["x"], 0)


@pytest.mark.parametrize(
    ("name", "content", "problem"),
    [
        ("corpus.jsonl", json.dumps(ROWS[0]) + "\n", r"\(2, 384\) .* \(1, 384\)"),
        ("corpus.jsonl", '{"id": 1}\n' * 2, "its fields are id"),
        ("corpus.jsonl", b'{"id": "caf\xe9"}\n' * 2, "has no passage"),
        ("other.faiss", "", r"found: flat\.index and other.faiss"),
        ("narrow", "", r"\(2, 8\) .* \(2, 384\)"),
    ],
)
def test_folders_of_faiss_that_do_not_fit_are_refused(tmp_path, name, content, problem):
    folder = write_faiss(tmp_path / "faiss", faiss.IndexFlatIP(8) if name == "narrow" else None)
    (folder / name).write_bytes(content if isinstance(content, bytes) else content.encode())
    with pytest.raises(IndexForeign, match=problem):
        open_outside(f"faiss:{folder}").search(["Tarn?"], 1)


@pytest.mark.parametrize("text", ["Tarn is a town.", "null", "1e5", "[1]"])
def test_a_plain_text_stays_as_it_is(text):
    assert passage_of("1", text) == Passage("1", "", text)


def respond(request):
    """What FlashRAG's server and Elasticsearch answer."""
    asked = json.loads(request.content)
    if request.url.path == "/batch_search":
        found = [ROWS[: asked["top_n"]]] * len(asked["query"])
        return httpx.Response(200, json=[found, [[2.5, 1.5][: asked["top_n"]]] * len(found)])
    if request.url.path == "/wiki/_search":
        assert asked["query"]["multi_match"]["query"].startswith(("Tarn?", "query"))
        hits = [{"_id": row["id"], "_score": s, "_source": row} for row, s in zip(ROWS, (2.5, 1.5), strict=True)]
        return httpx.Response(200, json={"hits": {"hits": hits[: asked["size"]]}})
    return httpx.Response(404, json={"detail": "Not Found"})


@pytest.fixture
def serve(monkeypatch):
    """Makes a function answer all requests in place of servers."""
    client = httpx.Client

    def serve(answer):
        transport = httpx.MockTransport(answer)
        monkeypatch.setattr(httpx, "Client", lambda **options: client(transport=transport, **options))

    return serve


@pytest.mark.parametrize("name", ["elasticsearch+http://h/wiki", "opensearch+http://h/wiki", "flashrag+http://h"])
def test_servers_are_named_by_their_protocol(serve, name):
    serve(respond)
    index = open_outside(name)
    both, nothing, again = index.search(["Tarn?", "", "Tarn?"], k=2)
    assert [(hit.passage.id, hit.score, hit.rank) for hit in both] == [("tarn", 2.5, 1), ("moth", 1.5, 2)]
    assert both[0].passage.to_dict() == TARN
    assert (nothing, again) == ([], both)
    assert [len(hits) for hits in index.search([f"query {n}" for n in range(3)], k=1)] == [1] * 3
    index.close()


def test_a_search_that_a_server_refuses_is_told_without_the_password(serve):
    serve(respond)
    with pytest.raises(IndexFolderError, match="Not Found") as refused:
        open_outside("elasticsearch+http://me:secret@h/other").search(["broken"], 1)
    assert "secret" not in str(refused.value)


def test_a_lucene_index_is_searched_through_pyserini(tmp_path, monkeypatch):
    stored = {row["id"]: json.dumps(row) for row in ROWS}

    searcher = SimpleNamespace(
        search=lambda query, k: [SimpleNamespace(docid=id, score=3.0 - n) for n, id in enumerate(stored)][:k],
        doc=lambda id: SimpleNamespace(raw=lambda: stored[id], contents=lambda: None),
    )
    pyserini = SimpleNamespace(LuceneSearcher={str(tmp_path): searcher}.__getitem__)
    monkeypatch.setitem(sys.modules, "pyserini.search.lucene", None)  # not installed
    with pytest.raises(IndexFolderError, match="needs Java and `pip install pyserini`"):
        open_outside(f"lucene:{tmp_path}")
    monkeypatch.setitem(sys.modules, "pyserini.search.lucene", pyserini)
    (hits,) = open_outside(f"lucene:{tmp_path}").search(["Tarn?"], 1)
    assert [(hit.passage.to_dict(), hit.score) for hit in hits] == [(TARN, 3.0)]
    stored["tarn"] = '{"vector": [1]}'
    with pytest.raises(IndexFolderError, match="has no text"):
        open_outside(f"lucene:{tmp_path}").search(["Tarn?"], 1)


def serving(index, **options):
    return Server(RAG(index), make_lm("extractive"), port=0, **options)


class TestRemote(RetrieverConformance):
    @pytest.fixture(scope="class", autouse=True)
    @classmethod
    def stop_afterwards(cls):
        with ExitStack() as cls.running:
            yield

    @classmethod
    def make(cls, passages, folder):
        server = cls.running.enter_context(serving(BM25Index.from_passages(passages)))
        return cls.running.enter_context(closing(RemoteRetriever(server.url)))


def test_remote_equals_local(monkeypatch):
    index = BM25Index.from_passages(corpus())
    with serving(index, key="sesame") as server:
        served = {"engine": "bm25", "digest": index.digest}
        assert httpx.get(f"{server.url}/healthz").json() == {"status": "ok", "program": "knowgap/rag", "index": served}
        monkeypatch.setenv("KNOWGAP_INDEX_KEY", "sesame")
        with closing(RemoteRetriever(server.url)) as remote:
            assert remote.search(QUERIES, 7) == index.search(QUERIES, 7)
            assert remote.digest == index.digest
            assert remote.search([f"{QUERIES[0]}\ud800"], 2) == index.search([f"{QUERIES[0]}?"], 2)
        monkeypatch.delenv("KNOWGAP_INDEX_KEY")
        with closing(RemoteRetriever(server.url)) as remote, pytest.raises(IndexFolderError, match="send the key"):
            remote.search(QUERIES, 7)


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        (b'{"results": [[{"pid": 7, "passage": "No title.", "score": 2}]]}', Passage("7", "", "No title.")),
        (b'{"results": [[{"pid": 7, "passage": "a", "score": "high"}]]}', "something other than passages"),
        (b"[]", "something other than passages"),
        (b"<html>", "something other than passages"),
    ],
)
def test_answers_of_servers(serve, answer, expected):
    serve(lambda request: httpx.Response(200 if request.url.path == "/api/search" else 404, content=answer))
    with closing(RemoteRetriever("http://h/api/search")) as remote:
        if isinstance(expected, Passage):
            assert remote.search(["a"], 1)[0][0].passage == expected
        else:
            with pytest.raises(IndexFolderError, match=expected):
                remote.search(["a"], 1)
