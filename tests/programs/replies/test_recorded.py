"""What two small models have replied to short prompts over the bundled sample, and what is read of it.

`read` was checked by a person: null where there is nothing to read, else the fields that decide.
"""

from __future__ import annotations

import json
from pathlib import Path

import dspy
import pytest

from knowgap import signatures
from knowgap.programs.replies.fields import read_fields

RECORDED = [
    json.loads(line) for line in Path(__file__).with_name("recorded.jsonl").read_text(encoding="utf-8").splitlines()
]


def name_of(case):
    return f"{case['model'].split('-')[2]}-{case['signature']}-{case['form']}"


@pytest.mark.parametrize("case", RECORDED, ids=name_of)
def test_a_recorded_reply_is_read_as_a_person_reads_it(case):
    name = case["signature"]
    signature = dspy.Signature(name) if "->" in name else getattr(signatures, name)
    outputs = read_fields(signature, case["reply"])
    if case["read"] is None:
        assert outputs is None
    else:
        assert outputs is not None
        assert {name: outputs[name] for name in case["read"]} == case["read"]
