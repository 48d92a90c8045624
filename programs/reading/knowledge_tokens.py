"""Tokens of external knowledge: the retrieved text that a language model reads (MIGRES, table 5)."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable

from knowgap.retrieval.passage import Passage

__all__ = ["knowledge_tokens", "split_words"]

_WORDS = re.compile(r"[\u3400-\u9fff\uf900-\ufaff]|[^\W\u3400-\u9fff\uf900-\ufaff]+")


def split_words(text: str) -> list[str]:
    """Split text into words and single Chinese or Japanese ideographs, without punctuation.

    These are the tokens of external knowledge: the same for every language model, with no vocabulary to load.
    """
    return _WORDS.findall(text)


def knowledge_tokens(passages: Iterable[Passage], model_texts: Collection[str] = ()) -> int:
    """Number of words in the titles and texts of passages, without those whose text is in `model_texts`."""
    external = [passage for passage in passages if passage.text not in model_texts]
    return sum(len(split_words(passage.title)) + len(split_words(passage.text)) for passage in external)
