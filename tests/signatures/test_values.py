"""Values as language models write them."""

import json

import pytest

from knowgap.signatures import Statement
from knowgap.signatures.values import (
    is_unknown,
    read_bool,
    read_fraction,
    read_ids,
    read_list,
    read_scale,
    read_strings,
    read_text,
)

BOTH = [{"statement": "a", "sources": [1]}, {"statement": "b", "sources": [2]}]
FIRST, SECOND = map(json.dumps, BOTH)


@pytest.mark.parametrize(
    ("read", "written", "value"),
    [
        (read_strings, "Query 1: Who?\nQ2: Where?", ["Who?", "Where?"]),
        (read_strings, "a) Who?\nb) Where?", ["Who?", "Where?"]),
        (read_strings, "Two questions:\n1. Who?\n2. Where?", ["Who?", "Where?"]),
        (read_strings, "Who was born in Wick, Tarn, or Lund?", ["Who was born in Wick, Tarn, or Lund?"]),
        (read_strings, '{"questions": ["Who?", "Whe', ["Who?", "Whe"]),
        (read_strings, "No further questions are needed.", []),
        (read_strings, "No Country for Old Men director", ["No Country for Old Men director"]),
        (read_strings, "3. Liga winners", ["3. Liga winners"]),
        (read_list, "1. a. [1]\n\n2. b. [2]", ["a. [1]", "b. [2]"]),
        (read_list, "No useful facts.", []),
        (read_list, f"[[ {FIRST}], {SECOND}]]", BOTH),
        (read_list, [[BOTH[0]], BOTH[1]], BOTH),
        (read_ids, "[1] names the painter, [3] that he was born in 1871", [1, 3]),
        (read_ids, f"[1] {'names the painter ' * 20}", [1]),
        (read_ids, "None of the passages is relevant.", []),
        (read_ids, "[2, 2, 9, 0, -1]", [2, 2, 9, 0, -1]),
        (read_ids, [{"id": 2}, "P3", "[4]", None], [2, 3, 4]),
        (read_bool, "Definitely yes", True),
        (read_bool, "Not directly", False),
        (read_bool, "No follow-up is needed", False),
        (read_bool, {"relevant": "No"}, False),
        (read_bool, [1], True),
        (read_text, ["Wick", "Tarn"], "Wick, Tarn"),
        (read_text, ["It stands on the bank of the Isk", "Tarn"], "It stands on the bank of the Isk\nTarn"),
        (read_text, "*Wick*", "Wick"),
        (read_text, {"1": "relevant", "2": "not"}, "1: relevant, 2: not"),
        (read_text, True, "yes"),
        (read_text, "[Wick]", "[Wick]"),
        (is_unknown, "]]\n[[", True),
        (is_unknown, "Unknown.", True),
        (is_unknown, "The answer is not clear from the given information.", True),
        (is_unknown, "No information provided about the director.", True),
        (is_unknown, "The passages do not mention when she died.", True),
        (is_unknown, "The answer cannot be determined from the statements.", True),
        *((is_unknown, f"{said} information about her.", True) for said in ("There is not enough", "Insufficient")),
        *((is_unknown, f"Her year of birth {said}", True) for said in ("is not provided.", "can't be determined.")),
        (is_unknown, "The text does not provide it.", True),
        (is_unknown, f"The passages do not mention her, but {'she sang ' * 40}", False),
        (is_unknown, "It was not known to be a ferry until 1911.", False),
        (is_unknown, "The contract does not mention a deposit.", False),
        (Statement.model_validate, "a [3] [1, 2].", Statement(statement="a.", sources=[3, 1, 2])),
        (Statement.model_validate, "Ada (1871)", Statement(statement="Ada (1871)", sources=[])),
        (Statement.model_validate, {"Statement": "a", "Sources": "[1]"}, Statement(**BOTH[0])),
    ],
)
def test_a_value_is_read_as_a_person_reads_it(read, written, value):
    assert read(written) == value


@pytest.mark.parametrize(
    ("written", "grade", "probability"),
    [
        ("I am quite sure (4)", 4, 0.4),
        (0.8, 4, 0.8),
        ("80 %", 4, 0.8),
        ("9/10", 5, 0.9),
        ("-3", 1, 0.0),
        (1, 1, 1.0),
        ("6", 3, 0.6),
        ("10", 5, 1.0),
        ("85", 4, 0.85),
        (10**4000, 5, 1.0),
    ],
)
def test_degrees(written, grade, probability):
    assert (read_scale(written), read_fraction(written)) == (grade, probability)


@pytest.mark.parametrize(
    ("read", "written"),
    [
        *((read_scale, nothing) for nothing in ("hard to say", "", None, True, float("nan"))),
        *((read_ids, nothing) for nothing in ("it is hard to say", "1 " * 200)),
    ],
)
def test_what_says_no_value_is_refused(read, written):
    with pytest.raises(ValueError, match="no number"):
        read(written)
