"""questions: from an index to a file that eval takes, with a page beside it."""

import json

from support import scripted_lm

from tests.app.cli.conftest import write_lines
from tests.compile.questions.test_writing import HOUSES, author

MODEL = ("--lm", "openai/scripted")


def test_writes_questions_that_eval_takes_and_a_page(knowgap, monkeypatch):
    lm, _ = scripted_lm(author())
    monkeypatch.setattr("knowgap.lms.make_lm", lambda *args, **options: lm)
    write_lines(knowgap.folder / "houses.jsonl", [house.to_dict() for house in HOUSES])
    knowgap("index", "--corpus", "houses.jsonl", "--index", "idx")
    printed, said = knowgap("questions", "--index", "idx", "--n", "4", *MODEL, "-o", "mine.jsonl")
    assert "questions, after 16 calls" in printed
    assert [line.split("│")[-2].strip() for line in printed.splitlines() if line.startswith("│")] == ["4", "0"]
    assert "4 of 4 questions written to mine.jsonl; look through them: mine.html" in " ".join(said.split())
    assert len((knowgap.folder / "mine.jsonl").read_text().splitlines()) == 4
    assert "mine-kept.jsonl" in (knowgap.folder / "mine.html").read_text()
    knowgap("questions", "--index", "idx", "--n", "4", *MODEL, "-o", "asked.html")  # the page must not replace them
    assert (knowgap.folder / "asked.html").read_text().count('"id"') == 4
    whole = ("--data", "mine.jsonl", "--whole", "--index", "idx")
    result = json.loads(knowgap("eval", "--program", "rag", *whole, *MODEL, "--json", code=1)[0])  # it answers nothing
    assert (result["questions"], round(sum(result["evidence"].values()), 6)) == (4, 1.0)
