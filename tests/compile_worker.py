"""A study in a process of its own, which may die: see the tests of studies."""

from __future__ import annotations

import os
import signal
import threading
from typing import Any

from compile_helpers import Tunable, make_examples, make_retriever, quality_lm

from knowgap.compiling import StudyConfig, StudyResult
from knowgap.compiling.run import Run
from knowgap.compiling.study.run import run_study


def study(program: Any, devset: Any, trainset: Any, metric: Any, **more: Any) -> StudyResult:
    return run_study(program, devset, trainset, metric, **more)


def study_arguments(n_dev: int = 10):
    """The arguments of a study, the language model among them, and its engine."""
    dev, train = make_examples(n_dev), make_examples(4, "t")
    lm, engine = quality_lm(dev + train)
    program = Tunable(make_retriever(dev + train))
    return {"program": program, "devset": dev, "trainset": train, "metric": "exact_match", "lm": lm}, engine


def plain(found: StudyResult) -> list:
    """What a study found, without numbers that count failed trials or measure time."""
    return [[t.user_attrs.get("label"), t.params, t.state.name, t.intermediate_values] for t in found.trials]


def work(storage: str, n_trials: int, deadline: float) -> None:
    """One process of a study, which dies after so many seconds; 0 lets it live."""
    if deadline:
        threading.Timer(deadline, os.kill, (os.getpid(), signal.SIGKILL)).start()
    arguments, _ = study_arguments()
    lm = arguments.pop("lm")
    config = StudyConfig(n_trials=n_trials, storage=storage, heartbeat=1)
    study(**arguments, config=config, run=Run(lm, 2))
