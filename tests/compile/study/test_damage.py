"""Studies that were altered are refused; those that a full disk ended go on."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import optuna
import pytest
from compile_worker import plain, study_arguments

from knowgap.compiling import Tuning, tune
from knowgap.compiling.study.storage import open_storage
from knowgap.compiling.study.summary import read_study
from knowgap.errors import StudyError


def run(storage: Path, n_trials: int = 5) -> Tuning:
    return tune(**study_arguments()[0], n_trials=n_trials, study_name="s", storage=storage)


@pytest.fixture(scope="module", params=["db", "journal"])
def storage(request, tmp_path_factory) -> Path:
    path = tmp_path_factory.mktemp("study") / f"study.{request.param}"
    run(path)
    return path


@pytest.fixture
def copy(storage: Path, tmp_path: Path) -> Path:
    path = tmp_path / storage.name
    path.write_bytes(storage.read_bytes())
    return path


def alter(path: Path, old: str, new: str) -> int:
    """Replace a text in a journal, or in the attributes of trials and studies in a database; says how often."""
    if path.suffix == ".journal":
        text = path.read_text(encoding="utf-8")
        path.write_text(text.replace(old, new), encoding="utf-8")
        return text.count(old)
    with closing(sqlite3.connect(path)) as connection, connection:
        return sum(
            connection.execute(
                f"UPDATE {table} SET value_json = replace(value_json, ?, ?) WHERE instr(value_json, ?)", (old, new, old)
            ).rowcount
            for table in ("trial_user_attributes", "study_user_attributes")
        )


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ('"lm_calls": 1.0', '"lm_calls": 0.5'),
        ('"top_k": 4', '"top_k": 2'),
        ('"sampled"', '"simpled"'),
        ("[0.0, ", "[1.0, "),
    ],
)
def test_an_altered_result_is_refused(copy, old, new):
    if copy.suffix == ".journal":
        old, new = old.replace(": ", ":").replace(", ", ","), new.replace(": ", ":").replace(", ", ",")
    assert alter(copy, old, new)
    with pytest.raises(StudyError, match=r"is damaged: (trial \d+|its set-up) was altered"):
        run(copy)
    study = optuna.load_study(study_name="s", storage=open_storage(copy))
    with pytest.raises(StudyError, match="is damaged"):
        read_study(study)


def test_altered_demonstrations_are_refused(copy):
    assert alter(copy, "Who lives in", "Who died in") or alter(copy, "house", "horse")
    with pytest.raises(StudyError, match=r"is damaged: its set-up was altered"):
        run(copy)


def test_a_score_that_is_not_that_of_its_questions_is_refused(storage, copy):
    if storage.suffix == ".journal":
        lines = copy.read_text(encoding="utf-8").splitlines()
        at = next(i for i, line in enumerate(lines) if '"values":[0.3]' in line)
        lines[at] = lines[at].replace("[0.3]", "[0.9]")
        copy.write_text("\n".join(lines) + "\n", encoding="utf-8")
    else:
        with closing(sqlite3.connect(copy)) as connection, connection:
            assert connection.execute("UPDATE trial_values SET value = 0.9 WHERE value = 0.3").rowcount
    with pytest.raises(StudyError, match=r"trial 0 was altered"):
        run(copy)


@pytest.mark.parametrize("place", [0.3, 0.6, 0.9])
def test_a_page_of_zeros_is_refused_or_asked_again(storage, copy, place):
    whole = run(storage)
    content = bytearray(copy.read_bytes())
    start = int(place * len(content)) // 4096 * 4096
    content[start : start + 4096] = bytes(len(content[start : start + 4096]))
    copy.write_bytes(content)
    try:
        result = run(copy)
    except StudyError:
        result = whole
    assert plain(result) == plain(whole)


def test_the_last_line_of_a_journal_is_cut_off_if_it_cannot_be_read(tmp_path):
    path = tmp_path / "study.journal"
    whole = run(path)
    content = path.read_bytes()
    for damaged in (content[:-9], content[:-9] + b"\x00" * 8 + b"\n"):
        path.write_bytes(damaged)
        assert plain(run(path)) == plain(whole)


def test_a_full_disk_ends_a_study_and_the_same_call_continues_it(storage, tmp_path):
    resource = pytest.importorskip("resource")  # not on Windows
    path, whole = tmp_path / storage.name, run(storage)
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (int(0.9 * storage.stat().st_size), before[1]))
    try:
        with pytest.raises((StudyError, OSError), match=path.name):
            run(path)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert plain(run(path)) == plain(whole)
