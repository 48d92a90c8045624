"""Runs of `knowgap experiment`: what they measure and compare, and how they go on after being killed."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import dspy
import pytest
from compile_helpers import reading_rule
from experiment_helpers import LoggingEngine, asked, logging_lm, make_table
from support import scripted_lm

from knowgap.compiling import save
from knowgap.compiling.evaluation.statistics import Comparison
from knowgap.compiling.experiments.result import ExperimentResult, Figure, correct_p_values
from knowgap.compiling.experiments.runner import estimate_experiment
from knowgap.errors import UsageError
from knowgap.programs.baselines.direct import Direct

WRONG = {"answer": "nobody", "confidence": 0.99}


def test_a_run_measures_compares_and_marks_the_papers_figures(run, log: Path):
    reported = []
    experiment = run(progress=lambda *report: reported.append(report))
    assert len(asked(log)) == 16
    memory, retrieval, trained = experiment.cells
    assert [memory.figures[0].ours.mean, retrieval.figures[0].ours.mean] == [0.0, 1.0]
    assert retrieval.figures[2].ours.mean == 1.0
    pair = retrieval.figures[0].comparison
    assert (pair.wins, pair.losses, pair.difference) == (8, 0, 1.0)
    assert retrieval.figures[0].p_corrected == pytest.approx(2 / 2**8)
    assert retrieval.figures[0].significant
    assert memory.figures[0].comparison is None
    assert (trained.reason, trained.figures[0].paper) == ("needs a trained model", 50.0)
    assert retrieval.figures[0].paper == 90.0
    assert any("corpus: a corpus of one's own" in reason for reason in retrieval.differs)
    assert not any("language model" in reason for reason in retrieval.differs)
    assert experiment.failed == 0
    questions = [(done, total, text.partition(":")[0]) for done, total, text in reported if " on houses:" in text]
    assert (questions[0], questions[-1]) == ((1, 16, "memory on houses"), (16, 16, "retrieval on houses"))


def test_a_setting_that_is_the_papers_is_not_marked(run):
    assert [cell.differs for cell in run(as_paper=["corpus", "questions"]).cells] == [[], [], []]
    assert any("questions: 3, not 8" in reason for reason in run(limit=3).cells[1].differs)


def test_results_are_saved_and_a_second_run_asks_nothing(run, log: Path, tmp_path: Path):
    first, second = run(), run()
    assert len(asked(log)) == 16
    assert (first.spent.calls, second.spent.calls, second.spent.cached_calls) == (16, 0, 0)
    assert first.cells == second.cells
    text = (tmp_path / "out" / "experiment.json").read_text(encoding="utf-8")
    json.loads(text, parse_constant=lambda name: pytest.fail(name))
    assert ExperimentResult.model_validate_json(text) == second
    with (tmp_path / "out" / "experiment.csv").open(newline="", encoding="utf-8") as file:
        lines = list(csv.DictReader(file))
    assert len(lines) == 9
    line = next(line for line in lines if line["row"] == "retrieval" and line["metric"] == "exact_match")
    assert (line["dataset"], line["column"]) == ("own", "houses")
    assert (line["mean"], line["paper"], line["same_setting"], line["failed"]) == ("1.0", "90.0", "no", "0")


def test_one_row_can_be_run_alone_and_another_be_the_baseline(run):
    assert [cell.row for cell in run(rows=["retrieval"]).cells] == [1]
    assert run(baseline="retrieval").cells[0].figures[0].comparison.difference == -1.0
    with pytest.raises(UsageError, match="'nobody'"):
        run(baseline="nobody")


def test_a_papers_language_model_can_be_stood_for_row_by_row(run, log: Path, tmp_path: Path):
    rows = [{"label": "a", "program": "direct"}, {"label": "b", "program": "direct", "lm": "big"}]
    big = tmp_path / "big.jsonl"
    shared = run({"rows": rows, "baseline": ""}, lms={"big": logging_lm(big)})
    assert (len(asked(log)), len(asked(big))) == (8, 0)  # the same program and name: they share answers
    assert shared.cells[0].figures[0].ours == shared.cells[1].figures[0].ours
    lm = logging_lm(big)
    lm.model = "test/big"
    experiment = run({"rows": rows, "baseline": ""}, lms={"big": lm})
    assert len(asked(big)) == 8
    assert experiment.cells[1].provenance.lm == "test/big"


def test_a_compiled_program_can_be_a_row(run, tmp_path: Path):
    save(Direct(), tmp_path / "compiled", lm="test/rule")
    (cell,) = run({"rows": [{"label": "compiled", "artifact": str(tmp_path / "compiled")}], "baseline": ""}).cells
    assert (cell.questions, cell.provenance.program) == (8, "direct")


def test_a_row_may_search_the_questions_own_paragraphs_alone(run, tmp_path: Path, log: Path):
    """As RQ-RAG's multi-hop tables do: a passage that another question brought is not found."""
    context = [
        [{"title": f"house {n}", "text": f"{name} lives in house {n}."}] for n, name in (("q0", "Ada"), ("q1", "Bo"))
    ]
    own = [{"id": "a", "question": "Who lives in house q1?", "answer": "Bo", "context": context[0]}]
    own += [{"id": "b", "question": "Who lives in house q0?", "answer": "Ada", "context": context[0] + context[1]}]
    file = tmp_path / "own.jsonl"
    file.write_text("".join(json.dumps(line) + "\n" for line in own), encoding="utf-8")
    rows = [{"label": str(c), "program": "rag", "candidates": c} for c in (False, True)]
    experiment = run({"rows": rows, "baseline": "False"}, data={"own": file}, corpora={})
    assert [cell.figures[0].ours.mean for cell in experiment.cells] == [1.0, 0.5]
    assert len(asked(log)) == 4


