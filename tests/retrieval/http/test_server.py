import json
import threading
import urllib.error
import urllib.request
from concurrent.futures import ThreadPoolExecutor

import dspy
import pytest

from knowgap.errors import IndexFolderError, IndexMissing, UsageError
from knowgap.retrieval import BM25Index, IndexServer, Passage, RemoteRetriever
from tests.retrieval.conformance import QUERIES, RetrieverConformance, corpus


@pytest.fixture(scope="module")
def index():
    return BM25Index.from_passages(corpus())


@pytest.fixture(scope="module")
def server(index):
    with IndexServer(index, port=0) as server:
        yield server


class _Remote(RetrieverConformance):
    batch = True
    open: list  # what a class has started

    @pytest.fixture(scope="class", autouse=True)
    @classmethod
    def stop_afterwards(cls):
        cls.open = []
        yield
        for thing in reversed(cls.open):
            getattr(thing, "stop", getattr(thing, "close", None))()

    @classmethod
    def make(cls, passages, folder):
        server = IndexServer(BM25Index.from_passages(passages), port=0).start()
        remote = RemoteRetriever(server.url, batch=cls.batch)
        cls.open += [server, remote]
        return remote


class TestRemoteInBatches(_Remote):
    pass


class TestRemoteOneByOne(_Remote):
    batch = False


def ask(url, body=None, **headers):
    request = urllib.request.Request(url, body, headers)
    try:
        with urllib.request.urlopen(request, timeout=30) as answer:
            return answer.status, json.load(answer)
    except urllib.error.HTTPError as error:
        with error:
            return error.code, json.load(error)


def test_remote_equals_local(server, index):
    with RemoteRetriever(server.url) as remote:
        assert remote.search(QUERIES, 7) == index.search(QUERIES, 7)


@pytest.mark.parametrize("post", [False, True])
def test_dspy_is_a_client(server, index, post):
    client = dspy.ColBERTv2(url=server.url, post_requests=post)
    (expected,) = index.search([QUERIES[1]], 4)
    found = client(QUERIES[1], k=4)
    assert [record.pid for record in found] == [hit.passage.id for hit in expected]
    assert found[0].long_text == f"{expected[0].passage.title} | {expected[0].passage.text}"
    with dspy.context(rm=client):
        prediction = dspy.Retrieve(k=3)(QUERIES[1])
    assert prediction.passages == [record.long_text for record in found[:3]]


def test_under_load(server, index):
    queries = [f"{QUERIES[i % 5]} {i}" for i in range(300)]
    with RemoteRetriever(server.url) as remote, ThreadPoolExecutor(32) as pool:
        found = list(pool.map(lambda query: remote.search([query], 5)[0], queries))
    assert found == index.search(queries, 5)


@pytest.mark.parametrize(
    ("query", "message"),
    [("", "has a query"), ("?k=3", "has a query"), ("?query=a&k=0", "between 1 and"), ("?query=a&k=x", "not a number")],
)
def test_bad_queries(server, query, message):
    status, answer = ask(f"{server.url}/{query}")
    assert (status, answer["error"]) == (400, True)
    assert message in answer["message"]


@pytest.mark.parametrize(
    ("body", "status"),
    [
        (b"{", 400),
        (b"[]", 400),
        (b'{"queries": "one"}', 400),
        (b'{"queries": [1]}', 400),
        (b'{"query": null}', 400),
        (b'{"queries": [], "k": 3}', 200),
    ],
)
def test_bodies(server, body, status):
    assert ask(server.url, body)[0] == status


def test_too_large_a_body(server):
    assert ask(server.url, b"{}", **{"Content-Length": str(1 << 30)})[0] == 413


def test_health(server, index):
    digests = {"digest": index.manifest.digest, "corpus_digest": index.manifest.corpus_digest}
    assert ask(f"{server.url}/health") == (200, {"engine": "bm25", **digests, "quality": None})


def test_a_remote_index_has_the_digests_and_quality_of_the_served_one(server, index, monkeypatch):
    with RemoteRetriever(server.url) as remote:
        assert remote.digest == index.manifest.digest
        assert remote.corpus_digest == index.manifest.corpus_digest
        assert remote.quality is None
        monkeypatch.setattr(index, "quality", "fast", raising=False)
        assert remote.quality == "fast"


def test_a_server_that_does_not_say_has_no_digest():
    with IndexServer(_Slow(), port=0) as server, RemoteRetriever(server.url) as remote:
        assert (remote.digest, remote.corpus_digest) == (None, None)


class _Slow:
    """A retriever that waits until it is told to go on."""

    def __init__(self):
        self.begun, self.go_on = threading.Event(), threading.Event()

    def search(self, queries, k):
        self.begun.set()
        assert self.go_on.wait(30)
        return [[] for _ in queries]


def test_stopping_answers_what_has_begun():
    slow = _Slow()
    server = IndexServer(slow, port=0).start()
    with RemoteRetriever(server.url) as remote, ThreadPoolExecutor(2) as pool:
        answer = pool.submit(remote.search, ["a question"], 3)
        assert slow.begun.wait(30)
        stopped = pool.submit(server.stop)
        assert not answer.done()
        slow.go_on.set()
        assert answer.result(30) == [[]]
        stopped.result(30)
        with pytest.raises(IndexMissing, match="no index server answers"):
            remote.search(["another"], 3)


class _Broken:
    def search(self, queries, k):
        raise RuntimeError("the disk is gone")


def test_a_failing_search_is_reported_and_the_server_lives(caplog):
    with IndexServer(_Broken(), port=0) as server, RemoteRetriever(server.url) as remote:
        for _ in range(2):
            with pytest.raises(IndexFolderError, match="the search failed"):
                remote.search(["a"], 1)
    assert "the disk is gone" in caplog.text


def test_a_server_of_something_else():
    class Other:
        def search(self, queries, k):
            return [[_Odd()] for _ in queries]

    class _Odd:
        passage, score, rank = Passage("a", "", ""), "high", 1

    expected = pytest.raises(IndexFolderError, match="something else than passages")
    with IndexServer(Other(), port=0) as server, RemoteRetriever(server.url) as remote, expected:
        remote.search(["a"], 1)


def test_a_port_in_use(server, index):
    with pytest.raises(UsageError, match="choose another port"):
        IndexServer(index, port=int(server.url.rsplit(":", 1)[1]))


def test_hosted_servers_put_the_title_before_the_text():
    from knowgap.retrieval.http.client import _passage

    assert _passage({"pid": 7, "text": "Aldren | A river."}) == Passage("7", "Aldren", "A river.")
    assert _passage({"pid": 7, "text": "No title."}) == Passage("7", "", "No title.")
