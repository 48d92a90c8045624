"""Workers of a study in processes of their own, which may die: see test_tune.py and test_workers.py."""

from __future__ import annotations

import json
import os
import signal
import threading
from pathlib import Path

from compile_helpers import Tunable, make_examples, make_retriever, quality_lm

from knowgap.compiling import StudyConfig, StudyResult, compile


def study(program=(), devset=(), **more) -> StudyResult:
    """The study that `compile` runs, of one program or several."""
    found = compile(program, devset, more.pop("metric"), **more).study
    assert found is not None
    return found


def study_arguments(n_dev: int = 10):
    dev, train = make_examples(n_dev), make_examples(4, "t")
    lm, engine = quality_lm(dev + train)
    program = Tunable(make_retriever(dev + train))
    return {
        "program": program,
        "devset": dev,
        "trainset": train,
        "metric": "exact_match",
        "lm": lm,
        "config": StudyConfig(reuse=False),
    }, engine


def plain(tuning) -> list:
    """What a study found, without numbers that count failed trials or measure time."""
    return [[t.label, t.values, t.demonstrations, t.complete, t.scores] for t in tuning.trials]


def work(storage: str, n_trials: int, deadline: float) -> None:
    """One worker of many, which dies after so many seconds; 0 lets it live."""
    if deadline:
        threading.Timer(deadline, os.kill, (os.getpid(), signal.SIGKILL)).start()
    arguments, _ = study_arguments()
    arguments["config"] = StudyConfig(reuse=False, heartbeat=1)
    study(**arguments, n_trials=n_trials, study_name="many", storage=storage, num_threads=2)


def run_mortal(storage: str, n_trials: int, die_after: int, output: str) -> None:
    """A study whose process dies at its n-th call, or writes what it found and how many calls it made to a file."""
    arguments, engine = study_arguments()
    complete, calls = engine.complete, [0]

    def mortal(request):
        calls[0] += 1
        if calls[0] == die_after:
            os.kill(os.getpid(), signal.SIGKILL)
        return complete(request)

    engine.complete = mortal
    tuning = study(**arguments, n_trials=n_trials, study_name="killed", storage=storage, num_threads=2)
    Path(output).write_text(json.dumps({"calls": calls[0], "trials": plain(tuning)}))
