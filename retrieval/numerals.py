"""The numbers of a text, in digits and in words, however they are written."""

from __future__ import annotations

import re
import unicodedata
from typing import NamedTuple

MONTHS = {
    name: month
    for month, names in enumerate(
        (
            "january jan januar janvier enero gennaio janeiro januari",
            "february feb februar fevrier febrero febbraio fevereiro februari",
            "march mar marz mars marzo marco maart",
            "april apr avril abril aprile",
            "may mai mayo maggio maio mei",
            "june jun juni juin junio giugno junho",
            "july jul juli juillet julio luglio julho",
            "august aug aout agosto augustus",
            "september sept sep septembre septiembre settembre setembro",
            "october oct oktober octobre octubre ottobre outubro",
            "november nov novembre noviembre novembro",
            "december dec dezember decembre diciembre dicembre dezembro",
        ),
        start=1,
    )
    for name in names.split()
}
"""The month of each of its names, in lower case and without accents."""

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
_WORDS = _CARDINAL | _ORDINAL
_ELSEWHERE = {
    word: n
    for language in (
        "eins zwei drei vier funf sechs sieben acht neun zehn elf zwolf",
        "un deux trois quatre cinq six sept huit neuf dix onze douze",
        "uno dos tres cuatro cinco seis siete ocho nueve diez once doce",
        "uno due tre quattro cinque sei sette otto nove dieci undici dodici",
    )
    for n, word in enumerate(language.split(), start=1)
}
_SCALES = {
    **dict.fromkeys(("thousand", "tausend", "mille", "mil", "千"), 10**3),
    **dict.fromkeys(("万", "萬", "만"), 10**4),
    **dict.fromkeys(("million", "millions", "millionen", "mio", "millones", "milioni"), 10**6),
    **dict.fromkeys(("億", "亿", "억"), 10**8),
    **dict.fromkeys(("billion", "billions", "milliarde", "milliarden", "mrd", "milliard", "milliards"), 10**9),
}
_MOST = 3  # a smaller number in words is often none: "one of them", "the two", "a second"
_CENTURY = r"\W?\s*(?:century|centuries|jahrhundert|siecle|世紀|世纪)"
_JOIN = r"(?:(?:(?<=hundred)|(?<=thousand)|(?<=million))\sand)?[\s-]"
_ONE, _FIRST = f"(?:{'|'.join(_CARDINAL)})", f"(?:{'|'.join(_ORDINAL)})"
_IN_WORDS = re.compile(rf"\b(?:{_ONE}(?:{_JOIN}{_ONE})*(?:{_JOIN}{_FIRST})?|{_FIRST})\b({_CENTURY})?")
_CJK = re.compile(r"[〇零一二三四五六七八九十百千万億亿]+")
_NAMES = "|".join(MONTHS)
_MONTH = re.compile(rf"\d(?:st|nd|rd|th)?\W{{1,2}}(?:(?:de|of)\s)?({_NAMES})\b|\b({_NAMES})\W{{1,2}}(?:de\s)?\d")
_DIGITS = re.compile(
    rf"""(?P<date>\b\d{{1,4}}([-./])\d{{1,2}}\2\d{{1,4}}\b)
    | (?P<range>\b(?P<age>1\d|20)(?P<begin>\d\d)\s?[-–—/]\s?(?P<end>\d\d)(?![\d-]|[.,]\d))
    | (?P<groups>(?<![\d.,])\d{{1,3}}(?:[,.'’\s]\d{{3}})+(?![\d]))(?P<part>[.,]\d+)?
    | (?P<plain>\d+(?:[.,]\d+)?)(?P<decade>(?<=\d\d\d0)(?:['’]?s|er)\b)?(?P<century>(?:th|st|nd|rd|e|\.)?{_CENTURY})?
    """,
    re.VERBOSE,
)


class Number(NamedTuple):
    """A number as a text has it.

    Attributes:
        place: where in the text it is written, from and to.
        readings: what it may mean: each reading is a list of ranges, and a text that says the same has a value in all.
        values: the numbers that it says; that of a month is below 0.
        certain: whether it is a number for sure, unlike "one" and "second".
    """

    place: tuple[int, int]
    readings: list[list[tuple[float, float]]]
    values: set[float]
    certain: bool = True

    def is_in(self, values: set[float]) -> bool:
        """Whether a text with these values says the number."""
        return any(all(any(low <= v <= high for v in values) for low, high in r) for r in self.readings)


def _exactly(*values: float) -> list[tuple[float, float]]:
    return [(value, value) for value in values]


