"""`knowgap experiment`: tables, runs that are killed and continued, comparisons, and the files of results."""

from __future__ import annotations

import csv
import json
import re
import signal
import subprocess
import sys
from pathlib import Path

import dspy
import pytest
from compile_helpers import NAMES, reading_rule
from experiment_helpers import LoggingEngine, asked, logging_lm, make_table, write_data
from support import scripted_lm

from knowgap.compile.evaluation.statistics import Comparison
from knowgap.compile.experiments.call_bounds import call_bounds
from knowgap.compile.experiments.cells import ExperimentSetup, prepare
from knowgap.compile.experiments.cost import estimate_cost, price_of
from knowgap.compile.experiments.measures import score_metrics
from knowgap.compile.experiments.paper_differences import paper_differences
from knowgap.compile.experiments.result import ExperimentResult, Figure, correct_p_values
from knowgap.compile.experiments.runner import run_experiment
from knowgap.compile.experiments.table import read_table, shipped_tables
from knowgap.errors import DataError, UnknownName, UsageError
from knowgap.lms import extractive_lm
from knowgap.programs import PROGRAMS

SHIPPED = sorted(shipped_tables())
WRONG = {"answer": "nobody", "confidence": 0.99}


@pytest.fixture
def world(tmp_path: Path):
    return {"output": tmp_path / "out", "num_threads": 2, **write_data(tmp_path)}


@pytest.fixture
def log(tmp_path: Path) -> Path:
    return tmp_path / "asked.jsonl"


# Tables.


@pytest.mark.parametrize("name", SHIPPED)
def test_every_shipped_table_resolves_and_is_estimated(name: str, tmp_path: Path):
    table = read_table(name)
    cells = prepare(table, ExperimentSetup(output=tmp_path), dry=True)
    assert len(cells) == len(table.rows) * len(table.columns)
    assert all((cell.program is None) == bool(cell.reason) for cell in cells)
    plan = estimate_cost(table, output=tmp_path, prices=(1.0, 2.0))
    assert plan.cells
    assert 0 < plan.calls[0] <= plan.calls[1]
    assert 0 < plan.tokens[0] < plan.tokens[1]
    assert plan.price is not None
    assert 0 < plan.price[0] < plan.price[1]
    assert not any(tmp_path.iterdir())


def test_every_results_table_of_the_five_papers_is_there():
    wanted = {
        *(f"migres_table{n}" for n in (1, 2, 3, 4, 5, 6, 7)),
        *(f"adaptive_note_table{n}" for n in ("1", "2", "3", "4", "_a1", "_a2")),
        *(f"ra_isf_table{n}" for n in (1, 2, 3, 4)),
        *(f"rq_rag_table{n}" for n in (1, 2, 3)),
        *(f"blend_filter_table{n}" for n in (2, 3, 4, 5, 6)),
    }
    assert wanted <= set(SHIPPED)
    assert all(read_table(name).paper is not None for name in wanted)


@pytest.mark.parametrize(
    ("table", "row", "column", "figures"),
    [
        ("migres_table3", "MIGRES", "nq_open", [43.0, 80.0]),
        ("adaptive_note_table1", "Adaptive-Note", "2wikimultihopqa", [54.2, 43.2]),
        ("ra_isf_table2", "without passage relevance", "hotpotqa", [34.7]),
        ("rq_rag_table2", "RQ-RAG", "musique", [41.7]),
        ("blend_filter_table2", "BlendFilter", "hotpotqa", [0.508, 0.624]),
        ("migres_table3", "VTG", "strategyqa", [None, None]),
    ],
)
def test_a_papers_figures_stand_where_it_prints_them(table: str, row: str, column: str, figures: list):
    read = read_table(table)
    place = [r.label for r in read.rows].index(row), [c.dataset for c in read.columns].index(column)
    assert list(read.printed(*place).values()) == figures


