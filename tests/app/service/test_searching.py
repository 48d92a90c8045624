"""Searches of the service: the protocol of dspy.ColBERTv2, what is refused, and searches that hang."""

import asyncio
import contextlib
import functools
import json
import signal
import socket
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor

import dspy
import httpx
import pytest

from knowgap.errors import IndexFolderError
from knowgap.retrieval import BM25Index, Hit, Passage, RemoteRetriever
from knowgap.service import Server
from knowgap.service.listening import _AcceptFailures
from tests.app.service.conftest import wait_until
from tests.retrieval.conformance import QUERIES, corpus

SECONDS = 60  # a bound for waiting; nothing here takes that long


@pytest.fixture(scope="module")
def index():
    return BM25Index.from_passages(corpus())


@pytest.fixture(scope="module")
def server(index):
    with Server(index=index, port=0) as server:
        yield server


class _Slow:
    """A retriever that waits until it is told to go on."""

    def __init__(self):
        self.begun, self.go_on, self.queries = threading.Event(), threading.Event(), []

    def search(self, queries, k):
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
    with dspy.context(rm=client):
        prediction = dspy.Retrieve(k=3)(QUERIES[1])
    assert prediction.passages == [record.long_text for record in records[:3]]


@pytest.mark.parametrize("asked", [
    "", "?k=3", "?query=a&k=0", "?query=a&k=1001", "?query=a&k=x", "?query=a&colour=red", "?query=%FF",
    f"?query={'a' * 32_769}", b"", b"[]", b'{"queries": "one"}', b'{"query": null}',
    b'{"query": "a", "queries": ["a"]}', b'{"query": "a", "k": NaN}', b'{"query": "a", "k": 2.5}',
    b'{"query": "\\ud800"}', b'{"query": ' + b"[" * 100_000, json.dumps({"queries": ["a"] * 257}).encode(),
], ids=lambda asked: repr(asked[:30]))  # fmt: skip
def test_refuses_a_bad_request(server, asked):
    url, headers = f"{server.url}/search", {"Content-Type": "application/json"}
    bad = httpx.get(url + asked) if isinstance(asked, str) else httpx.post(url, content=asked, headers=headers)
    assert (bad.status_code, bad.json()["error"]["code"]) == (400, 400)
    assert bad.json()["error"]["message"]


def test_says_what_is_wrong(server, caplog):
    class Broken:
        def search(self, queries, k):
            raise RuntimeError("the disk is gone")

    with Server(index=Broken(), port=0) as broken, RemoteRetriever(broken.url) as remote:
        for _ in range(2):
            with pytest.raises(IndexFolderError, match="the request failed"):
                remote.search(["a"], 1)
    assert "the disk is gone" in caplog.text

    def message(response):
        return response.json()["error"]["message"]

    url = f"{server.url}/search"
    assert "k: " in message(httpx.get(f"{url}?query=a&k=0"))
    assert "either query or queries" in message(httpx.post(url, json={"k": 3}))
    assert httpx.post(url, json={"queries": [], "k": 3}).json() == {"results": []}
    too_large = (b" " * (2 << 20) for _ in range(3))
    assert httpx.post(url, content=too_large, headers={"Content-Type": "application/json"}).status_code == 413
    no_program = httpx.post(f"{server.url}/v1/ask", json={"question": "Why?"})
    assert (no_program.status_code, message(no_program)) == (
        404,
        "there is no /v1/ask; this server has /healthz, /metrics, /search",
    )
    assert 'knowgap_searches_total{outcome="answered"}' in httpx.get(f"{server.url}/metrics").text


