"""eval: scores, costs, evidence and refusals, and artifacts side by side."""

from knowgap.compiling import Evaluations
from tests.app.cli.conftest import QUESTIONS, write_lines

EVAL = ("eval", "--program", "rag", "--data", "questions.jsonl", "--whole", "--index", "idx")


def test_shows_scores_costs_and_where_the_evidence_went(indexed):
    result = indexed.json(*EVAL)
    used = result["evidence"]["used for the answer"]
    assert result["scores"]["found"]["mean"] == result["scores"]["used"]["mean"] == used
    printed, _ = indexed(*EVAL, "--metric", "f1")
    assert "exact_match" not in printed
    table = printed[printed.index("where the evidence went") :]
    assert f"usedfortheanswer│{used:.1%}" in table.replace(" ", "")
    assert "refused" not in printed
    assert "f1" in indexed.json(*EVAL[:-1], "sample")["scores"]  # questions on the sample, such as `questions` writes
    assert indexed.json(*EVAL, "--dry-run")["rag"]["calls"] == len(QUESTIONS)
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
    indexed.refusal("report", "out", "-o", ".")