def test_a_sample_of_everything_runs_every_program():
    assert {row.program for row in read_table("sample").rows} == set(PROGRAMS)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("title = ", "is not TOML"),
        ('title = "t"\ncolumns = []\nrows = []', "columns"),
        ('title = "t"\n[[columns]]\ndataset = "d"\nmetrics = ["f1"]\n[[rows]]\nlabel = "r"', "exactly one of program"),
        (
            'title = "t"\nbaseline = "x"\n[[columns]]\ndataset = "d"\nmetrics = ["f1"]\n'
            '[[rows]]\nlabel = "r"\nprogram = "rag"',
            "'x' is not the label",
        ),
        (
            'title = "t"\n[[columns]]\ndataset = "d"\nmetrics = ["f1"]\ntask = "guess"\n'
            '[[rows]]\nlabel = "r"\nprogram = "rag"',
            "'guess'",
        ),
    ],
)
def test_a_bad_table_is_refused_with_its_file_and_the_reason(text: str, message: str, tmp_path: Path):
    path = tmp_path / "t.toml"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(DataError, match=re.escape(message)) as error:
        read_table(path)
    assert "t.toml" in str(error.value)


def test_figures_that_do_not_fit_the_columns_are_refused():
    rows = [{"label": "r", "program": "rag", "paper": [1.0]}]
    with pytest.raises(ValueError, match="1 of the paper's figures, not 3"):
        make_table(rows=rows, baseline="")


@pytest.mark.parametrize(
    ("setup", "message"),
    [
        ({"data": {"mine": "x"}}, "mine"),
        ({"rows": ["nobody"]}, "nobody"),
        ({"as_paper": ["prompts"]}, "prompts"),
        ({"engine": "elastic"}, "elastic"),
        ({"limit": 0}, "at least one"),
        ({}, "own=PATH"),
    ],
)
def test_options_that_fit_nothing_are_refused(setup: dict, message: str, tmp_path: Path):
    with pytest.raises(UsageError, match=message):
        prepare(make_table(), ExperimentSetup(output=tmp_path, **setup))


def test_unknown_names_in_a_table_are_refused_with_the_row(world, tmp_path: Path):
    table = make_table(rows=[{"label": "typo", "program": "mirgres"}], baseline="")
    with pytest.raises(UsageError, match=r"'typo' on houses: .*migres"):
        run_experiment(table, lm=logging_lm(tmp_path / "log"), **world)
    with pytest.raises(UnknownName, match="exact_mach"):
        score_metrics(["exact_mach"])
    with pytest.raises(UnknownName, match="no_such_table"):
        read_table("no_such_table")


def test_a_column_decides_on_presets_and_wording():
    cells = prepare(read_table("migres_table3"), ExperimentSetup(output=Path()), dry=True)
    values = {c.column.dataset: c.program.values() for c in cells if c.row.label == "MIGRES" and c.program}
    assert [values[name]["iterations"] for name in ("hotpotqa", "nq_open", "strategyqa")] == [5, 3, 5]
    assert [values[name]["style"] for name in ("hotpotqa", "nq_open", "strategyqa")] == ["short", "short", "yes_no"]
    assert values["nq_open"]["delta"] is None  # the paper's threshold is on another reranker's scale


# Runs.


def test_a_run_measures_compares_and_marks_the_papers_figures(world, log: Path):
    experiment = run_experiment(make_table(), lm=logging_lm(log), **world)
    assert len(asked(log)) == 16
    memory, retrieval, trained = experiment.cells
    assert [memory.figures[0].ours.mean, retrieval.figures[0].ours.mean] == [0.0, 1.0]
    assert retrieval.figures[2].ours.mean == 1.0
    pair = retrieval.figures[0].comparison
    assert (pair.wins, pair.losses, pair.difference) == (8, 0, 1.0)
    assert retrieval.figures[0].p_corrected == pytest.approx(2 / 2**8)
    assert retrieval.figures[0].significant
    assert memory.figures[0].comparison is None
    assert trained.reason == "needs a trained model"
    assert retrieval.figures[0].paper == 90.0
    assert any("corpus: a corpus of one's own" in reason for reason in retrieval.differs)
    assert not any("language model" in reason for reason in retrieval.differs)
    assert experiment.failed == 0


