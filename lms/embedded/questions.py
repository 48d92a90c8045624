"""Plan a question by its syntax: simple questions to be answered in order, and how their answers give the answer."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise

from knowgap.lms.embedded.text import analyse, fold, stems
from knowgap.retrieval.lexical import FUNCTION_WORDS, words

_AUXILIARY = frozenset(words("is are was were do does did has have had can could would will should am"))
_EARLY = frozenset(words("first earlier earliest older oldest sooner before"))
_LATE = frozenset(words("later latest younger youngest recent recently newer last after"))
_FEW = frozenset(words("shorter smaller fewer less lower fewest"))
_MUCH = frozenset(words("more most longer longest larger largest bigger biggest higher highest greater taller deeper"))
_AGE = frozenset(words("older oldest younger youngest"))
_PERSON = re.compile(r"(?:[eo]r|ist|ess|ian|man|person|\b(?:wife|husband|spouse|son|child|uncle|aunt|parent))s?$")
_LINK = "(?:of|in|by|for|that|who|which|whose|where)"


@dataclass(frozen=True, slots=True)
class Plan:
    """Simple questions in the order of answering; `#1` in a later one stands for the answer to the first.

    `form` is `value` (the last answer is the answer), `order` (the option whose answer is smaller, or greater if not
    `least`), `same` (whether the two last answers are the same), `fit` (the option of which `rest` is true), `both`
    (whether it is true of both) or `polar` (whether it is true). `polar` says that yes or no is asked for.
    """

    form: str
    steps: tuple[str, ...]
    polar: bool
    rest: str
    options: tuple[str, ...] = ()
    least: bool = True


def fill(question: str, answers: dict[int, str]) -> str:
    """Replace references such as `#1` by the answers found so far."""
    return re.sub(r"#(\d)", lambda match: answers.get(int(match[1]), match[0]), question)


@lru_cache(maxsize=4_000)
def plan(question: str) -> Plan:
    """Plan a question; one without known syntax is a single step."""
    text = " ".join(question.split())
    polar = fold(text.split(" ", 1)[0]) in _AUXILIARY
    options, rest = _options(text, polar)
    if options:
        return _comparison(text, options, rest, polar)
    return Plan("polar", (text,), True, text) if polar else Plan("value", tuple(_chain(text)), False, text)


def _options(text: str, polar: bool) -> tuple[tuple[str, ...], str]:
    """The two things that a question compares, and the question without them."""
    body = text.rstrip(" ?")
    if polar:
        body = re.sub(r"\s*\([^()]*\)", "", body)
    elif re.search(r"\bor\b|\bbetween\b", body, re.I):
        if match := re.match(r"(.{8,}?)[,:;] (?:between )?(.{1,90}?),? (?:or|and) (.{1,90})$", body):
            return (_bare(match[2]), _bare(match[3])), match[1]
        if match := re.match(r"between (.{1,80}?) (?:and|or) (.{1,80}?),? ((?:which|who|what|whose)\b.+)$", body, re.I):
            return (_bare(match[1]), _bare(match[2])), match[3]
    asked = analyse(body)
    names = [(name, at) for name in asked.names if (at := body.find(name))]
    joints = {"and", "or"} if polar else {"or"}
    for (one, start), (other, end) in pairwise(names):
        between = set(re.findall(r"\w+|\S", body[start + len(one) : end].lower()))
        if between & joints and between <= {*joints, ",", "the", "both"}:
            return (_bare(one), _bare(other)), body[:start] + body[end + len(other) :]
    if polar and len(names) > 1 and {"as", "than"} & set(asked.words):
        one, other = names[0][0], names[-1][0]
        return (one, other), body.replace(one, "").replace(other, "")
    return (), text


def _bare(option: str) -> str:
    return re.sub(r"^(?:both|the|either) ", "", option.strip(' ,"“”'), flags=re.I)


def _comparison(text: str, options: tuple[str, ...], rest: str, polar: bool) -> Plan:
    """Plan a comparison: ask for the compared property of each option, or of the part that the question names."""
    said = [fold(word) for word in re.findall(r"[^\W_]+(?:-[^\W_]+)*", rest)]
    measures = [word for word in said if word in _EARLY | _LATE | _FEW | _MUCH]
    same = said.index("same") if "same" in said else -1
    if not measures and same < 0:
        return Plan("both" if polar else "fit", (text,), polar, rest, options)
    owned = _owned(rest)
    steps = [f"{_who(owned)} is the {owned} of {option}?" for option in options] if owned else []
    left = [word for word in said if stems(word) and word not in (*measures, *owned.split())]
    verb = next(
        (f" {w}" for w in reversed(left) if re.search(r"(?:ed|born|died|built|won|written|made|begun)$", w)), ""
    )
    for name in ("#1", "#2") if owned else options:
        if same >= 0:
            noun = " ".join(said[same + 1 : same + 2])
            steps.append(f"What {noun} is {name}{verb}?")
        elif set(measures) & (_EARLY | _LATE):
            verb = " born" if set(measures) & _AGE else verb
            steps.append(f"When did {name} die?" if verb == " died" else f"When was {name}{verb}?")
        else:
            steps.append(f"How many {' '.join(left[-2:])} has {name}?" if left else f"How {measures[0]} is {name}?")
    least = same >= 0 or bool(set(measures) & (_EARLY | _FEW))
    return Plan("same" if same >= 0 else "order", tuple(steps), polar, rest, options, least)


def _owned(rest: str) -> str:
    """The part of each option that is compared: the director in `Which film has the director who died first`."""
    match = re.search(
        r"\b(?:has|have|had) (?:a |the )?([a-z-]+?)s? (?:who|that|which|from|of|with|born|\w+ed)\b"
        r"|\bwhose ([a-z-]+)\b|\b(?:the|both|all) ([a-z-]+?)s? of\b",
        rest,
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
    anchors = [match.span() for match in re.finditer(r"#\d", text)]
    for name in analyse(text).names:
        if (at := text.find(name)) > 0:
            end = at + len(name)
            bracket = re.match(r" ?\([^()]*\)", text[end:])
            if not any(a < at < b for a, b in anchors):
                anchors.append((at, end + (bracket.end() if bracket else 0)))
    for start, end in anchors:
        if match := re.match(r"['’]s? ((?:[a-z][\w-]* )??)([a-z][\w-]*)(?=\W|$)", text[end:]):
            noun = match[2]
            if stems(noun):
                return start, end + match.end(), f"{_who(noun)} is the {noun} of {text[start:end]}?"
    found = None
    for match in re.finditer(rf"\b(?:the|an?) ((?:[a-z][\w-]* ){{1,4}}?)({_LINK}) ", text):
        later = [end for at, end in anchors if at >= match.end()]
        if later and (match[0].startswith("the") or match[2] not in ("of", "in", "by", "for")):
            found = match, min(later) if match[2] == "of" else max(later)
    if found is None:
        return None
    match, end = found
    before = fold(text[: match.start()]).split()[-2:]
    waits = before[-1:] and before[-1] in _AUXILIARY and before[0] in ("when", "where", "how", "why", "what")
    if match[2] != "of" and not waits:  # else what follows is the verb of the question itself
        end = len(text.rstrip(" ?"))
    return match.start(), end, f"{_who(match[1].strip())} is {text[match.start() : end].strip()}?"
