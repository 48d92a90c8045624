"""The same command again, in more processes."""

from __future__ import annotations

import sys

import pytest

from knowgap.compiling.study.local_processes import LOCAL_WORKER, is_local_worker, local_workers

WRITE = f"import os, sys; open(sys.argv[1] + '/' + str(os.getpid()), 'w').write(os.environ['{LOCAL_WORKER}'])"


def python(code: str, *arguments: str) -> list[str]:
    return [sys.executable, "-c", code, *arguments]


def test_every_process_runs_the_command(tmp_path):
    with local_workers(3, python(WRITE, str(tmp_path))) as problems:
        assert not is_local_worker()
    assert problems == []
    assert [path.read_text() for path in tmp_path.iterdir()] == ["1", "1", "1"]


@pytest.mark.parametrize(
    ("code", "problem"),
    [
        ("import sys; sys.exit('no such study')", "no such study"),
        ("import os; os._exit(3)", "a worker ended with code 3"),
        ("import os; os.kill(os.getpid(), 9)", "a worker ended with code -9"),
        (
            "import sys; print('1/4', 'error: no such', 'study', sep='\\n', file=sys.stderr); sys.exit(2)",
            "no such study",
        ),
    ],
)
def test_what_went_wrong_is_told(code, problem):
    with local_workers(1, python(code)) as problems:
        pass
    assert problems == [problem]


def test_they_end_when_the_body_fails():
    endless = python("import threading; threading.Event().wait()")
    with pytest.raises(ZeroDivisionError), local_workers(2, endless):
        _ = 1 / 0  # both would wait for ever: that this test ends is what it tests


def test_a_local_worker_starts_none(tmp_path, monkeypatch):
    monkeypatch.setenv(LOCAL_WORKER, "1")
    with local_workers(2, python(WRITE, str(tmp_path))):
        assert is_local_worker()
    assert list(tmp_path.iterdir()) == []
