"""Reports: one page that needs nothing from outside, says which split a figure is from, and takes data as text."""

from __future__ import annotations

import json
import re
import sqlite3
from html.parser import HTMLParser

import dspy
import pytest
from compile_helpers import Tunable, make_examples, make_retriever, quality_lm, reading_lm
from compile_worker import study_arguments

from knowgap.cli import report as cli_report
from knowgap.compile import Evaluation, evaluate, evaluate_on_test, save_artifact, tune
from knowgap.compile.data import Dataset
from knowgap.compile.evaluation.runner import QuestionRecord
from knowgap.compile.study.summary import read_study
from knowgap.errors import DataError, StudyError, UnknownName, UsageError
from knowgap.programs.trace.trace import Trace
from knowgap.reports.page import render_report, write_report

VOID = {"meta", "br", "input"}
HOSTILE = '<script>alert("x")</script><img src=http://evil.example/x.png onerror=alert(1)> & \u202e\x1b[31m'


class Page(HTMLParser):
    """Reads a page, and fails on what is not closed, nested or numbered rightly."""

    def __init__(self, html: str):
        super().__init__(convert_charrefs=True)
        self.open: list[str] = []
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.words: list[str] = []
        self.tables: list[list[list[str]]] = []
        self.feed(html)
        self.close()
        assert not self.open, self.open
        ids = [attributes["id"] for _, attributes in self.tags if "id" in attributes]
        assert len({*ids}) == len(ids)
        links = [a["href"] for tag, a in self.tags if tag == "a"]
        assert {link[1:] for link in links} <= {*ids}

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)
        if tag == "table":
            self.tables.append([])
        elif tag == "tr":
            self.tables[-1].append([])
        elif tag in ("td", "th"):
            self.tables[-1][-1].append("")

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if "style" not in self.open:
            self.words.append(data)
        if {"td", "th"} & {*self.open}:
            self.tables[-1][-1][-1] += data

    @property
    def text(self) -> str:
        return " ".join(" ".join(self.words).split())

    def having(self, tag: str, name: str) -> list[dict[str, str | None]]:
        return [a for t, a in self.tags if t == tag and name in (a.get("class") or "").split()]

    def table(self, head: str) -> list[list[str]]:
        return next(rows for rows in self.tables if any(head in cell for cell in rows[0]))


def check(html: str) -> Page:
    """Read a page and make sure that it stands alone."""
    assert html.startswith("<!doctype html>\n")
    page = Page(html)
    assert not {"script", "link", "img", "iframe", "object", "embed", "base", "form"} & {tag for tag, _ in page.tags}
    for tag, attributes in page.tags:
        for name, value in attributes.items():
            assert not name.startswith("on"), (tag, name)
            if name in ("href", "src", "action", "data", "srcset", "xlink:href"):
                assert (value or "").startswith("#"), (tag, value)
            assert name != "style" or re.fullmatch(r"(left|width):[\d.]+%(;width:[\d.]+%)?", value or "")
    style = html[html.index("<style>") : html.index("</style>")]
    assert "url(" not in style
    assert "@import" not in style
    policies = [a["content"] for tag, a in page.tags if tag == "meta" and "http-equiv" in a]
    assert policies == ["default-src 'none'; style-src 'unsafe-inline'"]
    return page


@pytest.fixture(scope="module")
def study(tmp_path_factory):
    storage = tmp_path_factory.mktemp("study") / "study.db"
    arguments, _ = study_arguments(30)
    program = arguments.pop("program")
    return tune(program, n_trials=16, storage=storage, study_name="houses", num_threads=2, **arguments), storage


def scored(program, examples, split="dev", **more) -> Evaluation:
    lm, _ = quality_lm(examples)
    if split != "test":
        return evaluate(program, examples, ("exact_match", "f1"), lm=lm, split=split, **more)
    data = Dataset(name="houses", splits={"test": examples}, corpus=[], fingerprint="f")
    return evaluate_on_test(program, data, ("exact_match", "f1"), lm=lm, **more)


@pytest.fixture(scope="module")
def tests_before_and_after(study):
    examples = make_examples(12, "x")
    retriever = make_retriever(examples)
    after = Tunable(retriever, **study[0].best.values)
    return {"test before": scored(Tunable(retriever), examples, "test"), "test after": scored(after, examples, "test")}


