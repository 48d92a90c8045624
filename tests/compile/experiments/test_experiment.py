"""Tables of experiments: those that come with knowgap, what is refused, what a run measures, compares and writes."""

import csv
import json
import re
from pathlib import Path
from typing import Any

import pytest
from compile_helpers import make_examples, make_retriever, reading_rule
from support import by_output, scripted_lm

from knowgap.compiling import Run
from knowgap.compiling.experiments.run import make_program, run_experiment
from knowgap.compiling.experiments.table import ExperimentTable, read_table, shipped_tables
from knowgap.errors import DataError, UnknownName
from knowgap.retrieval import BM25Index

COLUMNS = 'title = "t"\n[[columns]]\ndataset = "d"\nmetrics = ["f1"]\n'
ROW = '[[rows]]\nlabel = "r"\nprogram = "rag"\n'
RETRIEVER = make_retriever(make_examples(2))

TABLE = {
    "name": "tiny",
    "title": "Tiny & quick",
    "baseline": "memory",
    "paper": "A Paper <of> 2024, table 9",
    "setting": "rule, bm25 over the houses",
    "columns": [{"dataset": "own", "label": "houses", "metrics": ["exact_match", "f1", "lm_calls"], "questions": 8}],
    "rows": [
        {"label": "memory", "program": "direct", "paper": [10.0, 20.5, 1.0]},
        {"label": "retrieval", "program": "rag", "settings": {"top_k": 2}, "paper": [90.0, float("nan"), 1.0]},
        {"label": "trained", "left_out": "needs a trained model", "paper": [50.0, 60.0, 1.0]},
    ],
}


@pytest.fixture
def experiment(tmp_path: Path) -> dict[str, Any]:
    """The table with questions on disk and an index, and an output folder."""
    examples, file = make_examples(8), tmp_path / "questions.jsonl"
    lines = [{"id": e.id, "question": e.question, "answer": e.answer, "gold_ids": e.gold_ids} for e in examples]
    lines[0]["context"] = ["A house."]
    file.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    index = BM25Index.from_passages(make_retriever(examples).passages)
    given = {"table": ExperimentTable.model_validate(TABLE), "output": tmp_path / "out"}
    return {**given, "data": {"own": file}, "indexes": {"own": index}}


@pytest.mark.parametrize("name", sorted(shipped_tables()))
def test_every_program_of_a_shipped_table_can_be_made(name: str):
    table = read_table(name)
    for row in table.rows:
        for column in table.columns:
            if not row.left_out:
                program = make_program(row, column, RETRIEVER, {})
                assert isinstance(program, str) or program.name == row.program


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("title = ", "is not TOML"),
        ('baseline = "x"\n' + COLUMNS + ROW, "'x'"),
        (COLUMNS + 'task = "guess"\n' + ROW, "'guess'"),
        (COLUMNS + ROW + ROW, "'r'"),
        (COLUMNS + ROW + "paper = [1.0, 2.0]", "2 of the paper's figures, not 1"),
    ],
)
def test_a_bad_table_is_refused_with_its_file_and_the_reason(text: str, message: str, tmp_path: Path):
    path = tmp_path / "t.toml"
    path.write_text(text)
    with pytest.raises(DataError, match=re.escape(message)) as error:
        read_table(path)
    assert "t.toml" in str(error.value)


def test_a_column_decides_on_presets_and_wording():
    table = read_table("overview")
    rows = {row.label: row for row in table.rows}
    made = {
        (label, column.dataset): make_program(rows[label], column, RETRIEVER, {})
        for label in ("MIGRES", "RQ-RAG")
        for column in table.columns
    }
    assert made["MIGRES", "strategyqa"].values()["style"] == "yes_no"
    assert made["MIGRES", "hotpotqa"].values()["delta"] is None  # the paper's is on the scale of another reranker
    assert [made["RQ-RAG", name].values()["depth"] for name in ("hotpotqa", "2wikimultihopqa")] == [2, 4]
    assert isinstance(made["RQ-RAG", "strategyqa"], str)  # the paper has no such task


def test_a_run_measures_compares_and_writes_and_asks_nothing_twice(experiment: dict[str, Any], tmp_path: Path):
    lm, engine = scripted_lm(by_output({"answer": reading_rule}))
    reported: list[tuple[int, int, str]] = []
    run = Run(lm=lm, num_threads=2, progress=lambda *step: reported.append(step))
    found = run_experiment(**experiment, run=run)
    assert len(engine.calls) == 16
    assert (reported[-1][:2], reported[-1][2].partition(": ")[0]) == ((16, 16), "houses")
    (column,) = found.table.columns
    lines = {(line["row"], line["metric"]): line for line in found.lines(column)}
    memory, retrieval = lines["memory", "exact_match"], lines["retrieval", "exact_match"]
    assert (memory["mean"], retrieval["mean"], lines["retrieval", "lm_calls"]["mean"]) == (0.0, 1.0, 1.0)
    assert (memory["p"], retrieval["p"]) == (None, pytest.approx(2 / 2**8))
    assert (retrieval["paper"], lines["retrieval", "f1"]["paper"], retrieval["failed"]) == (90.0, None, 0)
    trained = lines["trained", "exact_match"]
    assert (trained["mean"], trained["paper"], trained["note"]) == (None, 50.0, "needs a trained model")
    text = (tmp_path / "out" / "experiment.md").read_text(encoding="utf-8")
    assert "100.0* [100.0–100.0] (paper 90)" in text
    assert "1.0 [1.0–1.0] (paper 1)" in text  # calls are no percents
    assert "rule, bm25 over the houses" in text
    assert not (tmp_path / "out" / "indexes").exists()  # the given index is searched, not one of the file's passages
    with (tmp_path / "out" / "experiment.csv").open(newline="", encoding="utf-8") as file:
        assert [(line["row"], line["paper"]) for line in csv.DictReader(file)][3] == ("retrieval", "90.0")
    again, alone = (run_experiment(**experiment, rows=rows, run=run) for rows in (None, ["retrieval"]))
    assert len(engine.calls) == 16
    assert again.evaluations == found.evaluations
    assert [*alone.evaluations["houses"]] == ["retrieval"]


def test_a_wrong_column_is_refused_before_another_is_asked_and_rows_are_compared_with_the_baseline_alone(
    experiment: dict[str, Any], tmp_path: Path
):
    lm, engine = scripted_lm(by_output({"answer": reading_rule}))
    wrong = {"dataset": "own", "label": "wrong", "metrics": ["f1", "f11"]}
    rows = [{"label": label, "program": program} for label, program in (("a | b", "rag"), ("memory", "direct"))]
    rows.append({"label": "c", "program": "rag", "settings": {"top_k": 1}})
    columns = [*TABLE["columns"], wrong]
    table = ExperimentTable.model_validate({**TABLE, "columns": columns, "rows": rows})
    with pytest.raises(UnknownName, match="f11"):
        run_experiment(**{**experiment, "table": table}, run=Run(lm))
    assert engine.calls == []
    right = table.model_copy(update={"columns": table.columns[:1]})
    found = run_experiment(**{**experiment, "table": right}, rows=["a | b", "c"], run=Run(lm))
    assert {line["p"] for line in found.lines(right.columns[0])} == {None}
    assert "| a \\| b | " in (tmp_path / "out" / "experiment.md").read_text(encoding="utf-8")