def test_the_upper_bound_of_rq_rag(run):
    """A bound is never below the score of what was chosen; a method that weighs nothing has its own score as bound."""
    columns = [{"dataset": "own", "metrics": ["exact_match", "upper_bound", "upper_bound_f1", "knowledge_tokens"]}]
    rows = [{"label": "tree", "program": "rq_rag", "preset": "multi_hop"}, {"label": "memory", "program": "direct"}]
    rows.append({**rows[0], "label": "best of the tree", "best_of_answers": True})

    def rule(outputs, inputs):
        if "query" in outputs:
            return {"query": inputs["question"]}
        # Sure of itself without passages, and wrong; right with them, but not sure.
        return {"confidence": 0.05, **reading_rule(outputs, inputs)} if inputs.get("passages") else WRONG

    changes = {"rows": rows, "columns": columns, "baseline": "", "paper": None}
    means = [[figure.ours.mean for figure in cell.figures] for cell in run(changes, lm=scripted_lm(rule)[0]).cells]
    # All nodes have the same query, so that what is asked of one on a level holds for all: an answer on each of two
    # levels, which reads three passages of seven words, and queries in three ways, which are the same again.
    assert means[:2] == [[0.0, 1.0, 1.0, 2 * 21 + 3 * 21], [0.0, 0.0, 0.0, 0.0]]
    assert means[2][0] == 1.0


def test_answers_that_are_sampled_with_several_top_p_are_scored_by_the_best(run, log: Path):
    """As BlendFilter's figure 5 does: of each question one of three answers is right, at top_p 0.5."""

    class SamplingEngine(LoggingEngine):
        def complete(self, request):
            self.setting = request.config.top_p, request.config.temperature
            return super().complete(request)

    engine = SamplingEngine(log)
    engine.rule = lambda outputs, inputs: (
        reading_rule(outputs, inputs) if engine.setting in ((0.5, 1.0), (None, None)) else WRONG
    )
    rows = [{"label": "one", "program": "rag"}]
    rows.append({"label": "three", "program": "rag", "top_p": [0.0, 0.5, 1.0], "best_of_answers": True})
    rows.append({"label": "first of three", "program": "rag", "top_p": [0.0, 0.5, 1.0]})
    lm = dspy.LM("test/rule", engine=engine, cache=False, num_retries=0)
    experiment = run({"rows": rows, "baseline": "", "paper": None}, lm=lm, num_threads=1)
    figures = [[figure.ours.mean for figure in cell.figures] for cell in experiment.cells]
    assert [(scores[0], scores[2]) for scores in figures] == [(1.0, 1.0), (1.0, 3.0), (0.0, 3.0)]


def test_holm_corrects_the_smallest_most():
    def figure(p: float) -> Figure:
        pair = Comparison(metric="f1", difference=0.1, low=0, high=1, p_value=p, wins=1, losses=0, ties=0, n=1)
        return Figure(metric="f1", comparison=pair)

    figures = [figure(p) for p in (0.04, 0.01, 0.03)]
    correct_p_values([*figures, Figure(metric="f1")])
    assert [f.p_corrected for f in figures] == pytest.approx([0.06, 0.03, 0.06])


def test_an_estimate_from_questions_is_what_the_run_then_costs(data: dict, log: Path, tmp_path: Path):
    estimates = estimate_experiment(make_table(), measure=True, output=tmp_path / "out", lm=logging_lm(log), **data)
    assert len(asked(log)) == 2 * 3
    assert {found.measured for found in estimates.values()} == {3}
    assert sum(found.calls for found in estimates.values()) == 16
