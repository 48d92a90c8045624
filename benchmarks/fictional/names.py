"""Invented names: pronounceable, unique, and the same on every machine.

A name is a scrambled counter written in syllables instead of digits. Two counters never give the same name, and each
kind of name has endings that no other kind uses, so no list of used names is needed. Randomness comes from
`random.Random.random` alone, the one method whose sequence Python promises to keep between versions.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from math import gcd, prod
from typing import TypeVar

T = TypeVar("T")

_ONSETS = ("b", "br", "d", "dr", "f", "g", "gl", "h", "j", "k", "kl", "l", "m", "n", "p", "pr", "r", "s", "st", "t",
           "tr", "v", "z")  # fmt: skip
_VOWELS = ("a", "e", "i", "o", "u")
_MIDDLES = ("d", "g", "l", "lm", "ln", "lv", "m", "n", "nd", "r", "rk", "rn", "rv", "sk", "sv", "v", "z")

# fmt: off
ENDINGS: dict[str, tuple[str, ...]] = {
    "surname": ("brek", "dask", "dreth", "gorn", "kost", "lisk", "mund", "nvik", "skell", "thorn", "vrand", "zelk"),
    "city": ("borough", "crest", "dell", "fjord", "gate", "haven", "lock", "minster", "quay", "stead", "wick", "worth"),
    "country": ("bria", "dania", "ghistan", "landia", "mbessa", "ngola", "ptia", "rovia", "stova", "tonia", "vessa",
                "zkia"),
    "river": ("bbe", "dder", "ffe", "llow", "mble", "nnor", "pple", "rrow", "sser", "tter", "vven", "zzen"),
    "title": ("bris", "dion", "gos", "kthys", "lphos", "mnir", "nthe", "phys", "rion", "sthos", "theus", "xos"),
    "company": ("bex", "dyne", "gix", "kor", "lco", "mtec", "nexa", "plex", "rcom", "sto", "tron", "vex"),
}
# fmt: on
"""Endings by kind of name. Each begins with a consonant, and no two kinds share one."""

_GIVEN = {
    "male": ("bren", "drin", "gast", "kor", "luk", "mas", "rek", "ston", "thol", "vek", "zar", "zin"),
    "female": ("bessa", "delle", "lisse", "mira", "nelle", "rinne", "sha", "thea", "vara", "wyn", "yra", "zette"),
}


class Dice:
    """Random choices built on `random.Random.random` alone."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed).random

    def below(self, n: int) -> int:
        """Draw a whole number in [0, n)."""
        return int(self._random() * n)

    def between(self, low: int, high: int) -> int:
        """Draw a whole number in [low, high]."""
        return low + self.below(high - low + 1)

    def chance(self, probability: float) -> bool:
        """Return True with that probability."""
        return self._random() < probability

    def pick(self, items: Sequence[T]) -> T:
        """Draw one of the items."""
        return items[self.below(len(items))]

    def shuffled(self, items: Sequence[T]) -> list[T]:
        """Return the items in random order (Fisher-Yates)."""
        mixed = list(items)
        for last in range(len(mixed) - 1, 0, -1):
            other = self.below(last + 1)
            mixed[last], mixed[other] = mixed[other], mixed[last]
        return mixed

    def given_name(self, gender: str) -> str:
        """Draw a given name, which need not be unique."""
        return (self.pick(_ONSETS) + self.pick(_VOWELS) + self.pick(_GIVEN[gender])).capitalize()


def coin(kind: str, number: int) -> str:
    """Make the name of a kind for a number; different numbers give different names.

    Args:
        kind: a key of `ENDINGS`.
        number: from 0 to 117,299, which is enough for 458 worlds.
    """
    wheels: list[Sequence[str]] = [_ONSETS, _VOWELS, _MIDDLES, _VOWELS, ENDINGS[kind]]
    size = prod(map(len, wheels))
    assert number < size
    # Multiplying by a number prime to the size permutes the counters, so that neighbours do not look alike. Each kind
    # has its own multiplier, so that kinds do not share stems.
    step = 23_767 + 4_001 * list(ENDINGS).index(kind)
    while gcd(step, size) != 1:
        step += 1
    number = (number * step + 7_907) % size
    letters = []
    for wheel in reversed(wheels):
        number, digit = divmod(number, len(wheel))
        letters.append(wheel[digit])
    return "".join(reversed(letters)).capitalize()
