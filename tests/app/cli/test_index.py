"""Indexes from the command line: each engine built and searched; a store, servers; one line for what is wrong."""

from __future__ import annotations

import json
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

from knowgap.retrieval import IndexServer, Passage, open_index
from tests.app.cli.test_cli import DOCUMENTS, QUESTIONS, refusal, run, write_lines
from tests.retrieval.tiny import write_colbert

needs_qdrant = pytest.mark.skipif(
    find_spec("qdrant_client") is None,
    reason="Qdrant is an extra: pip install 'knowgap[qdrant]'",
)


@pytest.fixture
def desk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with documents and questions."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("KNOWGAP_HOME", str(tmp_path / "home"))
    write_lines(tmp_path / "docs.jsonl", DOCUMENTS)
    write_lines(tmp_path / "questions.jsonl", QUESTIONS)
    return tmp_path


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory: pytest.TempPathFactory) -> str:
    texts = [str(Passage(**document)) for document in DOCUMENTS]
    return str(write_colbert(tmp_path_factory.mktemp("tiny") / "colbert", texts))


def build(engine: str, *more: str) -> int:
    return run("index", "--corpus", "docs.jsonl", "--engine", engine, "--index", "idx", *more)


def found(capsys: pytest.CaptureFixture[str], query: str, place: str = "idx") -> list[str]:
    capsys.readouterr()
    assert run("search", query, "--index", place, "-k", "2", "--json") == 0
    return [hit["id"] for hit in json.loads(capsys.readouterr().out)["hits"]]


@pytest.mark.parametrize(
    ("engine", "step"),
    [
        ("bm25", "6/6 reading words"),
        ("dense", "6/6 encoding passages"),
        pytest.param("qdrant", "6/6 encoding passages", marks=needs_qdrant),
    ],
)
def test_builds_with_progress_and_searches(desk: Path, capsys: pytest.CaptureFixture[str], engine: str, step: str):
    assert build(engine) == 0
    captured = capsys.readouterr()
    assert f"6 passages indexed in idx ({engine})" in captured.out
    assert step in captured.err
    assert found(capsys, "Orle Bridge")[0] == "orle"


@needs_qdrant
def test_asks_and_scores_over_a_qdrant_store(desk: Path, checkpoint: str, capsys: pytest.CaptureFixture[str]):
    assert build("qdrant", "--checkpoint", checkpoint) == 0
    assert run("ask", "Who designed the Orle Bridge?", "--program", "rag", "--index", "idx") == 0
    assert run("doctor", "--index", "idx") == 0
    arguments = ["--program", "rag", "--data", "questions.jsonl", "--whole", "--index", "idx"]
    capsys.readouterr()
    assert run("eval", *arguments, "--json") == 0
    assert json.loads(capsys.readouterr().out)["failed"] == 0


@needs_qdrant
def test_builds_on_a_qdrant_server(desk: Path, checkpoint: str, capsys: pytest.CaptureFixture[str]):
    from tests.retrieval.qdrant.qdrant_server import QdrantServer

    server = QdrantServer()
    try:
        layout = ["--qdrant-url", server.url, "--collection", "docs", "--shards", "4", "--replicas", "2"]
        assert build("qdrant", "--checkpoint", checkpoint, *layout) == 0
        [made] = server.bodies("PUT", "/collections/docs")
        assert (made["shard_number"], made["replication_factor"]) == (4, 2)
        assert not list((desk / "idx").glob("passages.*"))
        assert len(set(found(capsys, "Orle Bridge"))) == 2
        message = refusal(capsys, "index", "--corpus", "docs.jsonl", "--engine", "qdrant", "--index", "again", *layout)
        assert "'docs' is there already" in message
    finally:
        server.close()


def test_another_index_is_replaced_when_that_is_said(desk: Path, capsys: pytest.CaptureFixture[str]):
    assert build("bm25") == 0
    write_lines(desk / "docs.jsonl", DOCUMENTS[:3])
    arguments = ["index", "--corpus", "docs.jsonl", "--engine", "bm25", "--index", "idx"]
    assert "another index stands there" in refusal(capsys, *arguments)
    assert run(*arguments, "--overwrite") == 0
    assert len(open_index("idx")) == 3


def test_searches_what_is_served(desk: Path, capsys: pytest.CaptureFixture[str]):
    assert build("bm25") == 0
    with IndexServer(open_index("idx"), port=0) as server:
        assert found(capsys, "Orle Bridge", server.url)[0] == "orle"
        capsys.readouterr()
        assert run("ask", "Who designed the Orle Bridge?", "--program", "rag", "--index", server.url, "--json") == 0
        assert json.loads(capsys.readouterr().out)["answer"] == "Ada Venn"
        arguments = ["--program", "rag", "--data", "questions.jsonl", "--whole", "--index", server.url]
        assert run("eval", *arguments, "--json") == 0
        assert json.loads(capsys.readouterr().out)["failed"] == 0


