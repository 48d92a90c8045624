"""Replies made to take long: they are cut to what fields can need, and read in steps whose number is bounded."""

import sys

import pytest

from knowgap.programs.replies.fields import read_fields
from knowgap.signatures.answers import AnswerDirectly
from knowgap.signatures.migres import ExtractUsefulInfo
from knowgap.signatures.types import Statement
from knowgap.signatures.values import parse_literal, read_bool

SIZE = 100_000
PIECES = [
    '["a" ', "[", "{", '{"a":', '[{"a":[', '"', "\\", "[1]", "[1, ", '\n- "a', '"a" "b" ', "'a", "“a ", "(", "9", " ",
    "\ud800", "<a>", "<statements>", "</statements>", "<item>", "[[ ## statements ## ]]\n", "statements:\n", "[[ ## ",
    '{"statements": ', '"statements": "', "- a\n", "<think>", "\\u", "1. ", "[[ ## answer ## ]]\n", "&amp;", "&", "```",
]  # fmt: skip
BEGINNINGS = ["", "[[ ## statements ## ]]\n", '{"statements": [', "<statements>", "statements: "]
MOST_STEPS = 600_000
"""Calls of functions in one reading; a hundred thousand characters in some square would be a hundred times as many."""


class Steps:
    """Counts the calls of functions in a block."""

    def __enter__(self):
        self.count, self._before = 0, sys.getprofile()
        sys.setprofile(self._step)
        return self

    def _step(self, frame, event, argument):
        self.count += event in ("call", "c_call")

    def __exit__(self, *problem):
        sys.setprofile(self._before)


@pytest.mark.parametrize("piece", PIECES)
def test_any_reply_is_read_in_a_bounded_number_of_steps(piece):
    for form, beginning in [*(("chat", each) for each in BEGINNINGS), ("json", ""), ("xml", "")]:
        with Steps() as steps:
            read_fields(ExtractUsefulInfo, (beginning + piece * SIZE)[:SIZE], form)
        assert steps.count < MOST_STEPS, (form, beginning)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("['a', \"b's\", 'c\\n', 'd' 'e',]", ["a", "b's", "c\n", "de"]),
        ("[True, None, false, -1, 2.5, 1e3, .5, 1_000]", [True, None, False, -1, 2.5, 1000.0, 0.5, 1000]),
        ("{'a': (1, 2), 'b': ('x'), 'c': {'d',}, 'e': {}}", {"a": [1, 2], "b": "x", "c": ["d"], "e": {}}),
        ("[Statement(statement='x', sources=[1, 2]), Statement()]", [{"statement": "x", "sources": [1, 2]}, {}]),
        ("[1, 2", None),
        ("[1][1]", None),
        ("[1] + [2]", None),
        ("['a' 1]", None),
        ("['a", None),
        ("[__import__('os').getcwd()]", None),
        ("{'a': 1, 'b'}", None),
    ],
)
def test_python_is_read_without_being_run(text, value):
    assert parse_literal(text) == value


def test_citations_are_looked_for_at_the_end_alone():
    read = Statement.model_validate("Tarn is a town " + "[1]" * (SIZE // 3))
    assert read.statement.startswith("Tarn is a town [1]")
    assert set(read.sources) == {1}
    assert Statement.model_validate("Tarn is a town [1][2].") == Statement(statement="Tarn is a town.", sources=[1, 2])


def test_both_ends_of_a_reply_are_read():
    filler = "and so on " * (SIZE // 10)
    marked = "[[ ## reasoning ## ]]\nBy the river.\n\n[[ ## answer ## ]]\nTarn\n\n[[ ## completed ## ]]\n"
    assert read_fields(AnswerDirectly, marked + filler)["answer"] == "Tarn"
    assert read_fields(AnswerDirectly, filler + marked)["answer"] == "Tarn"
    assert read_fields(AnswerDirectly, filler) is None


def test_verdicts_in_long_texts():
    assert read_bool("=: " * 20_000 + "so: yes") is True
    assert read_bool("it may be true or false " * 2_000 + "so it is true") is True
    assert read_bool("the question is, as far as I can see, by no means answerable", "answerable") is False
    with pytest.raises(ValueError, match="neither"):
        read_bool("it is answerable and not answerable " * 2000, "answerable")
