"""Messages that send a newcomer the right way."""

from __future__ import annotations

import errno
import os
import sqlite3
import sys

import pytest
from dspy.utils.exceptions import LMNotConfiguredError

from knowgap.cli.factories import home
from knowgap.compiling.evaluation import runner
from knowgap.lms import make_lm
from knowgap.lms.providers import as_language_model_error
from tests.app.cli.conftest import QUESTIONS, write_lines

ASK = ("ask", "Who designed the Orle Bridge?", "--index", "idx", "--program", "rag")
EVAL = ("eval", "--program", "rag", "--data", "questions.jsonl", "--whole", "--index", "idx")


def test_an_address_in_the_environment_leaves_the_embedded_reader_alone(indexed, monkeypatch):
    monkeypatch.setenv("KNOWGAP_API_BASE", "http://127.0.0.1:9/v1")
    printed, remarks = indexed(*ASK)
    assert "Ada Venn" in printed
    said = "KNOWGAP_API_BASE is set but not used, since no language model is named; name the model of that server"
    assert said in " ".join(remarks.split())
    assert "since extractive answers" in " ".join(indexed(*ASK, "--lm", "extractive")[1].split())


def test_an_address_without_a_model_asks_for_its_name(indexed, monkeypatch):
    monkeypatch.delenv("KNOWGAP_API_BASE", raising=False)
    refusal = indexed.refusal(*ASK, "--api-base", "http://127.0.0.1:9/v1")
    assert "name the model of that server as well, with --lm openai/NAME" in refusal
    assert "runs in this process" in indexed.refusal(*ASK, "--api-base", "http://127.0.0.1:9", "--lm", "extractive")


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (["search", "q", "--index", "http:/127.0.0.1:9"], "two slashes after the colon; write http://127.0.0.1:9"),
        (["search", "q", "--index", "http:///x"], "write http://x"),
        (["search", "q", "--index", "https://"], "is not the address of a server; write it as http://HOST:PORT"),
        ([*ASK, "--lm", "openai/x", "--api-base", "http:/127.0.0.1:9/v1"], "write http://127.0.0.1:9/v1"),
        ([*ASK, "--lm", "openai/x", "--api-base", "127.0.0.1:9"], "write it as http://HOST:PORT"),
        (["index", "--corpus", "docs.jsonl", "--index", "http://127.0.0.1:9"], "http://127.0.0.1:9 is a web address"),
        (["doctor", "--index", "http:/127.0.0.1:9"], "two slashes after the colon; write http://127.0.0.1:9"),
        ([*EVAL, "-o", "https://example.org/out"], "https://example.org/out is a web address"),
        (["serve", "http://127.0.0.1:9/docs"], "http://127.0.0.1:9/docs is a web address"),
        (["serve", ""], "the path is empty: name a file or a folder; . is the current folder"),
        ([*EVAL, "--output-dir", " "], "the path is empty"),
        ([*EVAL, "--data", "https:/example.org/q.jsonl"], "q.jsonl is a web address: name a file or folder"),
    ],
)
def test_addresses_keep_their_slashes(indexed, words, reason):
    assert reason in indexed.refusal(*words)


@pytest.mark.parametrize("engine", ["bm25", "dense", "colbert", "hybrid"])
def test_a_build_that_fails_leaves_no_hidden_folder(knowgap, engine):
    (knowgap.folder / "docs.jsonl").write_text('{"id": "a", "text": "One."}\n{oops\n', encoding="utf-8")
    before = {path.name for path in knowgap.folder.iterdir()}
    assert "docs.jsonl:2" in knowgap.refusal("index", "--corpus", "docs.jsonl", "--engine", engine, "--index", "idx")
    assert {path.name for path in knowgap.folder.iterdir()} - before <= {"home"}


def test_a_database_that_cannot_be_written_is_named_with_the_reason(indexed, monkeypatch):
    """As root, permissions refuse nothing: a folder in the place of the file stands for what cannot be opened."""

    def cannot_open(*_: object, **__: object) -> None:
        raise sqlite3.OperationalError("unable to open database file")

    monkeypatch.setattr("knowgap.retrieval.documents.sources.sqlite3.connect", cannot_open)
    (indexed.folder / ".new.sources").mkdir()
    monkeypatch.setattr("pathlib.Path.unlink", lambda *_, **__: None)
    refusal = indexed.refusal("index", "--corpus", "docs.jsonl", "--engine", "bm25", "--index", "new")
    assert ".new.sources: Is a directory" in refusal
    assert "unable to open" not in refusal


def test_a_study_in_a_folder_that_cannot_be_written_says_so(indexed, monkeypatch):
    can = os.access
    monkeypatch.setattr("os.access", lambda path, mode: can(path, mode) and not str(path).endswith("kept"))
    real = sqlite3.connect

    def connect(path: str, *args: object, **options: object) -> sqlite3.Connection:
        if "kept" in str(path):
            raise sqlite3.OperationalError("unable to open database file")
        return real(path, *args, **options)

    monkeypatch.setattr("sqlite3.dbapi2.connect", connect)
    tune = ("compile", "-p", "rag", "--data", "questions.jsonl", "--index", "idx", "--n-trials", "1")
    refusal = indexed.refusal(*tune, "--limit", "1", "--storage", "kept/s.db")
    assert f"kept: {os.strerror(errno.EACCES)}; name a place that can be written to" in refusal


