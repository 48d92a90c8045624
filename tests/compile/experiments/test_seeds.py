"""A table under several seeds: each seed's results stay, and together they are means with deviations."""

from __future__ import annotations

import csv
import statistics
from pathlib import Path

import dspy
import pytest
from compile_helpers import reading_rule
from experiment_helpers import LoggingEngine, asked, logging_lm
from support import by_output

from knowgap.compiling.experiments.result import ExperimentResult
from knowgap.compiling.experiments.seeds import draws

ROWS = [{"label": "memory", "program": "direct"}, {"label": "retrieval", "program": "rag"}]
COLUMN = {"dataset": "own", "metrics": ["exact_match", "f1", "lm_calls"], "questions": 4}


class ForgetfulEngine(LoggingEngine):
    """Is wrong where the seed of the request is 2."""

    def complete(self, request):
        self.seeds = {*getattr(self, "seeds", ()), request.config.seed}
        self.rule = by_output(
            {"answer": (lambda *_: {"answer": "nobody"}) if request.config.seed == 2 else reading_rule}
        )
        return super().complete(request)


def test_each_seed_has_its_rows_and_all_have_a_mean(run, tmp_path: Path):
    out = tmp_path / "out"
    found = run({"columns": [COLUMN], "paper": None, "rows": ROWS}, seeds=[0, 1, 2])
    assert [each.seed for each in found.by_seed] == [0, 1, 2]
    retrieval = found.cells[1].figures[0]
    means = [each.cells[1].figures[0].ours.mean for each in found.by_seed]
    assert retrieval.ours.mean == pytest.approx(statistics.fmean(means))
    assert retrieval.sd == pytest.approx(statistics.stdev(means))
    assert 4 < retrieval.ours.n < 12  # the seeds draw other questions of the eight, and some together
    assert retrieval.comparison.difference == 1.0
    for seed, each in enumerate(found.by_seed):
        saved = (out / f"seed-{seed}" / "experiment.json").read_text(encoding="utf-8")
        assert ExperimentResult.model_validate_json(saved) == each
    with (out / "experiment.csv").open(newline="", encoding="utf-8") as file:
        lines = [line for line in csv.DictReader(file) if (line["row"], line["metric"]) == ("retrieval", "f1")]
    assert [line["seed"] for line in lines] == ["0", "1", "2", "0 1 2"]
    assert [line["sd"] != "" for line in lines] == [False, False, False, True]
    again = run({"columns": [COLUMN], "paper": None, "rows": ROWS}, seeds=[0])
    assert again.cells[1].figures[0].sd is None
    assert (out / "seed-2" / "experiment.json").exists()


def test_a_model_that_draws_its_answers_gets_the_seed(run, log: Path):
    engine = ForgetfulEngine(log)
    lm = dspy.LM("test/rule", engine=engine, cache=False, num_retries=0, temperature=0.7)
    assert draws(lm)
    assert not draws(logging_lm(log))
    found = run({"columns": [{**COLUMN, "questions": None}], "paper": None, "rows": ROWS}, lm=lm, seeds=[1, 2])
    assert engine.seeds == {1, 2}
    assert [each.cells[1].figures[0].ours.mean for each in found.by_seed] == [1.0, 0.0]
    both = found.cells[1].figures[0]
    assert (both.ours.mean, both.ours.n, both.sd) == (0.5, 8, pytest.approx(0.5**0.5))
    assert found.spent.calls == len(asked(log)) == 32
