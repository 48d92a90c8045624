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


@pytest.mark.parametrize(
    ("written", "items"),
    [
        ("Q1: Who?\nQ2: Where?", ["Who?", "Where?"]),
        ("Sub-question 1: Who?\nSub-question 2: Where?", ["Who?", "Where?"]),
        ("Two questions:\n1. Who?\n2. Where?", ["Who?", "Where?"]),
        ("1. Who? 2. Where?", ["Who?", "Where?"]),
        ("Who? Where?", ["Who?", "Where?"]),
        ("Who was born in Wick, Tarn, or Lund?", ["Who was born in Wick, Tarn, or Lund?"]),
        ("ships of Wick; ships of Tarn", ["ships of Wick; ships of Tarn"]),
        ("[Who?, Where?]", ["Who?", "Where?"]),
        ('["Who?", "Whe', ["Who?", "Whe"]),
        ({"questions": ["Who?", "Where?"]}, ["Who?", "Where?"]),
        ("No further questions are needed.", []),
        ("No Country for Old Men director", ["No Country for Old Men director"]),
        ("3. Liga winners", ["3. Liga winners"]),
    ],
)
def test_lists_of_texts(written, items):
    assert read_strings(written) == items


@pytest.mark.parametrize(
    ("written", "ids"),
    [
        ("Passage 1: names the painter\nPassage 3: born in 1871", [1, 3]),
        ("1: relevant\n2: irrelevant\n3: relevant", [1, 3]),
        ("None of the passages is relevant.", []),
        ("[2, 2, 9, 0, -1]", [2, 2, 9, 0, -1]),
        ([{"id": 2}, "P3", "[4]", None, True, 1e400], [2, 3, 4]),
    ],
)
def test_numbers_of_passages(written, ids):
    assert read_ids(written) == ids


@pytest.mark.parametrize("written", ["it is hard to say", "1 " * 200])
def test_no_numbers_of_passages(written):
    with pytest.raises(ValueError, match="no numbers of passages"):
        read_ids(written)


@pytest.mark.parametrize(
    ("written", "text", "sources"),
    [
        ("Ada was born in Wick. (Source: 1)", "Ada was born in Wick.", [1]),
        ("Ada was born in Wick [1, 2].", "Ada was born in Wick.", [1, 2]),
        ("Ada was born in Wick (1871)", "Ada was born in Wick (1871)", []),
        ({"Statement": "Ada.", "Sources": "[1] and [2]"}, "Ada.", [1, 2]),
    ],
)
def test_statements(written, text, sources):
    assert Statement.model_validate(written) == Statement(statement=text, sources=sources)


def test_lists_of_objects():
    both = [{"statement": "a", "sources": [1]}, {"statement": "b", "sources": [2]}]
    assert read_list('{"statement": "a", "sources": [1]}\n{"statement": "b", "sources": [2]}') == both
    assert read_list("1. Statement: a.\n   Sources: [1]\n2. b. [2]") == ["Statement: a. Sources: [1]", "b. [2]"]
    assert read_list("No useful facts.") == []
    first, second = map(json.dumps, both)
    assert read_list(f"[[ {first}], {second}]]") == read_list(f"[[{first}, {second}]]") == both
    assert read_list([[both[0]], both[1]]) == both


@pytest.mark.parametrize(
    ("written", "grade", "probability"),
    [
        ("I am quite sure (4)", 4, 0.4),
        (0.8, 4, 0.8),
        ("80 %", 4, 0.8),
        ("9/10", 5, 0.9),
        ("0", 1, 0.0),
        ("-3", 1, 0.0),
        (1, 1, 1.0),
        ("1000000", 5, 1.0),
    ],
)
def test_degrees(written, grade, probability):
    assert (read_scale(written, 1, 5), read_fraction(written)) == (grade, probability)


@pytest.mark.parametrize("written", ["hard to say; it depends", "", None, True, [1, 2], float("nan"), "9" * 5000])
def test_no_degree(written):
    with pytest.raises(ValueError, match="no number"):
        read_scale(written, 1, 5)


@pytest.mark.parametrize(
    ("written", "value"),
    [
        ("Definitely yes", True),
        ("Not directly", False),
        ("No follow-up is needed", False),
        ({"needed": "No"}, False),
        ([1], True),
    ],
)
def test_verdicts(written, value):
    assert read_bool(written) is value


@pytest.mark.parametrize(
    ("written", "text"),
    [
        (["Wick", "Tarn"], "Wick, Tarn"),
        ({"1": "relevant", "2": "not"}, "1: relevant\n2: not"),
        (True, "yes"),
        (None, ""),
        ("Answering machine: a novel", "Answering machine: a novel"),
        ("[Wick]", "[Wick]"),
    ],
)
def test_texts(written, text):
    assert read_text(written) == text.replace("\n", ", " if isinstance(written, dict) else "\n")


def test_numbers_of_hundreds_of_digits_are_no_answer():
    assert read_ids([10**400, 2, float("nan"), float("inf")]) == [2]
    for read in (read_fraction, lambda value: read_scale(value, 1, 5)):
        with pytest.raises(ValueError, match="no number"):
            read(10**400)


@pytest.mark.parametrize(
    ("text", "unknown"),
    [
        ("Unknown.", True),
        ("The answer is not clear from the given information.", True),
        ("The place of birth of the director is not specified in the known statements.", True),
        ("No information provided about the director.", True),
        ("The passages do not mention when she died.", True),
        ("The answer cannot be determined from the statements.", True),
        ("The answer is not provided in the given passages.", True),
        ("It was not known to be a ferry until 1911.", False),
        ("The contract does not mention a deposit.", False),
        ("Not in Our Time", False),
    ],
)
def test_texts_that_say_that_nothing_is_known(text, unknown):
    assert is_unknown(text) is unknown
