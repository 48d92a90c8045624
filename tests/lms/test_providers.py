"""Language models by name and options, the check that one answers, and a quiet DSPy."""

import importlib
import json
import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import dspy
import pytest

from knowgap.compiling.evaluation.provenance import lm_settings
from knowgap.errors import LanguageModelError, LanguageModelUnreachable
from knowgap.lms import ExtractiveEngine, check_reachable, make_lm, quiet_dspy
from knowgap.lms.cache import Store
from knowgap.lms.providers import parse_options


def test_a_model_by_name(server):
    reader = make_lm("extractive", cache=False)
    assert isinstance(reader.engine, ExtractiveEngine)
    assert reader.model == "knowgap/extractive-10"
    lm = server.lm(temperature=0.5)
    assert (lm.model, lm.kwargs["temperature"]) == ("openai/local", 0.5)
    for made in (reader, lm):
        check_reachable(made)


@pytest.mark.parametrize(
    ("status", "kind", "words"),
    [
        (401, LanguageModelError, r"refuses the key: .* \[key\] nor \[key\]"),
        (404, LanguageModelError, "cannot be used"),
        (503, LanguageModelUnreachable, "does not answer at http://127"),
    ],
)
def test_an_endpoint_that_refuses_is_one_line_without_keys(server, monkeypatch, status, kind, words):
    monkeypatch.setenv("OTHER_API_KEY", "sk-of-the-environment")
    told = {"error": {"message": "neither sk-of-the-option nor sk-of-the-environment"}}
    server.faults = [(status, {}, json.dumps(told))]
    lm = server.lm(api_key="sk-of-the-option", num_retries=0)
    with pytest.raises(kind, match=words) as error:
        check_reachable(lm)
    assert "\n" not in str(error.value)
    assert "sk-of" not in str(error.value)


def test_replies_are_cached_apart_for_each_endpoint(server, tmp_path):
    quiet_dspy(tmp_path / "cache")
    lms = [make_lm("openai/local", api_base=f"{server.api_base}/{name}") for name in ("one", "two")]
    for _ in range(2):
        assert [lm("Who are you?") for lm in lms] == [["ready"], ["ready"]]
    assert len(server.bodies) == 2
    assert lm_settings(lms[0])["endpoint"] != lm_settings(lms[1])["endpoint"]
    assert server.api_base not in str(lm_settings(lms[0]))


def test_threads_share_the_one_file_of_the_cache(tmp_path, monkeypatch):
    monkeypatch.delenv("LITELLM_LOCAL_MODEL_COST_MAP", raising=False)
    quiet_dspy(tmp_path / "cache")
    assert os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] == "true"

    def use(number):
        dspy.cache.put({"prompt": number}, {"reply": number})
        dspy.cache.reset_memory_cache()
        return dspy.cache.get({"prompt": number})

    def opened():
        names = [os.path.realpath(entry) for entry in Path("/proc/self/fd").iterdir()]
        return sum(name.startswith(str(tmp_path)) for name in names)

    before = opened()
    with ThreadPoolExecutor(12) as pool:
        assert list(pool.map(use, range(50))) == [{"reply": number} for number in range(50)]
        assert opened() <= before + 2  # SQLite's log and its index
    quiet_dspy()
    assert not dspy.cache.enable_disk_cache


def test_what_cannot_be_read_any_more_is_not_in_the_cache(tmp_path, monkeypatch):
    store = Store(tmp_path)
    store.set("key", "a reply")
    with monkeypatch.context() as patch:
        patch.setattr("pickle.loads", lambda _: importlib.import_module("gone"))
        assert store.get("key") is None
    assert store.get("key") == "a reply"


def test_options_are_read_by_their_kind():
    written = {"temperature": "0.2", "max_tokens": "500", "timeout": "60", "num_retries": "0"}
    assert repr(list(parse_options(written).values())) == "[0.2, 500, 60.0, 0]"
    other = {"extra_body": '{"min_p":0.1}', "reasoning_effort": "10", "device": "cpu"}
    assert parse_options(other) == {**other, "extra_body": {"min_p": 0.1}}


def test_what_changes_answers_is_told_apart(tmp_path):
    quiet_dspy(tmp_path / "cache")

    def made(**options):
        return make_lm("openai/local", api_base="http://127.0.0.1:9/v1", **options)

    def key(**options):
        return dspy.cache.cache_key({"model": "openai/local", **made(**options).kwargs}, [])

    plain, patient = made(), made(timeout=600, num_retries=9)
    assert lm_settings(plain) == lm_settings(patient)
    assert key() == key(timeout=600, num_retries=9)
    for options in ({"temperature": 0.5}, {"max_tokens": 7}, {"extra_body": {"min_p": 0.1}}, {"stop": ["."]}):
        assert lm_settings(made(**options)) != lm_settings(plain)
        assert key(**options) != key()
    secret = made(extra_body={"token": "hidden", "min_p": 0.1}, api_key="hidden")
    assert "hidden" not in str(lm_settings(secret))
