"""Read the values of output fields as language models write them: `5/5`, `Yes.`, `[1] and [2]`, numbered lines.

Each reader takes a text or a decoded JSON value. It raises `ValueError` where the value cannot be told.
"""

from knowgap.signatures.values.lists import read_ids, read_list, read_strings, strip_list_marks
from knowgap.signatures.values.literals import STRAIGHT_QUOTES, parse_literal, repair_json
from knowgap.signatures.values.scalars import read_bool, read_fraction, read_option, read_scale
from knowgap.signatures.values.texts import read_text, unwrap

__all__ = [
    "STRAIGHT_QUOTES",
    "parse_literal",
    "read_bool",
    "read_fraction",
    "read_ids",
    "read_list",
    "read_option",
    "read_scale",
    "read_strings",
    "read_text",
    "repair_json",
    "strip_list_marks",
    "unwrap",
]
