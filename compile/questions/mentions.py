"""Names of things in texts: titles as they are looked up, and which of them a text mentions."""

from __future__ import annotations

import re
from collections.abc import Container, Sequence

from knowgap.retrieval.lexical import FUNCTION_WORDS, words

_LONGEST = 8  # words of a name
_WORD = re.compile(r"[\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff]|[^\W\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff]+")
_DISAMBIGUATION = re.compile(r"\s*\([^()]*\)\s*$")
_ARTICLES = ("the", "a", "an")


def name_of(written: str) -> str:
    """A name as it is looked up: its words in lower case, without an article before them."""
    parts = words(written)
    return " ".join(parts[1:] if len(parts) > 1 and parts[0] in _ARTICLES else parts)


def subject(title: str) -> str:
    """What a title names, without headings behind a slash and what tells it from namesakes in brackets."""
    return name_of(_DISAMBIGUATION.sub("", title.partition(" / ")[0]))


def mentioned(text: str, names: Container[str]) -> list[str]:
    """The names that a text mentions, as they are written there, each once; a name within a longer one is not meant."""
    tokens = [*_WORD.finditer(text)]
    found: dict[str, str] = {}
    first = 0
    while first < len(tokens):
        following = first + 1
        for last in range(min(first + _LONGEST, len(tokens)), first, -1):
            written = text[tokens[first].start() : tokens[last - 1].end()]
            if name_of(written) in names and _is_name(tokens[first:last]):
                following = last
                if last - first > 1 or not _beside_a_name(text, tokens, first):
                    found.setdefault(name_of(written), written)
                break
        first = following
    return list(found.values())


def _is_name(tokens: Sequence[re.Match[str]]) -> bool:
    """Whether words can be a name: they begin neither in lower case nor with an article, and one says something."""
    parts = [token[0].lower() for token in tokens]
    telling = [part for part in parts if not part.isdigit() and part not in FUNCTION_WORDS]
    return bool(telling) and parts[0] not in _ARTICLES and not tokens[0][0][0].islower() and len("".join(parts)) > 1


def _beside_a_name(text: str, tokens: Sequence[re.Match[str]], place: int) -> bool:
    """Whether a word stands directly beside another one with a capital, as a part of a name that is not known."""
    one = tokens[place]
    for other in (*tokens[max(0, place - 1) : place], *tokens[place + 1 : place + 2]):
        between = text[min(one.end(), other.end()) : max(one.start(), other.start())]
        if between == " " and other[0][0].isupper() and other[0].lower() not in FUNCTION_WORDS:
            return True
    return False
