"""What a question asks: chains of relations from a named thing, a choice between two, or a yes or no."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache

from knowgap.lms.language import fold, stem, words
from knowgap.lms.relations import VERBS, Relation, compound, relation_of_noun, relation_of_verb, wh_kind

__all__ = ["Chain", "Question", "parse"]

_LONGEST = 400
_AUX = "is|was|are|were|did|does|do|has|had|have|can|could|will|would"
_PREPOSITIONS = words("in on at by from to of for into with as through")
_NOUN_PHRASE = r"(?:[a-z][\w'-]*(?: (?:and )?[a-z][\w'-]*){0,3}?)"
_OF = re.compile(rf"^(?:the |an? )?({_NOUN_PHRASE}) (?:of|for|behind) (.+)$")
_PLACE_OF = re.compile(
    r"^(?:the )?((?:place|date|year|country|city|cause|head|university|day) of [a-z]+) (?:of|for) (.+)$"
)
_POSSESSIVE = re.compile(r"^(.+?(?:['’]s|s['’])) ([a-z][a-z -]*)$")
_RELATIVE = re.compile(r"^(?:the |an? )?([a-z][a-z -]*?),? (?:that|who|which|whom) (.+)$")
_WHERE = re.compile(
    r"^(?:the |an? )?([a-z][a-z -]*?) (?:where|when|in which|on which|from which|to which|for which) (.+)$"
)
_PARTICIPLE = re.compile(
    r"^(?:the |an? )?([a-z][a-z -]*?) (?:that was |which was )?([a-z]+(?:ed|en|wn|ung|ade|ilt|ed)) by (.+)$"
)

_LATE = re.compile(  # `which country the director of X is from`
    r"^([a-z]+) (the .+?|.+?['’]s [a-z]+) (?:is|was|are|were|comes|came|([a-z]+(?:ed|t|on|ew)))"
    r"(?: (?:from|in|at|for|by|to))?$"
)
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
    r"\b(?:has|have|had|whose|with)(?: the| an?)? ([a-z][a-z -]*?)"
    r"(?: (?:who|that|which|is|was|were|are|has|had|born|died|lived|older|younger)\b|$)"
)
_SAME = re.compile(
    r"^(?:are|were|is|was|do|did|does|have|has|had)\s+(?P<sides>.+?)\s+(?P<rest>(?:(?:both|each|all|have|has|had|shared?|come|"
    r"came|from|situated|born|die|of|in|at|on|belong|the|a|made|that|who|which|were|are|with|to|by|same|live|work|play|"
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
class Chain:
    """`relations[-1]` of … of `relations[0]` of `entity`; `depth` 0 is the thing itself."""

    entity: str
    relations: tuple[Relation, ...] = ()

    def then(self, *relations: Relation) -> Chain:
        """The chain taken further."""
        return Chain(self.entity, self.relations + relations)


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
    """Understand a question; what no rule understands is `open`, or `polar` where it begins like a yes/no question."""
    text = " ".join(text.split())
    plain = re.sub(r" (?=['’]s\b)", "", text.rstrip(" ?.!"))
    if len(plain) > _LONGEST:
        plain = plain[-_LONGEST:].split(". ")[-1]
    plain = re.sub(r"^(?:and|but|so|please|can you tell me|tell me|do you know),? ", "", plain, flags=re.I)
    first = fold(plain.split(" ", 1)[0]) if plain else ""
    polar = re.fullmatch(_AUX, first) is not None
    found = _pick(text, plain) or (_same(text, plain) or _order(text, plain) if polar else None)
    if found is not None:
        return found
    if polar:
        return Question(text, "polar", "yesno")
    kind, chain = _wh(plain)
    if chain is not None and chain.relations and _is_name(chain.entity):
        return Question(text, "value", chain.relations[-1].kind, (chain,))
    return Question(text, "open", kind)


def _is_name(entity: str) -> bool:
    """Whether the inner end of a chain can be a name: not a clause that no rule understood."""
    return len(entity.split()) <= 14 and not re.search(
        r" (?:is|was|were|are|that|which|who|whose|when|where|has|had|behind|before) ", entity
    )


# Noun phrases.


def noun_phrase(text: str, depth: int = 0) -> Chain:
    """`the R of the S of X`, `X's R`, `the N that V X`, `the N V-ed by X`, or a plain name."""
    text = text.strip(" ,.")
    if depth > 6:
        return Chain(_entity(text))
    if match := _PLACE_OF.match(text):
        return noun_phrase(match[2], depth + 1).then(relation_of_noun(match[1]))
    if (match := _POSSESSIVE.match(text)) and not _starts_relation(match[1], match[2]):
        owner = re.sub(r"['’]s$|(?<=s)['’]$", "", match[1])
        return _with_noun(noun_phrase(owner, depth + 1), match[2])
    for pattern, build in ((_OF, _of), (_PARTICIPLE, _participle), (_WHERE, _where), (_RELATIVE, _relative)):
        if match := pattern.match(text):
            built = build(match, depth)
            if built is not None:
                return built
    if match := _POSSESSIVE.match(text):
        return _with_noun(noun_phrase(re.sub(r"['’]s$|(?<=s)['’]$", "", match[1]), depth + 1), match[2])
    return Chain(_entity(text))


def _of(match: re.Match[str], depth: int) -> Chain | None:
    noun = match[1]
    if noun.split()[0] in ("that", "which", "who", "where"):
        return None
    return _with_noun(noun_phrase(match[2], depth + 1), noun)


def _with_noun(chain: Chain, noun: str) -> Chain:
    kin = compound(noun)
    return chain.then(*kin) if kin else chain.then(relation_of_noun(noun))


def _participle(match: re.Match[str], depth: int) -> Chain | None:
    kind = wh_kind("which", match[1])
    return noun_phrase(match[3], depth + 1).then(relation_of_verb(match[2], kind, patient=True))


def _relative(match: re.Match[str], depth: int) -> Chain | None:
    return _clause(wh_kind("which", match[1]), match[1], match[2], depth + 1)


def _where(match: re.Match[str], depth: int) -> Chain | None:
    kind = wh_kind("which", match[1])
    return _tail(kind if kind in ("place", "date") else "place", match[2], depth + 1)


def _starts_relation(owner: str, noun: str) -> bool:
    """Whether a possessive belongs inside a longer phrase: the birthplace of Ann's father."""
    leaf = compound(noun) is None and relation_of_noun(noun).kind in (
        "date",
        "place",
        "nationality",
        "phrase",
        "number",
    )
    return not leaf and bool(re.match(r"^(?:the |an? )?[a-z][a-z -]* of ", owner))


