"""The same command again, in more processes."""

from __future__ import annotations

import os
import sys

import pytest

from knowgap.compile.study.local_processes import LOCAL_WORKER, is_local_worker, local_workers
from knowgap.errors import UsageError

WRITE = f"import os, sys; open(sys.argv[1] + '/' + str(os.getpid()), 'w').write(os.environ['{LOCAL_WORKER}'])"


def test_so_many_processes_run_the_command(tmp_path):
    with local_workers(3, [sys.executable, "-c", WRITE, str(tmp_path)]) as problems:
        assert not is_local_worker()
    assert problems == []
    assert [path.read_text() for path in tmp_path.iterdir()] == ["1", "1", "1"]
    assert str(os.getpid()) not in {path.name for path in tmp_path.iterdir()}


def test_what_went_wrong_is_told():
    with local_workers(1, [sys.executable, "-c", "import sys; sys.exit('no such study')"]) as problems:
        pass
    assert problems == ["no such study"]
    with local_workers(1, [sys.executable, "-c", "import os; os._exit(3)"]) as problems:
        pass
    assert problems == ["a worker ended with code 3"]
    with local_workers(1, [sys.executable, "-c", "import os; os.kill(os.getpid(), 9)"]) as problems:
        pass
    assert problems == ["a worker ended by signal 9"]


def test_a_long_message_of_the_command_is_told_whole():
    speaks = "import sys; print('tuning: 1/4', 'error: no such', 'study', sep='\\n', file=sys.stderr); sys.exit(2)"
    with local_workers(1, [sys.executable, "-c", speaks]) as problems:
        pass
    assert problems == ["no such study"]


def test_they_end_when_the_body_fails():
    endless = [sys.executable, "-c", "import threading; threading.Event().wait()"]
    with pytest.raises(ZeroDivisionError), local_workers(2, endless):
        _ = 1 / 0  # both would wait for ever: that this test ends is what it tests


def test_none_and_fewer(monkeypatch):
    with local_workers(0) as problems:
        assert problems == []
    with pytest.raises(UsageError, match="fewer than none"), local_workers(-1):
        pass
    monkeypatch.setenv(LOCAL_WORKER, "1")
    assert is_local_worker()


def test_a_local_worker_starts_none(tmp_path, monkeypatch):
    monkeypatch.setenv(LOCAL_WORKER, "1")
    with local_workers(2, [sys.executable, "-c", WRITE, str(tmp_path)]) as problems:
        pass
    assert problems == []
    assert list(tmp_path.iterdir()) == []
