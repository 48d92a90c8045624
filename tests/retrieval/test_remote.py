"""An index behind `knowgap serve` as a retriever."""

from contextlib import ExitStack, closing

import httpx
import pytest

from knowgap.errors import IndexFolderError
from knowgap.lms import make_lm
from knowgap.programs.baselines.rag import RAG
from knowgap.retrieval import BM25Index, Passage, RemoteRetriever
from knowgap.service import Server
from tests.retrieval.conformance import QUERIES, RetrieverConformance, corpus
from tests.retrieval.http_server import serve


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


def test_remote_equals_local():
    index = BM25Index.from_passages(corpus())
    digests = {"digest": index.manifest.digest, "corpus_digest": index.manifest.corpus_digest}
    with serving(index, key="sesame") as server:
        described = httpx.get(f"{server.url}/healthz").json()
        assert described == {"status": "ok", "program": "knowgap/rag", "index": {"engine": "bm25", **digests}}
        with closing(RemoteRetriever(server.url, key="sesame")) as remote:
            assert remote.search(QUERIES, 7) == index.search(QUERIES, 7)
            assert {"digest": remote.digest, "corpus_digest": remote.corpus_digest} == digests
            assert remote.search([f"{QUERIES[0]}\ud800"], 2) == index.search([f"{QUERIES[0]}?"], 2)
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
def test_answers_of_servers(answer, expected):
    def respond(path, body):
        return 200 if path == "/api/search" else 404, {}, answer

    with serve(respond) as url, closing(RemoteRetriever(f"{url}/api/search")) as remote:
        if isinstance(expected, Passage):
            assert remote.search(["a"], 1)[0][0].passage == expected
        else:
            with pytest.raises(IndexFolderError, match=expected):
                remote.search(["a"], 1)
