"""The command as a user meets it: what it prints, what it writes, and one clear line for each kind of bad input."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path

import pytest

from knowgap.cli import factories
from knowgap.cli.compile import run_study
from knowgap.cli.main import main
from knowgap.compile.study import local_processes
from knowgap.compile.study.local_processes import LOCAL_WORKER
from knowgap.compile.study.storage import open_storage
from knowgap.compile.study.trials import choose

DOCUMENTS = [
    {"id": "orle", "title": "Orle Bridge", "text": "The Orle Bridge was designed by Ada Venn. It opened in 1931."},
    {"id": "venn", "title": "Ada Venn", "text": "Ada Venn (1890 – 1960) was an engineer. She was born in Tarn."},
    {"id": "tarn", "title": "Tarn", "text": "Tarn is a town on the river Isk. It has a cheese market."},
    {"id": "isk", "title": "Isk", "text": "The Isk is a river. It is 120 kilometres long and flows into the sea."},
    {"id": "moth", "title": "Grey moth", "text": "The grey moth is a moth. Its larvae feed on willow."},
    {"id": "hall", "title": "Hall", "text": "The hall was built by Jon Reth in 1870."},
]
QUESTIONS = [
    {"question": "Who designed the Orle Bridge?", "answer": "Ada Venn", "gold_ids": ["orle"]},
    {"question": "Where was Ada Venn born?", "answer": "Tarn", "gold_ids": ["venn"]},
    {"question": "How long is the Isk?", "answer": ["120 kilometres", "120 km"], "gold_ids": ["isk"]},
    {"question": "Who built the hall?", "answer": "Jon Reth", "gold_ids": ["hall"]},
]


@pytest.fixture
def desk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with documents, questions and an index of the documents."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("KNOWGAP_HOME", str(tmp_path / "home"))
    write_lines(tmp_path / "docs.jsonl", DOCUMENTS)
    write_lines(tmp_path / "questions.jsonl", QUESTIONS)
    assert run("index", "--corpus", "docs.jsonl", "--engine", "bm25", "--index", "idx") == 0
    return tmp_path


def write_lines(path: Path, records: list[dict]) -> None:
    path.write_text("".join(json.dumps(record) + "\n" for record in records), encoding="utf-8")


def run(*arguments: str) -> int:
    with pytest.raises(SystemExit) as end:
        main(list(arguments))
    return int(end.value.code or 0)


def refusal(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    """The one line that bad input gets, on standard error, with exit code 2."""
    capsys.readouterr()
    assert run(*arguments) == 2
    captured = capsys.readouterr()
    lines = [line for line in captured.err.splitlines() if line.startswith("error:")]
    assert len(lines) == 1
    assert "Traceback" not in captured.err
    return " ".join(captured.err[captured.err.index("error:") :].split())


def test_lists_what_there_is(capsys: pytest.CaptureFixture[str]):
    assert run("ls") == 0
    printed = capsys.readouterr().out
    assert all(word in printed for word in ("migres", "rag", "hotpotqa", "exact_match", "bootstrap"))


def test_describes_a_program(capsys: pytest.CaptureFixture[str]):
    assert run("ls", "migres", "--json") == 0
    described = json.loads(capsys.readouterr().out)
    assert described["hyperparameters"]["iterations"]["default"] == 5
    assert described["presets"]["open_domain"]["iterations"] == 3


def test_searches(desk: Path, capsys: pytest.CaptureFixture[str]):
    capsys.readouterr()
    assert run("search", "Orle Bridge", "--index", "idx", "-k", "2", "--json") == 0
    found = json.loads(capsys.readouterr().out)
    assert found["hits"][0]["id"] == "orle"


def test_answers_and_shows_the_trace(desk: Path, capsys: pytest.CaptureFixture[str]):
    capsys.readouterr()
    assert run("ask", "Who designed the Orle Bridge?", "--program", "rag", "--index", "idx") == 0
    captured = capsys.readouterr()
    assert "Ada Venn" in captured.out
    assert "LM calls" in captured.out
    assert "not a language model" in " ".join(captured.err.split())


def test_answers_as_json(desk: Path, capsys: pytest.CaptureFixture[str]):
    capsys.readouterr()
    question = "Who designed the Orle Bridge?"
    assert run("ask", question, "--program", "rag", "--index", "idx", "--set", "top_k=2", "--json") == 0
    answer = json.loads(capsys.readouterr().out)
    assert answer["answer"] == "Ada Venn"
    assert len(answer["passages"]) <= 2
    assert answer["trace"]["cost"]["lm_calls"] == 1


@pytest.mark.parametrize(("program", "option"), [("rerank", "--reranker"), ("vtg", "--entailment")])
def test_answers_with_an_embedded_scorer(desk: Path, capsys: pytest.CaptureFixture[str], program: str, option: str):
    question = "Who designed the Orle Bridge?"
    assert run("ask", question, "--program", program, option, "embedded", "--index", "idx", "--json") == 0
    assert "Ada Venn" in json.loads(capsys.readouterr().out)["answer"]


def test_scores_and_continues(desk: Path, capsys: pytest.CaptureFixture[str]):
    arguments = ["eval", "--program", "rag", "--data", "questions.jsonl", "--whole", "--index", "idx", "-o", "out"]
    capsys.readouterr()
    assert run(*arguments, "--json") == 0
    first = json.loads(capsys.readouterr().out)
    assert first["questions"] == 4
    assert first["failed"] == 0
    kept = desk / "out" / "rag-questions-test.jsonl"
    lines = kept.read_text(encoding="utf-8").splitlines()
    kept.write_text("\n".join(lines[:3]) + "\n", encoding="utf-8")  # as if killed after two questions
    assert run(*arguments, "--json") == 0
    again = json.loads(capsys.readouterr().out)
    assert again["scores"] == first["scores"]
    assert len(kept.read_text(encoding="utf-8").splitlines()) == len(lines)


def test_compares(desk: Path, capsys: pytest.CaptureFixture[str]):
    arguments = ["--data", "questions.jsonl", "--whole", "--index", "idx", "--programs", "direct,rag"]
    assert run("compare", *arguments) == 0
    printed = capsys.readouterr().out
    assert "rag − direct" in printed


STUDY = ["--program", "rag", "--data", "sample", "--engine", "bm25", "--limit", "2", "--num-threads", "1", "-o", "out"]


@pytest.fixture
def study_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder to work in, and the caches and indexes beside it."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("KNOWGAP_HOME", str(tmp_path / "home"))
    return tmp_path


def test_two_workers_do_the_trials_of_one_study(
    study_home: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    started: list[subprocess.Popen[bytes]] = []

    class Recorded(subprocess.Popen):
        def __init__(self, *args, **kwargs):
            super().__init__(*args, **kwargs)
            if LOCAL_WORKER in (kwargs.get("env") or {}):
                started.append(self)

    monkeypatch.setattr(subprocess, "Popen", Recorded)
    command = ["compile", *STUDY, "--n-trials", "4", "--num-workers", "2"]
    assert run(*command) == 0
    captured = capsys.readouterr()
    assert [(process.args, process.returncode) for process in started] == [
        ([sys.executable, "-m", "knowgap", *command], 0)
    ]
    assert "gave up" not in captured.err
    assert re.search("the best of [45] trials", captured.out)
    assert (study_home / "out" / "artifact" / "config.json").exists()
    trials = finished_trials(study_home / "out" / "study.db")
    assert len(trials) in (4, 5)  # the trial that the other worker was running is finished as well
    initial = [trial.user_attrs["initial"] for trial in trials if "initial" in trial.user_attrs]
    assert len(initial) == len(set(initial))


def test_a_local_worker_runs_trials_and_nothing_else(
    study_home: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    monkeypatch.setenv(LOCAL_WORKER, "1")
    assert run("tune", *STUDY, "--n-trials", "1", "--num-workers", "3") == 0
    assert capsys.readouterr().out == ""
    assert [file.name for file in (study_home / "out").iterdir() if not file.name.startswith("study.db")] == []
    assert len(finished_trials(study_home / "out" / "study.db")) == 1


def test_what_workers_finish_after_a_limit_counts(study_home: Path, monkeypatch: pytest.MonkeyPatch):
    data = factories.open_data("sample")
    model = factories.language_model(None)
    program = factories.make_program("rag", factories.open_retriever(None, data, engine="bm25"))

    def study(limits: dict, num_workers: int):
        options = {"limit": 2, "limits": limits, "num_workers": num_workers, "n_trials": 3, "num_threads": 1}
        return run_study(program, data, "f1", model, study_home, demos=None, **options)

    @contextmanager
    def late(count: int, command: list[str] | None):
        yield []
        if count:
            study({}, 1)

    monkeypatch.setattr(local_processes, "local_workers", late)
    assert len(study({"calls": 2}, 1).trials) == 1
    tuned = study({"calls": 2}, 2)
    assert tuned.stopped != "trials"
    assert len(tuned.trials) == 3
    assert tuned.best == choose(tuned.trials)
    assert tuned.program.values() == tuned.best.values


def finished_trials(storage: Path) -> list:
    import optuna

    states = (optuna.trial.TrialState.COMPLETE, optuna.trial.TrialState.PRUNED)
    return optuna.load_study(study_name=None, storage=open_storage(storage)).get_trials(states=states)


def test_refuses_fewer_workers_than_one(study_home: Path, capsys: pytest.CaptureFixture[str]):
    assert "--num-workers 0" in refusal(capsys, "tune", *STUDY, "--num-workers", "0")
    assert "--num-workers -1" in refusal(capsys, "compile", *STUDY, "--num-workers", "-1")
    assert not (study_home / "home").exists()  # nothing was opened or built for it


def test_refuses_workers_where_there_is_no_study(study_home: Path, capsys: pytest.CaptureFixture[str]):
    message = refusal(capsys, "compile", *STUDY, "--optimizer", "bootstrap", "--num-workers", "2")
    assert "--num-workers 2" in message
    assert "bootstrap" in message


def test_refuses_an_empty_question(desk: Path, capsys: pytest.CaptureFixture[str]):
    assert "question is empty" in refusal(capsys, "ask", "   ", "--index", "idx")


def test_refuses_a_missing_index(desk: Path, capsys: pytest.CaptureFixture[str]):
    assert "nowhere" in refusal(capsys, "ask", "Who?", "--index", "nowhere")


def test_refuses_a_damaged_index(desk: Path, capsys: pytest.CaptureFixture[str]):
    files = [file for file in (desk / "idx").rglob("*") if file.is_file()]
    victim = max(files, key=lambda file: file.stat().st_size)
    victim.write_bytes(victim.read_bytes()[:-5])
    assert victim.name in refusal(capsys, "search", "Orle", "--index", "idx")


def test_refuses_a_corpus_line_that_is_not_json(desk: Path, capsys: pytest.CaptureFixture[str]):
    (desk / "broken.jsonl").write_text(json.dumps(DOCUMENTS[0]) + "\n{oops\n", encoding="utf-8")
    message = refusal(capsys, "index", "--corpus", "broken.jsonl", "--index", "other", "--engine", "bm25")
    assert "broken.jsonl:2" in message
    assert not (desk / "other").exists()


def test_refuses_an_unknown_program(desk: Path, capsys: pytest.CaptureFixture[str]):
    assert "did you mean 'migres'" in refusal(capsys, "ask", "Who?", "--program", "migress", "--index", "idx")


def test_refuses_a_setting_out_of_bounds(desk: Path, capsys: pytest.CaptureFixture[str]):
    message = refusal(capsys, "ask", "Who?", "--program", "rag", "--index", "idx", "--set", "top_k=500")
    assert "top_k" in message
    assert "from 1 to 50" in message


def test_refuses_an_unreachable_endpoint(desk: Path, capsys: pytest.CaptureFixture[str]):
    arguments = ["--index", "idx", "--lm", "openai/none", "--api-base", "http://127.0.0.1:9/v1"]
    assert "127.0.0.1:9" in refusal(capsys, "ask", "Who?", *arguments)


def test_refuses_an_artifact_of_another_class(desk: Path, capsys: pytest.CaptureFixture[str]):
    artifact = desk / "artifact"
    artifact.mkdir()
    (artifact / "config.json").write_text(json.dumps({"program": "nonsense", "format": 1}), encoding="utf-8")
    (artifact / "program.json").write_text("{}", encoding="utf-8")
    assert str(artifact) in refusal(capsys, "ask", "Who?", "--artifact", str(artifact), "--index", "idx")


def test_debug_shows_the_traceback(desk: Path):
    with pytest.raises(LookupError):
        main(["--debug", "ask", "Who?", "--program", "nonsense", "--index", "idx"])
