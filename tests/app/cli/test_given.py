"""No option that stands on the command line is ignored in silence: it is obeyed, refused in one line, or named."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import typer
from support import by_output, scripted_lm
from typer.testing import CliRunner

from knowgap.cli import options as o
from knowgap.cli.given import grouped
from tests.app.cli.conftest import Knowgap

ASK = ("ask", "Who designed the Orle Bridge?")
EVAL = ("eval", "--data", "questions.jsonl", "--whole", "--index", "idx")
TUNE = ("tune", "--data", "questions.jsonl", "--index", "idx", "--program", "rag")
TABLE = ("experiment", "own_questions", "--data-path", "own=questions.jsonl", "--corpus", "own=docs.jsonl")


@pytest.fixture
def compiled(indexed: Knowgap) -> Knowgap:
    """The command in a folder with an index, and with a compiled rag in compiled/artifact."""
    from knowgap.compiling import save_artifact
    from knowgap.programs import get_program
    from knowgap.retrieval import open_index

    save_artifact(get_program("rag")(open_index("idx")), "compiled/artifact", lm="openai/other")
    return indexed


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        ([*ASK, "--index", "idx", "--data", "sample"], "--data sample: the passages are those of the index idx"),
        (["search", "Orle", "--index", "idx", "-d", "sample"], "--data sample: the passages are those of the index"),
        ([*ASK, "--index", "idx", "--artifact", "compiled/artifact", "-p", "migres"], "--program migres: compiled"),
        ([*EVAL, "--artifact", "compiled/artifact", "-p", "rag"], "--program rag: compiled/artifact is a program"),
        ([*EVAL, "--artifact", "compiled/artifact", "--preset", "x"], "--preset x: goes with --program"),
        ([*EVAL, "--artifact", "compiled/artifact", "--reranker", "embedded"], "the program rag has no reranker"),
        ([*EVAL, "--artifact", "compiled/artifact", "--entailment", "embedded"], "the program rag has no entailment"),
        ([*TUNE, "--mode", "pareto", "--prune"], "--prune: --mode pareto stops no trial early"),
        ([*TUNE, "--max-money", "1", "--lm", "openai/nobody", "--api-base", "http://127.0.0.1:9/v1"], "127.0.0.1:9"),
        (["compile", *TUNE[1:], "--optimizer", "labeled", "--teacher-lm", "openai/x"], "without a teacher"),
        (["compile", *TUNE[1:], "--teacher-lm", "extractive"], "has nothing to do"),
        ([*TABLE, "--measure"], "--measure: goes with --dry-run"),
        ([*TABLE, "--dry-run", "--ray-address", "local"], "--ray-address local: goes without --dry-run"),
        (["doctor", "--engine", "bm25"], "--engine bm25: goes with --index"),
        (["experiment", "--list", "--limit", "3"], "--limit 3: is of no use with --list"),
        ([*TABLE, "--row-lm", "gpt-9=extractive"], "unknown language model of own_questions 'gpt-9'"),
        ([*TABLE, "--row", "no retrieval", "--baseline", "plain retrieval"], "is not among the rows that are run"),
    ],
)
def test_refuses_what_it_would_ignore(compiled: Knowgap, words: list[str], reason: str):
    assert reason in compiled.refusal(*words)


def test_a_variable_is_a_default_and_refuses_nothing(compiled: Knowgap, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("KNOWGAP_PROGRAM", "migres")
    monkeypatch.setenv("KNOWGAP_DATA", "sample")
    answer = compiled.json(*ASK, "--index", "idx", "--artifact", "compiled/artifact")
    assert answer["answer"] == "Ada Venn"
    assert answer["trace"]["cost"]["lm_calls"] == 1


def test_settings_go_over_those_of_an_artifact(compiled: Knowgap):
    answer = compiled.json(*ASK, "--index", "idx", "--artifact", "compiled/artifact", "--set", "top_k=1")
    assert len(answer["passages"]) == 1


def test_what_is_never_read_is_named_at_the_end(indexed: Knowgap):
    _, remarks = indexed(*ASK, "--program", "direct", "--index", "idx", "--engine", "bm25")
    assert "without effect on this run: --index idx, --engine bm25" in " ".join(remarks.split())
    _, remarks = indexed(*ASK, "--program", "rag", "--index", "idx", "--engine", "bm25")
    assert "without effect" not in remarks


def test_a_model_that_no_row_has_a_part_for_is_named(knowgap: Knowgap):
    _, remarks = knowgap(*TABLE, "--row", "no retrieval", "--reranker", "embedded", "--entailment", "embedded")
    assert "without effect on this run: --reranker embedded, --entailment embedded" in " ".join(remarks.split())


def test_every_option_of_a_group_is_watched():
    """A command that reads nothing names everything it was given, flags and repeated options too."""
    app = typer.Typer()

    @grouped
    def idle(*, options: o.StudyOptions) -> None:
        pass

    app.command()(idle)
    words = ["--n-trials", "3", "--no-prune", "--dry-run", "--prices", "1,2", "--metric", "f1", "--metric", "recall"]
    said = " ".join(CliRunner().invoke(app, words).output.split())
    assert all(word in said for word in ("--n-trials 3", "--no-prune", "--dry-run", "--prices", "--metric f1"))
    assert "--limit" not in said


@pytest.mark.parametrize("words", [ASK, ("search", "Orle Bridge")])
def test_says_first_that_the_sample_answers(knowgap: Knowgap, monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...]):
    monkeypatch.setenv("KNOWGAP_ENGINE", "bm25")
    assert "using the bundled sample, a fictional encyclopedia" in " ".join(knowgap(*words)[1].split())
    assert "bundled sample" not in knowgap(*words, "--data", "sample")[1]
    monkeypatch.setenv("KNOWGAP_DATA", "sample")
    assert "bundled sample" not in knowgap(*words)[1]


def test_says_that_the_questions_are_the_samples(knowgap: Knowgap):
    _, remarks = knowgap("eval", "--program", "rag", "--engine", "bm25", "--limit", "1")
    assert "using the bundled sample" in " ".join(remarks.split())


def test_a_language_model_is_not_asked_about_the_sample_unless_it_is_named(knowgap: Knowgap):
    message = knowgap.refusal(*ASK, "--lm", "openai/nobody", "--api-base", "http://127.0.0.1:9/v1")
    assert "no index: name one with --index FOLDER" in message
    message = knowgap.refusal(*ASK, "--lm", "openai/nobody", "--api-base", "http://127.0.0.1:9/v1", "--data", "sample")
    assert "127.0.0.1:9" in message
    assert not (knowgap.folder / "home" / "indexes").exists()


@pytest.mark.parametrize("words", [(*ASK, "--index", "idx"), EVAL])
def test_says_that_an_artifact_was_compiled_with_another_model(
    compiled: Knowgap, monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...]
):
    _, remarks = compiled(*words, "--artifact", "compiled/artifact")
    line = "warning: this rag was compiled with another language model: openai/other, not knowgap/extractive"
    assert " ".join(remarks.split()).count(line) == 1
    lm, _ = scripted_lm(by_output({"answer": lambda *_: {"answer": "Ada Venn"}}))
    lm.model = "openai/other"
    monkeypatch.setattr("knowgap.cli.factories.load_lm", lambda *_, **__: lm)
    assert "another language model" not in compiled(*words, "--artifact", "compiled/artifact")[1]


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        ([*ASK, "--index", "idx", "--program", "migress"], "did you mean 'migres'"),
        ([*ASK, "--index", "idx", "--program", "rag", "--set", "topk=3"], "did you mean 'top_k'"),
        ([*ASK, "--index", "idx", "--program", "rag", "--set", "top_k=99"], "from 1 to 50"),
        ([*ASK, "--index", "idx", "--preset", "multihop"], "did you mean 'multi_hop'"),
        ([*EVAL, "--metric", "exact_mach"], "did you mean 'exact_match'"),
        ([*EVAL[:4], "--index", "nowhere", "--program", "raag"], "did you mean 'rag'"),
        (["compare", *EVAL[1:], "--programs", "rag,migress"], "did you mean 'migres'"),
        ([*TUNE, "--cost", "token"], "did you mean 'tokens'"),
        ([*TUNE, "--rule", "cheapest"], "it is best, within X"),
        (["calibrate", *TUNE[1:5], "--program", "migress"], "did you mean 'migres'"),
        (["compile", *TUNE[1:], "--optimizer", "bootstap"], "did you mean 'bootstrap'"),
        ([*TABLE, "--row", "plain retreival"], "did you mean 'plain retrieval'"),
        ([*TABLE, "--baseline", "plain retreival"], "did you mean 'plain retrieval'"),
        ([*TABLE, "--engine", "bm26"], "did you mean 'bm25'"),
        ([*TABLE, "--as-paper", "corpora"], "did you mean 'corpus'"),
        ([*TABLE, "--data-path", "ovn=questions.jsonl"], "did you mean 'own'"),
    ],
)
def test_names_are_checked_before_a_language_model_is_asked(
    indexed: Knowgap, monkeypatch: pytest.MonkeyPatch, words: list[str], reason: str
):
    def asked(*_: object, **__: object) -> None:
        raise AssertionError("a language model is loaded before the names are known to be right")

    monkeypatch.setattr("knowgap.cli.factories.load_lm", asked)
    assert reason in indexed.refusal(*words)


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"program": "raag"}, "unknown program 'raag': did you mean 'rag'?"),
        ({"program": "migres", "preset": "multihop"}, "did you mean 'multi_hop'"),
        ({"program": "rag", "settings": {"topk": 3}}, "did you mean 'top_k'"),
        ({"program": "rag", "settings": {"top_k": 99}}, "from 1 to 50"),
        ({"program": "rag", "by_dataset": {"owns": {}}}, "did you mean 'own'"),
        ({"program": "rag", "datasets": ["owns"]}, "did you mean 'own'"),
        ({"program": "rag", "engine": "bm26"}, "did you mean 'bm25'"),
        ({"program": "rq_rag", "metrics": ["action:rewriet"]}, "did you mean 'action:rewrite'"),
        ({"program": "probe_missing", "metrics": ["probe:acuracy"]}, "did you mean 'probe:accuracy'"),
        ({"progam": "rag"}, "unknown field 'progam': did you mean 'program'?"),
        ({"artifact": "compiled/artifact", "preset": "x"}, "leave out the preset"),
    ],
)
def test_names_in_a_table_are_checked_before_a_language_model_is_asked(
    compiled: Knowgap, monkeypatch: pytest.MonkeyPatch, change: dict, reason: str
):
    row = {"label": "second", **change}
    columns = f"[[columns]]\ndataset = 'own'\nmetrics = {json.dumps(row.pop('metrics', ['f1']))}\n"
    lines = ["title = 'T'", columns, "[[rows]]\nlabel = 'first'\nprogram = 'direct'", "[[rows]]"]
    lines += [f"{name} = {json.dumps(value)}" for name, value in row.items() if not isinstance(value, dict)]
    lines += [f"[rows.{name}]\n" + _inline(value) for name, value in row.items() if isinstance(value, dict)]
    Path("t.toml").write_text("\n".join(lines), encoding="utf-8")

    def asked(*_: object, **__: object) -> None:
        raise AssertionError("a language model is loaded before the names are known to be right")

    monkeypatch.setattr("knowgap.cli.factories.load_lm", asked)
    assert reason in compiled.refusal("experiment", "t.toml", *TABLE[2:])


def _inline(values: dict) -> str:
    return "\n".join(f"{name} = {json.dumps(value)}" for name, value in values.items())


@pytest.mark.parametrize("prices", ["1", "1,2,3", "a,b", "-1,2", "nan,1", "1;2", ""])
def test_prices_of_another_form_are_refused_in_one_line(knowgap: Knowgap, prices: str):
    for command in (["eval"], ["tune"], ["experiment", "own_questions"]):
        assert "write two numbers with a comma, such as 0.15,0.6" in knowgap.refusal(*command, "--prices", prices)
    assert "such as 0.15,0.6" in knowgap.refusal("tune", "--prices", "0.15", "0.6")


@pytest.mark.parametrize("programs", [["rag"], ["direct", "rag"]])
def test_a_dry_run_prices_an_evaluation_and_asks_nothing(indexed: Knowgap, programs: list[str]):
    lm = ("--lm", "openai/nobody", "--api-base", "http://127.0.0.1:9/v1", "--dry-run")
    several = len(programs) > 1
    command = ["compare", "--programs", ",".join(programs)] if several else ["eval", "--program", *programs]
    words = [*command, *EVAL[1:], *lm, "--prices", "0.15,0.6", "-o", "out"]
    estimates = indexed.json(*words)
    assert [(e["questions"], e["calls"]) for e in estimates.values()] == [(4, 4)] * len(programs)
    for estimate in estimates.values():
        tokens = estimate["prompt_tokens"], estimate["completion_tokens"]
        assert estimate["money"] == pytest.approx((0.15 * tokens[0] + 0.6 * tokens[1]) / 1e6)
    printed, _ = indexed(*words)
    for unit in ("LM calls", "tokens in", "tokens out", "US dollars"):
        assert unit in " ".join(printed.split())
    assert ("│ all " in printed) is several
    assert not (indexed.folder / "out").exists()


def test_calls_of_metrics_that_judge_are_priced(indexed: Knowgap):
    words = (*EVAL, "--program", "rag", "--dry-run", "--metric", "judged_accuracy", "--metric", "f1")
    assert indexed.json(*words)["rag"]["calls"] == 4 + 4


def test_a_row_is_priced_by_its_own_language_model(knowgap: Knowgap):
    rows = ("--row", "no retrieval", "--dry-run")
    estimate = knowgap.json("experiment", "own_questions", *rows, "--lm", "openai/gpt-4o-mini")
    assert all(cell["money"] > 0 for cell in estimate.values())
    free = knowgap.json("experiment", "own_questions", *rows, "--lm", "extractive")
    assert [cell["money"] for cell in free.values()] == [0]
