"""Searches of the service: the protocol of dspy.ColBERTv2, what is refused, and searches that hang."""

import json
import socket
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing

import dspy
import httpx
import pytest

from knowgap.programs.baselines.rag import RAG
from knowgap.retrieval import BM25Index, RemoteRetriever
from knowgap.service import searching
from tests.app.service.conftest import SECONDS, serve
from tests.retrieval.conformance import QUERIES, corpus


@pytest.fixture(scope="module")
def index():
    return BM25Index.from_passages(corpus())


@pytest.fixture(scope="module")
def server(index):
    with serve(RAG(index)) as server:
        yield server


class _Slow:
    """A retriever that waits until it is told to go on."""

    def __init__(self):
        self.begun, self.go_on, self.queries = threading.Event(), threading.Event(), []

    def search(self, queries, k):
        if queries == ["ready"]:
            return [[]]
        self.queries += queries
        self.begun.set()
        assert self.go_on.wait(SECONDS)
        return [[] for _ in queries]


@pytest.mark.parametrize("post", [False, True])
def test_dspy_is_a_client(server, index, post):
    client = dspy.ColBERTv2(url=f"{server.url}/search", post_requests=post)
    (expected,) = index.search([QUERIES[1]], 4)
    records = client(QUERIES[1], k=4)
    assert [record.pid for record in records] == [hit.passage.id for hit in expected]
    assert records[0].long_text == f"{expected[0].passage.title} | {expected[0].passage.text}"
    assert httpx.post(f"{server.url}/search", json={"queries": [], "k": 3}).json() == {"results": []}
    with dspy.context(rm=client):
        prediction = dspy.Retrieve(k=3)(QUERIES[1])
    assert prediction.passages == [record.long_text for record in records[:3]]


@pytest.mark.parametrize("asked", [
    "", "?query=a&k=0", "?query=a&k=1001", "?query=a&colour=red", f"?query={'a' * 32_769}", b"", b'{"queries": "one"}',
    b'{"query": "a", "queries": ["a"]}', b'{"query": "a", "k": 2.5}', b'{"query": "\\ud800"}',
    b'{"query": ' + b"[" * 100_000, json.dumps({"queries": ["a"] * 257}).encode(),
], ids=lambda asked: repr(asked[:30]))  # fmt: skip
def test_refuses_a_bad_request(server, asked):
    url, headers = f"{server.url}/search", {"Content-Type": "application/json"}
    bad = httpx.get(url + asked) if isinstance(asked, str) else httpx.post(url, content=asked, headers=headers)
    assert (bad.status_code, bad.json()["error"]["code"]) == (400, 400)
    assert bad.json()["error"]["message"]


def test_searches_that_nobody_waits_for_never_begin(monkeypatch):
    slow = _Slow()
    with (
        ThreadPoolExecutor(1) as one,
        serve(RAG(slow)) as server,
        closing(RemoteRetriever(server.url)) as remote,
        ThreadPoolExecutor(2) as pool,
    ):
        monkeypatch.setattr(searching, "_THREADS", one)
        assert remote.digest is None
        first = pool.submit(remote.search, ["first"], 3)
        assert slow.begun.wait(SECONDS)
        with socket.create_connection(server.url.removeprefix("http://").split(":")) as client:
            client.sendall(b"GET /search?query=gone HTTP/1.1\r\nHost: localhost\r\n\r\n")
            client.shutdown(socket.SHUT_WR)
            client.recv(1)  # returns when the server has closed the connection
        assert httpx.get(f"{server.url}/healthz").status_code == 200  # and by now it has noticed
        last = pool.submit(remote.search, ["last"], 3)
        slow.go_on.set()
        assert (first.result(SECONDS), last.result(SECONDS)) == ([[]], [[]])
    assert slow.queries == ["first", "last"]