def _entity(text: str) -> str:
    """A name without article, kind words in front (`the film X`) and quotation marks."""
    text = text.strip().strip("\"“”'‘’,")
    parts = text.split()
    start = 0
    while start < len(parts) - 1 and parts[start][0].islower() and parts[start][0].isalpha():
        start += 1
    if parts and not parts[start][0].islower():
        text = " ".join(parts[start:])
    return text.strip().strip('"“”‘’,') if not text.endswith("'s") else text


# Questions with a question word.


def _wh(plain: str) -> tuple[str, Chain | None]:
    match = re.match(
        r"^(?:(in|on|at|from|by|to|of|for|with|under|into) )?(who|whom|whose|what|which|where|when|how|why)\b ?(.*)$",
        plain,
        re.I,
    )
    if match is None:
        return ("thing", noun_phrase(plain)) if plain[:4].lower() == "name" else _embedded(plain)
    word, rest = match[2].lower(), match[3]
    if word == "whose":
        return "person", None
    if word in ("how", "why"):
        return _how(rest)
    if word in ("where", "when"):
        chain = _tail(wh_kind(word), re.sub(rf"^(?:{_AUX}) ", "", rest))
        return wh_kind(word), chain
    if late := _LATE.match(rest):
        relation = relation_of_verb(late[3], wh_kind(word, late[1])) if late[3] else relation_of_noun(late[1])
        return relation.kind, noun_phrase(late[2]).then(relation)
    noun, aux, tail = "", "", rest
    split = re.match(rf"^((?:[a-z][\w'-]* ){{0,4}}?)({_AUX}) (.+)$", rest)
    if split:
        noun, aux, tail = split[1].strip(), split[2], split[3]
    kind = wh_kind(word, noun)
    if not aux:
        return _clause_kind(word, rest), _clause("person" if word in ("who", "whom") else "", "", rest)
    if aux in ("is", "was", "are", "were") and not noun:
        chain = noun_phrase(tail)
        if chain.relations:
            return chain.relations[-1].kind, chain
        return kind, _tail(kind, tail)
    return kind, _clause(kind, noun, f"{aux} {tail}")