def test_a_setting_that_is_the_papers_is_not_marked(world, log: Path):
    experiment = run_experiment(make_table(), lm=logging_lm(log), as_paper=["corpus", "questions"], **world)
    assert [cell.differs for cell in experiment.cells] == [[], [], []]
    limited = run_experiment(make_table(), lm=logging_lm(log), limit=3, **world)
    assert any("questions: 3, not 8" in reason for reason in limited.cells[1].differs)


def test_a_second_run_asks_nothing(world, log: Path):
    first = run_experiment(make_table(), lm=logging_lm(log), **world)
    second = run_experiment(make_table(), lm=logging_lm(log), **world)
    assert len(asked(log)) == 16
    assert (first.spent.calls, second.spent.calls, second.spent.cached_calls) == (16, 0, 0)
    assert first.cells == second.cells


def test_a_killed_run_goes_on_and_nothing_is_asked_twice(tmp_path: Path):
    log, worker = tmp_path / "asked.jsonl", Path(__file__).parents[2] / "experiment_helpers.py"
    run = [sys.executable, str(worker), str(tmp_path), "11"]
    killed = subprocess.run(run, capture_output=True, timeout=120, check=False)
    assert killed.returncode == -signal.SIGKILL, killed.stderr.decode()
    assert len(asked(log)) == 10
    data = write_data(tmp_path)
    experiment = run_experiment(make_table(), output=tmp_path / "out", lm=logging_lm(log), num_threads=1, **data)
    assert len(asked(log)) == len({tuple(line) for line in asked(log)}) == 16
    assert [cell.questions for cell in experiment.cells] == [8, 8, 0]
    whole = run_experiment(make_table(), output=tmp_path / "whole", lm=logging_lm(tmp_path / "w.jsonl"), **data)
    assert [c.figures for c in whole.cells] == [c.figures for c in experiment.cells]


def test_rows_of_the_same_program_share_their_answers(world, log: Path):
    rows = [{"label": label, "program": "rag", "settings": {"top_k": 2}} for label in ("a", "b")]
    experiment = run_experiment(make_table(rows=rows, baseline=""), lm=logging_lm(log), **world)
    assert len(asked(log)) == 8
    assert experiment.cells[0].figures[0].ours == experiment.cells[1].figures[0].ours


def test_failures_count_as_wrong_and_are_shown(world, log: Path, monkeypatch: pytest.MonkeyPatch):
    lm = logging_lm(log)
    engine = lm.engine
    assert isinstance(engine, LoggingEngine)
    rule = engine.rule

    def sometimes(outputs, inputs):
        if "q3" in inputs["question"]:
            raise RuntimeError("broken pipe")
        return rule(outputs, inputs)

    engine.rule = sometimes
    experiment = run_experiment(make_table(), lm=lm, **world)
    assert [cell.failed for cell in experiment.cells] == [1, 1, 0]
    assert experiment.cells[1].figures[0].ours.mean == 7 / 8
    assert experiment.cells[1].figures[2].ours.n == 7


def test_one_row_can_be_run_alone_and_another_be_the_baseline(world, log: Path):
    alone = run_experiment(make_table(), lm=logging_lm(log), rows=["retrieval"], **world)
    assert [cell.row for cell in alone.cells] == [1]
    other = run_experiment(make_table(), lm=logging_lm(log), baseline="retrieval", **world)
    assert other.cells[0].figures[0].comparison.difference == -1.0
    with pytest.raises(UsageError, match="'nobody'"):
        run_experiment(make_table(), lm=logging_lm(log), baseline="nobody", **world)


