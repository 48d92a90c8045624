"""Replies that are nearly what a signature asks for are read: every signature of the package, in three forms."""

import pytest
from dspy.utils.exceptions import AdapterParseError
from near_misses import DECIDING, FORMS, all_signatures, is_read, near_misses

from knowgap.programs.replies.adapter import lenient
from knowgap.programs.replies.fields import read_fields
from knowgap.signatures import PassageRelevance


@pytest.mark.parametrize("name", all_signatures())
def test_the_deciding_fields_are_read(name):
    assert name in DECIDING, "say which fields of this signature decide (benchmarks/near_misses.py)"
    signature = all_signatures()[name]
    unread = []
    for case in near_misses(name):
        try:
            outputs = lenient(FORMS[case.form]()).parse(signature, case.reply)
        except AdapterParseError:
            outputs = None
        if not is_read(case, outputs):
            unread.append((case.form, case.what, case.reply, outputs))
    assert not unread


def read(signature, reply, form="chat"):
    return read_fields(signature, reply, form)


@pytest.mark.parametrize(
    ("reply", "values"),
    [
        ("Yes.", {"relevant": True}),
        ("**No**, the passage is about ships.", {"relevant": False}),
        ("[[ ## relevant ## ]]\nNot relevant", {"relevant": False}),
        ("[[ ## relevant ## ]]\nIrrelevant.", {"relevant": False}),
        ("[[ ## relevant ## ]]\nRelevant: it names the painter.", {"relevant": True}),
        ("[[ ## relevant ## ]]\nIt names the painter, so it is true.", {"relevant": True}),
        ("[[ ## relevant ## ]]\nyes or no", None),
        ("[[ ## relevant ## ]]\nTrue/False", None),
        ("[[ ## relevant ## ]]\nIt names the painter.", None),
        ("No field in sight", None),
        ("I'm sorry, but I cannot say.", None),
        ("", None),
    ],
)
def test_a_verdict_is_read_where_there_is_one(reply, values):
    assert read(PassageRelevance, reply) == values
