"""eval and compare: scores, answers that are kept, and artifacts side by side."""

from __future__ import annotations

from knowgap.compiling import Evaluations
from knowgap.reports.pages import group_evaluations
from tests.app.cli.conftest import QUESTIONS, write_lines

EVAL = ("eval", "--program", "rag", "--data", "questions.jsonl", "--whole", "--index", "idx")


def test_scores_and_continues(indexed):
    first = indexed.json(*EVAL, "-o", "out")
    assert (first["questions"], first["failed"]) == (4, 0)
    answers = indexed.folder / "out" / "rag.jsonl"
    lines = answers.read_text(encoding="utf-8").splitlines()
    answers.write_text("\n".join(lines[:3]) + "\n", encoding="utf-8")  # as if killed after two questions
    assert indexed.json(*EVAL, "-o", "out")["scores"] == first["scores"]
    assert len(answers.read_text(encoding="utf-8").splitlines()) == len(lines)


def test_shows_scores_costs_and_where_the_evidence_went(indexed):
    result = indexed.json(*EVAL)
    used = result["evidence"]["used for the answer"]
    assert used + result["evidence"]["not searched for"] == 1.0
    assert result["scores"]["found"]["mean"] == result["scores"]["used"]["mean"] == used
    printed, _ = indexed(*EVAL, "--metric", "f1")
    assert "exact_match" not in printed
    table = printed[printed.index("where the evidence went") :]
    assert f"usedfortheanswer│{used:.1%}" in table.replace(" ", "")
    assert "refused" not in printed
    asked = [*QUESTIONS, {"question": "Who painted the hall?", "answer": "unanswerable"}]
    write_lines(indexed.folder / "questions.jsonl", asked)
    counts = indexed.json(*EVAL)["refusals"]
    assert (counts["unanswerable"], counts["answerable"], counts["verdict"]) == (1, 4, False)
    printed = " ".join(indexed(*EVAL)[0].split())
    assert f"{counts['answered']} of 1" in printed
    assert f"{counts['refused']} of 4" in printed


def test_compares_programs_and_artifacts_of_the_same_name(indexed):
    data = ("--data", "questions.jsonl", "--index", "idx", "--limit", "1")
    _, remarks = indexed("eval", *data, "--program", "direct")
    assert "1 of 4 questions" in remarks  # the test part of a file
    for folder in ("one", "two"):
        study = ("--program", "rag", "--optimizer", "labeled", "--num-threads", "1")
        indexed("compile", *data, *study, "-o", folder)
    programs = "direct,one/artifact,two/artifact"
    compare = ("eval", *data[:4], "--whole", "--program", programs)
    printed, _ = indexed(*compare, "-o", "out")
    table = printed[printed.index("question by question against direct") :]
    assert "one/artifact" in table
    assert "two/artifact" in table
    assert list(Evaluations.load(indexed.folder / "out")) == programs.split(",")
    assert list(indexed.json(*compare)) == programs.split(",")


def test_the_report_of_a_comparison_has_its_base_and_its_names(indexed):
    indexed("eval", *EVAL[3:], "--program", "rag,direct,cot", "-o", "out")
    [group] = group_evaluations(Evaluations.load("out"))
    assert list(group) == ["rag", "direct", "cot"]
    indexed("report", "out", "-o", "page.html")
    assert (indexed.folder / "page.html").exists()


def test_a_dry_run_asks_three_questions(indexed):
    estimate = indexed.json(*EVAL, "--dry-run")["rag"]
    assert estimate["calls"] == estimate["questions"] == len(QUESTIONS)
    assert "no index: name one with --index FOLDER" in indexed.refusal(*EVAL[:-2])
