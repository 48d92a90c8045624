"""Field marks in inputs, made harmless before a language model sees them.

A passage that holds `[[ ## answer ## ]]` or `<answer>` could end a field of a reply that quotes it, and begin another.
"""

from __future__ import annotations

import functools
import re
from typing import Any

import dspy
from pydantic import BaseModel

__all__ = ["without_marks"]


def without_marks(value: Any, signature: type[dspy.Signature]) -> Any:
    """Write the field marks in an input's texts as `[ [ ## answer ## ] ]` and `< answer>`, which no format reads.

    Args:
        value: of an input field: text, or lists, dictionaries and models of texts.
        signature: XML tags that have the names of its fields are marks, others stay.
    """
    match value:
        case str():
            if "[[" not in value and "<" not in value:
                return value
            hashable: Any = signature  # type checkers do not know that the class is hashable
            return _tag(hashable).sub("< ", re.sub(r"\[(?=\[[ \t]*#)", "[ ", value))
        case list():
            return [without_marks(item, signature) for item in value]
        case dict():
            return {key: without_marks(item, signature) for key, item in value.items()}
        case BaseModel():
            return value.model_copy(update={name: without_marks(item, signature) for name, item in value})
        case _:
            return value


@functools.lru_cache(maxsize=1024)
def _tag(signature: type[dspy.Signature]) -> re.Pattern[str]:
    return re.compile(rf"<(?=/?\s*(?:{'|'.join(map(re.escape, signature.fields))})\b)", re.I)
