"""Ctrl-C on real processes: it ends them soon, no call begins after it, and the same command continues."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator

import pytest
from endpoint import Endpoint, endpoint

from tests.app.service.conftest import wait_until

LONG = 600.0
"""Seconds that a reply takes; no test waits for one."""
SOON = 30.0
"""Seconds until a process must have ended or got somewhere, on a machine however busy."""


@pytest.fixture
def server() -> Iterator[Endpoint]:
    with endpoint() as server:
        server.delay_of = lambda text: LONG if "one word" not in text else 0.0
        yield server


@pytest.fixture
def started(indexed) -> Iterator[Callable[..., subprocess.Popen]]:
    processes: list[subprocess.Popen] = []

    def start(*words: str, on_interrupt=signal.default_int_handler) -> subprocess.Popen:
        command, output = [sys.executable, "-m", "knowgap", *words], {"stdout": subprocess.DEVNULL, "text": True}
        output |= {"stderr": subprocess.PIPE, "cwd": indexed.folder, "start_new_session": True}
        processes.append(subprocess.Popen(command, preexec_fn=lambda: signal.signal(2, on_interrupt), **output))
        return processes[-1]

    yield start
    for process in processes:
        process.kill()
        process.communicate()


def stop(process: subprocess.Popen, code: int = 130) -> str:
    """Press Ctrl-C once; return what the process said."""
    process.send_signal(signal.SIGINT)
    said = process.communicate(timeout=SOON)[1]
    assert process.returncode == code, said
    assert "Traceback" not in said
    with pytest.raises(ProcessLookupError):
        os.killpg(process.pid, 0)  # no process that it started is left
    return said


DATA = ["--data", "questions.jsonl", "--whole", "--index", "idx"]
COMMANDS = {
    "eval": (["eval", *DATA, "--program", "rag", "--num-threads", "1", "-o", "out"], 1),
    "compile": (["compile", "--program", "rag", "--limit", "9", "-o", "out", "--optimizer", "bootstrap"], 1),
}  # fmt: skip


@pytest.mark.parametrize("name", COMMANDS)
def test_ctrl_c_ends_a_command_that_waits_for_replies(started, server, name: str):
    words, at_once = COMMANDS[name]
    process = started(*words, "--lm", "openai/local", "--api-base", server.api_base)
    wait_until(
        lambda: sum("one word" not in text for text in server.prompts()) >= at_once or process.poll() is not None
    )
    asked = -1
    while asked != len(server.bodies):
        asked = len(server.bodies)
        time.sleep(0.5)
    said = stop(process)
    assert said.count("stopped; what was done is kept, and the same command continues it") == 1
    assert len(server.bodies) == asked


def test_the_same_command_asks_what_was_not_answered(started, server):
    server.delay_of = lambda text: LONG if "hall" in text else 0.0
    words = ["eval", *DATA, "--program", "direct", "--num-threads", "2", "--lm", "openai/local"]
    words += ["--api-base", server.api_base, "-o", "out"]
    process = started(*words)
    wait_until(lambda: len(server.bodies) == 5)  # the first of them asks for one word
    stop(process)
    server.bodies.clear()
    server.delay_of = lambda text: 0.0
    again = started(*words)
    assert "written to" in again.communicate(timeout=2 * SOON)[1]
    assert again.returncode == 0
    asked = ["hall" in text for text in server.prompts()]
    assert (asked[0], asked.count(True)) == (False, 1)
    assert len(asked) <= 3  # the other thread may have been stopped between a reply and its record


@pytest.mark.parametrize("on_interrupt", [signal.default_int_handler, signal.SIG_IGN], ids=["in front", "behind"])
def test_sigterm_ends_a_server(started, on_interrupt):
    """A shell that is not interactive lets what it starts in the background ignore SIGINT."""
    process = started("serve", "--index", "idx", "--port", "0", on_interrupt=on_interrupt)
    assert any(line.startswith("serving") for line in process.stderr)
    process.terminate()
    assert process.wait(SOON) == 0