def test_a_papers_language_model_can_be_stood_for_row_by_row(world, log: Path, tmp_path: Path):
    rows = [{"label": "a", "program": "direct"}, {"label": "b", "program": "direct", "lm": "big"}]
    big = tmp_path / "big.jsonl"
    run_experiment(make_table(rows=rows, baseline=""), lm=logging_lm(log), lms={"big": logging_lm(big)}, **world)
    assert (len(asked(log)), len(asked(big))) == (8, 0)  # of the same name, they share answers
    lm = logging_lm(big)
    lm.model = "test/big"
    experiment = run_experiment(make_table(rows=rows, baseline=""), lm=logging_lm(log), lms={"big": lm}, **world)
    assert len(asked(big)) == 8
    assert experiment.cells[1].provenance.lm == "test/big"


def test_a_row_may_search_the_questions_own_paragraphs_alone(tmp_path: Path, log: Path):
    """As RQ-RAG's multi-hop tables do: a passage that another question brought is not found."""
    context = [
        [{"title": f"house {n}", "text": f"{name} lives in house {n}."}] for n, name in (("q0", "Ada"), ("q1", "Bo"))
    ]
    own = [{"id": "a", "question": "Who lives in house q1?", "answer": "Bo", "context": context[0]}]
    own += [{"id": "b", "question": "Who lives in house q0?", "answer": "Ada", "context": context[0] + context[1]}]
    file = tmp_path / "questions.jsonl"
    file.write_text("".join(json.dumps(line) + "\n" for line in own), encoding="utf-8")
    rows = [{"label": str(c), "program": "rag", "candidates": c} for c in (False, True)]
    table = make_table(rows=rows, baseline="False")
    experiment = run_experiment(table, output=tmp_path / "out", lm=logging_lm(log), data={"own": file}, num_threads=1)
    assert [cell.figures[0].ours.mean for cell in experiment.cells] == [1.0, 0.5]
    assert len(asked(log)) == 4


def test_the_best_of_the_answers_is_the_upper_bound_of_a_choice():
    example, prediction = (
        {"answer": "Ada", "aliases": ["Ada"]},
        {"answer": "Bo", "answers": ["Bo", "Ada"], "passages": []},
    )
    for best, score in ((True, 1.0), (False, 0.0)):
        metric = score_metrics(["exact_match"], best_of_answers=best)["exact_match"]
        assert metric(dspy.Example(**example), dspy.Prediction(**prediction)) == score


def test_the_upper_bound_of_rq_rag_by_name(tmp_path: Path, log: Path):
    """A bound is never below the score of what was chosen; a method that weighs nothing has its own score as bound."""
    columns = [{"dataset": "own", "metrics": ["exact_match", "upper_bound", "upper_bound_f1", "knowledge_tokens"]}]
    rows = [{"label": "tree", "program": "rq_rag"}, {"label": "memory", "program": "direct"}]
    table = make_table(rows=rows, columns=columns, baseline="", paper=None)

    def rule(outputs, inputs):
        if "query" in outputs:
            return {"query": inputs["question"]}
        # Sure of itself without passages, and wrong; right with them, but not sure.
        return {"confidence": 0.1, **reading_rule(outputs, inputs)} if inputs.get("passages") else WRONG

    lm, _ = scripted_lm(rule)
    experiment = run_experiment(table, output=tmp_path / "out", lm=lm, **write_data(tmp_path))
    means = [[figure.ours.mean for figure in cell.figures] for cell in experiment.cells]
    # Three passages of seven words are read by each of the three children's answers; they refine no further, as their
    # queries would be the same again, and are asked for them in three ways each.
    assert means == [[0.0, 1.0, 1.0, 3 * 21 + 9 * 21], [0.0, 0.0, 0.0, 0.0]]


def test_a_paper_counts_its_own_models_tokens(tmp_path: Path):
    for name, counts in (("migres_table5", True), ("migres_table4", False)):
        table, setup = read_table(name), ExperimentSetup(output=tmp_path)
        differences = [paper_differences(cell, table, setup) for cell in prepare(table, setup, dry=True)]
        assert all(("knowledge tokens: words" in " ".join(each)) == counts for each in differences)


