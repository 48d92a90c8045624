"""Parse noun phrases and clauses into chains of relations: the birthplace of the man who directed X."""

from __future__ import annotations

import re
from dataclasses import dataclass

from knowgap.lms.embedded.english.language import stem, words
from knowgap.lms.embedded.english.relations import (
    VERBS,
    Relation,
    compound,
    relation_of_noun,
    relation_of_verb,
    wh_kind,
)

__all__ = ["AUX", "Chain", "clause", "entity", "noun_phrase", "split_verb", "starts_name"]

AUX = "is|was|are|were|did|does|do|has|had|have|can|could|will|would"
_PREPOSITIONS = words("in on at by from to of for into with as through under against about")
_TRAILING = _PREPOSITIONS | words("first originally there place located situated")
# Where a noun phrase goes on after its head noun: `of X`, a relative clause, a participle.
_MODIFIER = re.compile(
    r" (?P<of>of|for|behind) | (?:(?:in|on|at|from|to|for|by|through) which|where|when)(?P<where>) "
    r"|,? (?P<that>that|who|which|whom) | (?:that was |which was )?(?P<verb>[a-z]+(?:ed|en|wn|ung|ade|ilt)) by "
)
_LYING = words("belong come originate lie")
_FIXED = re.compile(r"^(?:place|date|year|country|city|cause|head|university|day) of [a-z]+(?= (?:of|for) )")


@dataclass(frozen=True, slots=True)
class Chain:
    """`relations[-1]` of … of `relations[0]` of `entity`; without relations, the entity itself."""

    entity: str
    relations: tuple[Relation, ...] = ()

    def then(self, *relations: Relation) -> Chain:
        """Extend the chain."""
        return Chain(self.entity, self.relations + relations)


# `depth` bounds the recursion on odd input.


def noun_phrase(text: str, depth: int = 0) -> Chain:
    """`the R of the S of X`, `X's R`, `the N that V X`, `the N V-ed by X`, or a plain name."""
    text = re.sub(r"^(?:the|an?) (?=[a-z])", "", text.strip(" ,."))
    owned = re.match(r"^(.+?)(?:['’]s|(?<=s)['’]) ([a-z][a-z -]*)$", text)
    if depth > 6:
        return Chain(entity(text))
    if owned and not _goes_inside(owned[1], owned[2]):
        return _with_noun(noun_phrase(owned[1], depth + 1), owned[2])
    fixed = _FIXED.match(text)
    found = _MODIFIER.search(text, fixed.end() if fixed else 0)
    head = text[: found.start()] if found else ""
    if found and re.fullmatch(r"[a-z][a-z' -]*", head) and len(head.split()) <= 5:
        rest, kind = text[found.end() :], wh_kind("which", head)
        if found["of"] and head in ("name", "names", "title"):
            return noun_phrase(rest, depth + 1)
        if found["of"]:
            return _with_noun(noun_phrase(rest, depth + 1), head)
        if found["verb"]:
            return noun_phrase(rest, depth + 1).then(relation_of_verb(found["verb"], kind, patient=True))
        if found["where"] is not None and kind not in ("place", "date", "thing"):
            kind = "place"
        chain = clause(kind, head, rest, depth + 1)
        if chain is not None:
            return chain
    if owned:
        return _with_noun(noun_phrase(owned[1], depth + 1), owned[2])
    return Chain(entity(text))


def _goes_inside(owner: str, noun: str) -> bool:
    """Whether a possessive belongs inside a longer phrase: the birthplace of Ann's father."""
    leaf = compound(noun) is None and relation_of_noun(noun).kind in (
        "date",
        "place",
        "nationality",
        "phrase",
        "number",
    )
    return not leaf and bool(re.match(r"[a-z][a-z -]* of ", owner))


def _with_noun(chain: Chain, noun: str) -> Chain:
    kin = compound(noun)
    return chain.then(*kin) if kin else chain.then(relation_of_noun(noun))


def entity(text: str) -> str:
    """Strip a name of its article, kind words in front (`the film X`) and quotation marks."""
    parts = text.strip(' "“”‘’,').split()
    start = 0
    while start < len(parts) - 1 and parts[start][0].islower() and parts[start][0].isalpha():
        start += 1
    if parts and not parts[start][0].islower():
        parts = parts[start:]
    return " ".join(parts).strip(' "“”‘’,')


