"""Questions made from paragraphs and about made-up documents: what is stated there, and what is not.

Attributes are found in real paragraphs by general patterns (`reading_attributes.toml`) and asked for in several
wordings; others, which a paragraph lacks, are asked for as well. Made-up documents (`reading_documents.toml`) state
some attributes of a thing with an invented name.
"""

from __future__ import annotations

import random
import re
from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from bundled_models.reading_examples import MONTH, ReadingExample, without

_UPPER = "[A-ZÀ-ÖØ-ÞŁŚŽŠČĐ]"
_WORD = rf"(?:(?:St|Dr|Mr|Mrs|Jr)\.|{_UPPER}\.|{_UPPER}[\w'’&-]*)"
_SMALL = "(?:de|la|le|von|van|der|du|del|di|al|bin|ibn|da) "
_FORMS = {
    "W": _WORD,
    "NAME": rf"{_WORD}(?: (?:(?:of|the|dos|and the|for|{_SMALL[3:-2]}) ){{0,2}}{_WORD})*",
    "PERS": rf"{_WORD}(?: (?:{_SMALL}){{0,2}}{_WORD}){{1,3}}",
    "PLACE": rf"{_WORD}(?: {_WORD})*(?:, {_WORD}(?: {_WORD})*){{0,2}}",
    "MON": MONTH,
    "DATE": rf"(?:\d{{1,2}} {MONTH},? \d{{4}}|{MONTH} \d{{1,2}}, ?\d{{4}}|{MONTH} \d{{4}}|1\d{{3}}|20[012]\d)",
    "NUM": r"\d{1,3}(?:,\d{3})*(?:\.\d+)?",
}
_KINDS = {
    "work": "film|album|song|single|novel|book|movie|series|play|memoir|opera|musical|show|game|magazine|poem|story",
    "place": "city|town|village|municipality|river|lake|mountain|district|county|island|park|castle|church|building"
    "|station|museum|stadium|bridge|province|state|country|region|road|street|valley|house",
    "org": "company|band|group|organi[sz]ation|university|college|school|publisher|label|corporation|club|team"
    "|newspaper|airline|bank|party|association|agency|studio|network|foundation|league",
}
_PERSON = r"\bborn\b|\(\w* ?\d[^()]*[–-][^()]*\d{4}\)|\b(?:is|was) an? (?:[\w-]+ ){0,5}?[a-z]+(?:er|or|ist|ian|ess)\b"
_FIRST = ("b", "br", "c", "ch", "d", "dr", "f", "fl", "g", "gl", "h", "j", "k", "kl", "l", "m", "n", "p", "pl", "pr",
          "qu", "r", "s", "sh", "sk", "st", "t", "th", "tr", "v", "w", "z")  # fmt: skip
_VOWELS = ("a", "e", "i", "o", "u", "ai", "au", "ea", "ee", "io", "ou", "y")
_LAST = ("n", "r", "s", "l", "m", "nd", "rt", "st", "ck", "x", "")
_LONGEST_VALUE, _FAR = 70, 700  # characters; values further into a paragraph are left out
_INVENTED, _DESCRIBED, _ANOTHER, _CUT = 0.3, 0.15, 0.3, 0.2  # shares of the questions on attributes


@cache
def _table(name: str) -> dict[str, Any]:
    import tomllib

    return tomllib.loads(Path(__file__).with_name(f"reading_{name}.toml").read_text("utf-8"))


@cache
def _pattern(text: str) -> re.Pattern[str]:
    return re.compile(re.sub(r"<([A-Z]+)>", lambda match: _FORMS[match[1]], text))


def kind_of(text: str) -> str:
    """What a paragraph is about: `work`, `place`, `org`, `person`, or nothing of these (empty)."""
    patterns = {k: rf"\b(?:is|was|are|were) an? [^.]{{0,80}}?\b(?:{nouns})\b" for k, nouns in _KINDS.items()}
    found = {k: match.end() for k, p in {**patterns, "person": _PERSON}.items() if (match := re.search(p, text[:300]))}
    return min(found, key=lambda kind: found[kind], default="")


def attributes_in(title: str, text: str, kind: str) -> dict[str, tuple[int, int]]:
    """The attributes that a paragraph states by one of the patterns, and where their values stand."""
    found: dict[str, tuple[int, int]] = {}
    for name, attribute in _table("attributes").items():
        for pattern in attribute["patterns"] if attribute["kind"] == kind else ():
            if match := _pattern(pattern).search(text):
                value = match[1].rstrip(" .,;:'")
                if value and value.casefold() not in title.casefold() and len(value) < _LONGEST_VALUE:
                    if match.start() < _FAR:
                        found[name] = (match.start(1), match.start(1) + len(value))
                    break
    return found