def test_skr_learns_from_the_train_split_and_is_left_out_without_one(tmp_path: Path, log: Path):
    table = make_table(rows=[{"label": "SKR", "program": "skr"}], baseline="")
    (without,) = run_experiment(table, output=tmp_path / "out", lm=logging_lm(log), **write_data(tmp_path)).cells
    assert "train split" in without.reason
    folder = tmp_path / "split"
    folder.mkdir()
    for split, numbers in (("train", range(4)), ("test", range(4, 8))):
        lines = [{"id": f"q{n}", "question": f"Who lives in house q{n}?", "answer": NAMES[n]} for n in numbers]
        (folder / f"{split}.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    data = {"data": {"own": folder}, "corpora": write_data(tmp_path)["corpora"]}
    (cell,) = run_experiment(table, output=tmp_path / "out", lm=logging_lm(log), **data).cells
    assert (cell.reason, cell.questions, cell.figures[0].ours.mean) == ("", 4, 1.0)
    assert len(asked(log)) == 2 * 4 + 4  # what the model knows of the train questions, without and with passages


def test_holm_corrects_the_smallest_most():
    def figure(p: float) -> Figure:
        pair = Comparison(metric="f1", difference=0.1, low=0, high=1, p_value=p, wins=1, losses=0, ties=0, n=1)
        return Figure(metric="f1", comparison=pair)

    figures = [figure(p) for p in (0.04, 0.01, 0.03)]
    correct_p_values([*figures, Figure(metric="f1")])
    assert [f.p_corrected for f in figures] == pytest.approx([0.06, 0.03, 0.06])


# Results.


def test_json_and_csv_say_the_same(world, log: Path):
    experiment = run_experiment(make_table(), lm=logging_lm(log), **world)
    assert ExperimentResult.load(world["output"] / "experiment.json") == experiment
    json.loads((world["output"] / "experiment.json").read_text(), parse_constant=lambda name: pytest.fail(name))
    with (world["output"] / "experiment.csv").open(newline="", encoding="utf-8") as file:
        lines = list(csv.DictReader(file))
    assert len(lines) == 9
    line = next(line for line in lines if line["row"] == "retrieval" and line["metric"] == "exact_match")
    assert (line["mean"], line["paper"], line["same_setting"], line["failed"]) == ("1.0", "90.0", "no", "0")
    with pytest.raises(DataError, match="not an experiment"):
        ExperimentResult.load(world["data"]["own"])


# Estimates.


def test_an_estimate_from_questions_is_what_the_run_then_costs(world, log: Path):
    options = {key: value for key, value in world.items() if key != "num_threads"}
    plan = estimate_cost(make_table(), ask=2, lm=logging_lm(log), **options)
    assert len(asked(log)) == 4
    assert {cell.basis for cell in plan.cells} == {"measured on 2 questions"}
    assert plan.calls == (16, 16)
    bounds = estimate_cost(make_table(), lm=logging_lm(log), **options)
    assert bounds.calls == (16, 16)
    assert bounds.tokens[0] < bounds.tokens[1]
    assert bounds.price is None
    assert len(asked(log)) == 4


def test_programs_stay_within_their_bounds(tmp_path: Path):
    """On a question of the sample, by the embedded reader."""
    rows = ["MIGRES", "Adaptive-Note", "RA-ISF", "RQ-RAG", "BlendFilter", "ReAct", "Self-Ask", "IRCoT", "FLARE", "VTG"]
    experiment = run_experiment("sample", output=tmp_path, lm=extractive_lm(), limit=1, rows=rows, num_threads=1)
    cells = prepare(experiment.table, ExperimentSetup(output=tmp_path, limit=1, rows=rows), dry=True)
    for cell, result in zip(cells, experiment.cells, strict=True):
        bounds = call_bounds(cell.program)
        assert bounds.low <= result.costs["lm_calls"] <= bounds.high, (cell.row.label, bounds, result.costs)
        assert result.failed == 0


def test_prices_come_from_dspys_own_table():
    prompt, completion = price_of("openai/gpt-4o-mini") or pytest.fail("no price")
    assert 0 < prompt < completion
    assert price_of("knowgap/extractive") is None
