"""Ctrl-C on real processes: it ends them soon, and no call begins after it."""

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
    "eval": ["eval", *DATA, "--program", "rag", "--num-threads", "1", "-o", "out"],
    "compile": ["compile", "--program", "rag", "--limit", "9", "-o", "out", "--optimizer", "bootstrap"],
}


@pytest.mark.parametrize("name", COMMANDS)
def test_ctrl_c_ends_a_command_that_waits_for_replies(started, server, name: str):
    process = started(*COMMANDS[name], "--lm", "openai/local", "--api-base", server.api_base)
    wait_until(lambda: any("one word" not in text for text in server.prompts()) or process.poll() is not None)
    asked = -1
    while asked != len(server.bodies):
        asked = len(server.bodies)
        time.sleep(0.5)
    said = stop(process)
    assert said.count("stopped; what was done is kept, and the same command continues it") == 1
    assert len(server.bodies) == asked


@pytest.mark.parametrize("on_interrupt", [signal.default_int_handler, signal.SIG_IGN], ids=["in front", "behind"])
def test_sigterm_ends_a_server(started, on_interrupt):
    """A shell that is not interactive lets what it starts in the background ignore SIGINT."""
    process = started("serve", "--index", "idx", "--port", "0", on_interrupt=on_interrupt)
    assert any(line.startswith("serving") for line in process.stderr)
    process.terminate()
    assert process.wait(SOON) == 0
