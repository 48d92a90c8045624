"""The relations that questions ask for, and the English words that state them."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from functools import lru_cache

from knowgap.lms.embedded.english.language import stem, words

__all__ = ["VERBS", "Relation", "compound", "relation_of_noun", "relation_of_verb", "wh_kind"]


@dataclass(frozen=True, slots=True)
class Relation:
    """`the {name} of X`.

    `kind` is what its value is: person, thing, place, date, number, nationality or phrase. A sentence states it with
    one of its `nouns` (the value holds that noun of X), with one of its `verbs` (the value does it to X, or it happens
    to X there or then), with an `inverse` noun (X holds that noun of the value), or with a word for `works` (X is a
    novel by the value). With `patient` the value is what X does the verb to. `ask` words the question about X, `{}`.
    """

    name: str
    kind: str
    nouns: frozenset[str] = frozenset()
    verbs: frozenset[str] = frozenset()
    inverse: frozenset[str] = frozenset()
    works: frozenset[str] = frozenset()
    patient: bool = False
    ask: str = ""

    def question(self, entity: str) -> str:
        """Word the question that asks for this relation of `entity`."""
        word = "Who" if self.kind == "person" else "What"
        return (self.ask or f"{word} is the {self.name} of {{}}?").replace("{}", entity)

    @property
    def cues(self) -> frozenset[str]:
        """All stems that hint at this relation."""
        return self.nouns | self.verbs | self.inverse | self.works


# `kind>`: X does the verb, the value comes after it. `noun*`: a work, which is by the value.
# name | kind | nouns | verbs | inverse nouns | question; names given together by `=` mean the same relation
_TABLE = """
director | person | filmmaker | directed directs helmed | | Who directed {}?
author = writer = novelist | person | playwright poet novel* book* poem* play* | wrote written write writes authored penned | | Who wrote {}?
screenwriter | person | scriptwriter screenplay* script* | wrote written scripted | | Who wrote the screenplay of {}?
producer | person | | produced produces | | Who produced {}?
composer | person | songwriter music* score* | composed scored wrote written | | Who composed {}?
performer = singer = artist | person | vocalist musician song* single* album* | performed performs recorded sang sung sings sing released | | Who performed {}?
star = lead actor | person | actor actress cast | starred stars starring played portrayed | | Who starred in {}?
founder | person | cofounder co-founder | founded established started created set cofounded formed | | Who founded {}?
creator | person | | created devised conceived | | Who created {}?
designer = architect | person | | designed | | Who designed {}?
inventor | person | discoverer | invented discovered | | Who invented {}?
developer = manufacturer = maker | thing | | developed manufactured built made | | Who developed {}?
record label = label | thing | | signed signs | | What is the record label of {}?
publisher | thing | | published | | Who published {}?
owner | thing | parent | owned owns bought acquired | | Who owns {}?
editor | person | | edited | | Who edited {}?
spouse = wife = husband | person | partner consort widow | married marries wed | wife husband spouse consort widow | Who is the spouse of {}?
father | person | | | son daughter child | Who is the father of {}?
mother | person | | | son daughter child | Who is the mother of {}?
parent = parents | person | father mother | | son daughter child | Who is the parent of {}?
child = children | person | son daughter | | father mother parent | Who is the child of {}?
son | person | | | father mother parent | Who is the son of {}?
daughter | person | | | father mother parent | Who is the daughter of {}?
sibling = siblings | person | brother sister | | brother sister sibling | Who is the sibling of {}?
brother | person | | | brother sister | Who is the brother of {}?
sister | person | | | brother sister | Who is the sister of {}?
teacher | person | mentor tutor | taught teaches mentored trained | student pupil disciple | Who taught {}?
student = pupil | person | disciple | studied trained | teacher mentor tutor | Who was a student of {}?
successor | person | | succeeded | predecessor | Who succeeded {}?
predecessor | person | | preceded | successor | Who preceded {}?
leader | person | head chief president chairman mayor governor king queen ruler captain | led leads headed ruled | | Who leads {}?
place of birth = birthplace = birth place = hometown = home town = native city | place | native | born | | Where was {} born?
place of death = death place | place | | died dies killed death | | Where did {} die?
place of burial = burial place | place | grave tomb burial | buried interred | | Where is {} buried?
date of birth = birthday = birth date = birthdate = year of birth = birth year | date | birth | born | | When was {} born?
date of death = death date = year of death | date | death | died dies killed | | When did {} die?
release date = release year = publication date = date of release | date | release premiere publication | released premiered published issued appeared aired | | When was {} released?
founding date = founding year = date of founding | date | foundation founding inception | founded established formed created incorporated started dates | | When was {} founded?
opening date | date | opening completion | opened completed built constructed inaugurated | | When was {} opened?
nationality = country of citizenship | nationality | citizenship | | | What is the nationality of {}?
country = nation = country of origin = home country = native country | nationality | origin | | | Which country is {} from?
occupation = profession = job = career | phrase | | | | What is the occupation of {}?
location | place | site | located situated lies stands lie sits found | | Where is {} located?
headquarters = seat = home city | place | headquarter base home | headquartered based located home | | Where is {} headquartered?
residence | place | home | lived lives resides resided settled moved | | Where did {} live?
setting | place | | set filmed shot takes | | Where is {} set?
capital = capital city | thing | | | capital | What is the capital of {}?
alma mater = university = school = college | thing> | education degree | studied study attended attend graduated educated enrolled | alumnus alumni graduate student | Where did {} study?
employer = workplace | thing> | professor lecturer | worked work works employed taught teaches joined | | Where did {} work?
mouth | thing> | | flows empties drains joins discharges flow | | Where does {} flow into?
source | thing> | headwaters | rises originates springs rise | | Where does {} rise?
member = members | person | | joined | | Who is a member of {}?
award = prize | thing> | medal | won win wins awarded received got | | What award did {} win?
genre = style | thing | | | | What is the genre of {}?
cause of death | phrase | cause | died killed | | How did {} die?
population = inhabitants = residents | number | inhabitants people residents | | | What is the population of {}?
length | number | kilometres kilometers miles km mi minutes long | | | How long is {}?
height | number | elevation metres meters feet tall high | | | How tall is {}?
area | number | square | covers | | What is the area of {}?
"""  # noqa: E501  # a table keeps one relation a line
_KIN = """
paternal grandfather: father father; paternal grandmother: father mother; maternal grandfather: mother father;
maternal grandmother: mother mother; grandfather: parent father; grandmother: parent mother; grandparent: parent parent;
grandchild: child child; grandson: child son; granddaughter: child daughter; father-in-law: spouse father;
mother-in-law: spouse mother; stepchild: spouse child; stepson: spouse son; stepdaughter: spouse daughter;
stepfather: mother spouse; stepmother: father spouse; son-in-law: daughter spouse; daughter-in-law: son spouse;
child-in-law: child spouse; sibling-in-law: spouse sibling; brother-in-law: spouse brother; uncle: parent brother;
sister-in-law: spouse sister; aunt: parent sister; nephew: sibling son; niece: sibling daughter
"""
_KINDS = {
    "place": "place city town village country state county region province district island continent location street"
    " capital",
    "date": "date year month day decade century time",
    "person": "person man woman people actor actress artist player",
    "number": "number amount population",
}
_KIND_OF = {word: kind for kind, text in _KINDS.items() for word in words(text)}
_NO_PERSON = words("river tower newspaper paper number center theater chapter order computer letter border water power")
_PERSON_NOUN = re.compile(r"(?:er|or|ist|ian|ant|man|woman|ess|monarch|chief|king|queen|wife)s?$")


def _stems(text: str) -> frozenset[str]:
    return frozenset(stem(word) for word in words(text))


def _read_table() -> dict[str, Relation]:
    found = {}
    for line in _TABLE.strip().splitlines():
        names, kind, nouns, verbs, inverse, ask = (cell.strip() for cell in line.split("|"))
        first, *others = (name.strip() for name in names.split("="))
        single = first if " " not in first else ""
        holders, works = re.sub(r"\S+\*", "", nouns), " ".join(re.findall(r"(\S+)\*", nouns))
        cues = _stems(f"{single} {holders}"), _stems(verbs), _stems(inverse), _stems(works)
        relation = Relation(first, kind.rstrip(">"), *cues, patient=kind.endswith(">"), ask=ask)
        found[first] = relation
        for name in others:  # `wife` asks for less than `spouse`: the word is a cue beside its kin
            found[name] = replace(relation, nouns=relation.nouns | (_stems(name) if " " not in name else _stems("")))
    return found


_NAMED = _read_table()
_COMPOUND = {
    name.strip(): tuple(_NAMED[part] for part in parts.split())
    for name, _, parts in (entry.partition(":") for entry in _KIN.split(";"))
}
VERBS = frozenset().union(*(relation.verbs for relation in _NAMED.values())) | _stems(
    "come begin end happen take play belong originate"
)


def wh_kind(word: str, noun: str = "") -> str:
    """What a question word, with its noun (`which city`), asks for."""
    fixed = {"who": "person", "whom": "person", "where": "place", "when": "date"}
    if word in fixed:
        return fixed[word]
    last = noun.rpartition(" ")[2]
    person = last not in _NO_PERSON and _PERSON_NOUN.search(last)
    return _KIND_OF.get(last) or ("person" if person else "thing")


def compound(noun: str) -> tuple[Relation, ...] | None:
    """The chain that a kinship word stands for: a stepchild is the spouse's child."""
    return _COMPOUND.get(noun) or _COMPOUND.get(noun.removesuffix("s"))