def with_traces(evaluation: Evaluation, program, examples) -> Evaluation:
    """The same with the traces that the program leaves; where records have no such field, with one that has it."""

    class Traced(QuestionRecord):
        trace: Trace | None = None

    with dspy.context(lm=reading_lm()[0]):
        traces = {e.id: program(question=e.question).trace for e in examples}
    records = [Traced(**{**r.model_dump(), "trace": traces[r.id]}) for r in evaluation.records]
    return evaluation.model_copy(update={"records": records})


def test_a_study_without_a_test_evaluation_has_no_test_score(study):
    found, storage = study
    for source in (found, storage, f"sqlite:///{storage}", str(storage.parent)):
        page = check(render_report(source))
        assert "No test score" in page.text
        assert not page.having("span", "test")  # no figure is marked as a test score
        assert page.having("span", "dev")
        assert f"{found.paper.score:.3f} → {found.best.score:.3f}" in page.text


def test_a_study_shows_every_trial_and_what_came_of_it(study):
    found, storage = study
    page = check(render_report(storage))
    trials = page.table("LM calls made")[1:]
    assert [row[0].split()[0] for row in trials] == [str(t.number) for t in found.trials]
    assert [row[1] for row in trials] == [f"{t.score:.3f}" for t in found.trials]
    pruned = [t for t in found.trials if not t.complete]
    assert pruned
    assert sum("stopped after" in row[5] for row in trials) == len(pruned)
    assert [row[0] for row in trials if "chosen" in row[0]] == [f"{found.best.number} {found.best.label} chosen"]
    marks = {
        kind: len(page.having("circle", kind) + page.having("path", kind)) for kind in ("pruned", "chosen", "paper")
    }
    assert all(marks.values()), marks
    changes = {row[0]: row[1:3] for row in page.table("what it does")[1:]}
    values = {name: before_after for name, before_after in found.changes().items() if name != "weight"}
    assert {name: tuple(cells) for name, cells in changes.items() if name in values} == values
    front = page.table("lm_calls per question")
    assert front  # the table of trials or of the front
    assert [row[0].split()[0] for row in page.tables[[t[0][0] for t in page.tables].index("trial", 1) :][0][1:]]
    for name, weight in list(found.importances().items())[:2]:
        assert f"{name} {weight:.3f}" in page.text
    calls = found.calls
    for count in (calls.spent, calls.without_sharing, calls.without_pruning):
        assert f"{count:,}" in page.text
    assert page.having("div", "multiples")


def test_facts_of_a_study_are_those_that_tune_returned(study):
    found, _ = study
    facts = read_study(found.study)
    assert facts.trials == found.trials
    assert facts.chosen == found.best
    assert facts.paper == found.paper
    assert facts.size == len(found.questions)
    assert facts.importances == found.importances()
    assert facts.gain(found.paper) == found.gain()
    assert (facts.spent, facts.setup) == (found.spent, found.setup)
    calls = found.calls
    assert (facts.calls_without_sharing, facts.calls_without_pruning) == (calls.without_sharing, calls.without_pruning)
    assert (facts.program, facts.metric, facts.cost) == ("tunable", "exact_match", "lm_calls")


def test_only_what_was_asked_on_the_test_split_counts_as_a_test(study, tests_before_and_after):
    found, _ = study
    page = check(render_report(found, evaluations=tests_before_and_after))
    assert "No test score" not in page.text
    before, after = tests_before_and_after.values()
    rows = {row[0]: row for row in page.table("difference [95% interval]")[1:]}
    assert rows["test beforetest: held out"][1] == f"exact_match {before.interval()}"
    assert rows["test aftertest: held out"][1] == f"exact_match {after.interval()}"
    dev = [row for name, row in rows.items() if "dev: choices were made on it" in name]
    assert [row[1].split()[1] for row in dev] == [f"{found.paper.score:.3f}", f"{found.best.score:.3f}"]
    assert "Test exact_match, before → after" in page.text


def test_the_questions_of_the_trials_never_count_as_test_questions(study):
    found, _ = study
    dev = make_examples(30)
    called_test = scored(Tunable(make_retriever(dev)), dev, "test")
    page = check(render_report(found, evaluations={"sly": called_test}))
    assert "No test score" in page.text
    assert "not a test score: trials were compared on these questions" in page.text
    assert not page.having("span", "test")