def read_numbers(text: str) -> list[Number]:
    """The numbers and months of a text without accents."""
    lower = text.lower()
    found = [_read_digits(match, text) for match in _DIGITS.finditer(text)]
    inside = {place for number in found for place in range(*number.place)}
    for match in _IN_WORDS.finditer(lower):
        if match.start() in inside:  # the million of "1.5 million"
            continue
        value = _value([_WORDS[word] for word in re.findall(r"\w+", match[0]) if word in _WORDS])
        readings = [_exactly(value), *([[(100 * value - 100, 100 * value)]] if match[1] else [])]
        found.append(Number(match.span(), readings, {value}, value >= _MOST))
    for match in _CJK.finditer(text):
        value = _value([int(unicodedata.numeric(character)) for character in match[0]], base=10)
        found.append(Number(match.span(), [_exactly(value)], {value}, len(match[0]) > 1 and value > 10))
    for match in _MONTH.finditer(lower):
        month, place = MONTHS[match[1] or match[2]], match.span(1 if match[1] else 2)
        found.append(Number(place, [_exactly(-month)], {month, -month}, text[slice(*place)] != "may"))
    return found


def other_values(words: set[str]) -> set[float]:
    """The values that words in lower case may have as numerals of some language and, below 0, as months."""
    months = {-float(MONTHS[word]) for word in words & MONTHS.keys()}
    return months | {-month for month in months} | {float(t[w]) for t in (_ELSEWHERE, _WORDS) for w in words & t.keys()}


def is_numeral(word: str) -> bool:
    """Whether a word in lower case is an English numeral, or a character is a numeral."""
    return word in _WORDS or _CJK.fullmatch(word) is not None


def roman_value(word: str) -> int:
    """The value of a Roman numeral in capitals, of more than one letter unless it is V or X; 0 if it is none."""
    if not re.fullmatch(r"(?=..|[VX])M*(?:C[MD]|D?C{0,3})(?:X[CL]|L?X{0,3})(?:I[XV]|V?I{0,3})", word):
        return 0
    digits = [dict(zip("IVXLCDM", (1, 5, 10, 50, 100, 500, 1000), strict=True))[letter] for letter in word]
    return sum(-n if n < max(digits[i:]) else n for i, n in enumerate(digits))


def _value(parts: list[int], base: int = 100) -> float:
    """The number that numerals make one after the other; in `base` 10 each is a digit or a power of ten."""
    total = section = last = 0
    for part in parts:
        if part >= 1000 and (base > 10 or part > 1000):
            total, section, last = total + (section + last or 1) * part, 0, 0
        elif part >= 100 or (base == 10 and part == 10):
            section, last = section + (last or 1) * part, 0
        else:
            last = last * base + part if base == 10 or (last >= 10 and part >= 10) else last + part
    return float(total + section + last)


def _read_digits(match: re.Match[str], text: str) -> Number:
    if match["date"] or match["range"]:
        parts = [float(part) for part in re.findall(r"\d+", match[0])]
        readings = [_exactly(*parts)]
        if match["range"] and match["end"] > match["begin"]:  # 1961–73
            parts.append(float(match["age"] + match["end"]))
            readings.append(_exactly(parts[0], parts[2]))
        return Number(match.span(), readings, {*parts, *(-part for part in parts if part <= 12)})
    others, step = list[float](), 0.5
    if groups := match["groups"]:
        value = float(re.sub(r"\D", "", groups) + (match["part"] or "").replace(",", "."))
        if not match["part"] and len(re.findall(r"\d+", groups)) == 2:  # may be "1.8", or two numbers
            apart = re.split(r"\s", groups) if groups[-4].isspace() else [re.sub(r"\D", ".", groups)]
            others = [float(part) for part in apart]
    else:
        value = float(match["plain"].replace(",", "."))
        step = 10.0 ** -len(match["plain"].replace(",", ".").partition(".")[2]) / 2
    readings = [_exactly(value), *([_exactly(*others)] if others else [])]
    if match["decade"]:
        readings.append([(value, value + 9)])
    elif match["century"]:
        readings.append([(100 * value - 100, 100 * value)])
    scale = re.match(r"[\s-]*([^\W\d]+)", text[match.end() :])
    word = next((w for w in (scale[1].lower(), scale[1][0]) if w in _SCALES), "") if scale else ""
    if scale and word:  # 1.5 million may be 1,512,000
        factor, end = _SCALES[word], match.end() + scale.start(1) + len(word)
        readings = [[((value - step) * factor, (value + step) * factor)]]
        return Number((match.start(), end), readings, {value, value * factor})
    return Number(match.span(), readings, {value, *others})
