"""Language models by name, the check that one answers, and a quiet DSPy."""

import json
import os
import socket
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import dspy
import pytest
from support import in_chat_format

from knowgap.compiling.evaluation.metrics import named_metrics
from knowgap.compiling.evaluation.provenance import lm_settings
from knowgap.compiling.evaluation.runner import run_example
from knowgap.errors import LanguageModelError, LanguageModelUnreachable, UsageError
from knowgap.lms import ExtractiveEngine, check_reachable, extractive_lm, make_lm, quiet_dspy
from knowgap.lms.providers import unreadable_replies
from knowgap.programs.baselines.direct import Direct

BODIES = [b'{"id": "1", "choices": [{"mess', b"<html>busy</html>", b""]


class OneWord(BaseHTTPRequestHandler):
    """An OpenAI-compatible endpoint: /STATUS/WORD/… says the word, or refuses with another status than 200.

    /garbled/N/… gives a readable reply to every N-th call, and the others something that is no JSON.
    """

    asked = 0

    def do_POST(self):
        self.rfile.read(int(self.headers["Content-Length"]))
        OneWord.asked += 1
        status, word = self.path.split("/")[1:3]
        if status == "garbled" and OneWord.asked % int(word):
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.end_headers()
            self.wfile.write(BODIES[OneWord.asked % len(BODIES)])
            return
        if status == "garbled":
            status, word = "200", in_chat_format({"answer": "Tarn"})
        status = int(status)
        choice = {"index": 0, "message": {"role": "assistant", "content": word}, "finish_reason": "stop"}
        usage = dict.fromkeys(("prompt_tokens", "completion_tokens", "total_tokens"), 1)
        reply = {"id": "1", "object": "chat.completion", "created": 0, "model": "m", "choices": [choice]}
        reply = reply | {"usage": usage} if status == 200 else {"error": {"message": "not today"}}
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.end_headers()
        self.wfile.write(json.dumps(reply).encode())

    def log_message(self, *args):
        pass


@pytest.fixture
def address():
    with ThreadingHTTPServer(("127.0.0.1", 0), OneWord) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{server.server_address[1]}"
        server.shutdown()
        thread.join()


@pytest.fixture(autouse=True)
def offline(monkeypatch):
    monkeypatch.setenv("LITELLM_LOCAL_MODEL_COST_MAP", "true")
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)


def test_a_model_by_name(address):
    reader = make_lm("extractive", cache=False)
    assert isinstance(reader.engine, ExtractiveEngine)
    assert reader.model == extractive_lm().model == "knowgap/extractive-5"
    check_reachable(reader)
    lm = make_lm("openai/local", api_base=f"{address}/200/v1", temperature=0.5)
    assert (lm.model, lm.kwargs["temperature"]) == ("openai/local", 0.5)
    check_reachable(lm)
    lm.close()


@pytest.mark.parametrize(
    ("names", "options", "problem"),
    [
        (["", "gpt", "openai/", "/x"], {}, "give extractive, hf/PATH_OR_ID, or PROVIDER/MODEL"),
        (["hf/./nowhere", "hf//nowhere/at/all", "hf/nowhere"], {}, r"must hold a config\.json"),
        (["extractive"], {"api_base": "http://127.0.0.1:1/v1"}, "leave out --api-base"),
    ],
)
def test_a_name_or_option_that_means_no_model(names, options, problem):
    for name in names:
        with pytest.raises(UsageError, match=problem):
            make_lm(name, **options)


def test_an_endpoint_that_does_not_answer():
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        base = f"http://127.0.0.1:{taken.getsockname()[1]}/v1"
    lm = make_lm("openai/local", api_base=base)
    for asked in (lm, lm.copy(num_retries=0)):
        with pytest.raises(LanguageModelUnreachable, match=f"does not answer at {base}") as error:
            check_reachable(asked)
        assert "\n" not in str(error.value)
    lm.close()


REFUSALS = [
    (401, LanguageModelError, "refuses the key"),
    (404, LanguageModelError, "cannot be used"),
    (503, LanguageModelUnreachable, "does not answer"),
]


@pytest.mark.parametrize(("status", "kind", "words"), REFUSALS)
def test_an_endpoint_that_refuses(address, status, kind, words):
    lm = make_lm("openai/local", api_base=f"{address}/{status}/v1", api_key="wrong", num_retries=0)
    with pytest.raises(kind, match=words):
        check_reachable(lm)
    lm.close()