def test_a_run_folder_is_reported_whole(study, tests_before_and_after, tmp_path, monkeypatch):
    found, storage = study
    folder = tmp_path / "run"
    folder.mkdir()
    with sqlite3.connect(storage) as source, sqlite3.connect(folder / "study.db") as target:
        source.backup(target)
    source.close()
    target.close()
    from knowgap import programs

    monkeypatch.setitem(programs.PROGRAMS, "tunable", "compile_helpers:Tunable")
    others = [t for t in found.trials if t.complete and t.same_as is None and t.number != found.best.number]
    runner_up = max(others, key=lambda trial: trial.score)
    chosen = found.program_of(runner_up)
    save_artifact(chosen, folder / "artifact", lm="test/quality", evaluations=tests_before_and_after)
    page = check(render_report(folder))
    assert "No test score" not in page.text
    assert "Only means were kept with the compiled program" in page.text
    saved = f"Trial {runner_up.number} ({runner_up.label}) was chosen"  # and not what scored best
    assert saved in page.text
    after = tests_before_and_after["test after"].interval()
    assert f"exact_match {after}" in {row[1] for row in page.table("difference [95% interval]")}
    for label, evaluation in tests_before_and_after.items():
        evaluation.save(folder / "evaluations" / f"{label}.json")
    page = check(render_report(folder))
    assert "Only means were kept" not in page.text
    assert "Test, question by question" in page.text


def test_evaluations_show_scores_types_and_every_question(tests_before_and_after, tmp_path):
    before, after = tests_before_and_after.values()
    for label, evaluation in tests_before_and_after.items():
        evaluation.save(tmp_path / f"{label}.json")
    page = check(render_report(tmp_path))
    assert page.text == check(render_report(tests_before_and_after)).text.replace(
        "Language model", f"From {tmp_path.name} Language model", 1
    )
    scores = {row[0]: row for row in page.table("failed")[1:]}
    assert scores["test after"][1:] == [str(after.interval()), str(after.interval("f1")), "12", "0"]
    wins = [r.id for r in after.records if r.scores["f1"] > before.scores("f1")[r.id]]
    assert len(page.having("details", "win")) == len(wins) > 0
    assert len(page.having("details", "q")) == 12
    assert {row[0] for row in page.table("questions")[1:]}
    assert "even" in {row[0] for table in page.tables for row in table}
    for record in after.records:
        assert record.question in page.text
    turned = check(render_report(tests_before_and_after, base="test after"))
    assert len(turned.having("details", "loss")) == len(wins)
    with pytest.raises(UnknownName, match="test after"):
        render_report(tests_before_and_after, base="test afte")


def test_traces_stand_side_by_side_where_they_were_kept(tests_before_and_after):
    assert "No traces were kept" in check(render_report(tests_before_and_after)).text
    examples = make_examples(12, "x")
    retriever = make_retriever(examples)
    programs = {"test before": Tunable(retriever), "test after": Tunable(retriever, top_k=3)}
    traced = {label: with_traces(e, programs[label], examples) for label, e in tests_before_and_after.items()}
    page = check(render_report(traced))
    assert "No traces were kept" not in page.text
    assert len(page.having("ol", "trace")) == 2 * 12
    assert "Who lives in house x3? → house x3" in page.text


def test_everything_from_the_data_is_text(tmp_path):
    examples = [
        dspy.Example(id=HOSTILE, question=HOSTILE, answer=HOSTILE, gold_ids=["g"], type=HOSTILE),
        dspy.Example(id="b", question="Who?", answer="Ada", type="plain"),
    ]
    retriever = make_retriever(make_examples(2))
    lm, engine = reading_lm()
    engine.rule = lambda outputs, inputs: {"answer": HOSTILE}
    program = Tunable(retriever)
    evaluation = evaluate(program, examples, "exact_match", lm=lm)
    evaluation.records[1].error = HOSTILE
    with dspy.context(lm=lm):
        evaluation = with_traces(evaluation, program, examples)
    evaluation.provenance.program = HOSTILE
    html = render_report({HOSTILE: evaluation, "</style>": evaluation}, title=HOSTILE)
    page = check(html)
    assert "\x1b" not in html
    assert "\u202e" not in html
    assert html.count("<script") == html.count("<img") == 0
    shown = HOSTILE.replace("\u202e", "\ufffd").replace("\x1b", "\ufffd")
    assert page.words.count(shown) > 8
    assert write_report(evaluation, tmp_path / "x" / "r.html").read_text(encoding="utf-8").startswith("<!doctype")
    assert [p.name for p in (tmp_path / "x").iterdir()] == ["r.html"]


