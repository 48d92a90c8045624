"""Parse questions: into chains of relations from a named thing, choices between two, and yes/no questions."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache

from knowgap.lms.embedded.english.language import fold, stem, stems
from knowgap.lms.embedded.english.phrases import AUX, Chain, clause, entity, noun_phrase, split_verb, starts_name
from knowgap.lms.embedded.english.relations import Relation, relation_of_noun, relation_of_verb, wh_kind

__all__ = ["Chain", "Question", "parse"]

_LONGEST = 400
# Comparatives: a pattern, what is compared, and whether the lesser value wins.
_OUT = "(?:released|premiered|published|aired|issued|c[ao]me out|appeared|made|filmed)"
_BEGUN = "(?:founded|established|formed|started|opened|built|created|launched|began|constructed|completed|incorporated)"
_HAPPENED = "(?:c[ao]me|happened|occurred|took place|existed|been around)"
_FIRST, _LAST = (
    r"(?: \w+){0,2}? (?:first|earlier|before|sooner)",
    r"(?: \w+){0,2}? (?:later|last|(?:more|most) recently|after)",
)
_COMPARATIVES = (
    (r"liv\w+ (?:for )?(?:a )?long|live\w* to (?:an|be) older|longer li(?:fe|ved)", "lifespan", False),
    (rf"died{_FIRST}|death{_FIRST}|(?:earlier|first) (?:to die|death)", "date of death", True),
    (rf"died{_LAST}|(?:later|last) (?:to die|death)", "date of death", False),
    (rf"born{_FIRST}|older|oldest|elder", "date of birth", True),
    (rf"born{_LAST}|younger|youngest", "date of birth", False),
    (rf"{_OUT}{_FIRST}|earlier (?:film|release|movie)", "release date", True),
    (rf"{_OUT}{_LAST}|newer|more recent", "release date", False),
    (rf"{_BEGUN}{_FIRST}", "founding date", True),
    (rf"{_BEGUN}{_LAST}", "founding date", False),
    (rf"{_HAPPENED}{_FIRST}|first", "date", True),
    (rf"{_HAPPENED}{_LAST}", "date", False),
    (r"longer|longest", "length", False),
    (r"shorter|shortest", "length", True),
    (r"taller|tallest|higher|highest", "height", False),
    (
        r"(?:more|most) (?:populous|people|inhabitants|residents)|(?:larger|bigger|largest) population",
        "population",
        False,
    ),
    (r"(?:fewer|less) (?:populous|people|inhabitants|residents)|smaller population", "population", True),
    (r"larger|bigger|largest|biggest", "area", False),
    (r"smaller|smallest", "area", True),
    (r"more|most|greater", "number", False),
    (r"fewer|fewest|less|least", "number", True),
)
_VIA = re.compile(
    r"\b(?:has|have|had|whose|with)(?: the| an?)?(?: (?:older|younger|taller|richer|better-known)(?= [a-z]+$))?"
    r" ([a-z][a-z -]*?)(?: (?:who|that|which|is|was|were|are|has|had|born|died|lived|older|younger)\b|$)"
)
_SAME = re.compile(
    r"^(?:are|were|is|was|do|did|does|have|has|had)\s+(?P<sides>.+?)\s+(?P<rest>(?:(?:both|each|all|have|has|had|shared?|come|"
    r"came|from|situated|born|die|lie|stand|of|in|at|on|belong|the|a|made|that|who|which|were|are|with|to|by|same|live|work|play|"
    r"[a-z]+s|[a-z]+ed)\s+)*?)(?:the same|same|a common|similar)\s+(?P<what>[a-z]+)(?: (?:as|like) (?P<other>.+))?"
)
_SAME_KIND = {
    **dict.fromkeys(("country", "nation"), "country"),
    **dict.fromkeys(
        ("city", "place", "town", "state", "county", "region", "province", "continent", "district"), "place"
    ),
    **dict.fromkeys(("profession", "occupation", "job", "career"), "occupation"),
    "year": "date",
}


@dataclass(frozen=True, slots=True)
class Question:
    """A parsed question.

    `form` is `value` (the end of the one chain), `pick` (which of the `options` has the extreme end of its chain: the
    least one if `least`), `same` (do the chains end alike), `order` (yes if the first chain's end comes before the
    other's in the sense of `least`), `polar` (yes or no, no chain) or `open` (no chain was understood). `kind` is the
    kind of answer.
    """

    text: str
    form: str
    kind: str
    chains: tuple[Chain, ...] = ()
    options: tuple[str, ...] = ()
    least: bool = True


@lru_cache(maxsize=10_000)
def parse(text: str) -> Question:
    """Parse a question; one that no rule fits is `open`, or `polar` where it begins like a yes/no question."""
    text = " ".join(text.split())
    plain = re.sub(r" (?=['’]s\b)", "", text.rstrip(" ?.!"))
    if len(plain) > _LONGEST:
        plain = plain[-_LONGEST:].split(". ")[-1]
    plain = re.sub(r"^(?:and|but|so|please|can you tell me|tell me|do you know),? ", "", plain, flags=re.I)
    first = fold(plain.split(" ", 1)[0]) if plain else ""
    polar = re.fullmatch(AUX, first) is not None
    found = _pick(text, plain) or (_same(text, plain) or _order(text, plain) if polar else None)
    if found is not None:
        return found
    if polar:
        both = re.match(
            r"^\S+ (?:both )?(.+? and .+?),? (?:both|each|all) (.+)$|^\S+ both (.+? and \S+(?: [^\Wa-z]\S*)*),? (.+)$",
            plain,
        )
        sides = _conjuncts(both[1] or both[3]) if both else None
        return Question(text, "polar", "yesno", options=sides or ())
    kind, chain = _wh(plain)
    if chain is not None and chain.relations and _is_name(chain.entity):
        return Question(text, "value", chain.relations[-1].kind, (chain,))
    late = re.findall(r"\b(who|whom|where|when|what|which)\b ?((?:[A-Z]?[a-z-]+ ?){0,3})", plain)
    return Question(text, "open", wh_kind(late[-1][0], _head(late[-1][1])) if late and kind == "thing" else kind)


def _head(text: str) -> str:
    """The noun of `which former British player was`: what stands before the verb."""
    parts = re.split(rf" (?:{AUX}|[a-z]+ed|who|that|of|in)\b", " " + text.strip())[0].split()
    return parts[-1] if parts else ""


def _is_name(entity: str) -> bool:
    """Whether the inner end of a chain can be a name: not a clause that no rule understood."""
    clause_words = r" (?:is|was|were|are|that|which|who|whose|when|where|has|had|behind|before) "
    return len(entity.split()) <= 14 and bool(stems(entity)) and not re.search(clause_words, entity)


# Questions with a question word.


def _wh(plain: str) -> tuple[str, Chain | None]:
    given, plain = plain, plain[:1].lower() + plain[1:]
    if agent := re.match(r"^(by|to) (whom|who|which [a-z]+|what [a-z]+) (.+)$", plain):
        plain = f"{agent[2]} {agent[3]} {agent[1]}"
    match = re.match(
        r"^(?:(?:in|on|at|from|for|of|with|into|under|to|by) )?(who|whom|whose|what|which|where|when|how|why)\b ?(.*)$",
        plain,
    )
    if match is None:
        return _embedded(given)
    word, rest = match[1], match[2]
    if word == "whose":
        return "person", None
    if word in ("how", "why"):
        return _how(rest)
    if word in ("where", "when"):
        return wh_kind(word), _where(wh_kind(word), rest)
    split = re.match(rf"^((?:[a-z][\w'-]* ){{0,4}}?)((?:{AUX}) .+)$", rest)
    noun, tail = (split[1].strip(), split[2]) if split else ("", rest)
    if not split and word in ("what", "which"):  # which country the director of X is from; which N V X
        first = re.match(r"^([a-z]+) (.+)$", rest)
        if first and starts_name(first[2]):
            late = re.match(r"^(.+) (?:is|was|comes?|came) from$", first[2])
            if late:
                return "nationality", noun_phrase(late[1]).then(relation_of_noun(first[1]))
            noun, tail = first[1], first[2]
    kind = wh_kind(word, noun)
    return kind, clause(kind, noun, tail)


def _where(kind: str, rest: str) -> Chain | None:
    """`was NP V`, `is NP`: when or where."""
    subject, verb, _ = split_verb(re.sub(rf"^(?:{AUX}) ", "", rest))
    chain = noun_phrase(subject)
    if verb:
        return chain.then(relation_of_verb(verb, kind))
    if chain.relations and chain.relations[-1].kind in (kind, "nationality"):
        return chain
    return chain.then(relation_of_noun("location")) if kind == "place" else None


def _embedded(plain: str) -> tuple[str, Chain | None]:
    """The question word late (`Tom Hill was born in which city`), or none."""
    match = re.match(r"^(.+?) (what|which|whom|who|where) ?((?:[a-z-]+ ?){0,4})$", plain)
    if match is None:
        chain = noun_phrase(re.sub(r"^name ", "", plain, flags=re.I))
        return (chain.relations[-1].kind, chain) if chain.relations else ("thing", None)
    kind = wh_kind(match[2], match[3].strip())
    return kind, clause(kind, match[3].strip(), match[1]) if split_verb(match[1])[1] else None


def _how(rest: str) -> tuple[str, Chain | None]:
    many = re.match(rf"^(?:many|much) ([a-z][a-z -]*?) (?:{AUX}) (.+?)(?: (?:have|has|had|own|contain))?$", rest)
    many = re.match(r"^many ([a-z]+) (?:live|work|play|are) (?:there )?in (.+)$", rest) or many
    if many:
        count = relation_of_noun("population" if many[1] == "people" else many[1])
        if count.kind != "number":
            count = Relation(f"number of {many[1]}", "number", count.nouns, ask=f"How many {many[1]} does {{}} have?")
        return "number", noun_phrase(re.sub(r"^(?:live|there) in ", "", many[2])).then(count)
    if match := re.match(rf"^(long|tall|high|large|big) (?:{AUX}) (.+)$", rest):
        name = {"long": "length", "tall": "height", "high": "height", "large": "area", "big": "area"}[match[1]]
        return "number", noun_phrase(match[2]).then(relation_of_noun(name))
    if match := re.match(r"^did (.+?) die$", rest):
        return "phrase", noun_phrase(match[1]).then(relation_of_noun("cause of death"))
    return ("number" if re.match(r"many|much|long|old|far|tall|high", rest) else "thing"), None


# Choices and yes/no questions.


def _comparative(text: str) -> tuple[Relation, bool, re.Match[str]] | None:
    for pattern, name, least in _COMPARATIVES:
        if match := re.search(rf"\b(?:{pattern})\b", text, re.I):
            return _comparable(name, text), least, match
    return None


def _comparable(name: str, text: str) -> Relation:
    if name == "lifespan":
        return Relation("lifespan", "number", ask="When was {} born, and when did {} die?")
    if name == "number" and (
        match := re.search(r"\b(?:more|most|greater|fewer|fewest|less|least)(?: \w+ of)? ([a-z]+)", text)
    ):
        return Relation(
            f"number of {match[1]}", "number", frozenset({stem(match[1])}), ask=f"How many {match[1]} does {{}} have?"
        )
    if name == "date" or name == "number":
        return Relation(name, name)
    return relation_of_noun(name)


def _pick(text: str, plain: str) -> Question | None:
    """`Which film …, A or B?`, `Who is older, A or B?`, `Between A and B, who …?`."""
    first, last, inner = (
        re.match(r"^(?:between|among|of|out of) (.+?) and (.+?),? (?:who|which|whose|what)\b(.*)$", plain, re.I),
        re.match(r"^(?:who|which|what)\b(.*?) (?:out of|between|among) (.+?) and (.+)$", plain, re.I),
        re.match(r"^(?:who|which|what) of (.+?) and (.+?) ((?:is|was|has|had|did|died|lived|came)\b.*)$", plain, re.I),
    )
    if found := first or inner:
        left, right, body = found.groups()
    elif last and _comparative(last[1]):
        body, left, right = last.groups()
    else:
        cut = plain.rfind(" or ")
        while cut > 0 and plain[cut + 4 : cut + 5].islower() and not re.match(r"(?:the |an? )", plain[cut + 4 :]):
            cut = plain.rfind(" or ", 0, cut)
        if cut < 0 or not re.match(
            r"^(?:in |of |on )?(?:who|which|whose|what|where|is|was|are|were|did|does)\b", plain, re.I
        ):
            return None
        right, before = plain[cut + 4 :], plain[:cut].rstrip(" ,")
        if lead := re.match(r"^(?:is|was|are|were|did|does|has) (.+)$", before, re.I):  # Was A or B born first?
            end = re.search(
                r" (?=(?:born|died?|released|founded|older|younger|the|longer|published|c[oa]me|formed)\b)", right
            )
            return _choice(text, right[end.end() :], lead[1], right[: end.start()]) if end else None
        comma = re.search(r"[,:;] ?(?=(?:the |an? |film |song )*[\"“'A-Z0-9])", before)
        if comma:
            body, left = before[: comma.start()], before[comma.end() :]
        else:
            found = _comparative(before)
            if found is None or found[2].end() >= len(before):
                return None
            body, left = before[: found[2].end()], before[found[2].end() :]
        if (
            match := re.match(r"^(.+?),? ((?:who|which|that|was|is|has|had|came)\b.*)$", right)
            if not body.strip()
            else None
        ):
            right, body = match[1], match[2]
    return _choice(text, body, left, right)


def _choice(text: str, body: str, left: str, right: str) -> Question | None:
    options = (entity(left), entity(right))
    if not all(options):
        return None
    found = _comparative(body)
    if found is None:
        return Question(text, "pick", "thing", (), options)
    relation, least, _ = found
    via = _VIA.search(body)
    steps = (
        (relation_of_noun(via[1]), relation)
        if via and not re.search(r"more|most|fewer|less|larger|bigger|smaller|longer|greater", body)
        else (relation,)
    )
    if steps[0].kind in ("date", "number") and len(steps) > 1:
        steps = (relation,)
    return Question(text, "pick", "thing", tuple(Chain(option, steps) for option in options), options, least)


def _same(text: str, plain: str) -> Question | None:
    """`Are A and B from the same country?`, also for the directors, say, of A and B."""
    match = _SAME.match(plain[0].lower() + plain[1:])
    if match is None:
        return None
    sides = re.sub(r"\bboth\b ?", "", match["sides"]).strip()
    rest, what = match["rest"], match["what"]
    via: tuple[Relation, ...] = ()
    lead = re.match(r"^(?:the )?([a-z]+s?) of (?:the )?(?:[a-z]+s )?(.+ and .+)$", sides)
    if lead and not re.search(rf" and (?:the )?{lead[1].removesuffix('s')}s? of ", sides):
        via, sides = (relation_of_noun(lead[1]),), lead[2]
    if (
        trail := re.match(
            r"^(?:have|has|had|with) (?:the )?([a-z]+) (?:that|who|which|from|of|born|with|were|are)", rest
        )
    ) and not via:
        via = (relation_of_noun(trail[1]),)
    parts = (sides, match["other"]) if match["other"] else _conjuncts(sides)
    if parts is None:
        return None
    relation = relation_of_noun(_SAME_KIND.get(what, what))
    if done := re.search(r"\b([a-z]+) by ", rest):  # directed by the same person
        relation = relation_of_verb(done[1], wh_kind("which", what))
    born = re.search(r"\bborn\b", rest)
    if relation.name == "place" or _SAME_KIND.get(what) == "place":
        relation = relation_of_noun("place of birth" if born else "place of death" if "die" in rest else "location")
    elif _SAME_KIND.get(what) == "date":
        relation = relation_of_noun(
            "date of birth"
            if born
            else "date of death"
            if "die" in rest
            else "release date"
            if "released" in rest
            else "founding date"
        )
    chains = tuple(noun_phrase(part).then(*via, relation) for part in parts)
    return Question(text, "same", "yesno", chains)


def _order(text: str, plain: str) -> Question | None:
    """`Is A older than B?`, `Was A born before B?`, `Did A die after B?`."""
    match = re.match(rf"^(?:{AUX}) (.+?) ([a-z][a-z ]*?(?:than|before|after)) (.+)$", plain[:1].lower() + plain[1:])
    if match is None:
        return None
    found = _comparative(re.sub(r" than$", "", match[2]))
    if found is None:
        return None
    relation, least, _ = found
    chains = (noun_phrase(match[1]).then(relation), noun_phrase(match[3]).then(relation))
    return Question(text, "order", "yesno", chains, least=least)


def _conjuncts(text: str) -> tuple[str, str] | None:
    cuts = [m.start() for m in re.finditer(r",? and ", text)]
    for cut in cuts:
        right = re.sub(r"^,? and ", "", text[cut:]).strip(" ,")
        if re.match(r"(?:(?:the |an? )?[a-z]+ of |the |film |films |song )*[^\Wa-z_]", right):
            left = re.sub(r"^[a-z]+s, ", "", text[:cut])
            return left, right
    return None
