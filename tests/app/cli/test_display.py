"""What commands print fits its width, is cut between words, and commands no terminal."""

import json
import re

import pytest
from rich.cells import cell_len

from knowgap.cli import display
from knowgap.cli.display import out, show_table
from knowgap.errors import shorten
from tests.app.cli.conftest import write_lines

ESCAPES = "\x1b]0;owned\x07 \x1b[2K \r \x9b31m \u202e\u2066 \u2028"
RAW = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")


@pytest.mark.parametrize("width", [60, 80, 120])
def test_a_table_fits_its_width_and_keeps_words_and_numbers_whole(capsys, monkeypatch, width: int):
    monkeypatch.setattr(out, "_width", width)
    names = ["adaptive_note", "blend_filter tuned", "京都 and a longer name than fits"]
    numbers = ["0.350 [0.220, 0.480]", "+0.140 [-0.050, +0.240]", "12,345", "< 0.001", "7"]
    rows = [[name, *numbers, "a sentence about it that goes on " * 3, "\x1b[31m[red]"] for name in names]
    show_table(
        "a title", ["program", "f1", "gain [95% interval]", "tokens", "p", "n", "what", "colour"], rows, caption="c"
    )
    printed = capsys.readouterr().out
    assert max(map(cell_len, printed.splitlines())) <= width
    assert printed.count("a title") == 1
    cells = [cell.strip() for line in printed.splitlines() for cell in re.split("[│┃]", line)]
    assert all(cells.count(number) == len(names) for number in numbers)
    assert printed.count("│ a sentence about") == len(names)  # texts are aligned left
    assert {word for cell in cells for word in cell.split()} >= set(" ".join(names).split()) | {
        "sentence",
        "\\u001b[31m[red]",
    }


@pytest.mark.parametrize(
    ("text", "width", "short"),
    [("as it is", 8, "as it is"), ("a word that\nis cut", 13, "a word that…"), ("unbreakable" * 3, 12, "unbreakable…")],
)
def test_texts_are_cut_between_words(text, width, short):
    assert shorten(text, width) == short


def test_nothing_raw_reaches_the_terminal(knowgap, monkeypatch):
    text = f"The Orle Bridge was designed by Ada {ESCAPES}Venn."
    passage = {"id": f"orle{ESCAPES}", "title": f"Orle {ESCAPES}", "text": text}
    question = {
        "id": f"q {ESCAPES}",
        "question": f"Who designed {ESCAPES} the Orle Bridge?",
        "answer": f"Ada {ESCAPES}",
    }
    write_lines(knowgap.folder / "docs.jsonl", [passage])
    asked = {**question, "gold_ids": [passage["id"]], "type": f"kind {ESCAPES}"}
    write_lines(knowgap.folder / "questions.jsonl", [asked])
    name = "idx\x1b[31m\u202e"
    seen = [knowgap("index", "--corpus", "docs.jsonl", "--index", name)]
    assert r"Orle \u001b]0;owned" in knowgap("search", "Orle", "--index", name)[0]
    assert knowgap.json("search", "Orle", "--index", name)["hits"][0]["title"] == passage["title"].strip()
    whole = ("--data", "questions.jsonl", "--whole", "--index", name)
    for words in (
        ["search", f"Orle {ESCAPES}", "--index", name],
        ["ask", question["question"], "--index", name, "--program", "rag"],
        ["eval", "--program", "rag", *whole, "-o", "out\x1b[1m"],
        ["eval", "--program", "rag,direct", *whole],
    ):
        seen += [knowgap(*words), knowgap(*words, "--json")]
        json.loads(seen[-1][0])
    seen.append(knowgap("report", "out\x1b[1m", "-o", "page\x1b[2J.html"))
    seen += [knowgap(*words, f"none {ESCAPES}", code=2) for words in (["search", "x", "--index"], ["ls"], ["report"])]
    for printed in seen:
        for text in printed:
            assert not RAW.search(text), RAW.search(text)
    page = (knowgap.folder / "page\x1b[2J.html").read_text(encoding="utf-8")
    assert not {"\x1b", "\x07", "\u202e", "\u2066"} & set(page)
    assert "Content-Security-Policy" in page


def test_lines_say_how_much_time_is_left(monkeypatch):
    now, lines = [0.0], []
    monkeypatch.setattr(display.time, "monotonic", lambda: now[0])
    monkeypatch.setattr(display.err, "print", lines.append)
    with display.progress("scoring") as report:
        for seconds, done, total in ((0, 10, 100), (90, 13, 100), (2700, 100, 100), (2701, 1, 9), (9901, 2, 9)):
            now[0] = seconds + 5.0
            report(done, total, "f1 0.5")
    assert lines == [
        "scoring: 10/100 f1 0.5",
        "scoring: 13/100 f1 0.5, about 44 min left",
        "scoring: 100/100 f1 0.5",
        "scoring: 2/9 f1 0.5, about 14 h left",
    ]
