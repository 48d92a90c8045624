import json
import signal
import socket
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from http.server import BaseHTTPRequestHandler, HTTPServer
from importlib import import_module

import dspy
import httpx
import pytest

from knowgap.errors import IndexFolderError, IndexMissing, MissingDependency, UsageError
from knowgap.retrieval import BM25Index, IndexServer, Passage, RemoteRetriever
from tests.retrieval.conformance import QUERIES, RetrieverConformance, corpus

SECONDS = 60  # a bound for waiting; nothing here takes that long


@pytest.fixture(scope="module")
def index():
    return BM25Index.from_passages(corpus())


@pytest.fixture(scope="module")
def server(index):
    with IndexServer(index, port=0) as server:
        yield server


class TestRemoteInBatches(RetrieverConformance):
    batch = True

    @pytest.fixture(scope="class", autouse=True)
    @classmethod
    def stop_afterwards(cls):
        with ExitStack() as cls.running:
            yield

    @classmethod
    def make(cls, passages, folder):
        server = cls.running.enter_context(IndexServer(BM25Index.from_passages(passages), port=0))
        return cls.running.enter_context(RemoteRetriever(server.url, batch=cls.batch))


class TestRemoteOneByOne(TestRemoteInBatches):
    batch = False


def test_remote_equals_local(server, index, monkeypatch):
    digests = {"digest": index.manifest.digest, "corpus_digest": index.manifest.corpus_digest}
    assert httpx.get(f"{server.url}/health").json() == {"engine": "bm25", **digests, "quality": None}
    with RemoteRetriever(server.url) as remote:
        assert remote.search(QUERIES, 7) == index.search(QUERIES, 7)
        assert {"digest": remote.digest, "corpus_digest": remote.corpus_digest} == digests
        assert remote.quality is None
        monkeypatch.setattr(index, "quality", "fast", raising=False)
        assert remote.quality == "fast"
        assert remote.search([f"{QUERIES[0]}\ud800"], 2) == index.search([f"{QUERIES[0]}?"], 2)


@pytest.mark.parametrize("post", [False, True])
def test_dspy_is_a_client(server, index, post):
    client = dspy.ColBERTv2(url=server.url, post_requests=post)
    (expected,) = index.search([QUERIES[1]], 4)
    records = client(QUERIES[1], k=4)
    assert [record.pid for record in records] == [hit.passage.id for hit in expected]
    assert records[0].long_text == f"{expected[0].passage.title} | {expected[0].passage.text}"
    with dspy.context(rm=client):
        prediction = dspy.Retrieve(k=3)(QUERIES[1])
    assert prediction.passages == [record.long_text for record in records[:3]]


@pytest.mark.parametrize(
    "asked",
    [
        "",
        "?k=3",
        "?query=a&k=0",
        "?query=a&k=1001",
        "?query=a&k=x",
        "?query=a&colour=red",
        "?query=%ED%A0%80",
        "?query=%FF",
        f"?query={'a' * 32_769}",
        b"",
        b"{",
        b"[]",
        b'{"queries": "one"}',
        b'{"queries": [1]}',
        b'{"query": null}',
        b'{"query": "a", "queries": ["a"]}',
        b'{"query": "a", "k": NaN}',
        b'{"query": "a", "k": Infinity}',
        b'{"query": "a", "k": 2.5}',
        b'{"query": "\\ud800"}',
        b'{"query": "\xff"}',
        b'{"query": ' + b"[" * 100_000,
        json.dumps({"queries": ["a"] * 257}).encode(),
        json.dumps({"queries": ["a" * 32_769]}).encode(),
    ],
    ids=lambda asked: repr(asked[:30]),
)
def test_refuses_a_bad_request(server, asked):
    bad = httpx.get(f"{server.url}/{asked}") if isinstance(asked, str) else httpx.post(server.url, content=asked)
    assert (bad.status_code, bad.json()["error"]) == (400, True)
    assert bad.json()["message"]


def test_says_what_is_wrong_with_a_request(server):
    assert "k: " in httpx.get(f"{server.url}/?query=a&k=0").json()["message"]
    assert "either a query, or a list" in httpx.post(server.url, json={"k": 3}).json()["message"]
    assert httpx.post(server.url, json={"queries": [], "k": 3}).json() == {"results": []}
    too_large = (b" " * (2 << 20) for _ in range(3))
    assert httpx.post(server.url, content=too_large).status_code == 413


class _Slow:
    """A retriever that waits until it is told to go on."""

    def __init__(self):
        self.begun, self.go_on, self.queries = threading.Event(), threading.Event(), []

    def search(self, queries, k):
        self.queries += queries
        self.begun.set()
        assert self.go_on.wait(SECONDS)
        return [[] for _ in queries]


def test_stopping_answers_what_has_begun():
    slow = _Slow()
    server = IndexServer(slow, port=0, grace=SECONDS).start()
    with RemoteRetriever(server.url) as remote, ThreadPoolExecutor(2) as pool:
        answer = pool.submit(remote.search, ["a question"], 3)
        assert slow.begun.wait(SECONDS)
        stopped = pool.submit(server.stop)
        assert not answer.done()
        slow.go_on.set()
        assert answer.result(SECONDS) == [[]]
        stopped.result(SECONDS)
        with pytest.raises(IndexMissing, match="no index server answers"):
            remote.search(["another"], 3)


