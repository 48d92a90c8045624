"""eval and compare: scores, answers that are kept, and artifacts side by side."""

from __future__ import annotations

EVAL = ("eval", "--program", "rag", "--data", "questions.jsonl", "--whole", "--index", "idx")


def test_scores_and_continues(indexed):
    first = indexed.json(*EVAL, "-o", "out")
    assert (first["questions"], first["failed"]) == (4, 0)
    answers = indexed.folder / "out" / "rag-questions-test.jsonl"
    lines = answers.read_text(encoding="utf-8").splitlines()
    answers.write_text("\n".join(lines[:3]) + "\n", encoding="utf-8")  # as if killed after two questions
    assert indexed.json(*EVAL, "-o", "out")["scores"] == first["scores"]
    assert len(answers.read_text(encoding="utf-8").splitlines()) == len(lines)


def test_shows_scores(indexed):
    printed, _ = indexed(*EVAL, "--metric", "f1")
    assert "questions, test split, 4 questions" in printed
    assert "exact_match" not in printed
    assert "unknown split 'tset': did you mean 'test'?" in indexed.refusal(*EVAL[:5], "--split", "tset")


def test_says_where_the_evidence_went(indexed):
    result = indexed.json(*EVAL)
    assert result["evidence"]["shown whole"] + result["evidence"]["not retrieved"] == 4
    assert result["scores"]["found"]["mean"] == result["evidence"]["shown whole"] / 4
    printed, _ = indexed(*EVAL)
    table = printed[printed.index("where the evidence went") :]
    assert ["shown whole", str(result["evidence"]["shown whole"])] in [
        [cell.strip() for cell in line.split("│")[1:3]] for line in table.splitlines()
    ]
    assert "4 gold passages in all" in table
    assert "first_search_recall@5" in printed
    compared, _ = indexed("compare", *EVAL[3:], "--programs", "direct,rag")
    table = compared[compared.index("where the evidence went") :]
    assert "4 (100.0%)" in next(line for line in table.splitlines() if "not retrieved" in line)


def test_compares_programs_and_artifacts_of_the_same_name(indexed):
    data = ("--data", "questions.jsonl", "--index", "idx", "--limit", "1")
    for folder in ("one", "two"):
        study = ("--program", "rag", "--optimizer", "labeled", "--num-threads", "1")
        indexed("compile", *data, *study, "-o", folder)
    programs = "direct,one/artifact,two/artifact"
    compare = ("compare", *data[:4], "--whole", "--programs", programs)
    printed, _ = indexed(*compare, "-o", "out")
    assert "one/artifact − direct" in printed
    assert "two/artifact − direct" in printed
    assert len(list((indexed.folder / "out").glob("*-artifact-questions-test.json"))) == 2
    assert list(indexed.json(*compare)) == programs.split(",")
    assert "--programs is empty" in indexed.refusal("compare", "--programs", " , ")