def test_searches_that_nobody_waits_for_never_begin(monkeypatch):
    monkeypatch.setattr("knowgap.service.searching._AT_ONCE", {False: 1, True: 1})
    late, left = _Slow(), _Slow()
    with Server(index=late, port=0, deadline=0.2) as server, RemoteRetriever(server.url) as remote:
        assert (remote.digest, remote.corpus_digest, remote.quality) == (None, None, None)
        for query in ("begun", "waiting"):
            with pytest.raises(IndexFolderError, match=r"no answer within 0\.2 s"):
                remote.search([query], 3)
        late.go_on.set()
        assert httpx.get(f"{server.url}/healthz").status_code == 200
    assert late.queries == ["begun"]

    server = Server(index=left, port=0)
    with server, RemoteRetriever(server.url) as remote, ThreadPoolExecutor(2) as pool:
        first = pool.submit(remote.search, ["first"], 3)
        assert left.begun.wait(SECONDS)
        with socket.create_connection(server.url.removeprefix("http://").split(":")) as client:
            client.sendall(b"GET /search?query=gone HTTP/1.1\r\nHost: localhost\r\n\r\n")
            client.shutdown(socket.SHUT_WR)
            client.recv(1)  # returns when the server has closed the connection
        assert httpx.get(f"{server.url}/healthz").status_code == 200  # and by now it has noticed
        last = pool.submit(remote.search, ["last"], 3)
        left.go_on.set()
        assert (first.result(SECONDS), last.result(SECONDS)) == ([[]], [[]])
    assert left.queries == ["first", "last"]