def _embedded(plain: str) -> tuple[str, Chain | None]:
    """A question word at the end or in the middle: `Tom Hill was born in which city`, or no question word at all."""
    match = re.match(rf"^(.+?) (?:({_AUX}) )?(.*?)\b(what|which|whom|who|where) ?((?:[a-z-]+ ?){{0,4}})$", plain)
    if match is None:
        chain = noun_phrase(plain)
        return (chain.relations[-1].kind, chain) if chain.relations else ("thing", None)
    return wh_kind(match[4], match[5].strip()), None


def _how(rest: str) -> tuple[str, Chain | None]:
    if match := re.match(
        rf"^(?:many|much) ([a-z][a-z -]*?) (?:{_AUX}) (.+?)(?: (?:have|has|had|own|contain|live in))?$", rest
    ):
        noun = match[1]
        name = noun_phrase(re.sub(r"^(?:live|there|living) (?:in )?", "", match[2]))
        return "number", name.then(
            Relation(
                f"number of {noun}", "number", relation_of_noun(noun).nouns, ask=f"How many {noun} does {{}} have?"
            )
        )
    if match := re.match(rf"^(long|tall|high|large|big) (?:{_AUX}) (.+)$", rest):
        name = {"long": "length", "tall": "height", "high": "height", "large": "area", "big": "area"}[match[1]]
        return "number", noun_phrase(match[2]).then(relation_of_noun(name))
    if match := re.match(r"^did (.+?) die$", rest):
        return "thing", noun_phrase(match[1]).then(relation_of_noun("cause of death"))
    return ("number" if re.match(r"many|much|long|old|far|tall|high", rest) else "thing"), None


def _tail(kind: str, text: str, depth: int = 0) -> Chain | None:
    """`NP verb` (the director of X born): the verb's relation of NP; without a verb, NP itself or where it lies."""
    subject, verb = _split_verb(re.sub(rf"^(?:{_AUX}) ", "", text))
    subject = re.sub(rf" (?:{_AUX})$", "", subject)
    if verb:
        return noun_phrase(subject, depth).then(relation_of_verb(verb, kind))
    chain = noun_phrase(subject, depth)
    if chain.relations and chain.relations[-1].kind in (kind, "nationality"):
        return chain
    if kind == "place":
        return chain.then(relation_of_noun("location"))
    return chain if chain.relations else None


def _split_verb(text: str) -> tuple[str, str]:
    """Take the verb off the end of a clause: `X come from` is (X, come)."""
    parts = text.split()
    end = len(parts)
    while end > 1 and parts[end - 1] in _PREPOSITIONS | {"first", "originally", "there", "place"}:
        end -= 1
    last = parts[end - 1] if end > 1 else ""
    if last.islower() and last.isalpha() and (stem(last) in VERBS or last.endswith("ed")):
        return " ".join(parts[: end - 1]), last
    return text, ""


