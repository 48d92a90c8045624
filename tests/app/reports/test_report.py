"""Reports: one page that needs nothing from outside, says which split a figure is from, and takes data as text."""

from __future__ import annotations

import json
import shutil
import sqlite3
from contextlib import closing

import dspy
import optuna
import pytest
from compile_helpers import Tunable, make_examples, make_retriever, quality_lm, reading_lm
from compile_worker import study as run_study
from compile_worker import study_arguments
from page_reader import read_page

from knowgap import Run, programs
from knowgap.compiling import Evaluation, evaluate, save
from knowgap.compiling.data import Dataset
from knowgap.compiling.evaluation.statistics import few_questions, mean_interval
from knowgap.compiling.study.storage import open_storage
from knowgap.errors import DataError, StudyError, UnknownName, UsageError
from knowgap.programs.baselines.rag import RAG
from knowgap.programs.hyperparameters import Integer, Switch
from knowgap.reports.report import render_report
from knowgap.retrieval import BM25Index, Passage

HOSTILE = '<script>alert("x")</script><img src=http://evil.example/x.png onerror=alert(1)> & \u202e\x1b[31m'


@pytest.fixture(scope="module")
def study(tmp_path_factory):
    storage = tmp_path_factory.mktemp("study") / "study.db"
    arguments, _ = study_arguments(30)
    program = arguments.pop("program")
    return run_study(program, n_trials=16, storage=storage, study_name="houses", num_threads=2, **arguments), storage


class Plain(Tunable):
    """Another program, without the settings that do better."""

    name = "plain"
    top_k = Integer(1, "passages read", low=1, high=3)
    careful = Switch(False, "whether to be careful", tune=False)


def test_a_study_of_several_programs_names_them_in_the_picture_of_score_against_cost():
    arguments, _ = study_arguments(30)
    retriever = arguments.pop("program").retriever
    tuning = run_study(program=[Plain(retriever), Tunable(retriever)], n_trials=12, num_threads=2, **arguments)
    page = read_page(render_report(tuning))
    assert tuning.best.program == "tunable"
    found = page.table("LM calls spent")[1:]
    assert [row[0].split()[0] for row in found] == [each.name for each in tuning.by_program()]
    assert [int(row[1]) for row in found] == [each.n_trials for each in tuning.by_program()]
    assert "chosen" in found[0][0]
    assert page.having("ol", "key")
    assert len(page.having("h1", "finding")) == 1
    assert "of tunable is chosen" in page.text
    settings = {row[0]: row[1] for row in page.table("what it does")[1:]}
    assert settings["top_k"] == "1"  # the paper's, of the chosen program
    assert all(name.startswith("tunable.") for name in tuning.importances())


def scored_on_test(program, examples) -> Evaluation:
    data = Dataset(name="houses", splits={"test": examples}, corpus=[], fingerprint="f")
    return evaluate(
        program, data, ("exact_match", "f1"), split="test", run=Run(lm=quality_lm(examples)[0]), traces=True
    )


@pytest.fixture(scope="module")
def tests_before_and_after(study):
    examples = make_examples(12, "x")
    retriever = make_retriever(examples)
    after = Tunable(retriever, **study[0].best.values)
    return {"test before": scored_on_test(Tunable(retriever), examples), "test after": scored_on_test(after, examples)}


def test_a_study_without_a_test_evaluation_has_no_test_score(study):
    tuning, storage = study
    for source in (tuning, storage, f"sqlite:///{storage}", str(storage.parent)):
        page = read_page(render_report(source))
        assert "No test score" in page.text
        assert not page.having("span", "test")  # no figure is marked as a test score
        assert page.having("span", "dev")
        assert f"{tuning.default.score:.3f} → {tuning.best.score:.3f}" in page.text


def test_a_study_shows_every_trial_and_what_came_of_it(study):
    tuning, storage = study
    page = read_page(render_report(storage))
    trials = page.table("LM calls made")[1:]
    assert [row[0].split()[0] for row in trials] == [str(t.number) for t in tuning.trials]
    assert [row[1] for row in trials] == [f"{t.score:.3f}" for t in tuning.trials]
    assert sum("stopped after" in row[6] for row in trials) == sum(not t.complete for t in tuning.trials) > 0
    assert [int(row[0].split()[0]) for row in trials if "chosen" in row[0]] == [tuning.best.number]
    front = [int(row[0].split()[0]) for row in trials if "Pareto front" in row[0]]
    assert front == sorted(trial.number for trial in tuning.front)
    marks = {kind: len(page.having("g", kind)) for kind in ("pruned", "chosen", "default")}
    assert all(marks.values()), marks
    changes = {row[0]: tuple(row[1:3]) for row in page.table("what it does")[1:]}
    values = {name: change for name, change in tuning.changes().items() if name != "weight"}
    assert {name: cells for name, cells in changes.items() if name in values} == values
    for name, (weight, low, high) in list(tuning.importances().items())[:2]:
        assert f"{name} [{low:.2f}, {high:.2f}] {weight:.3f}" in page.text
    few = few_questions([mean_interval(tuning.best.scores)])
    assert few.startswith(f"few questions ({len(tuning.questions)}): scores are known to within ±0.")
    assert few in page.text
    for count in (tuning.calls.spent, tuning.calls.without_sharing, tuning.calls.without_pruning):
        assert f"{count:,}" in page.text
    assert f"trial {tuning.default.number} (default) on the dev questions" in page.text


