"""The numbers of a text, in digits and in words, however they are written."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

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
NUMERALS = _CARDINAL | _ORDINAL
"""The English numerals, in lower case, and their values."""
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
    NUMERALS,
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
_LEAST = 3  # a smaller number in words is often none: "one of them", "the two", "a second"
_CENTURY = r"\W?\s*(?:century|centuries|jahrhundert|siecle|世紀|世纪)"
_JOIN = r"(?:(?:(?<=hundred)|(?<=thousand)|(?<=million))\sand)?[\s-]"
_ONE, _FIRST = f"(?:{'|'.join(_CARDINAL)})", f"(?:{'|'.join(_ORDINAL)})"
_IN_WORDS = re.compile(rf"\b(?:{_ONE}(?:{_JOIN}{_ONE})*(?:{_JOIN}{_FIRST})?|{_FIRST})\b({_CENTURY})?")
_NAMES = "|".join(_MONTH_NUMBERS)
_MONTH = re.compile(rf"\d(?:st|nd|rd|th)?\W{{1,2}}(?:(?:de|of)\s)?({_NAMES})\b|\b({_NAMES})\W{{1,2}}(?:de\s)?\d")
_SCALE = "|".join(rf"{word}\b" if word.isascii() else word for word in _SCALES)
_DIGITS = re.compile(
    rf"""(?P<date>\b\d{{1,4}}([-./])\d{{1,2}}\2\d{{1,4}}\b)
    | (?P<first>\b(?P<age>1\d|20)\d\d)\s?[-–—/]\s?(?P<last>\d\d)(?![\d-]|[.,]\d)
    | (?P<groups>(?<![\d.,])\d{{1,3}}(?:[,.'’\s]\d{{3}})+(?![\d]))(?P<part>[.,]\d+)?
    | (?P<plain>\d+(?:[.,]\d+)?)
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
        if match.start() in inside:  # the million of "1.5 million"
            continue
        value = _value([NUMERALS[word] for word in re.findall(r"\w+", match[0]) if word in NUMERALS])
        if value >= _LEAST:
            ranges = [(value, value), *([(100 * value - 100, 100 * value)] if match[1] else [])]
            found.append(Number(match.span(), {value}, ranges))
    for match in _MONTH.finditer(lower):
        place = match.span(1 if match[1] else 2)
        if (name := text[slice(*place)]) != "may":
            month = float(_MONTH_NUMBERS[name.lower()])
            found.append(Number(place, {month, -month}, [(-month, -month)]))
    return found


def values_of_words(words: set[str]) -> set[float]:
    """The values that words in lower case may have as numerals of some language and, below 0, as months."""
    return {float(table[word]) for table in _VALUES for word in words & table.keys()}


def roman_value(word: str) -> int:
    """The value of a Roman numeral in capitals, of more than one letter unless it is V or X; 0 if it is none."""
    if not re.fullmatch(r"(?=..|[VX])M*(?:C[MD]|D?C{0,3})(?:X[CL]|L?X{0,3})(?:I[XV]|V?I{0,3})", word):
        return 0
    digits = [dict(zip("IVXLCDM", (1, 5, 10, 50, 100, 500, 1000), strict=True))[letter] for letter in word]
    return sum(-n if n < max(digits[i:]) else n for i, n in enumerate(digits))


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
    return float(total + section)


def _in_digits(text: str) -> Iterator[Number]:
    """The numbers that a text writes in digits: both ends of a range of years, the parts of a date, and others."""
    for match in _DIGITS.finditer(text):
        if match["date"]:
            for part in re.finditer(r"\d+", match[0]):
                place, value = (match.start() + part.start(), match.start() + part.end()), float(part[0])
                yield Number(place, {value, -value}, [(value, value)])  # perhaps of a month
        elif match["first"]:
            yield _exactly(match.span("first"), float(match["first"]))
            yield _exactly(match.span("last"), float(match["last"]), float(match["age"] + match["last"]))
        elif groups := match["groups"]:
            value = float(re.sub(r"\D", "", groups) + (match["part"] or "").replace(",", "."))
            decimal = re.fullmatch(r"\d+[.,]\d+", groups)  # "1,800" may be 1.8
            yield _exactly(match.span(), value, *([float(groups.replace(",", "."))] if decimal else []))
        else:
            yield _plain(match)


def _exactly(place: tuple[int, int], *values: float) -> Number:
    return Number(place, {*values}, [(value, value) for value in values])


def _plain(match: re.Match[str]) -> Number:
    digits = match["plain"].replace(",", ".")
    value, step = float(digits), 10.0 ** -len(digits.partition(".")[2]) / 2
    if match["scale"]:  # 1.5 million may be 1,512,000
        factor = _SCALES[match["scale"].lower()]
        return Number(match.span(), {value, value * factor}, [((value - step) * factor, (value + step) * factor)])
    number = _exactly(match.span(), value)
    if match["decade"]:
        number.ranges.append((value, value + 9))
    elif match["century"]:
        number.ranges.append((100 * value - 100, 100 * value))
    return number
