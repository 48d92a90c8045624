"""What a full disk, a damaged cache, a refused key or a closed pipe ends: one line, and the same command goes on."""

from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from support import scripted_lm

from knowgap.cli import factories

EVAL = ("eval", "--program", "rag", "--data", "questions.jsonl", "--whole", "--index", "idx", "--output-dir", "out")
TUNE = (
    *("compile", "--program", "rag", "--data", "sample", "--limit", "2", "--n-trials", "2"),
    *("--output-dir", "out"),
)


@contextmanager
def file_limit(size: int) -> Iterator[None]:
    """No file can grow beyond so many bytes, as on a disk that is full."""
    resource = pytest.importorskip("resource")  # not on Windows
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


@pytest.mark.parametrize("engine", ["bm25", "colbert"])
def test_a_build_on_a_full_disk_names_a_file_and_goes_on(knowgap, engine):
    command = ("index", "--corpus", "docs.jsonl", "--engine", engine, "--index", "idx")
    for size in (10, 900):
        with file_limit(size):
            assert "idx" in knowgap.refusal(*command)
        assert not (knowgap.folder / "idx").exists()
    knowgap(*command)


@pytest.mark.parametrize(("command", "sizes"), [(EVAL, (40, 10_000)), (TUNE, (2000, 150_000))])
def test_a_run_on_a_full_disk_goes_on(indexed, command, sizes):
    for size in sizes:
        with file_limit(size):
            assert "free some space" in indexed.refusal(*command)
    indexed(*command)
    assert not list((indexed.folder / "out").glob(".*.unfinished"))


def test_an_evaluation_in_which_every_question_failed_ends_with_exit_code_1(indexed, monkeypatch):
    def fails(outputs, inputs):
        raise RuntimeError("the reader fell asleep")

    monkeypatch.setattr(factories, "load_lm", lambda *args, **options: scripted_lm(fails)[0])
    printed, remarks = indexed(*EVAL, code=1)
    assert "all 4 questions" in printed
    assert "fell asleep" in remarks


def test_a_damaged_cache_is_named(indexed):
    path = factories.cache_folder() / "lm" / "cache.db"
    path.parent.mkdir(parents=True)
    path.write_bytes(b"SQLite format 3\0" + b"\xff" * 5000)
    refusal = indexed.refusal(*EVAL)
    assert str(path.parent) in refusal
    assert "remove it" in refusal
    path.unlink()
    assert indexed.json(*EVAL)["failed"] == 0
