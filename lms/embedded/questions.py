"""Plan a question by its syntax: simple questions to be answered in order, and how their answers give the answer."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache

from knowgap.lms.embedded.text import fold, names_in, stems
from knowgap.retrieval.words import FUNCTION_WORDS, words

_AUXILIARY = frozenset(words("is are was were do does did has have had can could would will should am"))
_EARLY = frozenset(words("first earlier earliest older oldest sooner before"))
_MEASURES = _EARLY | frozenset(words("later latest younger youngest recent recently newer last after"))
_PERSON = re.compile(r"(?:(?<!riv)er|[chst]or|ist|ian|man|person|wife|husband|spouse|son|child|star)s?$")
PLACED = "(?:to|from|in|into|on|at|for|with|through|of|by)"
_PARTICIPLE = "[a-z]+ed|born|made|built|held|won|written"
_RELATIVE = ("that", "who", "which", "whose", "where")
_LINK = rf"(?:of|in|by|for|behind|that|who|which|whose|where|(?:{_PARTICIPLE})(?: {PLACED})?)"
_KEY = r"(?:Qx\d+q|#\d)"  # a name that is hidden, or an earlier answer
_VERBS = "|".join(sorted(_AUXILIARY))
_KIND = re.compile(
    rf"\b[Ww](?:hich|hat) (?!(?:{_VERBS})\b)(?:[\w-]+ )*?([a-z][a-z-]+)"
    rf"(?= (?:{_VERBS}|{'|'.join(_RELATIVE)}|{PLACED}|{_PARTICIPLE})\b| [A-Z]|[,:;?]|\W*$)"
)
_OWNED = re.compile(
    r" ?['’]s? ((?:[a-z][\w-]* ){0,2}?[a-z][\w-]*(?: of birth)?)"
    rf"(?=['’]|\W*$| (?:{_VERBS}|{PLACED})\b)"
)


@dataclass(frozen=True, slots=True)
class Plan:
    """Simple questions in the order of answering; `#1` in a later one stands for the answer to the first.

    `form` is `value` (the last answer is the answer), `first` or `last` (the option whose answer is smaller, or
    greater), `same` (whether the two last answers are the same), `fit` (the option of which `rest` is true), or `true`
    (whether it is, of each option).
    """

    form: str
    steps: tuple[str, ...]
    rest: str
    options: tuple[str, ...] = ()


def kind_asked(question: str) -> str:
    """The kind of the thing that is asked for, `river` in `On which long river …`; empty if the question names none."""
    match = _KIND.search(question)
    return match[1] if match else ""


@lru_cache(maxsize=4_000)
def plan(question: str, titles: tuple[str, ...] = ()) -> Plan:
    """Plan a question, in which these titles are names; one without known syntax is a single step."""
    text, names = _hide(" ".join(question.split()), titles)
    polar = fold(text.split(" ", 1)[0]) in _AUXILIARY
    options, rest = _options(text, polar)
    if options:
        form, steps = _comparison(text, options, rest, polar and " or ".join(options) not in text)
    else:
        form, steps = ("true", [text]) if polar else ("value", _chain(text))

    def shown(part: str) -> str:
        return re.sub(r"Qx(\d+)q", lambda match: names[int(match[1])], part)

    return Plan(form, tuple(map(shown, steps)), shown(rest), tuple(map(shown, options)))


@lru_cache(maxsize=20_000)
def names_of(text: str, titles: tuple[str, ...] = ()) -> list[str]:
    """The names in a text, these titles and quoted texts among them."""
    return [re.sub(r" ?\([^()]*\)$", "", name) for name in _hide(text, titles)[1]]


def _hide(text: str, titles: tuple[str, ...]) -> tuple[str, list[str]]:
    """Put keys in the place of titles, quoted texts and names, so that none of their words is read."""
    names: list[str] = []

    def hide(start: int, end: int) -> None:
        nonlocal text
        bracket = re.match(r" ?\([^()]*\)", text[end:])
        end += bracket.end() if bracket else 0
        names.append(re.sub(r"Qx(\d+)q", lambda match: names[int(match[1])], text[start:end]))
        text = f"{text[:start]}Qx{len(names) - 1}q{text[end:]}"

    for title in sorted(titles, key=lambda title: (-len(title), title)):
        while match := re.search(rf"(?<!\w){re.escape(title)}(?!\w)", text, re.I if " " in title else 0):
            hide(*match.span())
    while match := re.search(r"[\"“]([^\"“”]+)[\"”]", text):
        hide(*match.span())
    for name in reversed(names_in(text)):
        if not name.startswith("Qx"):
            hide(at := text.rindex(name), at + len(name))
    return text, names


def _options(text: str, polar: bool) -> tuple[tuple[str, ...], str]:
    """The two things that a question compares, and the question without them."""
    body = text.rstrip(" ?.!")
    if not polar and (match := re.match(r"(.{8,}?)[,:;] (.{1,90}?),? or (.{1,90})$", body)):
        return (match[2], match[3]), match[1]
    pair = re.search(rf"(?:both )?({_KEY}),? (and|or) (?:the )?({_KEY})", body)
    if pair and (polar or pair[2] == "or" or re.match("(?:between|of) ", body, re.I)):
        return (pair[1], pair[3]), f"{body[: pair.start()]} {body[pair.end() :]}"
    return (), text


def _comparison(text: str, options: tuple[str, ...], rest: str, polar: bool) -> tuple[str, list[str]]:
    """The form of a comparison, and the questions for what is compared: of each option, or of the part that it has."""
    said = words(rest)
    measures = _MEASURES.intersection(said)
    same = re.search(r"\bthe same ([a-z]+)", rest) if polar else None
    if not measures and not same:
        return "true" if polar else "fit", [text]
    owned = _owned(rest)
    steps = [f"{_who(owned)} is the {owned} of {option}?" for option in options] if owned else []
    things = ("#1", "#2") if owned else options
    if same:
        return "same", [*steps, *(f"What is the {same[1]} of {thing}?" for thing in things)]
    acts = [word for word in said if re.search(r"(?:ed|born|built|won|written|made)$", word)]
    verb = acts[-1] if acts else "born"
    asked = "When did {} die?" if verb == "died" else f"When was {{}} {verb}?"
    return "first" if measures & _EARLY else "last", [*steps, *map(asked.format, things)]


def _owned(rest: str) -> str:
    """The part of each option that is compared: the director in `Which film has the director who died first`."""
    match = re.search(
        r"\b(?:has|had|by) (?:an? |the )(?:(?:old|young)(?:er|est) )?([a-z -]+?)(?= (?:who|that|which|born)\b|\W*$)"
        r"|\b(?:whose|[a-z]+['’]s) ([a-z-]+)\b|\b(?:the|both|all) ([a-z-]+?)s? of\b",
        rest,
        re.I,
    )
    return next((noun for noun in match.groups() if noun and noun not in FUNCTION_WORDS), "") if match else ""


def _who(noun: str) -> str:
    return "Who" if _PERSON.search(noun) else "What"


def _chain(text: str) -> list[str]:
    """Take descriptions out of a question, the innermost first: `the director of X`, `X's wife`, `the man who …`."""
    steps: list[str] = []
    while len(steps) < 3 and (found := _described(text)):
        start, end, asked = found
        rest = text[:start] + f"#{len(steps) + 1}" + text[end:]
        if not set(stems(re.sub(r"#\d", " ", rest))) - {"name"}:
            break
        steps.append(asked)
        text = rest
    return [*steps, text]


def _described(text: str) -> tuple[int, int, str] | None:
    """The rightmost description by a name: where it begins and ends, and the question for what it stands for."""
    anchors = [match.span() for match in re.finditer(rf"{_KEY}(?!-)", text)]
    does = re.search(r"\b(?:did|does|do)\b", text) is not None
    waits = not re.match("(?:what|who|whom|which|whose)\\b", text, re.I)
    last = len(text.rstrip(" ?.!"))  # where the verb of the question itself begins, if it ends in one
    if does and (match := re.search(rf"(?: have its)? [a-z-]+(?: {PLACED})?\W*$", text)):
        last = match.start()
    for start, end in anchors:
        match = _OWNED.match(text, end, last)
        if match and stems(match[1]):
            return start, match.end(), f"{_who(match[1])} is the {match[1]} of {text[start:end]}?"
    found = None
    for match in re.finditer(rf"\b(?:[Tt]he|an?) ((?:[a-z][\w-]* ){{1,4}}?)({_LINK}) ", text):
        later = [end for at, end in anchors if at >= match.end()]
        end = (min(later) if match[2] == "of" else max(later)) if later else 0
        asks_here = re.search(rf"\b(?:what\b|{PLACED} (?:who\W*$|which (?!the |an? )[a-z]))", text[match.start() : end])
        if end and not asks_here and (match[0][:3].lower() == "the" or match[2] in _RELATIVE):
            found = match, end
    if found is None:
        return None
    match, end = found
    if match[2] == "of" and not waits:
        after = re.match(r" ([a-z][\w-]*)", text[end:last])
        if after and stems(after[1]) and not re.fullmatch(_PARTICIPLE, after[1]):
            return None  # the crew of the Apollo mission
    if match[2] != "of" and (does or not waits):
        end = last
    return match.start(), end, f"{_who(match[1].strip())} is {text[match.start() : end].strip()}?"