def test_sizes_are_estimated_from_an_index(desk: Path, checkpoint: str, capsys: pytest.CaptureFixture[str]):
    assert build("colbert", "--checkpoint", checkpoint) == 0
    capsys.readouterr()
    assert run("size", "5000000", "21000000", "--index", "idx", "--json") == 0
    printed = json.loads(capsys.readouterr().out)
    assert printed["measured"]["passages"] == 6
    assert {row["passages"] for row in printed["estimates"]} == {5_000_000, 21_000_000}
    assert run("size", "5000000", "--index", "idx") == 0
    table = capsys.readouterr().out
    assert "average of 6 passages" in table
    assert "GB" in table


def test_refuses_qdrant_where_it_is_not_installed(
    desk: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    monkeypatch.setitem(sys.modules, "qdrant_client", None)
    message = refusal(capsys, "index", "--corpus", "docs.jsonl", "--engine", "qdrant", "--index", "idx")
    assert "pip install 'knowgap[qdrant]'" in message
    assert not (desk / "idx").exists()


@needs_qdrant
def test_refuses_a_qdrant_server_that_does_not_answer(desk: Path, checkpoint: str, capsys: pytest.CaptureFixture[str]):
    arguments = ["--engine", "qdrant", "--checkpoint", checkpoint, "--qdrant-url", "http://127.0.0.1:9"]
    message = refusal(capsys, "index", "--corpus", "docs.jsonl", "--index", "idx", *arguments)
    assert "127.0.0.1:9: Qdrant does not answer" in message


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        (["--engine", "altavista"], "unknown engine 'altavista': known are bm25, colbert, dense, hybrid, qdrant"),
        (["--engine", "bm25", "--qdrant-url", "http://127.0.0.1:9"], "--qdrant-url: goes with --engine qdrant"),
        (["--engine", "dense", "--shards", "2"], "--shards: goes with --engine qdrant"),
        (["--engine", "bm25", "--checkpoint", "some/model"], "bm25 takes none"),
        pytest.param(["--engine", "qdrant", "--shards", "2"], "give its URL", marks=needs_qdrant),
    ],
)
def test_refuses_options_that_do_not_go_together(
    desk: Path, capsys: pytest.CaptureFixture[str], options: list[str], reason: str
):
    assert reason in refusal(capsys, "index", "--corpus", "docs.jsonl", "--index", "idx", *options)
    assert not (desk / "idx").exists()


def test_refuses_a_place_where_nothing_is_served(desk: Path, capsys: pytest.CaptureFixture[str]):
    assert "no index server answers" in refusal(capsys, "search", "Orle", "--index", "http://127.0.0.1:9")


def test_searches_as_thoroughly_as_told(desk: Path, checkpoint: str, capsys: pytest.CaptureFixture[str]):
    assert build("colbert", "--checkpoint", checkpoint) == 0
    capsys.readouterr()
    search = ["search", "Orle Bridge", "--index", "idx", "--json"]
    assert run(*search, "--quality", "exact") == 0
    assert len(json.loads(capsys.readouterr().out)["hits"]) == 5
    assert "unknown quality 'best'" in refusal(capsys, *search, "--quality", "best")
    asked = ["ask", "Who designed the Orle Bridge?", "--program", "rag", "--index", "idx", "--quality", "exact"]
    assert run(*asked) == 0


@pytest.mark.parametrize(
    "command",
    [
        ["search", "Orle Bridge"],
        ["ask", "Who designed the Orle Bridge?", "--program", "rag"],
        ["eval", "--program", "rag", "--data", "questions.jsonl", "--whole"],
        ["compare", "--programs", "rag", "--data", "questions.jsonl", "--whole"],
        ["calibrate", "--data", "questions.jsonl"],
        ["tune", "--program", "rag", "--data", "questions.jsonl"],
        ["serve-index"],
    ],
)
def test_a_quality_where_there_is_one_way_of_searching(
    desk: Path, capsys: pytest.CaptureFixture[str], command: list[str]
):
    assert build("bm25") == 0
    told = refusal(capsys, *command, "--index", "idx", "--quality", "fast")
    assert "idx: quality 'fast' goes with a ColBERT index" in told


def test_a_quality_is_for_whoever_opens_the_index(desk: Path, capsys: pytest.CaptureFixture[str]):
    told = refusal(capsys, "search", "Orle", "--index", "http://127.0.0.1:9", "--quality", "fast")
    assert "--quality fast: goes with `knowgap serve-index`" in told
