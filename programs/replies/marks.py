"""Field marks in inputs, made harmless before a language model sees them.

A passage that holds `[[ ## answer ## ]]` or `<answer>` could end a field of a reply that quotes it, and begin another.
"""

from __future__ import annotations

import functools
import re
from typing import Any

import dspy

from knowgap.programs.replies.outputs import map_texts

_MARKER = re.compile(r"\[(?=\[[ \t]*#)")


def without_marks(value: Any, signature: type[dspy.Signature]) -> Any:
    """Write the field marks in an input's texts as `[ [ ## answer ## ] ]` and `< answer>`, which no format reads.

    Args:
        value: of an input field: text, or lists, dictionaries and models of texts.
        signature: XML tags that have the names of its fields are marks, others stay.
    """
    hashable: Any = signature  # type checkers do not know that the class is hashable
    tag = _tag(hashable)

    def change(text: str) -> str:
        return tag.sub("< ", _MARKER.sub("[ ", text)) if "[[" in text or "<" in text else text

    return map_texts(value, change)


@functools.lru_cache(maxsize=1024)
def _tag(signature: type[dspy.Signature]) -> re.Pattern[str]:
    return re.compile(rf"<(?=/?\s*(?:{'|'.join(map(re.escape, signature.fields))})\b)", re.I)