def _clause_kind(word: str, rest: str) -> str:
    if word != "which" and word != "what":
        return wh_kind(word)
    lead = re.match(r"^((?:[a-z][\w'-]* )*)", rest)
    parts = lead[1].split() if lead else []
    return wh_kind(word, parts[0]) if parts else "thing"


def _clause(kind: str, noun: str, clause: str, depth: int = 0) -> Chain | None:
    """`V X`, `N V X`, `did X V`, `is X from`: the chain of what the clause describes."""
    match = re.match(rf"^({_AUX}) (.+)$", clause)
    aux, body = (match[1], match[2]) if match else ("", clause)
    kind = kind or "thing"
    subject, verb = _split_verb(body)
    if aux and aux not in ("has", "had", "have"):
        if (
            noun
            and verb in ("", "come", "came", "from", "born")
            and kind in ("thing", "place")
            and _asks_noun(noun, body, verb)
        ):
            return noun_phrase(_drop_prepositions(subject), depth).then(relation_of_noun(noun))
        if verb and kind in ("place", "date"):
            return noun_phrase(subject, depth).then(relation_of_verb(verb, kind))
        if verb and body.endswith(" by"):
            return noun_phrase(subject, depth).then(relation_of_verb(verb, kind))
        if verb and stem(verb) in relation_of_noun("spouse").verbs:
            return noun_phrase(subject, depth).then(relation_of_noun("spouse"))
        if verb and aux in ("did", "does", "do"):
            active = relation_of_verb(verb, kind)
            if active.name in _ADJUNCTS:
                return noun_phrase(subject, depth).then(active)
            return noun_phrase(subject, depth).then(relation_of_verb(verb, kind, patient=True))
        if aux in ("is", "was", "are", "were"):
            if lead := re.match(r"^(?:the |an? )?([a-z]+) (?:of|to|for) (.+)$", body):
                return noun_phrase(lead[2], depth).then(relation_of_noun(lead[1]))
            if lead := re.match(r"^([a-z]+) (?:in|by|at|on|from|to) (.+)$", body):
                if " by " in body:
                    return noun_phrase(lead[2], depth).then(relation_of_verb(lead[1], kind, patient=True))
                return noun_phrase(lead[2], depth).then(
                    Relation(f"{lead[1]} there", kind, verbs=frozenset({stem(lead[1])}), patient=True)
                )
            if kind == "place":
                return noun_phrase(_drop_prepositions(subject), depth).then(relation_of_noun("location"))
        return None
    parts = body.split()
    lead = 0
    while lead < len(parts) and parts[lead][0].islower() and parts[lead] not in ("the", "a", "an"):
        lead += 1
    head, name = parts[:lead], " ".join(parts[lead:])
    while head and head[-1] in _PREPOSITIONS:
        head.pop()
    if not head or not name:
        return None
    before = " ".join(head[:-1])
    kind = wh_kind("which", before) if before and kind == "thing" else kind
    return noun_phrase(name, depth).then(relation_of_verb(head[-1], kind))


_ADJUNCTS = frozenset({"alma mater", "employer", "award", "mouth", "source", "setting"})


def _asks_noun(noun: str, body: str, verb: str) -> bool:
    """Whether `which N is X (from)` asks for the N of X: a nationality, country, genre and the like."""
    return relation_of_noun(noun).kind in ("nationality", "phrase") or (not verb and body.endswith((" from", " of")))


def _drop_prepositions(text: str) -> str:
    parts = text.split()
    while len(parts) > 1 and parts[-1] in _PREPOSITIONS | {"come", "located", "situated"}:
        parts.pop()
    return " ".join(parts)


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
    match = re.match(r"^(?:between|of|out of) (.+?) and (.+?),? (who|which|whose|what)\b(.*)$", plain, re.I)
    if match:
        left, right, body = match[1], match[2], match[4]
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
    options = (_entity(left), _entity(right))
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
    match = re.match(rf"^(?:{_AUX}) (.+?) ([a-z][a-z ]*?(?:than|before|after)) (.+)$", plain, re.I)
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