@pytest.mark.parametrize("sent", [b"", b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\nGET"])
def test_a_connection_that_sends_no_head_is_closed(index, monkeypatch, sent):
    """Enough of them would otherwise keep everybody else out for ever."""
    monkeypatch.setattr("knowgap.service.listening._HEAD_TIMEOUT", 0.2)
    with Server(index=index, port=0) as server:
        with socket.create_connection(server.url.removeprefix("http://").split(":"), timeout=SECONDS) as client:
            client.sendall(sent)
            while client.recv(1 << 16):
                pass
        assert httpx.get(f"{server.url}/healthz").status_code == 200


def test_a_connection_that_withholds_a_body_is_closed(index, monkeypatch, caplog):
    monkeypatch.setattr("knowgap.service.listening._HEAD_TIMEOUT", 0.1)
    monkeypatch.setattr("knowgap.service.listening._BODY_TIMEOUT", 0.1)
    with Server(index=index, port=0) as server:
        with _withheld(server) as client:
            while client.recv(1 << 16):
                pass
        assert httpx.get(f"{server.url}/healthz").status_code == 200
    assert not caplog.records  # thousands of such connections would fill the log, and keep the server busy


def test_a_request_is_answered_beside_a_burst_of_connections(index, monkeypatch):
    """Those that come at once are not cut off before what they have sent is read."""
    monkeypatch.setattr("knowgap.service.listening._MAX_CONNECTIONS", 256)
    server = Server(index=index, port=0, grace=0.2)
    with contextlib.ExitStack() as opened:
        address = server.url.removeprefix("http://").split(":")
        client = opened.enter_context(socket.create_connection(address, timeout=SECONDS))
        client.sendall(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n")
        for _ in range(200):
            opened.enter_context(_withheld(server))
        with server:
            assert client.recv(12) == b"HTTP/1.1 200"


def test_clients_that_withhold_bodies_do_not_keep_others_out(index, monkeypatch):
    """Of more than half as many connections as there may be, the ones that have waited longest are closed."""
    monkeypatch.setattr("knowgap.service.listening._MAX_CONNECTIONS", 256)
    with Server(index=index, port=0) as server, contextlib.ExitStack() as opened:
        clients = [opened.enter_context(_withheld(server)) for _ in range(300)]
        found = httpx.get(f"{server.url}/search", params={"query": "ferry"})
        assert found.status_code == 200
        with contextlib.suppress(ConnectionResetError):  # instead of the end, where the system had bytes left unread
            assert clients[0].recv(1) == b""
        clients[-1].sendall(b"}")
        assert clients[-1].recv(12) == b"HTTP/1.1 400"


class _Long:
    """A retriever whose answers are more than a system buffers."""

    def search(self, queries, k):
        return [[Hit(Passage("a", "A", "a" * (16 << 20)), 1.0, 1)] for _ in queries]


def _stalled(server):
    """A connection that asks for much and reads none of it."""
    client = socket.socket()
    client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    client.settimeout(SECONDS)
    host, port = server.url.removeprefix("http://").split(":")
    client.connect((host, int(port)))
    client.sendall(b"GET /search?query=a HTTP/1.1\r\nHost: localhost\r\n\r\n")
    return client


def _taken(client):
    """How many bytes come until the connection ends."""
    size = 0
    with contextlib.suppress(ConnectionResetError):
        while part := client.recv(1 << 20):
            size += len(part)
    return size


def test_a_client_that_does_not_take_its_answer_is_cut_off(monkeypatch):
    monkeypatch.setattr("knowgap.service.listening._TAKING_TIMEOUT", 0.2)
    with Server(index=_Long(), port=0) as server, _stalled(server) as client:
        wait_until(lambda: server.server_state.connections and server.server_state.total_requests)
        wait_until(lambda: not server.server_state.connections)
        assert _taken(client) < 16 << 20


def test_clients_that_do_not_take_their_answers_do_not_keep_others_out(monkeypatch):
    monkeypatch.setattr("knowgap.service.listening._MAX_CONNECTIONS", 16)
    with Server(index=_Long(), port=0, grace=0.5) as server, contextlib.ExitStack() as opened:
        for _ in range(24):
            opened.enter_context(_stalled(server))
        for path in ("/healthz", "/search?query=a"):
            assert httpx.get(f"{server.url}{path}", timeout=SECONDS).status_code == 200


def _withheld(server):
    """A connection with a request of which the last byte is missing."""
    client = socket.create_connection(server.url.removeprefix("http://").split(":"), timeout=SECONDS)
    client.sendall(b"POST /search HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n")
    client.sendall(b"Content-Length: 2\r\n\r\n{")
    return client


def test_more_searches_than_may_wait_are_refused(monkeypatch):
    """Those of many queries take no place of a search of one."""
    monkeypatch.setattr("knowgap.service.searching._AT_ONCE", {False: 1, True: 1})
    monkeypatch.setattr("knowgap.service.searching._MAX_SEARCHES", 1)
    slow = _Slow()
    with Server(index=slow, port=0) as server, ThreadPoolExecutor(2) as pool:
        asked = functools.partial(httpx.post, f"{server.url}/search", timeout=SECONDS)
        many = pool.submit(asked, json={"queries": ["many", "more"]})
        assert slow.begun.wait(SECONDS)
        slow.begun.clear()
        first = pool.submit(asked, json={"query": "first"})
        assert slow.begun.wait(SECONDS)
        refused = [asked(json=sent).status_code for sent in ({"query": "second"}, {"queries": ["many", "again"]})]
        slow.go_on.set()
        assert (refused, many.result(SECONDS).status_code, first.result(SECONDS).status_code) == ([429, 429], 200, 200)


def test_connections_that_cannot_be_accepted_are_one_line_a_minute(caplog):
    loop = asyncio.new_event_loop()
    loop.set_exception_handler(_AcceptFailures())
    for _ in range(100):
        failure = {"message": "socket.accept() out of system resource", "exception": OSError("too many open files")}
        loop.call_exception_handler(failure)
    loop.call_exception_handler({"message": "something else"})
    loop.close()
    messages = [record.message for record in caplog.records]
    assert messages == ["new connections cannot be accepted: too many open files", "something else"]


_HANGING = """
import threading
from knowgap.service import Server

class Hanging:
    def search(self, queries, k):
        print("begun", flush=True)
        threading.Event().wait()

server = Server(index=Hanging(), port=0, grace=0.5)
print(server.url, flush=True)
server.serve_forever()
"""


@pytest.mark.skipif(sys.platform == "win32", reason="signals of POSIX")
def test_a_signal_ends_it_though_a_search_hangs():
    with subprocess.Popen(
        [sys.executable, "-c", _HANGING], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    ) as process:
        url = process.stdout.readline().decode().strip()
        with ThreadPoolExecutor(1) as pool:
            answer = pool.submit(httpx.get, f"{url}/search?query=a", timeout=SECONDS)
            assert process.stdout.readline() == b"begun\n"
            process.send_signal(signal.SIGTERM)
            assert process.wait(SECONDS) in (-signal.SIGTERM, 0, 1)  # uvicorn raises the signal again
            assert answer.exception(SECONDS) is not None or answer.result().status_code >= 500
