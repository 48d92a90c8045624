"""A run of a small table on a local Ray with two workers, one of which is killed in the middle of a question."""

from __future__ import annotations

import json
import os
import signal
import sys
from pathlib import Path

import dspy
import experiment_helpers
import ray
from experiment_helpers import make_table, write_data
from ray import cloudpickle

from knowgap.compile.experiments.runner import run_experiment
from knowgap.lms.embedded.engine import ExtractiveEngine


class MortalEngine:
    """The embedded reader; writes down who is asked what, and kills the process that is first asked about house q3."""

    def __init__(self, folder: str):
        self.folder = folder

    def complete(self, request):
        text = request.messages[-1].text or ""
        house = text.partition("house q")[2][:1]
        with Path(self.folder, "asked.jsonl").open("a", encoding="utf-8") as file:
            file.write(json.dumps([os.getpid(), house]) + "\n")
        tombstone = Path(self.folder, "tombstone")
        if house == "3" and not tombstone.exists():
            tombstone.touch()
            os.kill(os.getpid(), signal.SIGKILL)
        return ExtractiveEngine().complete(request)


if __name__ == "__main__":
    home = Path(sys.argv[1])
    cloudpickle.register_pickle_by_value(sys.modules["__main__"])
    cloudpickle.register_pickle_by_value(experiment_helpers)
    ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False)
    lm = dspy.LM("test/rule", engine=MortalEngine(str(home)), cache=False, num_retries=0)
    table = make_table(rows=[{"label": "retrieval", "program": "rag"}], baseline="")
    given = write_data(home)
    first = run_experiment(table, output=home / "out", lm=lm, num_threads=2, ray_address="auto", **given)
    second = run_experiment(table, output=home / "out", lm=lm, num_threads=2, ray_address="auto", **given)
    ray.shutdown()
    here = run_experiment(table, output=home / "here", lm=lm, num_threads=2, **given)
    sys.stdout.write(
        json.dumps(
            {
                "questions": first.cells[0].questions,
                "failed": first.failed,
                "calls": [first.spent.calls, second.spent.calls],
                "same": [c.figures for c in first.cells] == [c.figures for c in here.cells],
                "driver": os.getpid(),
            }
        )
    )
