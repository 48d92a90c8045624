"""Indexes from the command line: each engine built and searched; a store, servers; one line for what is wrong."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest

from knowgap.lms import make_lm
from knowgap.programs.baselines.rag import RAG
from knowgap.retrieval import open_index
from knowgap.service import Server
from tests.app.cli.conftest import DOCUMENTS, write_lines

INDEX = ("index", "--corpus", "docs.jsonl", "--index", "idx")
ASK = ("ask", "Who designed the Orle Bridge?", "--program", "rag")
EVAL = ("eval", "--program", "rag", "--data", "questions.jsonl", "--whole")


def search(knowgap, query: str, place: str = "idx", *options: str) -> list[str]:
    """The ids of the two best hits."""
    return [hit["id"] for hit in knowgap.json("search", query, "--index", place, "-k", "2", *options)["hits"]]


@pytest.mark.parametrize(("engine", "step"), [("bm25", ""), ("dense", "6/6 encoding passages")])
def test_builds_with_progress_and_searches(knowgap, engine: str, step: str):
    printed, remarks = knowgap(*INDEX, "--engine", engine)
    assert f"6 passages indexed in idx ({engine})" in printed
    assert step in remarks
    assert search(knowgap, "Orle Bridge")[0] == "orle"
    assert knowgap.json("search", "zzzz", "--index", "idx")["hits"] == [] or engine == "dense"


@pytest.mark.parametrize("own", [None, "for the index"])
def test_a_server_gets_the_key_for_indexes_and_never_the_serving_key(knowgap, monkeypatch, own: str | None):
    monkeypatch.setenv("KNOWGAP_SERVE_KEY", "for serving")
    monkeypatch.delenv("KNOWGAP_INDEX_KEY", raising=False)
    if own is not None:
        monkeypatch.setenv("KNOWGAP_INDEX_KEY", own)
    received: list[str] = []

    class Stranger(BaseHTTPRequestHandler):
        def do_POST(self):
            received.append(str(self.headers))
            self.send_error(401)

        def log_message(self, format, *args):
            pass

    with HTTPServer(("127.0.0.1", 0), Stranger) as server, ThreadPoolExecutor(1) as pool:
        pool.submit(server.handle_request)
        knowgap.refusal("search", "Orle Bridge", "--index", f"http://127.0.0.1:{server.server_address[1]}")
    assert "for serving" not in received[0]
    assert (f"Bearer {own}" in received[0]) == (own is not None)


def test_another_index_is_replaced_when_that_is_said(indexed):
    assert "another index is already there" in indexed.refusal(*INDEX, "--engine", "dense")
    write_lines(indexed.folder / "others.jsonl", DOCUMENTS[:3])
    others = ("index", "--corpus", "others.jsonl", "--index", "idx")
    assert "another index is already there (corpus " in indexed.refusal(*others)
    indexed(*others, "--engine", "dense", "--overwrite")
    assert len(open_index("idx")) == 3


def test_searches_what_is_served(indexed):
    with Server(RAG(open_index("idx")), make_lm("extractive"), port=0) as server:
        assert search(indexed, "Orle Bridge", server.url)[0] == "orle"
        assert indexed.json(*ASK, "--index", server.url)["sources"][0]["title"] == "Orle Bridge"
        assert indexed.json(*EVAL, "--index", server.url)["failed"] == 0


def test_a_folder_of_documents_is_indexed_and_what_changes_is_said(knowgap):
    docs = knowgap.folder / "docs"
    docs.mkdir()
    (docs / "bridge.md").write_text("# Orle Bridge\n\nIt was designed by Ada Venn.\n", encoding="utf-8")
    (docs / "long.txt").write_text("A sentence of the long story. " * 200, encoding="utf-8")
    (docs / "broken.pdf").write_bytes(b"junk")
    (docs / "photo.png").write_bytes(b"junk")
    index = ("index", "--corpus", "docs", "--index", "idx")
    printed, remarks = knowgap(*index)
    assert "passages indexed in idx (bm25)" in printed
    assert "broken.pdf: cannot be read" in remarks
    assert "left out: 1 .png" in remarks

    answered = knowgap.json("search", "Who designed the bridge?", "--index", "idx", "-k", "1")
    source = answered["hits"][0]["source"]
    assert source["file"] == "bridge.md"
    assert "bridge.md" in knowgap("search", "Who designed the bridge?", "--index", "idx")[0]
    shown, _ = knowgap("ask", "Who designed the Orle Bridge?", "--program", "rag", "--index", "idx")
    assert "[1] Orle Bridge, bridge.md: It was designed by Ada Venn." in shown
    assert "changed files: 0; passages: 0 added, 0 removed" in knowgap(*index)[0]
    (docs / "bridge.md").write_text("# Orle Bridge\n\nIt was designed by Jon Reth.\n", encoding="utf-8")
    printed, _ = knowgap(*index)
    assert "changed files: 1; passages: 1 added, 1 removed in idx" in printed