def test_a_file_in_the_place_of_a_folder_is_said(indexed):
    refusal = indexed.refusal("index", "--corpus", "docs.jsonl", "--index", "docs.jsonl/idx", "--engine", "bm25")
    assert "docs.jsonl: " in refusal
    assert "a file stands where a folder is needed: name another place" in refusal


def test_a_cache_that_cannot_be_made_names_the_variable(indexed, monkeypatch):
    monkeypatch.setenv("KNOWGAP_HOME", str(indexed.folder / "docs.jsonl" / "home"))
    assert "set KNOWGAP_HOME to a folder that can be written to" in indexed.refusal(*ASK)


def test_doctor_fits_80_columns_and_speaks_of_model_keys_and_mcp(indexed, monkeypatch):
    monkeypatch.setenv("SOME_API_KEY", "secret")
    printed, _ = indexed("doctor", "--index", "idx")
    assert printed.count("┏") == 1
    assert max(map(len, printed.splitlines())) <= 80
    rows = {row[0]: row[1] for line in printed.splitlines() if (row := [c.strip() for c in line.split("│")[1:]])}
    assert rows["language model"] == "absent"
    assert rows["mcp"] in ("ok", "absent")
    assert "SOME_API_KEY" in printed
    assert "secret" not in printed
    broken = ("--lm", "openai/x", "--api-base", "http://127.0.0.1:9/v1", "--index", "http://127.0.0.1:9")
    printed = " ".join(indexed("doctor", *broken, code=2)[0].replace("│", " ").split())
    assert "does not answer at http://127.0.0.1:9/v1" in printed
    assert "no index server answers" in printed


def test_recall_and_found_are_means_over_the_same_questions(indexed, monkeypatch):
    """A failed question without gold passages is in neither."""
    write_lines(indexed.folder / "questions.jsonl", [*QUESTIONS[:3], {**QUESTIONS[3], "gold_ids": []}])
    ask = runner.ask_again_if_lost

    def fail_on_the_hall(program, question):
        if "hall" in question:
            raise ValueError("no")
        return ask(program, question)

    monkeypatch.setattr(runner, "ask_again_if_lost", fail_on_the_hall)
    summary = indexed.json(*EVAL, "--metric", "f1", "--metric", "recall@5")
    assert {name: summary["scores"][name]["n"] for name in ("f1", "recall@5", "found")} == {
        "f1": 4,
        "recall@5": 3,
        "found": 3,
    }
    printed, _ = indexed(*EVAL, "--metric", "f1", "--metric", "recall@5")
    words = " ".join(printed.split())
    assert "recall@5 over 3 of 4 questions" in words
    assert "means over the 3 of 4 questions with gold passages" in words


def test_a_missing_key_is_one_short_line(indexed, monkeypatch):
    for name in ("OPENAI_API_KEY", "OPENAI_BASE_URL", "OPENAI_API_BASE", "KNOWGAP_API_BASE"):
        monkeypatch.delenv(name, raising=False)
    refusal = indexed.refusal(*ASK, "--lm", "openai/gpt-4o-mini")
    assert refusal == (
        "error: the language model 'openai/gpt-4o-mini' needs a key: set OPENAI_API_KEY in the environment, or name a "
        "server of your own with --api-base"
    )


def test_of_what_a_provider_lacks_the_first_line_is_said():
    error = LMNotConfiguredError("a resource is required\n\n  To fix:\n    - set X", model="azure/x")
    lm = make_lm("openai/x", api_base="http://127.0.0.1:9/v1")
    assert str(as_language_model_error(error, lm)).endswith("cannot be used: [azure/x] a resource is required")


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        ([*ASK[:2], "--index", "docs.jsonl"], "`knowgap index --corpus docs.jsonl --index FOLDER` builds one of it"),
        (["serve", "docs.jsonl"], "docs.jsonl: is a file, but a folder of documents is needed here"),
        (["index", "--corpus", "notes", "--index", "notes"], "notes holds other files, not an index: name"),
    ],
)
def test_documents_in_the_place_of_an_index_are_told_how_to_become_one(indexed, words, reason):
    (indexed.folder / "notes").mkdir()
    (indexed.folder / "notes" / "a.md").write_text("# A\n\nText.\n", encoding="utf-8")
    assert reason in indexed.refusal(*words)
    assert [path.name for path in (indexed.folder / "notes").iterdir()] == ["a.md"]


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (["eval", "--program", "all,rag", *EVAL[3:]], "--program all,rag: all already includes every program"),
        (["eval", "--program", "art", *EVAL[3:]], "art is not an artifact: its config.json names no program"),
        (["eval", "--program", "json:loads", *EVAL[3:]], "is of the type function; a program is a subclass"),
        (["serve", "--index", "idx", "--host", "0.0.0.0", "--search-only"], "set a key"),
    ],
)
def test_what_is_wrong_with_a_program_or_an_address(indexed, words, reason):
    (indexed.folder / "art").mkdir()
    (indexed.folder / "art" / "config.json").write_text("{}", encoding="utf-8")
    assert reason in indexed.refusal(*words)


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no such modes")
def test_the_folder_of_caches_is_its_owners_alone(tmp_path, monkeypatch):
    monkeypatch.setenv("KNOWGAP_HOME", str(tmp_path / "home"))
    assert home().stat().st_mode & 0o777 == 0o700
