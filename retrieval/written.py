"""The words, names and numbers of a text in any language, and whether a text has those of another."""

from __future__ import annotations

import itertools
import re
import unicodedata
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from knowgap.retrieval.words import BESIDE, FUNCTION_WORDS, HANGUL, LETTERS, TITLES, UNSPACED, english_stem, names

_UNITS = (
    "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen seventeen "
    "eighteen nineteen"
)
_TENS = "twenty thirty forty fifty sixty seventy eighty ninety"
_ORDINALS = "zeroth first second third fourth fifth sixth seventh eighth ninth tenth eleventh twelfth"
_CARDINAL = {word: n for n, word in enumerate(_UNITS.split())}
_CARDINAL |= {word: 20 + 10 * n for n, word in enumerate(_TENS.split())}
_ORDINAL = {f"{word.removesuffix('y') + 'ie' if n > 19 else word}th": n for word, n in _CARDINAL.items() if n > 12}
_ORDINAL |= {word: n for n, word in enumerate(_ORDINALS.split())} | {"hundredth": 100}
_CARDINAL |= {"hundred": 10**2, "thousand": 10**3, "million": 10**6, "billion": 10**9}
_NUMERALS = _CARDINAL | _ORDINAL
_ELSEWHERE = """
    eins zwei drei vier funf sechs sieben acht neun zehn elf zwolf
    un deux trois quatre cinq six sept huit neuf dix onze douze
    uno dos tres cuatro cinco seis siete ocho nueve diez once doce
    uno due tre quattro cinque sei sette otto nove dieci undici dodici
"""
_MONTHS = """
    january jan januar janvier enero gennaio janeiro januari
    february feb februar fevrier febrero febbraio fevereiro februari
    march mar marz mars marzo marco maart
    april apr avril abril aprile
    may mai mayo maggio maio mei
    june jun juni juin junio giugno junho
    july jul juli juillet julio luglio julho
    august aug aout agosto augustus
    september sept sep septembre septiembre settembre setembro
    october oct oktober octobre octubre ottobre outubro
    november nov novembre noviembre novembro
    december dec dezember decembre diciembre dicembre dezembro
"""
_MONTH_NUMBERS = {name: n for n, names in enumerate(_MONTHS.split("\n")) for name in names.split()}
_VALUES = [  # of words; months are below 0
    _NUMERALS,
    {word: n for language in _ELSEWHERE.split("\n") for n, word in enumerate(language.split(), start=1)},
    {name: -month for name, month in _MONTH_NUMBERS.items()},
]
_SCALES = {
    **dict.fromkeys(("thousand", "tausend", "mille", "mil", "千"), 10**3),
    **dict.fromkeys(("万", "萬", "만"), 10**4),
    **dict.fromkeys(("million", "millions", "millionen", "mio", "millones", "milioni"), 10**6),
    **dict.fromkeys(("億", "亿", "억"), 10**8),
    **dict.fromkeys(("billion", "billions", "milliarde", "milliarden", "mrd", "milliard", "milliards"), 10**9),
}
_MOST = 10**300  # what a word a hundred times over says is no number
_LEAST = 3  # a smaller number in words is often none: "one of them", "the two", "a second"
_CENTURY = r"\W?\s*(?:century|centuries|jahrhundert|siecle|世紀|世纪)"
_JOIN = r"(?:(?:(?<=hundred)|(?<=thousand)|(?<=million))\sand)?[\s-]"
_ONE, _FIRST = f"(?:{'|'.join(_CARDINAL)})", f"(?:{'|'.join(_ORDINAL)})"
_IN_WORDS = re.compile(rf"\b(?:{_ONE}(?:{_JOIN}{_ONE})*(?:{_JOIN}{_FIRST})?|{_FIRST})\b({_CENTURY})?")
_NAMES = "|".join(_MONTH_NUMBERS)
_MONTH = re.compile(rf"\d(?:st|nd|rd|th)?\W{{1,2}}(?:(?:de|of)\s)?({_NAMES})\b|\b({_NAMES})\W{{1,2}}(?:de\s)?\d")
_SCALE = "|".join(rf"{word}\b" if word.isascii() else word for word in _SCALES)
_SEPARATOR = re.compile(r"[,.'’\s](?=\d{3}(?!\d))")  # between thousands
_DIGITS = re.compile(
    rf"""(?P<date>\b\d{{1,4}}([-./])\d{{1,2}}\2\d{{1,4}}\b)
    | (?P<first>\b(?P<age>1\d|20)\d\d)\s?[-–—/]\s?(?P<last>\d\d)(?![\d-]|[.,]\d)
    | (?P<plain>(?<![\d.,])\d{{1,3}}(?:[,.'’\s]\d{{3}})+(?!\d)(?:[.,]\d+)?|\d+(?:[.,]\d+)?)
      (?: [\s-]*(?P<scale>(?i:{_SCALE}))
        | (?P<decade>(?<=\d\d\d0)(?:['’]?s|er)\b)
        | (?P<century>(?:th|st|nd|rd|e|\.)?{_CENTURY}) )?
    """,
    re.VERBOSE,
)


class Number(NamedTuple):
    """A number as a text has it.

    Attributes:
        place: where in the text it is written, from and to.
        values: the numbers that it says; that of a month is below 0.
        ranges: what it may mean: a text says the same if it has a value in one of these ranges.
    """

    place: tuple[int, int]
    values: set[float]
    ranges: list[tuple[float, float]]

    def is_in(self, values: set[float]) -> bool:
        """Whether a text with these values says the number."""
        return any(low <= value <= high for low, high in self.ranges for value in values)