@lru_cache(maxsize=4096)
def relation_of_noun(noun: str) -> Relation:
    """The relation that `the {noun} of X` names; made from the noun where the table does not have it."""
    plain = noun.strip().lower()
    last = plain.split()[-1]
    for name in (plain, plain.removesuffix("s"), last, last.removesuffix("s")):
        if name in _NAMED:
            return _NAMED[name]
    base = re.sub(r"(?:er|or)s?$", "", last)
    verbs = frozenset({stem(base), stem(base + "e")}) if base != last and len(base) > 2 else frozenset()
    return Relation(plain, wh_kind("what", plain), frozenset({stem(last)}), verbs)


@lru_cache(maxsize=4096)
def relation_of_verb(verb: str, kind: str, patient: bool = False) -> Relation:
    """The relation that a verb states, for a value of a `kind`; with `patient`, X does the verb to the value."""
    verb, _, rest = verb.partition(" ")
    wanted = stem(verb)
    patient = patient and kind not in ("place", "date")
    for relation in _NAMED.values():
        alike = relation.kind == kind or (relation.kind in ("person", "thing") and kind in ("person", "thing"))
        going = kind == "place" and relation.patient and relation.kind == "thing"  # where X studied, not where it lies
        if wanted in relation.verbs and (going or (alike and relation.patient == patient)):
            # `which label released X` is not for persons alone
            return replace(relation, kind=kind) if relation.kind == "person" and kind == "thing" else relation
    said = f"{verb} {rest}".strip()
    adverb = {"place": "Where", "date": "When"}.get(kind)
    doer = "Who" if kind == "person" else "What"
    ask = f"{adverb} was {{}} {said}?" if adverb else f"What did {{}} {said}?" if patient else f"{doer} {said} {{}}?"
    return Relation(said, kind, verbs=frozenset({wanted}), patient=patient, ask=ask)
