"""A real server of the OpenAI protocol on loopback, `transformers serve`, with tiny models made here."""

import asyncio
import os
import socket
import subprocess
import sys
import time
import urllib.request

import dspy
import pytest

from knowgap.lms import HFEngine, make_lm
from tests.lms.local.tiny import QUESTIONS, ask, ask_together, write_chat_model, write_fixed_reply

SERVE = "from transformers.cli.transformers import main; main()"
REPLY = ["[[ ## answer ## ]]\n", "Ada Moor", "\n\n[[ ## completed ## ]]"]
START_SECONDS = 180


@pytest.fixture(scope="module")
def served(tmp_path_factory):
    """A folder with two models, and the address of the server that answers for both."""
    pytest.importorskip("fastapi", reason="transformers[serving] is not installed")
    folder = tmp_path_factory.mktemp("served")
    write_chat_model(folder / "random")
    write_fixed_reply(folder / "fixed", REPLY)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    words = ["serve", "--device", "cpu", "--host", "127.0.0.1", "--port", str(port)]
    environment = {**os.environ, "HF_HOME": str(folder / "home"), "HF_HUB_OFFLINE": "1"}
    with (folder / "log").open("w") as log:
        server = subprocess.Popen([sys.executable, "-c", SERVE, *words], env=environment, stdout=log, stderr=log)
    try:
        wait_until_it_answers(f"http://127.0.0.1:{port}/health", server, folder / "log")
        yield folder, f"http://127.0.0.1:{port}/v1"
    finally:
        server.terminate()
        server.wait(30)


@pytest.fixture(autouse=True)
def event_loop():
    """An event loop of this thread; where there is none, LiteLLM (for `extra_body`) makes one that nobody closes."""
    loop = asyncio.new_event_loop()
    asyncio.set_event_loop(loop)
    yield
    asyncio.set_event_loop(None)
    loop.close()


def wait_until_it_answers(address, server, log):
    end = time.monotonic() + START_SECONDS
    while time.monotonic() < end and server.poll() is None:
        try:
            with urllib.request.urlopen(address, timeout=5):
                return
        except OSError:
            time.sleep(0.2)
    pytest.fail(f"the server did not start:\n{log.read_text()[-2000:]}")


def test_a_server_gives_the_replies_of_the_same_model_in_this_process(served):
    folder, api_base = served
    name = str(folder / "random")
    # Older servers know the limit by its older name alone.
    limit = {"max_tokens": 12, "extra_body": {"max_tokens": 12}}
    lm = dspy.LM(f"openai/{name}", api_base=api_base, api_key="none", cache=False, temperature=0.0, **limit)
    expected = ask_together(
        HFEngine(name, device="cpu", max_new_tokens=12), [ask(q, system=None) for q in QUESTIONS[:4]]
    )
    for question, reply in zip(QUESTIONS, expected, strict=False):
        (text,) = lm(question)
        assert text.strip() == reply.message.text.strip()
        usage = lm.history[-1]["usage"]
        assert (usage["prompt_tokens"], usage["completion_tokens"]) == (
            reply.usage.input_tokens, reply.usage.output_tokens
        )  # fmt: skip
    lm.close()


def test_programs_answer_from_it(served):
    folder, api_base = served
    lm = make_lm(f"openai/{folder / 'fixed'}", api_base=api_base, cache=False)
    with dspy.context(lm=lm):
        assert dspy.Predict("question -> answer")(question="Who painted it?").answer == "Ada Moor"
    lm.close()
