"""Indexes from the command line: of documents, replaced, and served by another machine."""

from knowgap.lms import make_lm
from knowgap.programs.baselines.rag import RAG
from knowgap.retrieval import open_index
from knowgap.service import Server

INDEX = ("index", "--corpus", "docs.jsonl", "--index", "idx")
ASK = ("ask", "Who designed the Orle Bridge?", "--program", "rag")
EVAL = ("eval", "--program", "rag", "--data", "questions.jsonl", "--whole")


def test_a_server_gets_the_key_for_indexes_and_never_the_serving_key(indexed, monkeypatch):
    with Server(RAG(open_index("idx")), make_lm("extractive"), port=0, key="sesame") as server:
        monkeypatch.setenv("KNOWGAP_SERVE_KEY", "sesame")
        indexed.refusal("search", "Isk", "--index", server.url)
        monkeypatch.setenv("KNOWGAP_INDEX_KEY", "sesame")
        assert len(indexed.json("search", "Isk", "--index", server.url, "-k", "1")["hits"]) == 1
        assert indexed.json(*ASK, "--index", server.url)["sources"][0]["title"] == "Orle Bridge"
        assert indexed.json(*EVAL, "--index", server.url)["failed"] == 0


def test_another_index_is_replaced_when_that_is_said(indexed):
    _, remarks = indexed(*INDEX, "--engine", "dense", "--overwrite")
    assert "6/6 encoding passages" in remarks
    assert open_index("idx").manifest.engine == "dense"


def test_a_folder_of_documents_is_indexed_and_what_is_left_out_is_said(knowgap):
    docs = knowgap.folder / "docs"
    docs.mkdir()
    (docs / "bridge.md").write_text("# Orle Bridge\n\nIt was designed by Ada Venn.\n", encoding="utf-8")
    (docs / "broken.pdf").write_bytes(b"junk")
    (docs / "photo.png").write_bytes(b"junk")
    index = ("index", "--corpus", "docs", "--index", "idx")
    _, remarks = knowgap(*index)
    assert "broken.pdf: cannot be read" in remarks
    assert "left out: 1 .png" in remarks
    assert knowgap.json("search", "bridge", "--index", "idx")["hits"][0]["source"]["file"] == "bridge.md"