def test_dspy_is_kept_quiet_in_a_folder_of_ones_own(tmp_path, monkeypatch):
    monkeypatch.delenv("LITELLM_LOCAL_MODEL_COST_MAP")
    quiet_dspy(tmp_path / "cache")
    assert os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] == "true"
    assert dspy.cache.disk_cache_dir == str(tmp_path / "cache")
    assert (tmp_path / "cache").is_dir()
    dspy.cache.disk_cache.close()
    quiet_dspy()
    assert not dspy.cache.enable_disk_cache


def test_replies_are_cached_apart_for_each_endpoint(address, tmp_path):
    quiet_dspy(tmp_path / "cache")
    lms = [make_lm("openai/local", api_base=f"{address}/200/{name}") for name in ("one", "two")]
    before = OneWord.asked
    for _ in range(2):
        assert [lm("Who are you?") for lm in lms] == [["one"], ["two"]]
    assert OneWord.asked == before + 2
    assert lm_settings(lms[0])["endpoint"] != lm_settings(lms[1])["endpoint"]
    assert address not in str(lm_settings(lms[0]))
    dspy.cache.disk_cache.close()
    for lm in lms:
        lm.close()


def test_a_password_in_an_address_is_not_shown(address):
    base = f"{address}/503/v1".replace("://", "://ada:secret@")
    lm = make_lm("openai/local", api_base=base, num_retries=0)
    with pytest.raises(LanguageModelUnreachable, match="does not answer at http://127") as error:
        check_reachable(lm)
    assert "secret" not in str(error.value)
    lm.close()


def test_unreadable_replies_of_an_endpoint_are_not_cached(address):
    quiet_dspy()
    lm = make_lm("openai/local", api_base=f"{address}/200/mumble")
    asked = []
    for _ in range(2):
        before = OneWord.asked
        with dspy.context(lm=lm):
            cost = Direct()(question="Where?").trace.cost
        asked.append(OneWord.asked - before)
        assert (cost.lm_calls, cost.cached_calls, cost.all_unreadable) == (asked[0], 0, True)
    assert asked == [2, 2]
    lm.close()


@pytest.mark.parametrize(
    ("base", "cut", "causes"),
    [
        ("http://127.0.0.1:8000", 0, ["does not end with /v1", "chat template"]),
        ("http://127.0.0.1:8000/v1/", 4, ["4 were cut off", "max_tokens", "chat template"]),
        (None, 1, ["chat template"]),
    ],
)
def test_the_likely_causes_of_unreadable_replies(base, cut, causes):
    words = str(unreadable_replies(make_lm("openai/local", api_base=base, api_key="none"), 6, cut))
    assert "none of 6 replies" in words
    every = {"does not end with /v1", "were cut off", "max_tokens", "chat template"}
    assert all(cause in words for cause in causes)
    assert [word for word in every if word in words and not any(word in cause for cause in causes)] == []


def test_garbled_answers_are_asked_again_and_then_lost(address, monkeypatch):
    quiet_dspy()
    waits = []
    monkeypatch.setattr("knowgap.lms.metering.pause", waits.append)
    OneWord.asked = 0
    example = dspy.Example(question="Where?", answer="Tarn")
    records = []
    for each, retries in ((4, 3), (1000, 2)):
        lm = make_lm("openai/local", api_base=f"{address}/garbled/{each}", num_retries=retries)
        with dspy.context(lm=lm):
            records.append(run_example(Direct(), example, "q", named_metrics("exact_match")))
        lm.close()
    assert [(record.answer, record.lost) for record in records] == [("Tarn", False), ("", True)]
    assert "not JSON" in records[1].error
    assert waits == [1, 2, 4] + 2 * [1, 2]  # a lost question is asked a second time
    assert OneWord.asked == 4 + 2 * 3


@pytest.mark.parametrize(
    ("name", "hint"),
    [("opnai/gpt-4o", "did you mean 'openai'"), ("qqqq/x", "take one of https://docs.litellm.ai/docs/providers")],
)
def test_an_unknown_provider_is_one_line_with_the_nearest_names(name: str, hint: str):
    with pytest.raises(LanguageModelError, match="unknown provider") as error:
        check_reachable(make_lm(name))
    assert hint in str(error.value)
    assert "\n" not in str(error.value)
