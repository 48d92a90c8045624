"""calibrate, compile and tune: what they find, what they save, and how processes share a study."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from knowgap.compiling.study.local_processes import LOCAL_WORKER
from knowgap.compiling.study.storage import open_storage

STUDY = ("--program", "rag", "--engine", "bm25", "--limit", "2", "--num-threads", "1", "-o", "out")
PRICED = ("--lm", "openai/nobody", "--prices", "1,2")


def finished_trials(storage: Path) -> list:
    import optuna

    states = (optuna.trial.TrialState.COMPLETE, optuna.trial.TrialState.PRUNED)
    with open_storage(storage) as opened:
        return optuna.load_study(study_name=None, storage=opened).get_trials(states=states)


def test_calibrates(knowgap):
    calibrate = ("compile", "--optimizer", "calibrate", "--engine", "bm25", "--limit", "3", "-o", "out")
    printed, _ = knowgap(
        *calibrate, "--part", "reranker=embedded", "--set", "retrieve_k=10", "--optimizer-option", "share=1.0"
    )
    assert "100% of the questions reach it" in printed
    saved = json.loads((knowgap.folder / "out" / "artifact" / "config.json").read_text())["hyperparameters"]["delta"]
    assert f"δ = {saved:.4f}" in printed


def test_finds_demonstrations_alone(knowgap):
    printed, _ = knowgap("compile", *STUDY, "--optimizer", "labeled", "--optimizer-option", "k=1")
    assert "1 demonstrations in 1 predictors" in printed
    out = knowgap.folder / "out"
    assert (out / "artifact" / "config.json").exists()
    assert {file.stem for file in (out / "evaluations").iterdir()} == {
        "dev before",
        "dev after",
        "test before",
        "test after",
    }


def test_the_table_of_trials_says_which_had_demonstrations(knowgap):
    printed, _ = knowgap("compile", *STUDY, "--limit", "6", "--n-trials", "2", "--demos", "search")
    [row] = [line for line in printed.splitlines() if "bootstrapped" in line]
    assert "demonstrations" in row


def test_a_study_in_which_every_score_is_0_says_so(knowgap):
    file = knowgap.folder / "questions.jsonl"
    questions = [json.loads(line) | {"answer": "xyzzy"} for line in file.read_text().splitlines()]
    file.write_text("\n".join(json.dumps(question | {"id": f"q{n}"}) for n, question in enumerate(3 * questions)))
    words = ("--data", "questions.jsonl", "--corpus", "docs.jsonl", "--n-trials", "2", "--demos", "none")
    _, remarks = knowgap("compile", *STUDY, *words)
    assert "there is nothing to choose by" in " ".join(remarks.split())


def test_a_split_without_questions_is_told_before_anything_is_asked(knowgap):
    lines = (knowgap.folder / "questions.jsonl").read_text().splitlines()
    (knowgap.folder / "three.jsonl").write_text("\n".join(lines[:3]))
    words = ("--program", "direct", "--data", "three.jsonl", "-o", "out")
    refusal = knowgap.refusal("compile", *words)
    assert "three has no questions in its split 'test' (it has train 2, dev 1, test 0): add questions" in refusal
    assert not (knowgap.folder / "out").exists()


def test_estimates_before_anything_is_spent(knowgap):
    printed, _ = knowgap("compile", *STUDY, "--dry-run")
    assert "what it would cost with knowgap/extractive-5" in " ".join(printed.split())
    # each question is one call of rag: 20 trials of 2 questions, and 2 programs on 2 dev and 2 test questions
    assert [cell.strip() for cell in rows(printed, "rag")[0].split("│")[2:4]] == ["48", "48"]
    # and 20 of 60 training questions, on which the choice is tested too
    printed, _ = knowgap("compile", *STUDY, "--limit", "60", "--dry-run")
    assert rows(printed, "rag")[0].split("│")[2].strip().replace(",", "") == str(20 * 60 + 2 * (60 + 20 + 60))
    priced, _ = knowgap("compile", "--demos", "none", *STUDY, "--dry-run", "--prices", "1,2")
    assert float(rows(priced, "rag")[0].split("│")[6]) > 0
    assert not (knowgap.folder / "out").exists()


def test_two_workers_do_the_trials_of_one_study(knowgap, monkeypatch: pytest.MonkeyPatch):
    started: list[subprocess.Popen[bytes]] = []

    class Recorded(subprocess.Popen):
        def __init__(self, *args, **kwargs):
            super().__init__(*args, **kwargs)
            if LOCAL_WORKER in (kwargs.get("env") or {}):
                started.append(self)

    monkeypatch.setattr(subprocess, "Popen", Recorded)
    command = ("compile", *STUDY, "--n-trials", "4", "--num-workers", "2")
    printed, remarks = knowgap(*command)
    assert [(process.args, process.returncode) for process in started] == [
        ([sys.executable, "-m", "knowgap", *command], 0)
    ]
    assert "stopped early, and" not in remarks
    assert re.search("the best of [45] trials", printed)
    assert (knowgap.folder / "out" / "artifact" / "config.json").exists()
    trials = finished_trials(knowgap.folder / "out" / "study.db")
    assert len(trials) in (4, 5)  # the trial that the other worker was running is finished as well
    initial = [trial.user_attrs["initial"] for trial in trials if "initial" in trial.user_attrs]
    assert len(initial) == len(set(initial))


def test_a_local_worker_runs_trials_and_nothing_else(knowgap, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv(LOCAL_WORKER, "1")
    assert knowgap("compile", "--demos", "none", *STUDY, "--n-trials", "1", "--num-workers", "3")[0] == ""
    out = knowgap.folder / "out"
    assert [file.name for file in out.iterdir() if not file.name.startswith("study.db")] == []
    assert len(finished_trials(out / "study.db")) == 1


def rows(printed: str, label: str) -> list[str]:
    """The lines of tables whose first cell is `label`."""
    return [line for line in printed.splitlines() if line.startswith(f"│ {label} ")]


def test_estimates_an_optimizer(knowgap):
    printed, _ = knowgap("compile", *STUDY, "--optimizer", "random_search", "--dry-run")
    # 9 runs of 2 training and 11 of 2 dev questions, and 8 for the scores
    assert "48" in rows(printed, "rag")[0]
    assert "cannot be estimated" in knowgap.refusal("compile", *STUDY, "--optimizer", "gepa", "--dry-run")


def test_refuses_optimizers_that_cannot_be_used(knowgap):
    assert "unknown optimizer 'boot'" in knowgap.refusal("compile", *STUDY, "--optimizer", "boot")
    assert "cannot be saved" in knowgap.refusal("compile", *STUDY, "--optimizer", "knn")
    for option in ("--study max_calls=9", "--range top_k=1:3", "--hold-out 0", "--demos none", "--n-trials 9"):
        refusal = knowgap.refusal("compile", *STUDY, "--optimizer", "bootstrap", *option.split())
        assert f"{option.split()[0]} applies only to a study" in refusal
    reanchor = ("compile", *STUDY, "--optimizer", "reanchor")
    assert "--optimizer reanchor uses no teacher" in knowgap.refusal(*reanchor, "--teacher-lm", "openai/x")
    assert not (knowgap.folder / "home").exists()  # nothing was opened or built for it


SEVERAL = (
    *("--program", "rag,direct,iter_retgen", "--engine", "bm25", "--limit", "4"),
    *("--num-threads", "1", "-o", "out"),
)


def test_finds_the_best_of_several_programs(knowgap):
    words = (*SEVERAL, "--n-trials", "6", "--study", "max_calls_per_question=1")
    printed = " ".join(knowgap("compile", *words)[0].split())
    assert "3 programs" in printed
    assert "the program as it was, which is kept" in printed
    config = json.loads((knowgap.folder / "out" / "artifact" / "config.json").read_text())
    assert (config["program"], [*config["evaluations"]]) == ("rag", ["dev before", "test before"])
    assert config["hyperparameters"]["max_calls"] == 1
    knowgap("compile", *words, "--hold-out", "0")
    config = json.loads((knowgap.folder / "out" / "artifact" / "config.json").read_text())
    assert config["program"] == config["compared"][0]["program"]
    assert {row["program"] for row in config["compared"]} == {"rag", "direct", "iter_retgen"}
    assert sum(row["trials"] for row in config["compared"]) == len(finished_trials(knowgap.folder / "out" / "study.db"))
    assert "## Programs compared" in (knowgap.folder / "out" / "artifact" / "card.md").read_text()
    assert "Score against cost" in (knowgap.folder / "out" / "report.html").read_text()
    again, _ = knowgap("compile", *words)
    assert "the best of 6 trials" in again
    assert "from 0 to 3 can be held out" in knowgap.refusal("compile", *words, "--hold-out", "4")
    message = knowgap.refusal("compile", *SEVERAL, "--n-trials", "6", "--study", "max_calls_per_question=0")
    assert "max_calls_per_question" in message


@pytest.mark.long
def test_two_workers_share_a_study_of_several_programs(knowgap):
    _, remarks = knowgap("compile", *SEVERAL, "--n-trials", "6", "--num-workers", "2")
    assert "stopped early, and" not in remarks
    trials = finished_trials(knowgap.folder / "out" / "study.db")
    assert 6 <= len(trials) <= 7
    assert {trial.params["program"] for trial in trials} == {"rag", "direct", "iter_retgen"}


def test_estimates_several_programs(knowgap):
    printed, _ = knowgap("compile", *SEVERAL, "--n-trials", "8", "--dry-run")
    assert [rows(printed, name) != [] for name in ("rag", "direct", "iter_retgen")] == [True] * 3


def test_refuses_what_goes_with_one_program(knowgap):
    for option in (["--set", "top_k=3"], ["--set", "preset=multihop"], ["--optimizer", "labeled"]):
        message = knowgap.refusal("compile", *SEVERAL, *option)
        assert option[0] in message
        assert "one program, but --program names several" in message
    assert "none of the programs has the part" in knowgap.refusal("compile", *SEVERAL, "--part", "reranker=embedded")
    everything = knowgap(
        "compile", "--demos", "none", "--program", "all", *SEVERAL[2:], "--n-trials", "30", "--dry-run"
    )
    assert "left out: direct, which needs no index" in everything[1]
    assert rows(everything[0], "blend_filter")
