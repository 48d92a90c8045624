"""A scripted author: it asks for the last words of passages, and settles a question that names their titles."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from support import Rule

from knowgap.retrieval.words import words

NAMED = re.compile(r"«(.*?)»")


def last_word(passage: Mapping[str, Any]) -> str:
    return words(passage["text"])[-1]


def good_author(
    outputs: tuple[str, ...], inputs: dict[str, Any], **changed: Mapping[str, Any] | str
) -> Mapping[str, Any] | str:
    """Replies of an author whose questions pass every check; `changed` has other replies: write, read, settle."""
    if "possible" in outputs:
        titles = " and ".join(f"«{passage['title']}»" for passage in inputs["passages"])
        answer, question = last_word(inputs["passages"][-1]), f"How does {titles} end?"
        if "link" in inputs:
            question = f"What became of the engineer who once linked {titles}?"
        steps = [{"question": "What ends it?", "answer": "that"}]
        reply = {"possible": True, "steps": steps, "question": question, "answer": answer}
        return changed.get("write", reply)
    if "clear" in outputs:
        return changed.get("read", {"clear": True, "knows": False, "answer": ""})
    if "settled" in outputs:
        needed = NAMED.findall(inputs["question"])
        there = [p for p in inputs["passages"] if p["title"] in needed]
        answer = last_word(inputs["passages"][-1])
        return changed.get("settle", {"settled": len(there) == len(needed), "answer": answer})
    assert "correct" in outputs
    return {"correct": inputs["prediction"].startswith(inputs["reference"])}


def author(**changed: Mapping[str, Any] | str) -> Rule:
    return lambda outputs, inputs: good_author(outputs, inputs, **changed)
