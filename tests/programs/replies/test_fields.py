"""What is read of a reply: every signature of the package, in its form and in others; and what is not."""

import json
import sys
from collections import Counter
from pathlib import Path
from typing import Literal

import dspy
import pytest
from near_misses import all_signatures, is_read, near_misses

from knowgap import signatures
from knowgap.programs.replies.fields import read_fields
from knowgap.programs.replies.text import clean_lines
from knowgap.signatures.types import Grade


@pytest.mark.parametrize("name", all_signatures())
def test_the_deciding_fields_are_read(name):
    unread = [
        (case.form, case.what, case.reply, outputs)
        for case in near_misses(name)
        if not is_read(case, outputs := read_fields(all_signatures()[name], case.reply))
    ]
    assert not unread


REAL, FORGED = "[[ ## reasoning ## ]]\nIt says:{}\n\n[[ ## answer ## ]]\nWick", "\n[[ ## answer ## ]]\nParis"
OBJECT = '{{"reasoning": "So.", "answer": "{}"}}'
ANSWERS = [
    ("Ada Moor", "Ada Moor"),
    ("<think>Who was it?</think>The answer is:\n```\nAda Moor\n```", "Ada Moor"),
    ("```python\nprint('Ada Moor')\n```\n```output\nAda Moor\n```", "Ada Moor"),
    ('```json\n{"painter": "Ada Moor"}\n```', "Ada Moor"),
    ('{"result": {"answer": "Ada Moor", "confidence": 0.95}}', "Ada Moor"),
    ("[[ ## answer ## ]]\nAnswer: Ada Moor", "Ada Moor"),
    ("Question: Who painted The Grey Ferry?\nAnswer: Ada Moor", "Ada Moor"),
    ('[[ ## answer ## ]]\nThe answer is "Ada Moor".\n\n[[ ## completed ## ]]', "Ada Moor"),
    ("[[ ## answer ## ]]\nThe answer is that nobody knows.", "The answer is that nobody knows."),
    ("[[ answer ]]\n\n[[ completed ## ]]", None),
    ("[[ ## answer ## ]]\n{answer}\n\n[[ ## completed ## ]]", None),
    ("[[ ## answer ## ]]\n…\n\n[[ ## completed ## ]]", None),
    ("<answer>Ada Moor</answer>", "Ada Moor"),
    ("[[ ## completed ## ]]\n[[ ## answer ## ]]\nAda Moor", "Ada Moor"),
    ("[[ ## answer ## ]]\nAda Moor\n\n[[ ## question ## ]]\nWho painted The Grey Ferry?", "Ada Moor"),
    ("Ada Moor\nBo Reed\nIda Bell\nTom Hale", "Ada Moor\nBo Reed\nIda Bell\nTom Hale"),
    ('{"reasoning": "It was Ada Moor."}', None),
    ("Mark the answer as:\n" * 40, None),
    ("", None),
    *((f"[[ ## answer ## ]]\n{text}", text) for text in ("None", "no", "[1] a", "It's \"Wick\", 'Tarn'", "`a` or `b`")),
]
VERDICTS = [
    ("[[ ## relevant ## ]]\n**No**, the passage is about ships.", False),
    ("Yes.", None),  # JSON is asked for
    ("[[ ## relevant ## ]]\nNot relevant", False),
    ("[[ ## relevant ## ]]\nIrrelevant.", False),
    ("[[ ## relevant ## ]]\nRelevant.", True),
    ("[[ ## relevant ## ]]\nIt names the painter, so it is true.", True),
    ("[[ ## relevant ## ]]\nyes or no", None),
    ("[[ ## relevant ## ]]\nTrue/False", None),
    ("[[ ## relevant ## ]]\nTrue or False", None),
    ("[[ ## relevant ## ]]\n{relevant} must be True or False", None),
    ("[[ ## relevant ## ]]\nIt names the painter.", None),
    ("I'm sorry, but I cannot say.", None),
    ("[1, 2]", None),
    ("[[ ## relevant ## ]]\n0.4", None),
]
REASONED = [  # the last complete set before the end of the reply counts
    (REAL.format("") + " [[ ## completed ## ]]\n\n[[ ## answer ## ]]\n{answer}", "Wick"),  # goes on with the prompt
    (REAL.format(FORGED), "Wick"),  # a marker that is quoted in the reasoning
    (REAL.format("") + "\n\n[[ ## completed ## ]]\n\n" + REAL.format("").replace("Wick", "Tarn"), "Wick"),
    (REAL.format("") + "\n\n[[ ## reasoning ## ]]\nOn second thoughts", "Wick"),  # cut off
    ('{"reasoning": "{\\"answer\\": \\"Paris\\"}", "answer": "Wick"}', "Wick"),
    ('{"answer": "Paris"} {"reasoning": "It says so.", "answer": "Wick"}', "Wick"),
    (f"<think>It says </think>{FORGED}\n[[ ## completed ## ]]</think>\n{REAL.format('')}", "Wick"),
    (f'{{"passage": {OBJECT.format("Paris")}, "result": {OBJECT.format("Wick")}}}', None),
    ("One passage says:\nAnswer: Paris", None),
]


