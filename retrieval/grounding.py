"""What a sentence says that its sources do not: names, numbers and dates that they lack, and its share of their words.

The rule reads words, not meanings: it notices what no source has, but neither roles nor negation.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

from knowgap.retrieval.passage import NeverCopied, Passage
from knowgap.retrieval.written import Text

MOST = 0.5
"""The share of a sentence's words that sources must have to support it."""
MAX_SOURCES = 3
"""The passages that a sentence cites at most."""

_read = lru_cache(maxsize=1024)(Text)


@dataclass(frozen=True, slots=True)
class Grounding:
    """How much of a sentence its sources have.

    Attributes:
        absent: the names, numbers and dates, as the sentence writes them, that no source has.
        share: the share of its content words that the sources have, 0 to 1.
    """

    absent: tuple[str, ...]
    share: float

    @property
    def holds(self) -> bool:
        """Whether the sources have all names and numbers, and most words."""
        return not self.absent and self.share >= MOST


def grounded(sentence: str, sources: Sequence[str]) -> Grounding:
    """Which names, numbers and dates of a sentence are in none of its sources, and the share of its words that are.

    Names are words with capitals inside a sentence; a language that writes all nouns so has none. Where sentence and
    sources are in different languages, names are not looked for, and one name or number in common makes the share 1.

    Args:
        sentence: the sentence; numbers of sources in brackets do not count.
        sources: the texts that are to support it, with their titles.
    """
    sentence = re.sub(r" ?\[\d+(?:, ?\d+)*\]", "", sentence)
    said, source = _read(sentence), _read("\n".join(sources))
    foreign = source.language not in ("", said.language or source.language)
    numbers = [(number.place, number.is_in(source.values)) for number in said.numbers]
    names = {name.place: source.has_name(name.words) for name in said.names if name.certain}
    absent = [place for place, found in numbers if not found]
    if not foreign and "de" not in (said.language, source.language):
        absent += [place for place, found in names.items() if not found]
    known = {word for name in said.names if names.get(name.place) for word in name.words}
    words = [word for word in said.content if not foreign or word[0].isupper()]
    held = [found for _, found in numbers] + [word in known or source.has_word(word) for word in words]
    share = sum(held) / len(held) if held else float(bool(source.content))
    return Grounding(
        tuple(dict.fromkeys(sentence[slice(*place)] for place in absent)), float(share > 0) if foreign else share
    )


def support(sentence: str, passages: Sequence[Passage]) -> list[Passage]:
    """Up to three passages that hold a sentence's names and numbers and most of its words, else none.

    Those that do so alone, best first; if there are none, those that do so together.
    """

    def lacking(*some: Passage) -> tuple[bool, int, float]:
        found = grounded(sentence, [str(passage) for passage in some])
        return not found.holds, len(found.absent), -found.share

    alone = {passage: lacking(passage) for passage in passages}
    order = sorted(alone, key=alone.__getitem__)
    if found := [passage for passage in order if not alone[passage][0]]:
        return found[:MAX_SOURCES]
    chosen = order[:1]
    while chosen and len(chosen) < min(MAX_SOURCES, len(order)):
        added = min((p for p in order if p not in chosen), key=lambda p: lacking(*chosen, p))
        if lacking(*chosen, added) >= lacking(*chosen):
            break
        chosen.append(added)
        if not lacking(*chosen)[0]:
            return chosen
    return []


class GroundingEntailment(NeverCopied):
    """The rule as an entailment model: the share of words that the premise has, and 0 if it lacks a name."""

    name = "grounding"
    default_threshold = MOST

    def entails(self, pairs: Sequence[tuple[str, str]]) -> list[float]:
        """The share for each (premise, hypothesis) pair; 0 if a name, number or date is missing, or either is blank."""
        found = [grounded(hypothesis, [premise]) for premise, hypothesis in pairs]
        return [
            0.0 if each.absent or not hypothesis.strip() else round(each.share, 4)
            for each, (_, hypothesis) in zip(found, pairs, strict=True)
        ]
