"""How much of what a language model reads is external knowledge: text that was retrieved (MIGRES, table 5)."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from typing import Any

from knowgap.retrieval.passage import Passage
from knowgap.signatures import SourcePassage

__all__ = ["knowledge_tokens", "split_words"]

_WORDS = re.compile(r"[\u3400-\u9fff\uf900-\ufaff]|[^\W\u3400-\u9fff\uf900-\ufaff]+")


def split_words(text: str) -> list[str]:
    """Words, and single Chinese or Japanese ideographs; no punctuation.

    What counts as a token of external knowledge: the same for every language model, with no vocabulary to load.
    """
    return _WORDS.findall(text)


def knowledge_tokens(inputs: Mapping[str, Any], inlined: Iterable[Passage] = (), own: Collection[str] = ()) -> int:
    """Words of retrieved text in the inputs of one call.

    Args:
        inputs: of a predictor. Passages under a number (`SourcePassage`) count with title and text.
        inlined: passages whose text stands within one of the other inputs.
        own: texts that the model wrote itself; a passage that consists of one is no external knowledge.
    """
    listed = [p for value in inputs.values() if isinstance(value, (list, tuple)) for p in value]
    texts = [(p.title, p.text) for p in [*listed, *inlined] if isinstance(p, (SourcePassage, Passage))]
    return sum(len(split_words(title)) + len(split_words(text)) for title, text in texts if text not in own)