def attribute_examples(paragraphs: Iterable[tuple[str, str]], rng: random.Random) -> Iterator[ReadingExample]:
    """Questions on the attributes of (title, text): stated, absent, of another thing, asked the other way round."""
    table = _table("attributes")
    known = [(t, x, k, attributes_in(t, x, k)) for t, x in paragraphs if (k := kind_of(x))]
    alike = {kind: [row for row in known if row[2] == kind] for kind in {row[2] for row in known}}
    described = [(attribute["leads_to"], way) for attribute in table.values() for way in attribute.get("described", ())]

    def worded(attribute: str, thing: str) -> str:
        return rng.choice(table[attribute]["questions"]).format(x=thing)

    def made(question: str, title: str, text: str, place: tuple[int, int] | None = None) -> ReadingExample:
        return ReadingExample(question[:1].upper() + question[1:], title, text, (place,) if place else ())

    for title, text, kind, stated in known:
        name = re.sub(r"\s*\([^()]*\)$", "", title)
        for attribute, place in stated.items():
            value = text[slice(*place)]
            for _ in range(3):
                thing, passage, at = name, text, place
                if rng.random() < _INVENTED:
                    thing, passage, at = _renamed(name, text, place, rng)
                if rng.random() < _DESCRIBED:
                    way = rng.choice([way for leads_to, way in described if leads_to == kind] or ["{n}"])
                    yield made(worded(attribute, way.format(n=rng.choice(known)[0])), thing, passage, at)
                    continue
                yield made(worded(attribute, thing), thing, passage, at)
                other, others_text, _, others = rng.choice(alike[kind])
                if rng.random() < _ANOTHER and attribute in others and name not in others_text:
                    yield made(worded(attribute, thing), other, others_text)
                if rng.random() < _CUT and (left := without(passage, [value])):
                    yield made(worded(attribute, thing), thing, left)
            first = re.search(rf"(?<!\w){re.escape(name)}(?!\w)", text)
            if inverse := table[attribute].get("inverse"):
                [way] = rng.sample(inverse, 1)
                if first:
                    yield made(way.format(v=value), title, text, first.span())
            if "described" in table[attribute]:  # a question on what this thing leads to is not answered here
                next_kind = table[attribute]["leads_to"]
                asked = rng.choice([a for a, own in table.items() if own["kind"] == next_kind])
                if asked not in stated:
                    thing = rng.choice(table[attribute]["described"]).format(n=name)
                    yield made(worded(asked, thing), title, text)
        of_kind = {a: own["cue"] for a, own in table.items() if own["kind"] == kind and a not in stated}
        absent = [attribute for attribute, cue in of_kind.items() if not re.search(cue, text)]
        for attribute in rng.sample(absent, min(len(absent), 3)):
            yield made(worded(attribute, name), title, text)


def _renamed(name: str, text: str, place: tuple[int, int], rng: random.Random) -> tuple[str, str, tuple[int, int]]:
    """A thing's name, its paragraph and the place of a value, under an invented name; as they are if it cannot be."""
    spots = [match.start() for match in re.finditer(re.escape(name), text)]
    if not spots or any(s < place[1] and place[0] < s + len(name) for s in spots):
        return name, text, place
    small = ("of", "the", "a", "and")
    new = " ".join(w if w.lower() in small or not w[:1].isupper() else invented(rng).capitalize() for w in name.split())
    moved = sum(len(new) - len(name) for s in spots if s < place[0])
    return new, text.replace(name, new), (place[0] + moved, place[1] + moved)


def invented(rng: random.Random) -> str:
    """A word that does not exist."""
    syllables = range(rng.choice((1, 2, 2, 3)))
    return "".join(rng.choice(_FIRST) + rng.choice(_VOWELS) for _ in syllables) + rng.choice(_LAST)


def _filled(template: str, rng: random.Random) -> str:
    """A template with made-up words, names, codes, dates and numbers."""

    def fill(match: re.Match[str]) -> str:
        word, number = invented(rng), rng.choice((rng.randint(1, 60), rng.randint(61, 9000)))
        letters = "".join(rng.choice("ABCDEFGHKLMNPRSTUVWX") for _ in range(rng.choice((1, 2, 3))))
        month = rng.choice(MONTH[3:-1].split("|"))
        return {
            "word": word,
            "name": word.capitalize(),
            "person": f"{invented(rng).capitalize()} {word.capitalize()}",
            "place": rng.choice((word.capitalize(), f"Port {word.capitalize()}")),
            "code": f"{letters}{rng.choice(('-', ' ', ''))}{number}",
            "money": rng.choice(("${:,}", "{:,} euros", "£{:,}")).format(number),
            "date": rng.choice((f"{number % 28 + 1} {month} {rng.randint(1850, 2026)}", str(rng.randint(1800, 2026)))),
            "int": f"{number:,}",
            "hour": str(number % 12 + 1),
        }[match[1]]

    return re.sub(r"\{(word|name|person|place|code|money|date|int|hour)\}", fill, template)


def document_examples(count: int, fillers: Sequence[str], rng: random.Random) -> Iterator[ReadingExample]:
    """Questions on made-up documents, on what they state and as many on what they do not; fillers stand between."""
    table = _table("documents")
    for _ in range(count):
        thing = _filled(rng.choice(table["things"]), rng)
        chosen = rng.sample(sorted(table["attributes"]), rng.randint(2, 6))
        text, places = "", dict[str, tuple[int, int]]()
        for n, attribute in enumerate(chosen):
            own = table["attributes"][attribute]
            value, subject = _filled(rng.choice(own["value"]), rng), thing if n == 0 or rng.random() < 0.35 else "It"
            before, _, after = rng.choice(own["said"]).partition("{v}")
            before, after = (part.replace("{it}", subject).replace("{x}", thing) for part in (before, after))
            said = before + value + after
            text += rng.choice(fillers) + " " if fillers and rng.random() < 0.3 else ""
            places[attribute] = (len(text) + len(before), len(text) + len(before) + len(value))
            text += said[:1].upper() + said[1:] + " "
        absent = rng.sample(sorted(set(table["attributes"]) - {*chosen, "seat", "made in"}), len(chosen))
        title = thing.removeprefix("the ") if rng.random() < 0.7 else ""
        for attribute in (*chosen, *absent):
            question = rng.choice(table["attributes"][attribute]["asked"]).format(x=thing)
            answers = (places[attribute],) if attribute in places else ()
            yield ReadingExample(question, title, text.strip(), answers)
