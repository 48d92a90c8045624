"""Plan a question by its syntax: simple questions to be answered in order, and how their answers give the answer."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache
from itertools import count, pairwise

from knowgap.lms.embedded.text import fold, names_in, stems
from knowgap.retrieval.words import FUNCTION_WORDS, words

_AUXILIARY = frozenset(words("is are was were do does did has have had can could would will should am"))
_EARLY = frozenset(words("first earlier earliest older oldest sooner before"))
_LATE = frozenset(words("later latest younger youngest recent recently newer last after"))
_AGE = frozenset(words("older oldest younger youngest"))
_PERSON = re.compile(
    r"(?:(?<!riv)(?<!numb)(?<!tow)(?<!cent)(?<!pap)er|[chst]or|ist|ess|ian|man|person|\b(?:wife|husband|spouse|son|child"
    r"|uncle|aunt|parent|star))s?$"
)
PLACED = "(?:to|from|in|into|on|at|for|with|through|of|by)"
_PARTICIPLE = "[a-z]+ed|born|made|built|held|won|written|sung|led|known|set|shot|drawn|begun|seen|found"
_RELATIVE = ("that", "who", "which", "whose", "where")
_LINK = rf"(?:of|in|by|for|behind|that|who|which|whose|where|(?:{_PARTICIPLE}|[a-z]+ing)(?: {PLACED})?)"
_KEY = r"(?:Qx\d+q|#\d)"  # a name that is hidden, or an earlier answer
_PAIR = rf"(?:the )?(?:(?:two )?[a-z]+ )?({_KEY}),? (?:and|or|with|versus),? (?:the )?(?:[a-z]+ )?({_KEY})"
_PLAINER = (
    (rf"\b(?:that|the one) of ({_KEY})", r"\1"),
    (
        rf"(?:the )?([a-z]+) of (?:the )?(?:[a-z]+ )?({_KEY})((?: [a-z]+){{0,4}}?),? (and|than|with|as|before|after)"
        rf" (?:that of )?(?:the )?\1 of (?:the )?(?:[a-z]+ )?({_KEY})",
        r"the \1s of \2 and \5\3 \4",
    ),
    (rf"^(?:(?:out )?of|between|among|compare|comparing)? ?{_PAIR} ?[,:;-] *(.+?)\W*$", r"\3, \1 or \2?"),
)
"""Ways to speak of one or two things, and the plainer one that each becomes: `the authors of A and B`, `…, A or B`."""
_VERBS = "|".join(sorted(_AUXILIARY))
_KIND = re.compile(
    rf"\b[Ww](?:hich|hat) (?!(?:{_VERBS})\b)(?:(?!(?:{_PARTICIPLE})\b)[\w-]+ )*?((?!(?:{_PARTICIPLE})\b)[a-z][a-z-]+)"
    rf"(?=['’]| (?:{_VERBS}|{'|'.join(_RELATIVE)}|{PLACED}|{_PARTICIPLE}|the|an?)\b| [A-Z]|[,:;?]|\W*$)"
)
_OWNED = re.compile(
    r" ?['’]s? ((?:[a-z][\w-]* ){0,2}?[a-z][\w-]*(?: of (?:birth|[a-z]+(?=['’]|\W*$)))?)"
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
    for pattern, plainer in _PLAINER:
        text = re.sub(pattern, plainer, text, flags=re.I)
    polar = fold(text.split(" ", 1)[0]) in _AUXILIARY
    options, rest = _options(text, polar)
    polar = polar and " or ".join(options) not in text if options else polar
    if options:
        form, steps = _comparison(text, options, rest, polar)
    else:
        form, steps = ("true", [text]) if polar else ("value", _chain(text))

    def shown(part: str) -> str:
        return re.sub(r"Qx(\d+)q", lambda match: names[int(match[1])], part)

    return Plan(form, tuple(map(shown, steps)), shown(rest.replace("|", " ")), tuple(map(shown, options)))


@lru_cache(maxsize=20_000)
def names_of(text: str, titles: tuple[str, ...] = ()) -> list[str]:
    """The names in a text, these titles among them."""
    return [re.sub(r" ?\([^()]*\)$", "", name) for name in _hide(text, titles)[1]]


def _hide(text: str, titles: tuple[str, ...]) -> tuple[str, list[str]]:
    """Put keys in the place of titles and names, so that none of their words is read."""
    names: list[str] = re.findall(r"Qx\d+q", text)  # codes that look like keys
    numbers = count()
    text = re.sub(r"Qx\d+q", lambda _: f"Qx{next(numbers)}q", text)

    def hide(start: int, end: int) -> None:
        nonlocal text
        bracket = re.match(r" ?\([^()]*\)", text[end:])
        end += bracket.end() if bracket else 0
        names.append(re.sub(r"Qx(\d+)q", lambda match: names[int(match[1])], text[start:end]))
        text = f"{text[:start]}Qx{len(names) - 1}q{text[end:]}"

    for title in sorted(titles, key=lambda title: (-len(title), title)):
        while match := re.search(rf"(?<!\w){re.escape(title)}(?!\w)", text, re.I if " " in title else 0):
            hide(*match.span())
    spans: list[tuple[int, int]] = []
    for name in names_in(text):
        at = text.find(name, spans[-1][1] if spans else 0)
        joined = spans and re.fullmatch(" (?:for|to) (?:the )?", text[spans[-1][1] : at])  # Farewell to Arms
        if joined and not text.endswith("from ", 0, spans[-1][0]):
            spans[-1] = (spans[-1][0], at + len(name))
        elif at >= 0:
            spans.append((at, at + len(name)))
    for start, end in reversed(spans):
        if not text.startswith("Qx", start):
            hide(start, end)
    return text, names


def _options(text: str, polar: bool) -> tuple[tuple[str, ...], str]:
    """The two things that a question compares, and the question without them."""
    body = text.rstrip(" ?.!")
    if not polar and (match := re.match(r"(.{8,}?)[,:;] (.{1,90}?),? or (.{1,90})$", body)):
        return (_bare(match[2]), _bare(match[3])), match[1]
    names = [(name, at) for name in names_in(body) if (at := body.find(name)) > 0]
    joints = {"and", "or"} if polar else {"or"}
    for (one, start), (other, end) in pairwise(names):
        between = set(re.findall(r"\w+|\S", body[start + len(one) : end].lower()))
        if between & joints and between <= {*joints, ",", "the", "both"}:
            return (_bare(one), _bare(other)), f"{body[:start]}|{body[end + len(other) :]}"
    if polar and len(names) > 1 and {"as", "than"} & set(words(body)):
        one, other = names[0][0], names[-1][0]
        return (one, other), body.replace(one, "|", 1).replace(other, "", 1)
    return (), text


def _bare(option: str) -> str:
    return re.sub(r"^(?:both|the|either) |['’]s$", "", option.strip(' ,"“”'), flags=re.I)


def _comparison(text: str, options: tuple[str, ...], rest: str, polar: bool) -> tuple[str, list[str]]:
    """The form of a comparison, and the questions for what is compared: of each option, or of the part that it has."""
    said = [fold(word) for word in re.findall(r"[^\W_]+(?:-[^\W_]+)*", rest)]
    measures = [word for word in said if word in _EARLY | _LATE]
    same = re.search(r"\bthe same ([a-z]+)", rest) if polar else None
    if not measures and not same:
        return "true" if polar else "fit", [text]
    owned = _owned(rest)
    steps = [f"{_who(owned)} is the {owned} of {option}?" for option in options] if owned else []
    acts = [word for word in said if re.search(r"(?:ed|born|died|built|won|written|made|begun)$", word)]
    verb = f" {acts[-1]}" if acts else ""
    things = ("#1", "#2") if owned else options
    if same:
        return "same", [*steps, *(f"What is the {same[1]} of {thing}?" for thing in things)]
    verb = " born" if set(measures) & _AGE else verb or (" released" if "out" in said else " born")
    asked = "When did {} die?" if verb == " died" else f"When was {{}}{verb}?"
    return "first" if set(measures) & _EARLY else "last", [*steps, *map(asked.format, things)]


def _owned(rest: str) -> str:
    """The part of each option that is compared: the director in `Which film has the director who died first`."""
    match = re.search(
        rf"\b(?:has|have|had|by) (?:an? |the )?(?:{'|'.join(sorted(_AGE))}) ([a-z -]+[a-z])"
        r"|\b(?:has|have|had) (?:an? |the )?([a-z-]+?)s? (?:who|that|which|from|of|with|born|\w+ed)\b"
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
    anchors = [match.span() for match in re.finditer(_KEY, text)]
    asks = re.match(r"((?:(?!the |an? |that |Qx|#).)*?)\b(?:(did|does|do)|is|are|was|were|has|had|have)\b", text)
    does = bool(asks and asks[2])
    waits = text.startswith("The ") or (
        asks is not None and fold(asks[1].strip()) not in ("what", "who", "whom", "which", "whose")
    )
    tail = last = len(text.rstrip(" ?.!"))  # where the verb of the question itself begins, if it ends in one
    if does and (
        match := re.search(rf"(?: have(?: its| his| her| their| an?)?)? [a-z-]+(?: (?:{PLACED}|out|up))?\W*$", text)
    ):
        tail = last = match.start()
    elif waits and (match := re.search(rf"(?: (?:{_PARTICIPLE}))?(?: {PLACED})?\W*$", text)):
        last = match.start()
    for start, end in anchors:
        match = _OWNED.match(text, end, last)
        if match and stems(match[1]):
            return start, match.end(), f"{_who(match[1])} is the {match[1]} of {text[start:end]}?"
    found = None
    for match in re.finditer(rf"\b(?:[Tt]he|an?) ((?:(?!the |an? )[a-z][\w-]* ){{1,4}}?)({_LINK}) ", text):
        later = [end for at, end in anchors if at >= match.end()]
        end = (min(later) if match[2] == "of" else max(later)) if later else 0
        asks_here = re.search(rf"\b(?:what\b|{PLACED} (?:who\W*$|which (?!the |an? )[a-z]))", text[match.start() : end])
        if end and not asks_here and (match[0][:3].lower() == "the" or match[2] in _RELATIVE):
            found = match, end
    # The name is a part of a longer one (MIME-info), or one of several.
    if found is None or re.match(rf"-\w| (?:and|or) (?:the )?{_KEY}", text[found[1] :]):
        return None
    match, end = found
    if match[2] == "of" and not waits:
        after = re.match(r" ([a-z][\w-]*)", text[end:last])
        if after and stems(after[1]) and not re.fullmatch(_PARTICIPLE, after[1]):
            return None  # the crew of the Apollo mission
    if match[2] != "of":
        owner = re.match(r"(?:the |an? |[A-Z#])", text[match.end() :]) is not None  # the city where X was born
        within = re.search(r"\b(?:that|which|where|who|whose) $", text[: match.start()])  # a clause whose verb follows
        if (does or not waits) and not within:
            end = tail
        elif owner and match[2] in _RELATIVE:
            told = text[end:last].strip()
            end = last if told and told not in _AUXILIARY else tail
    return match.start(), end, f"{_who(match[1].strip())} is {text[match.start() : end].strip()}?"
