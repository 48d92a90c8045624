"""The words, names and numbers of a text in any language, and whether a text has those of another."""

from __future__ import annotations

import itertools
import re
import unicodedata
from collections import defaultdict
from collections.abc import Sequence

from knowgap.retrieval.numerals import NUMERALS, read_numbers, roman_value, values_of_words
from knowgap.retrieval.words import BESIDE, FUNCTION_WORDS, HANGUL, LETTERS, TITLES, UNSPACED, english_stem, names

_IDEOGRAPH = "[\u3400-\u9fff]"
_GRAMMAR = {
    "de": "der die das und ist ein eine einer einen war von mit den dem des auf fur im am wurde nicht sich als zum zur",
    "fr": "le la les des du une est dans par pour qui que sur au aux il elle ete etait fut avec son sa ses et en l d",
    "es": "el la los las una del por con fue que para en su sus se es y al como era lo",
    "it": "il lo gli le della del di che e per con una nel nella fu sono dal alla",
    "pt": "o os as uma do da dos das em por com foi que para no na seu sua e ao",
    "nl": "de het een van en is in op met door voor was werd aan zijn te dat",
}
_FUNCTION_WORDS = {"en": FUNCTION_WORDS | BESIDE, **{name: frozenset(each.split()) for name, each in _GRAMMAR.items()}}
_NATIONS = {
    "american": "states usa us", "british": "britain kingdom uk england", "danish": "denmark", "dutch": "netherlands",
    "finnish": "finland", "french": "france", "greek": "greece", "irish": "ireland", "polish": "poland",
    "spanish": "spain", "swiss": "switzerland", "turkish": "turkey", "welsh": "wales",
}  # fmt: skip
_RUN = re.compile(r"[A-Z]\w*(?:[ -](?:(?:of|and|for|the|de|la) )*[A-Z]\w*)+")
_ENDING = 3  # letters at most that inflection adds


class Text:
    """What a text says, in words.

    Attributes:
        language: the language whose function words it has most of, `cjk` for scripts without spaces, or empty.
        numbers: its numbers and months.
        names: its names, if its language does not write all nouns like names.
        content: its words that are neither function words nor numerals; of a script without spaces, its ideographs and
            pairs of other characters.
        values: the numbers that it says.
    """

    def __init__(self, text: str) -> None:
        text = "".join(map(_without_accent, text))
        found = [match[0] for match in LETTERS.finditer(text)]
        self._lower, lower = text.lower(), [word.lower() for word in found]
        counts = {name: sum(word in grammar for word in lower) for name, grammar in _FUNCTION_WORDS.items()}
        unspaced = sum(len(word) for word in lower if _is_unspaced(word))
        known = max(counts, key=counts.__getitem__) if any(counts.values()) else ""
        self.language = "cjk" if 4 * unspaced > sum(map(len, lower)) else known
        grammar = FUNCTION_WORDS | _FUNCTION_WORDS.get(self.language, frozenset())
        parts = [part for word in found for part in _parts(word)]
        self.content = [part for part in parts if part.lower() not in grammar and part.lower() not in NUMERALS]
        self.numbers, self.names = read_numbers(text), names(text)
        self._capitals = {word for name in self.names for word in name.words if word.isupper()}
        self._initials = ["".join(re.findall(r"\b[A-Z]", run)) for run in _RUN.findall(text)]
        self._words = {*lower, *(part.lower() for part in parts), *(word.lower() for word in self._capitals)}
        self._stems = set(map(english_stem, self._words))
        self._alike = defaultdict[str, list[str]](list)
        for word in self._words:
            self._alike[word[:4]].append(word)
        self.values = values_of_words(self._words) | {value for number in self.numbers for value in number.values}
        self.values |= {float(roman_value(word)) for word in found} - {0.0}

    def has_word(self, word: str) -> bool:
        """Whether the text has a word, an inflection of it, another word made from it, or a word that it is made of."""
        word = word.lower()
        if _is_unspaced(word):
            return word in self._lower
        inside = len(word) > 4 and word in self._lower
        made_of = len(word) > 8 and any(len(w) > 4 and w in word for w in self._words)
        return inside or made_of or self._has_like(word, _ENDING + 1) or self._has(word)

    def has_name(self, words: Sequence[str]) -> bool:
        """Whether the text has a name or a part of it that is not another's name, or its initials."""
        words = [word for word in words if word.lower() not in TITLES] or words
        first, last = words[0], words[-1].lower()
        if all(map(self._has_part, words)):
            return True
        if len(words) == 1:
            return first.isupper() and any(initials.startswith(first) for initials in self._initials)
        if "".join(word[0] for word in words) in self._capitals:
            return True
        same = [name.words for name in self.names if name.words[-1].lower() == last]
        before = [word for name in same for word in name[:-1]]
        return bool(same) and (not before or any(_is_first_name(first, word) for word in before))

    def _has_part(self, word: str) -> bool:
        """Whether the text has a word of a name, which may have an ending, or be an adjective made from the name."""
        if len(word) == 1 or (roman_value(word) or None) in self.values or self._has(word.lower()):
            return True
        return self._has_like(word.lower(), _ENDING)

    def _has_like(self, word: str, most: int) -> bool:
        """Whether the text has a word that begins with the same letters, at least four and all but `most`."""
        lengths = [(other, max(len(word), len(other)) - most) for other in self._alike[word[:4]]]
        return any(word[:length] == other[:length] for other, length in lengths)

    def _has(self, word: str) -> bool:
        nations = {*_NATIONS.get(word, "").split(), *(nation for nation, of in _NATIONS.items() if word in of.split())}
        known = word in self._words or english_stem(word) in self._stems or bool(nations & self._words)
        return known or bool(self.values & values_of_words({word}))


def _without_accent(character: str) -> str:
    """A character without its accents, and in its usual width."""
    if character == "’":
        return "'"
    base, *marks = unicodedata.normalize("NFKD", character) if character > "~" else character
    return base if all(map(unicodedata.combining, marks)) else character


def _is_unspaced(word: str) -> bool:
    return re.match(f"[{UNSPACED}{HANGUL}]", word) is not None


def _parts(word: str) -> list[str]:
    """A word of more than two letters, or in capitals; in scripts without spaces, ideographs and pairs of others."""
    if not _is_unspaced(word):
        return [word] if len(word) > 2 or (len(word) > 1 and word.isupper()) else []
    if "\uac00" <= word[0] <= "\ud7af":
        return [word[:2]] if len(word) > 1 else []  # a Korean word without what is appended to it
    pairs = map("".join, itertools.pairwise(word))
    return re.findall(_IDEOGRAPH, word) + [p for p in pairs if not re.search(f"{_IDEOGRAPH}|[\u3041-\u309f]", p)]


def _is_first_name(name: str, other: str) -> bool:
    """Whether two first names may be the same, one of them given by initials."""
    initial = any(len(each) == 1 or (each.isupper() and len(each) < 4) for each in (name, other))
    return name[0] == other[0] if initial else name.lower() == other.lower()