def test_failures_are_listed_and_counted():
    examples = make_examples(6)
    lm, engine = reading_lm()
    answer = engine.rule

    def rule(outputs, inputs):
        if "q3" in inputs["question"]:
            raise RuntimeError("the reader is asleep")
        return answer(outputs, inputs)

    engine.rule = rule
    page = check(render_report(evaluate(Tunable(make_retriever(examples)), examples, "exact_match", lm=lm)))
    assert page.table("failed")[1][3] == "1"
    assert "the reader is asleep" in page.table("why")[1][2]
    assert len(page.having("details", "failed")) == 1
    assert "split not said" in page.text


def test_a_file_of_answers_is_reported_as_far_as_it_goes(tmp_path):
    examples = make_examples(6)
    file = tmp_path / "answers.jsonl"
    whole = evaluate(
        Tunable(make_retriever(examples)), examples, "exact_match", lm=reading_lm()[0], split="dev", output=file
    )
    lines = file.read_bytes().splitlines(keepends=True)
    file.write_bytes(b"".join(lines[:5]) + lines[5][:20])
    page = check(render_report(file))
    assert "may still lack questions" in page.text
    assert "Dev: 4 questions" in page.text
    file.write_bytes(b"".join([*lines[:2], b"{}\n", *lines[3:]]))
    with pytest.raises(DataError, match=r"answers\.jsonl:3"):
        render_report(file)
    file.write_bytes(lines[0])
    with pytest.raises(DataError, match="no question"):
        render_report(file)
    assert len(whole.records) == 6


def test_long_lists_keep_what_differs():
    example = make_examples(1)[0]
    record = evaluate(Tunable(make_retriever([example])), [example], "exact_match", lm=reading_lm()[0])
    copies = {
        label: record.model_copy(
            update={
                "records": [
                    record.records[0].model_copy(
                        update={"id": f"n{i}", "scores": {"exact_match": float(i < 590 or label == "after")}}
                    )
                    for i in range(600)
                ]
            }
        )
        for label in ("before", "after")
    }
    page = check(render_report(copies))
    assert len(page.having("details", "q")) == 500
    assert len(page.having("details", "win")) == 10
    assert "500 of 600 questions are listed" in page.text


def test_a_study_that_is_not_finished_says_so(tmp_path):
    arguments, _ = study_arguments(10)
    program = arguments.pop("program")
    storage = tmp_path / "two.journal"
    for name, n in (("one", 2), ("two", 1)):
        tune(program, n_trials=n, storage=storage, study_name=name, demos=None, **arguments)
    with pytest.raises(StudyError, match="--study-name: one, two"):
        render_report(storage)
    with pytest.raises(StudyError, match="no study 'three'"):
        render_report(storage, study_name="three")
    page = check(render_report(storage, study_name="two"))  # one trial: no importances, no slices, nothing changed
    assert "It changes nothing" in page.text
    assert "Not known" in page.text
    with pytest.raises(UnknownName, match="tokens"):
        render_report(storage, study_name="one", cost="token")
    assert "tokens per question" in check(render_report(storage, study_name="one", cost="tokens")).text


def test_bad_places_get_one_clear_line(tmp_path):
    (tmp_path / "empty").mkdir()
    (tmp_path / "notes.txt").write_text("hello")
    (tmp_path / "other.json").write_text(json.dumps({"a": 1}))
    with sqlite3.connect(tmp_path / "foreign.db") as connection:
        connection.execute("CREATE TABLE mine (x)")
    connection.close()
    before = (tmp_path / "foreign.db").read_bytes()
    for name in ("absent", "empty", "notes.txt", "other.json", "foreign.db"):
        with pytest.raises(UsageError, match=name):
            render_report(tmp_path / name)
    assert (tmp_path / "foreign.db").read_bytes() == before
    assert not (tmp_path / "absent").exists()
    with pytest.raises(UsageError, match="no evaluations"):
        render_report({})
    import optuna

    optuna.logging.set_verbosity(optuna.logging.WARNING)
    optuna.create_study(study_name="plain", storage=f"sqlite:///{tmp_path / 'plain.db'}")
    with pytest.raises(StudyError, match="'plain' cannot be reported"):
        render_report(tmp_path / "plain.db")


def test_the_command_writes_the_page(study, tmp_path, capsys):
    _, storage = study
    cli_report.report(str(storage), output=tmp_path / "page.html")
    assert "page.html" in capsys.readouterr().out.replace("\n", "")
    check((tmp_path / "page.html").read_text(encoding="utf-8"))