def clause(kind: str, noun: str, text: str, depth: int = 0) -> Chain | None:
    """Parse a clause that asks for a thing of a `kind`, maybe called `noun`: `V X`, `X V`, `did X V`, `is X from`."""
    match = re.match(rf"^({AUX}) (.+)$", text)
    aux, body = (match[1], match[2]) if match else ("", text)
    finite = aux not in ("did", "does", "do")
    if noun and not finite:  # what occupation did X have
        body = re.sub(r" (?:have|hold|work in)$", " from", body)
    subject, verb, trail = split_verb(body, base=not finite)
    if noun and not verb and trail == "from":
        return noun_phrase(subject, depth).then(relation_of_noun(noun))
    lead = re.match(
        r"^(?:also |first )*([a-z][a-z-]*) (?:([a-z]+) )?(?=(?:the |an? |his |her )?[^\Wa-z_]|the |an? )(.+)$", body
    )
    if aux and finite and lead and not verb and lead[1] not in ("the", "a", "an"):  # was born in X; was directed by X
        passive = lead[2] == "by" or lead[1] == "by"
        if passive or lead[2] in _PREPOSITIONS:
            return noun_phrase(lead[3], depth).then(relation_of_verb(lead[1], kind, patient=True))
    if verb and verb.removesuffix("s") in _LYING and relation_of_noun(noun or "thing").kind == "nationality":
        return noun_phrase(subject, depth).then(relation_of_noun(noun))  # the country that X belongs to
    if verb:
        if not match and lead and not starts_name(body):  # V X … V: the last verb is part of X
            return _agent(kind, body, depth)
        relation = _object(verb, trail, kind)
        country = (relation_of_noun("country"),) if noun == "country" and relation.kind == "place" else ()
        return noun_phrase(subject, depth).then(relation, *country)
    if not aux and not starts_name(body):
        return _agent(kind, body, depth)
    if aux and finite:
        chain = noun_phrase(subject, depth)
        if noun and (relation_of_noun(noun).kind in ("nationality", "phrase") or trail == "of"):
            return chain.then(relation_of_noun(noun))
        if chain.relations:
            return chain
        if kind == "place":
            return chain.then(relation_of_noun("location"))
    return None


def _agent(kind: str, body: str, depth: int) -> Chain | None:
    """`directed X`, `plays for X`: who or what does the verb to X."""
    parts = body.split()
    end = next((i for i, part in enumerate(parts) if not part[0].islower() or part in ("the", "a", "an")), len(parts))
    before = [part for part in parts[:end] if part not in _PREPOSITIONS]
    if not before or end == len(parts):
        return None
    kind = wh_kind("which", before[-2]) if len(before) > 1 and kind == "thing" else kind
    said = " ".join(parts[parts.index(before[-1]) : end])
    return noun_phrase(" ".join(parts[end:]), depth).then(relation_of_verb(said, kind))


def _object(verb: str, trail: str, kind: str) -> Relation:
    """What or where X does the verb, or by whom it is done to X."""
    if trail == "by" or kind in ("place", "date"):
        return relation_of_verb(verb, kind)
    if stem(verb) in relation_of_noun("spouse").verbs:
        return relation_of_noun("spouse")
    return relation_of_verb(verb, kind, patient=True)


def starts_name(text: str) -> bool:
    """Whether a clause begins with a name or noun phrase (`the director …`, `film Gold …`), not with a verb."""
    kind_word = re.match(r"([a-z]+) [^\Wa-z_]\S*(?: [^\Wa-z_]\S*)* [a-z]+$", text)
    if kind_word:
        return not _is_verb(kind_word[1])
    return bool(re.match(r"[\"“'‘]?(?:[^\Wa-z_]|(?:the|an?|his|her) )", text))


def split_verb(text: str, base: bool = False) -> tuple[str, str, str]:
    """Split verb and preposition off the end of a clause: (`the director of X`, `come`, `from`).

    A verb that belongs to a relative clause stays: `the city where X died` has no other verb, while `the city where X
    died founded` has `founded`. With `base`, any word counts as a verb.
    """
    plain = _without(text, _TRAILING)
    trail = "".join(text[len(plain) :].split()[-1:])
    parts = plain.split()
    last = parts[-1] if len(parts) > 1 else ""
    if not (_is_verb(last) or (base and last.islower() and last.isalpha())):
        return plain, "", trail
    owed = sum(starts_name(part) for part in re.split(r" (?:that|who|which|where|whom|when) ", plain)[1:])
    rest, given = plain, 0
    while owed and given <= owed and _is_verb(rest.rpartition(" ")[2]):
        given += 1
        rest = _without(re.sub(rf" (?:{AUX})$", "", rest.rpartition(" ")[0]), _TRAILING)
    if owed and given <= owed:
        return plain, "", trail
    return re.sub(rf" (?:{AUX})$", "", " ".join(parts[:-1])), last, trail


def _is_verb(word: str) -> bool:
    return word.islower() and word.isalpha() and (stem(word) in VERBS or word.endswith("ed"))


def _without(text: str, ends: frozenset[str]) -> str:
    parts = text.split()
    while len(parts) > 1 and parts[-1] in ends:
        parts.pop()
    return " ".join(parts)
