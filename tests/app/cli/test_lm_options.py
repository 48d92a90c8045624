"""--lm-option, KNOWGAP_LM_OPTIONS, and the options that an artifact was compiled with."""

import json

import pytest
from endpoint import endpoint

ASK = ["ask", "Who designed the Orle Bridge?", "--index", "idx", "--lm", "openai/local"]


@pytest.fixture
def server():
    with endpoint() as server:
        yield server


def sent(server, name):
    """The values of an option in the requests since the last look, without the first one-word question."""
    bodies, server.bodies[:] = list(server.bodies), []
    return {body.get(name) for body in bodies[1:]}


def test_options_reach_the_model(indexed, server, monkeypatch):
    words = [*ASK, "--program", "rag", "--api-base", server.api_base]
    indexed(*words)
    assert sent(server, "temperature") == {0.0}
    indexed(*words, "--lm-option", "temperature=0.7", "--lm-option", "max_tokens=99")
    assert sent(server, "temperature") == {0.7}
    monkeypatch.setenv("KNOWGAP_LM_OPTIONS", "temperature=0.3 max_tokens=50 timeout=60")
    indexed(*words, "--lm-option", "max_tokens=77")
    assert {body.get("temperature") for body in server.bodies} == {0.3}
    assert sent(server, "max_completion_tokens") == {77}
    indexed(*words, "--lm-option", "max_tokens=77", "--lm-option", "timeout=5")
    assert sent(server, "max_completion_tokens") == set(), "a timeout changes no answer, so that the cache has it"


@pytest.mark.parametrize(
    ("option", "problem"),
    [
        ("temprature=1", "did you mean 'temperature'"),
        ("temperature=warm", "temperature=warm: it should be a valid number"),
        ("temperature", "--lm-option temperature: write it as NAME=VALUE"),
        ("api_key=sk-secret", "the provider's environment variable"),
    ],
)
def test_refuses_what_is_no_option(indexed, server, option, problem):
    refusal = indexed.refusal(*ASK, "--api-base", server.api_base, "--lm-option", option)
    assert problem in refusal
    assert "sk-secret" not in refusal
    assert not server.bodies


def test_the_embedded_reader_takes_none(indexed, monkeypatch):
    words = ["ask", "Who designed the Orle Bridge?", "--index", "idx", "--program", "rag"]
    assert "does not take the options temperature" in indexed.refusal(*words, "--lm-option", "temperature=0.2")
    monkeypatch.setenv("KNOWGAP_LM_OPTIONS", "timeout=60")
    indexed(*words)


def test_an_artifact_keeps_the_options_and_ask_takes_them_over(indexed, server):
    data = ["--data", "questions.jsonl", "--index", "idx", "--lm", "openai/local", "--api-base", server.api_base]
    options = ["--lm-option", "max_tokens=64", "--lm-option", "timeout=50"]
    indexed("compile", "--demos", "none", "--program", "rag", *data, *options, "--n-trials", "1", "--output-dir", "out")
    config = json.loads((indexed.folder / "out/artifact/config.json").read_text())
    settings = {name: config["lm_settings"][name] for name in ("max_tokens", "timeout", "num_retries")}
    assert settings == {"max_tokens": 64, "timeout": 50.0, "num_retries": 3}
    assert "max_tokens=64" in (indexed.folder / "out/artifact/card.md").read_text()
    ask = ["ask", "Who built the mill?", "--index", "idx", "--program", "out/artifact", "--api-base", server.api_base]
    server.bodies.clear()
    said = indexed(*ask, "--lm", "openai/local")[1]
    assert "options of openai/local in out/artifact: " in said
    assert sent(server, "max_completion_tokens") == {64}
    indexed(*ask, "--lm", "openai/local", "--lm-option", "max_tokens=65")
    assert sent(server, "max_completion_tokens") == {65}
    indexed(*ask, "--lm", "openai/another")
    assert sent(server, "max_completion_tokens") == {300}
