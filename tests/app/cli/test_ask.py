"""ls and ask: what they print, and one clear line for each kind of bad input."""

import importlib.metadata
import json
from concurrent.futures import ThreadPoolExecutor

import pytest
from support import UNREADABLE, scripted_lm

from knowgap.cli import ls
from knowgap.cli.factories import home
from knowgap.programs.prediction import NOT_SUPPORTED
from knowgap.retrieval.index.base import lock_index

ASK = ("ask", "Who designed the Orle Bridge?", "--index", "idx")


def test_lists_what_there_is(knowgap):
    listed = {"migres", "rag", "hotpotqa", "exact_match", "bootstrap", "overview"}
    assert {word for word in listed if word in knowgap("ls")[0]} == listed
    printed, _ = knowgap("ls", "migres")
    assert "iterations" in printed
    assert "open_domain" in printed


def test_a_folder_of_documents_is_an_index_and_follows_the_folder(knowgap):
    docs = knowgap.folder / "notes"
    docs.mkdir()
    (docs / "orle.md").write_text("# Orle\n\nThe Orle Bridge was designed by Ada Venn.\n", encoding="utf-8")
    ask = ("ask", "Who designed the Orle Bridge?", "--index", "notes", "--program", "rag", "--json")
    assert json.loads(knowgap(*ask)[0])["sources"][0]["file"] == "orle.md"
    (docs / "tarn.md").write_text("# Tarn\n\nTarn is a town on the river Isk.\n", encoding="utf-8")
    hits = knowgap.json("search", "river Isk", "--index", "notes", "-k", "1")["hits"]
    assert hits[0]["source"]["file"] == "tarn.md"
    assert [path.name for path in docs.iterdir() if path.name.startswith(".")] == []
    [kept] = next((knowgap.folder / "home" / "folders").iterdir()).iterdir()
    lock = lock_index(kept)
    with ThreadPoolExecutor(1) as service:
        service.submit(lock.__enter__).result()
        assert knowgap.json("search", "river Isk", "--index", "notes", "-k", "1")["hits"] == hits
        service.submit(lock.__exit__, None, None, None).result()


def test_says_what_supports_the_answer(indexed, monkeypatch):
    lm, _ = scripted_lm(lambda *_: {"answer": "Ada Venn designed the Orle Bridge. Bo [b]Reed[/b] paid for it."})
    monkeypatch.setattr("knowgap.cli.factories.load_lm", lambda *_, **__: lm)
    printed = indexed(*ASK, "--program", "rag", "--set", "style=long")[0].splitlines()
    assert printed[-3] == "Ada Venn designed the Orle Bridge [1]. Bo [b]Reed[/b] paid for it."
    assert printed[-1] == "  [1] does not mention Reed"
    lm, _ = scripted_lm(lambda *_: {"answer": "Bo Reed paid for it."})
    assert indexed(*ASK, "--program", "rag")[0].splitlines()[-1] == "  read: Orle Bridge"


def test_says_that_an_answer_is_not_supported(indexed):
    doubting = ("ask", "Who designed it?", "--index", "idx", "--program", "tests.app.service.conftest:Doubting")
    printed = indexed(*doubting)[0]
    assert NOT_SUPPORTED in printed
    assert ("  nearest: " in printed, "[1]" in printed) == (True, False)
    told, cost = indexed(*doubting, "--trace")[0].rpartition(NOT_SUPPORTED)[0].split(" LM call")
    assert "river flows" in told.partition("missing:")[2]
    assert "knowledge tokens" in cost
    assert "this is a guess" in indexed(*doubting, "--set", "style=short")[0]


def test_answers_with_settings_presets_and_embedded_scorers(indexed):
    parts = ("--part", "reranker=embedded", "--part", "entailment=grounding")
    answer = indexed.json(*ASK, "--program", "migres", "--set", "preset=open_domain", "--set", "delta=-1", *parts)
    assert "Ada Venn" in answer["answer"]
    assert answer["sources"][0]["sentence"] == "The Orle Bridge was designed by Ada Venn."
    assert indexed.json(*ASK, "--program", "migres", "--set", "preset=commonsense", *parts)["answer"] in ("yes", "no")


@pytest.mark.parametrize("words", [[], ["--json"]])
def test_replies_that_nobody_can_read_are_an_error(indexed, monkeypatch, words: list[str]):
    lm, engine = scripted_lm(lambda *_: UNREADABLE)
    monkeypatch.setattr("knowgap.cli.factories.load_lm", lambda *_, **__: lm)
    printed, complaint = indexed(*ASK, "--program", "rag", *words, code=2)
    assert len(engine.calls) == 2
    assert "none of 2 replies of the language model 'test/scripted' could be read" in " ".join(complaint.split())
    assert (json.loads(printed)["trace"]["cost"]["unreadable"] == 2) if words else "2 unreadable" in printed


def test_options_reach_the_model(indexed, server, monkeypatch):
    model = ["--lm", "openai/local", "--api-base", server.api_base]
    monkeypatch.setenv("KNOWGAP_LM_OPTIONS", "temperature=0.3 max_tokens=50 timeout=60")
    indexed(*ASK, "--program", "rag", *model)
    asked = server.bodies[1:]  # the first one asks for one word
    assert {(body["temperature"], body["max_completion_tokens"]) for body in asked} == {(0.3, 50)}


def test_an_address_in_the_environment_leaves_the_embedded_reader_alone(indexed, monkeypatch):
    monkeypatch.setenv("KNOWGAP_API_BASE", "http://127.0.0.1:9/v1")
    assert "Ada Venn" in indexed(*ASK, "--program", "rag")[0]


def test_doctor_names_keys_and_tells_none(indexed, monkeypatch):
    monkeypatch.setenv("SOME_API_KEY", "secret")
    printed, _ = indexed("doctor")
    assert "SOME_API_KEY" in printed
    assert "secret" not in printed


def test_doctor_says_which_packages_of_which_extra_are_absent(indexed, monkeypatch):
    installed = importlib.metadata.version

    def version(package: str) -> str:
        if package in ("peft", "optuna-dashboard"):
            raise importlib.metadata.PackageNotFoundError(package)
        return installed(package)

    monkeypatch.setattr(ls, "version", version)
    extras = {words[1]: words for words in map(str.split, indexed("doctor")[0].splitlines()) if len(words) > 3}
    assert {"arrow", "documents", "mcp", "qdrant", "serve"} <= {*extras}
    assert "absent" in extras["train"]
    assert "absent" in extras["dashboard"]
    assert "ok" in extras["documents"]


def test_the_folder_of_caches_is_its_owners_alone(tmp_path, monkeypatch):
    monkeypatch.setenv("KNOWGAP_HOME", str(tmp_path / "home"))
    assert home().stat().st_mode & 0o777 == 0o700
