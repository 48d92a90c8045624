"""Language models by name, the check that one answers, and a quiet DSPy."""

import os

import dspy
import pytest
from endpoint import endpoint

from knowgap.compiling.evaluation.provenance import lm_settings
from knowgap.errors import LanguageModelError, LanguageModelUnreachable, UsageError
from knowgap.lms import ExtractiveEngine, check_reachable, extractive_lm, make_lm, quiet_dspy
from knowgap.lms.providers import unreadable_replies


@pytest.fixture
def server():
    with endpoint() as server:
        yield server


@pytest.fixture(autouse=True)
def offline(monkeypatch):
    monkeypatch.setenv("LITELLM_LOCAL_MODEL_COST_MAP", "true")
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)


def test_a_model_by_name(server):
    reader = make_lm("extractive", cache=False)
    assert isinstance(reader.engine, ExtractiveEngine)
    assert reader.model == extractive_lm().model == "knowgap/extractive-5"
    check_reachable(reader)
    lm = make_lm("openai/local", api_base=server.api_base, temperature=0.5)
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
    with endpoint() as gone:
        base = gone.api_base
    for asked in (lm := make_lm("openai/local", api_base=base), lm.copy(num_retries=0)):
        with pytest.raises(LanguageModelUnreachable, match=f"does not answer at {base}") as error:
            check_reachable(asked)
        assert "\n" not in str(error.value)
    lm.close()


@pytest.mark.parametrize(
    ("status", "kind", "words"),
    [
        (401, LanguageModelError, "refuses the key"),
        (404, LanguageModelError, "cannot be used"),
        (503, LanguageModelUnreachable, "does not answer at http://127"),
    ],
)
def test_an_endpoint_that_refuses(server, status, kind, words):
    server.faults = [(status, {}, '{"error": {"message": "not today"}}')] * 4
    lm = make_lm("openai/local", api_base=server.api_base, api_key="wrong", num_retries=0)
    with pytest.raises(kind, match=words):
        check_reachable(lm)
    lm.close()


def test_a_password_in_an_address_is_refused_and_not_shown(monkeypatch):
    monkeypatch.setenv("OPENAI_BASE_URL", "http://ada:secret@127.0.0.1:1/v1")
    with pytest.raises(UsageError, match=r"http://127\.0\.0\.1:1/v1: the address has a user name or password") as error:
        make_lm("openai/local")
    assert "secret" not in str(error.value)


def test_dspy_is_kept_quiet_in_a_folder_of_ones_own(tmp_path, monkeypatch):
    monkeypatch.delenv("LITELLM_LOCAL_MODEL_COST_MAP")
    quiet_dspy(tmp_path / "cache")
    assert os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] == "true"
    assert dspy.cache.disk_cache_dir == str(tmp_path / "cache")
    assert (tmp_path / "cache").is_dir()
    dspy.cache.disk_cache.close()
    quiet_dspy()
    assert not dspy.cache.enable_disk_cache


def test_replies_are_cached_apart_for_each_endpoint(server, tmp_path):
    quiet_dspy(tmp_path / "cache")
    lms = [make_lm("openai/local", api_base=f"{server.api_base}/{name}") for name in ("one", "two")]
    for _ in range(2):
        assert [lm("Who are you?") for lm in lms] == [["ready"], ["ready"]]
    assert len(server.bodies) == 2
    assert lm_settings(lms[0])["endpoint"] != lm_settings(lms[1])["endpoint"]
    assert server.api_base not in str(lm_settings(lms[0]))
    dspy.cache.disk_cache.close()
    for lm in lms:
        lm.close()


def test_the_likely_causes_of_unreadable_replies():
    lm = make_lm("openai/local", api_base="http://127.0.0.1:8000", api_key="none")
    for cut, cause in ((0, "not trained for chat, or .* not end with /v1"), (4, "4 were cut off: .*max_tokens")):
        with pytest.raises(LanguageModelError, match=f"none of 6 replies of .*; likely cause: .*{cause}"):
            raise unreadable_replies(lm, 6, cut)


def test_an_unknown_provider_is_one_line():
    with pytest.raises(LanguageModelError, match=r"'opnai/gpt-4o' cannot be used: .*Provider NOT provided") as error:
        check_reachable(make_lm("opnai/gpt-4o"))
    assert "\n" not in str(error.value)