def test_only_what_was_asked_on_the_test_split_counts_as_a_test(study, tests_before_and_after):
    tuning, _ = study
    page = read_page(render_report(tuning, evaluations=tests_before_and_after))
    assert "No test score" not in page.text
    rows = {row[0]: row for row in page.table("difference [95% interval]")[1:]}
    for label, evaluation in tests_before_and_after.items():
        assert rows[f"{label} test: held out"][1] == f"exact match {evaluation.interval()}"
    dev = [row for name, row in rows.items() if "dev: choices were made on it" in name]
    assert [row[1].split()[2] for row in dev] == [f"{tuning.default.score:.3f}", f"{tuning.best.score:.3f}"]
    assert "Test exact match, before → after" in page.text
    assert f"{tuning.gain().wins + tuning.gain().losses} questions changed" in page.text


def test_the_questions_of_the_trials_never_count_as_test_questions(study):
    dev = make_examples(30)
    page = read_page(render_report(study[0], evaluations={"sly": scored_on_test(Tunable(make_retriever(dev)), dev)}))
    assert "No test score" in page.text
    assert "not a test score: trials were compared on these questions" in page.text
    assert not page.having("span", "test")


def test_a_run_folder_is_reported_whole(study, tests_before_and_after, tmp_path, monkeypatch):
    tuning, storage = study
    folder = tmp_path / "run"
    folder.mkdir()
    shutil.copy(storage, folder / "study.db")
    monkeypatch.setitem(programs.PROGRAMS, "tunable", "compile_helpers:Tunable")
    others = [t for t in tuning.trials if t.complete and t.same_as is None and t.number != tuning.best.number]
    runner_up = max(others, key=lambda trial: trial.score)
    artifact = folder / "artifact"
    save(tuning.program_of(runner_up), artifact, lm="test/quality", evaluations=tests_before_and_after)
    page = read_page(render_report(folder))
    assert "No test score" not in page.text
    assert "Only means were kept with the compiled program" in page.text
    assert f"Trial {runner_up.number} ({runner_up.label}) was chosen" in page.text  # as saved; another scored best
    after = f"exact match {tests_before_and_after['test after'].interval()}"
    assert after in {row[1] for row in page.table("difference [95% interval]")}
    assert after in {row[1] for row in read_page(render_report(artifact)).table("difference [95% interval]")}
    for label, evaluation in tests_before_and_after.items():
        evaluation.save(folder / "evaluations" / f"{label}.json")
    page = read_page(render_report(folder))
    assert "Only means were kept" not in page.text
    assert "Test, question by question" in page.text


def test_evaluations_show_scores_types_and_every_question(tests_before_and_after, tmp_path):
    before, after = tests_before_and_after.values()
    for label, evaluation in tests_before_and_after.items():
        evaluation.save(tmp_path / f"{label}.json")
    page = read_page(render_report(tmp_path))
    from_objects = read_page(render_report(tests_before_and_after)).text
    assert page.text == from_objects.replace("Language model", f"From {tmp_path.name} Language model", 1)
    scores = {row[0]: row for row in page.table("failed")[1:]}
    assert scores["test after"][1:] == [str(after.interval()), str(after.interval("f1")), "12", "0"]
    wins = [r.id for r in after.records if r.scores["f1"] > before.scores("f1")[r.id]]
    assert len(page.having("details", "win")) == len(wins) > 0
    assert len(page.having("details", "q")) == 12
    assert {row[0] for row in page.table("type")[1:]} == {"even", "odd"}
    assert all(record.question in page.text for record in after.records)
    assert len(page.having("ol", "trace")) == 2 * 12
    assert "Who lives in house x3? → house x3" in page.text
    turned = read_page(render_report(tests_before_and_after, base="test after"))
    assert len(turned.having("details", "loss")) == len(wins)
    with pytest.raises(UnknownName, match="test after"):
        render_report(tests_before_and_after, base="test afte")


def test_a_part_of_a_gold_document_is_a_gold_passage_that_was_cited():
    [example] = make_examples(1)
    part = Passage(f"{example.id}#0123456789", "house", f"{example.answer} lives in house {example.id}.")
    evaluation = evaluate(RAG(BM25Index.from_passages([part])), [example], "recall", run=Run(lm=reading_lm()[0]))
    assert evaluation.mean() == 1.0
    assert "1 of 1 gold passages cited" in read_page(render_report(evaluation)).text


