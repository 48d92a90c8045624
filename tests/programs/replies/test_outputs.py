"""Lists of lines that a model wrote."""

import pytest

from knowgap.programs.replies.text import clean_lines


@pytest.mark.parametrize(
    "lines",
    [
        ["1. Who painted it?", "2. Where is Wick?", "3. Who painted it"],
        ["- Who painted it?", "- Where is Wick?", "- who painted it?"],
        ["(1) Who painted it?", "(2) Where is Wick?", "(3) Who  painted it."],
        ["• Who painted it?", "  * Where is Wick?", "Who painted it ?"],
    ],
)
def test_list_marks_hide_no_repetition(lines):
    new, repeated = clean_lines(lines, 3)
    assert new == ["Who painted it?", "Where is Wick?"]
    assert len(repeated) == 1
    assert clean_lines(lines[:2], 3, exclude=["who painted it"])[0] == ["Where is Wick?"]


@pytest.mark.parametrize(
    ("asked", "again"),
    [("桥是谁设计的？", "桥是谁设计的?"), ("من صمم الجسر؟", "من صمم الجسر"), ("पुल किसने बनाया।", "पुल किसने बनाया?")],
)
def test_the_punctuation_of_other_scripts_hides_no_repetition(asked, again):
    assert clean_lines([again], 3, exclude=[asked]) == ([], [again])


def test_a_number_that_belongs_to_the_line_stays():
    lines = ["3. Liga winners in 2010", "7. Symphony of Beethoven", "1984 by George Orwell", "-5 degrees"]
    assert clean_lines(lines, 9) == (lines, [])
    assert clean_lines(lines[:1], 9) == (lines[:1], [])
