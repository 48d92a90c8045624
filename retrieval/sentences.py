"""The sentences of a passage."""

from __future__ import annotations

import itertools
import re
from functools import lru_cache

_IDEOGRAPHIC_STOP = re.compile(r"(?<=[。！？])(?![。！？」』”’）])")
_ITEM = re.compile(r"^(?=[•*-] \S|[^\s:;][^:;\n]{0,60}: [^;\n]*; )", re.M)
"""Where the item of a list begins, or a row of a table that names its columns: `version: 2.2; codename: Potato`."""


@lru_cache(maxsize=16_384)
def _split(text: str) -> tuple[str, ...]:
    from syntok.segmenter import analyze

    starts = {0}
    for paragraph in analyze(text):
        for sentence in paragraph:
            first = next(iter(sentence), None)
            if first is not None:
                starts.add(first.offset)
    # syntok ends sentences only before white space, which Chinese and Japanese do not write.
    starts.update(match.start() for marks in (_IDEOGRAPHIC_STOP, _ITEM) for match in marks.finditer(text))
    edges = [*sorted(starts), len(text)]
    pieces = (text[start:end].strip() for start, end in itertools.pairwise(edges))
    return tuple(piece for piece in pieces if piece)


def split_sentences(text: str) -> list[str]:
    """Split a text into its sentences.

    Args:
        text: any text in a language that ends its sentences with a full stop, or in Chinese or Japanese.

    Returns:
        The sentences in order, without surrounding white space. Together they hold every other character of the
        text, so that `"".join("".join(split_sentences(text)).split()) == "".join(text.split())`. A text without
        visible characters has no sentences. Results are cached for the latest 16,384 texts.
    """
    return list(_split(text))