def test_a_search_over_the_deadline_is_answered_and_the_server_lives():
    slow = _Slow()
    with IndexServer(slow, port=0, threads=1, deadline=0.2) as server, RemoteRetriever(server.url) as remote:
        assert (remote.digest, remote.corpus_digest, remote.quality) == (None, None, None)
        for query in ("begun", "waiting"):
            with pytest.raises(IndexFolderError, match=r"no answer within 0\.2 s"):
                remote.search([query], 3)
        slow.go_on.set()
        assert httpx.get(f"{server.url}/health").status_code == 200
    assert slow.queries == ["begun"]  # the other one waited for the only thread


def test_a_request_whose_client_has_gone_is_not_searched():
    slow = _Slow()
    server = IndexServer(slow, port=0, threads=1)
    with server, RemoteRetriever(server.url) as remote, ThreadPoolExecutor(2) as pool:
        first = pool.submit(remote.search, ["first"], 3)
        assert slow.begun.wait(SECONDS)
        with socket.create_connection(server.url.removeprefix("http://").split(":")) as client:
            client.sendall(b"GET /?query=gone HTTP/1.1\r\nHost: test\r\n\r\n")
            client.shutdown(socket.SHUT_WR)
            client.recv(1)  # returns when the server has closed the connection
        assert httpx.get(f"{server.url}/health").status_code == 200
        last = pool.submit(remote.search, ["last"], 3)
        slow.go_on.set()
        assert (first.result(SECONDS), last.result(SECONDS)) == ([[]], [[]])
    assert slow.queries == ["first", "last"]


@pytest.mark.parametrize(
    "sent", [b"", b"GET / HTTP/1.1\r\nHost: test\r\n", b"GET /health HTTP/1.1\r\nHost: test\r\n\r\nGET"]
)
def test_a_connection_that_sends_no_head_is_closed(index, monkeypatch, sent):
    """Enough of them would otherwise keep everybody else out for ever."""
    monkeypatch.setattr("knowgap.retrieval.http.listening._HEAD_TIMEOUT", 0.2)
    with IndexServer(index, port=0) as server:
        with socket.create_connection(server.url.removeprefix("http://").split(":"), timeout=SECONDS) as client:
            client.sendall(sent)
            while client.recv(1 << 16):
                pass
        assert httpx.get(f"{server.url}/health").status_code == 200


def test_only_searches_take_threads(index):
    with IndexServer(index, port=0, threads=2) as server, httpx.Client(base_url=server.url) as client:
        before = threading.active_count()
        with ThreadPoolExecutor(8) as pool:
            refused = list(pool.map(lambda n: client.get("/?k=0").status_code, range(40)))
        assert refused == [400] * 40
        assert client.get("/health").status_code == 200
        assert threading.active_count() == before


_HANGING = """
import sys, threading
from knowgap.retrieval import IndexServer

class Hanging:
    def search(self, queries, k):
        print("begun", flush=True)
        threading.Event().wait()

server = IndexServer(Hanging(), port=0)
print(server.url, flush=True)
server.serve_forever()
"""


@pytest.mark.skipif(sys.platform == "win32", reason="signals of POSIX")
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_it_though_a_search_hangs(number):
    with subprocess.Popen(
        [sys.executable, "-c", _HANGING], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    ) as process:
        url = process.stdout.readline().decode().strip()
        with ThreadPoolExecutor(1) as pool:
            answer = pool.submit(httpx.get, f"{url}/?query=a", timeout=SECONDS)
            assert process.stdout.readline() == b"begun\n"
            process.send_signal(number)
            assert process.wait(SECONDS) in (-number, 0, 1)  # uvicorn raises the signal again, or has ended before
            assert answer.exception(SECONDS) is not None or answer.result().status_code >= 500


def test_a_failing_search_is_reported_and_the_server_lives(caplog):
    class Broken:
        def search(self, queries, k):
            raise RuntimeError("the disk is gone")

    with IndexServer(Broken(), port=0) as server, RemoteRetriever(server.url) as remote:
        for _ in range(2):
            with pytest.raises(IndexFolderError, match="the search failed"):
                remote.search(["a"], 1)
    assert "the disk is gone" in caplog.text


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        (b'{"topk": [{"pid": 7, "text": "Aldren | A river.", "score": 2}]}', Passage("7", "Aldren", "A river.")),
        (b'{"topk": [{"pid": 7, "text": "No title.", "score": 2}]}', Passage("7", "", "No title.")),
        (b'{"topk": [{"pid": 7, "text": "a", "score": "high"}]}', "something else than passages"),
        (b'{"topk": 3}', "something else than passages"),
        (b"[]", "refused the search"),
        (b"<html>", "refused the search"),
    ],
)
def test_other_servers(answer, expected):
    class Other(BaseHTTPRequestHandler):
        def do_GET(self):
            self.send_response(200)
            self.end_headers()
            self.wfile.write(answer)

        def log_message(self, format, *args):
            pass

    with HTTPServer(("127.0.0.1", 0), Other) as server, ThreadPoolExecutor(1) as pool:
        pool.submit(server.handle_request)
        with RemoteRetriever(f"http://127.0.0.1:{server.server_address[1]}", batch=False) as remote:
            if isinstance(expected, Passage):
                assert remote.search(["a"], 1)[0][0].passage == expected
            else:
                with pytest.raises(IndexFolderError, match=expected):
                    remote.search(["a"], 1)


def test_a_port_in_use(server, index):
    with pytest.raises(UsageError, match="choose another port"):
        IndexServer(index, port=int(server.url.rsplit(":", 1)[1]))


def test_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "uvicorn", None)
    for name in ("server", "listening"):
        monkeypatch.delitem(sys.modules, f"knowgap.retrieval.http.{name}")
    with pytest.raises(MissingDependency, match=r"uvicorn is not installed; `pip install 'knowgap\[serve\]'`"):
        import_module("knowgap.retrieval.http.server")