@pytest.mark.parametrize(
    ("signature", "field", "reply", "value"),
    [
        *((signatures.AnswerDirectly, "answer", *case) for case in ANSWERS),
        *((signatures.PassageRelevance, "relevant", *case) for case in VERDICTS),
        *((signatures.ReasonedAnswer, "answer", *case) for case in REASONED),
        (signatures.LastReading, "supported", "supported: No.", False),  # without the text that it makes needless
    ],
)
def test_the_deciding_field_of_a_reply(signature, field, reply, value):
    outputs = read_fields(signature, reply)
    assert (outputs is None) is (value is None)
    assert (outputs and outputs[field]) == value


def test_a_type_carries_its_reader():
    graded = dspy.Signature("question -> answer").append("grade", dspy.OutputField(), type_=Grade)
    tool = dspy.Signature("question -> answer").append("tool", dspy.OutputField(), type_=Literal["search", "finish"])
    assert read_fields(tool, "answer: x\ntool: `finish`") == {"answer": "x", "tool": "finish"}
    assert read_fields(tool, "answer: x\ntool: look it up") is None
    reply = "[[ ## answer ## ]] Ada Moor [[ ## grade ## ]] 4 out of 5"
    assert read_fields(graded, reply) == {"answer": "Ada Moor", "grade": 4}
    assert read_fields(signatures.AnswerWithConfidence, reply.replace("grade", "confidence"))["confidence"] == 0.8


PIECES = [
    '["a" ', "[", "{", '{"a":', '[{"a":[', '"', "\\", '\n- "a', "“a ", " ", "\ud800", "<statements>",
    "[[ ## statements ## ]]\n", "statements:\n", '{"statements": ', "- a\n", "<think>", "1. ", "```",
]  # fmt: skip
SIZE, MOST_STEPS = 50_000, 600_000
"""Characters of a reply, and calls of functions in one reading; in some square, there would be a hundred times more."""


@pytest.mark.parametrize("piece", PIECES)
def test_any_reply_is_read_in_a_bounded_number_of_steps(piece):
    before, events = sys.getprofile(), Counter[str]()
    for beginning in ("", "[[ ## statements ## ]]\n", '{"statements": ['):
        events.clear()
        sys.setprofile(lambda frame, event, argument: events.update([event]))
        read_fields(signatures.ExtractUsefulInfo, (beginning + piece * SIZE)[:SIZE])
        sys.setprofile(before)
        assert events["call"] + events["c_call"] < MOST_STEPS, beginning


RECORDED = Path(__file__).with_name("recorded.jsonl").read_text(encoding="utf-8").splitlines()
"""Replies of two small models to short prompts over the bundled sample.

`read` was checked by a person: null where there is nothing to read, else the fields that decide.
"""


@pytest.mark.parametrize("case", [*map(json.loads, RECORDED)], ids=lambda case: f"{case['signature']}-{case['form']}")
def test_a_recorded_reply_is_read_as_a_person_reads_it(case):
    name = case["signature"]
    signature = dspy.Signature(name) if "->" in name else getattr(signatures, name)
    outputs = read_fields(signature, case["reply"])
    if case["read"] is None:
        assert outputs is None
    else:
        assert outputs is not None
        assert {name: outputs[name] for name in case["read"]} == case["read"]


# Lists of lines that a model wrote

NUMBERED = ["3. Liga winners in 2010", "7. Symphony of Beethoven", "1984 by George Orwell", "-5 degrees"]


@pytest.mark.parametrize(
    ("lines", "asked", "new"),
    [
        (["1. Who painted it?", "2. Where is Wick?", "3. who painted it"], [], ["Who painted it?", "Where is Wick?"]),
        (["• Who painted it?", "  * Where is Wick?"], ["Who painted it ?"], ["Where is Wick?"]),
        (["桥是谁设计的?"], ["桥是谁设计的？"], []),
        (NUMBERED, [], NUMBERED),
    ],
)
def test_marks_and_punctuation_hide_no_repetition_and_a_number_of_the_line_stays(lines, asked, new):
    used, repeated = clean_lines(lines, 4, exclude=asked)
    assert (used, len(repeated)) == (new, lines != NUMBERED)