def test_everything_from_the_data_is_text_failures_included():
    examples = [
        dspy.Example(id=HOSTILE, question=HOSTILE, answer=HOSTILE, gold_ids=["g"], type=HOSTILE),
        dspy.Example(id="b", question="Who?", answer="Ada", type="plain"),
    ]
    lm, engine = reading_lm()

    def rule(outputs, inputs):
        if inputs["question"] == "Who?":
            raise RuntimeError(HOSTILE)
        return {"answer": f"Ada, {HOSTILE}"}  # the question by itself is no answer

    engine.rule = rule
    evaluation = evaluate(
        Tunable(make_retriever(make_examples(2))), examples, "exact_match", run=Run(lm=lm), traces=True
    )
    evaluation.provenance.program = HOSTILE
    html = render_report({HOSTILE: evaluation, "</style>": evaluation})
    page = read_page(html)
    assert "\x1b" not in html
    assert "\u202e" not in html
    assert html.count("<script") == html.count("<img") == 0
    assert page.text.count(HOSTILE.replace("\u202e", "\ufffd").replace("\x1b", "\ufffd")) > 8
    assert page.table("failed")[1][3] == "1"
    assert "onerror=alert(1)>" in page.table("why")[1][1]
    assert len(page.having("details", "failed")) == 1
    assert "split not said" in page.text


def test_a_file_of_answers_is_reported_as_far_as_it_goes(tmp_path):
    examples = make_examples(6)
    file = tmp_path / "answers.jsonl"
    evaluate(Tunable(make_retriever(examples)), examples, "exact_match", run=Run(lm=reading_lm()[0]), output=file)
    lines = file.read_bytes().splitlines(keepends=True)
    assert len(lines) == 7
    file.write_bytes(b"".join(lines[:5]) + lines[5][:20])
    page = read_page(render_report(file))
    assert "may still lack questions" in page.text
    assert "4 questions" in page.text
    file.write_bytes(b"".join([*lines[:2], b"{}\n", *lines[3:]]))
    with pytest.raises(DataError, match=r"answers\.jsonl:3"):
        render_report(file)
    file.write_bytes(lines[0])
    with pytest.raises(DataError, match="no question"):
        render_report(file)


def test_long_lists_keep_what_differs():
    example = make_examples(1)[0]
    evaluation = evaluate(Tunable(make_retriever([example])), [example], "exact_match", run=Run(lm=reading_lm()[0]))

    def copy(correct: int) -> Evaluation:
        scores = [{"exact_match": float(n < correct)} for n in range(600)]
        records = [evaluation.records[0].model_copy(update={"id": f"n{n}", "scores": s}) for n, s in enumerate(scores)]
        return evaluation.model_copy(update={"records": records})

    page = read_page(render_report({"before": copy(590), "after": copy(600)}))
    assert len(page.having("details", "q")) == 500
    assert len(page.having("details", "win")) == 10
    assert "500 of 600 questions are listed" in page.text
    assert "No traces were kept" in page.text


def test_a_study_that_is_not_finished_says_so(tmp_path):
    arguments, _ = study_arguments(10)
    program = arguments.pop("program")
    storage = tmp_path / "two.journal"
    for name, n in (("one", 2), ("two", 1)):
        run_study(program, n_trials=n, storage=storage, study_name=name, demos="none", **arguments)
    with pytest.raises(StudyError, match="--study-name: one, two"):
        render_report(storage)
    with pytest.raises(StudyError, match="no study 'three'"):
        render_report(storage, study_name="three")
    page = read_page(render_report(storage, study_name="two"))  # one trial: no importances
    assert "It changes nothing" in page.text
    assert "Not known" in page.text
    with pytest.raises(UnknownName, match="tokens"):
        render_report(storage, study_name="one", cost="token")
    assert "tokens per question" in read_page(render_report(storage, study_name="one", cost="tokens")).text


def test_bad_places_get_one_clear_line(tmp_path):
    (tmp_path / "empty").mkdir()
    (tmp_path / "notes.txt").write_text("hello")
    (tmp_path / "other.json").write_text(json.dumps({"a": 1}))
    with closing(sqlite3.connect(tmp_path / "foreign.db")) as connection:
        connection.execute("CREATE TABLE mine (x)")
    before = (tmp_path / "foreign.db").read_bytes()
    for name in ("absent", "empty", "notes.txt", "other.json", "foreign.db"):
        with pytest.raises(UsageError, match=name):
            render_report(tmp_path / name)
    assert (tmp_path / "foreign.db").read_bytes() == before
    assert not (tmp_path / "absent").exists()
    with pytest.raises(UsageError, match="no evaluations"):
        render_report({})
    scored = evaluate(programs.get_program("direct")(), make_examples(2), ["f1"], run=Run(lm=reading_lm()[0]))
    for option in ({"study_name": "s"}, {"cost": "tokens"}):
        with pytest.raises(UsageError, match="applies only to a study"):
            render_report(scored, **option)
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    with open_storage(tmp_path / "plain.db") as opened:
        optuna.create_study(study_name="plain", storage=opened)
    with pytest.raises(StudyError, match="'plain' cannot be reported"):
        render_report(tmp_path / "plain.db")
    (tmp_path / "plain.db").rename(tmp_path / "empty" / "a.db")
    with open_storage(tmp_path / "empty" / "b.db") as opened:
        optuna.create_study(study_name="second", storage=opened)
    with pytest.raises(UsageError, match=r"several studies \(a.db, b.db\)"):
        render_report(tmp_path / "empty")