def read_numbers(text: str) -> list[Number]:
    """The numbers and months of a text without accents, but for words that are often neither, as "second" and "may"."""
    lower = text.lower()
    found = list(_in_digits(text))
    inside = {place for number in found for place in range(*number.place)}
    for match in _IN_WORDS.finditer(lower):
        value = _value([_NUMERALS[word] for word in re.findall(r"\w+", match[0]) if word in _NUMERALS])
        if value >= _LEAST and match.start() not in inside:  # as the million of "1.5 million" is
            ranges = [(value, value), *([(100 * value - 100, 100 * value)] if match[1] else [])]
            found.append(Number(match.span(), {value}, ranges))
    for match in _MONTH.finditer(lower):
        place = match.span(match.lastindex or 0)
        if (name := text[slice(*place)]) != "may":
            month = float(_MONTH_NUMBERS[name.lower()])
            found.append(Number(place, {month, -month}, [(-month, -month)]))
    return found


def _in_digits(text: str) -> Iterator[Number]:
    """The numbers that a text writes in digits: both ends of a range of years, the parts of a date, and others."""
    for match in _DIGITS.finditer(text):
        if match["date"]:
            for part in re.compile(r"\d+").finditer(text, *match.span()):
                value = float(part[0])
                yield Number(part.span(), {value, -value}, [(value, value)])  # perhaps of a month
        elif match["first"]:
            yield _exactly(match.span("first"), float(match["first"]))
            yield _exactly(match.span("last"), float(match["last"]), float(match["age"] + match["last"]))
        else:
            digits = _SEPARATOR.sub("", match["plain"]).replace(",", ".")
            value, step = float(digits), 10.0 ** -len(digits.partition(".")[2]) / 2
            number = _exactly(match.span(), value)
            if match["scale"]:  # 1.5 million may be 1,512,000
                factor = _SCALES[match["scale"].lower()]
                ranges = [((value - step) * factor, (value + step) * factor)]
                number = Number(match.span(), {value, value * factor}, ranges)
            elif match["decade"]:
                number.ranges.append((value, value + 9))
            elif match["century"]:
                number.ranges.append((100 * value - 100, 100 * value))
            yield number


def _exactly(place: tuple[int, int], *values: float) -> Number:
    return Number(place, {*values}, [(value, value) for value in values])


def _value(parts: list[int]) -> float:
    """The number that numerals make one after the other, also in pairs: "nineteen eighty-four"."""
    total = section = 0
    for part in parts:
        if part >= 1000:
            total, section = total + (section or 1) * part, 0
        elif part == 100:
            section = (section or 1) * 100
        else:
            section = section * 100 + part if 10 <= section < 100 and part >= 10 else section + part
    return float(min(total + section, _MOST))


def _values(words: set[str]) -> set[float]:
    """The values that words in lower case may have as numerals of some language and, below 0, as months."""
    return {float(table[word]) for table in _VALUES for word in words & table.keys()}


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
        found = LETTERS.findall(text)
        self._lower, lower = text.lower(), [word.lower() for word in found]
        counts = {name: sum(word in grammar for word in lower) for name, grammar in _FUNCTION_WORDS.items()}
        unspaced = sum(len(word) for word in lower if _is_unspaced(word))
        known = max(counts, key=counts.__getitem__) if any(counts.values()) else ""
        self.language = "cjk" if 4 * unspaced > sum(map(len, lower)) else known
        grammar = FUNCTION_WORDS | _FUNCTION_WORDS.get(self.language, frozenset()) | _NUMERALS.keys()
        parts = [part for word in found for part in _parts(word)]
        self.content = [part for part in parts if part.lower() not in grammar]
        self.numbers, self.names = read_numbers(text), names(text)
        named = [word for name in self.names for word in name.words]
        self._words = {*lower, *map(str.lower, (*parts, *named))}
        self._stems = set(map(english_stem, self._words))
        self.values = _values(self._words) | {value for number in self.numbers for value in number.values}

    def has_word(self, word: str) -> bool:
        """Whether the text has a word, an inflection of it, another word made from it, or a word that it is made of."""
        word = word.lower()
        if _is_unspaced(word):
            return word in self._lower
        inside = len(word) > 4 and word in self._lower
        made_of = len(word) > 8 and any(len(w) > 4 and w in word for w in self._words)
        return inside or made_of or self._has(word, _ENDING + 1)

    def has_name(self, words: Sequence[str]) -> bool:
        """Whether the text has a name or a part of it that is not another's name."""
        words = [word for word in words if word.lower() not in TITLES] or words
        if all(len(word) == 1 or self._has(word.lower(), _ENDING) for word in words):
            return True
        same = [name.words for name in self.names if name.words[-1].lower() == words[-1].lower()]
        before = [word for name in same for word in name[:-1]]
        return bool(same) and (not before or any(_is_first_name(words[0], word) for word in before))

    def _has(self, word: str, most: int) -> bool:
        """Whether the text has a word, as a numeral, too, or one that begins with its letters, four and all but `most`.

        Such is a word with an ending, or an adjective made from a name.
        """
        if word in self._words or english_stem(word) in self._stems or self.values & _values({word}):
            return True
        lengths = ((other, max(4, len(word) - most, len(other) - most)) for other in self._words)
        return any(word[:length] == other[:length] for other, length in lengths)


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
