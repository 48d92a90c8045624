"""The articles of a fictional world, each relation in several wordings."""

from __future__ import annotations

import re
from datetime import date
from functools import cache

from fictional.article_wordings import FILLERS, IN_OTHER_ARTICLE, IN_OWN_ARTICLE, LEADS
from fictional.names import Dice
from fictional.world import Entity, World
from knowgap.retrieval.passage import Passage

_PRONOUNS = {"male": ("he", "his", "him", "son"), "female": ("she", "her", "her", "daughter")}


def demonym(country: Entity) -> str:
    """The adjective of a country: Belotonia, Belotonian."""
    return country.name + ("n" if country.name.endswith("a") else "i")


def inline(entity: Entity) -> str:
    """Name the entity within a sentence, with "the" where its name needs it."""
    needs_article = entity.kind in ("river", "model") or entity.name.startswith("University")
    return f"the {entity.name}" if needs_article else entity.name


def show_date(day: date, month_first: bool) -> str:
    """Write a date in one of the two English orders."""
    return f"{day:%B} {day.day}, {day.year}" if month_first else f"{day.day} {day:%B} {day.year}"


def show(subject: Entity, relation: str) -> str:
    """Write a fact's value as the subject's article does, without "the" before it."""
    value = subject[relation]
    if isinstance(value, Entity):
        return demonym(value) if relation == "nationality" else value.name
    if isinstance(value, date):
        return show_date(value, subject.month_first)
    if relation == "population":
        return f"{value:,}"
    return f"{value} kilometres" if relation == "length" else str(value)


def write_articles(world: World) -> list[Passage]:
    """Write one passage per entity, in mixed order."""
    dice = Dice(world.number * 2 + 1)
    return dice.shuffled([_write(entity, dice) for entity in world.all()])


def _write(entity: Entity, dice: Dice) -> Passage:
    words = _words(entity)
    facts = [relation for relation, fact in entity.facts.items() if fact.in_own_article]
    values = {relation: show(entity, relation) for relation in facts}
    values |= {r: inline(entity[r]) for r in facts if isinstance(entity[r], Entity) and r != "nationality"}
    lead = dice.pick([lead for lead in LEADS[entity.kind] if _fields(lead) - words.keys() <= values.keys()])
    used = _fields(lead) | ({"nationality", "country"} if "demonym" in _fields(lead) else frozenset())
    wordings = {r: wordings for r, wordings in IN_OWN_ARTICLE[entity.kind].items() if r not in used}
    sentences = [(dice.pick(wordings[r]), {"o": values[r]}) for r in facts if r in wordings]
    for subject, relation in entity.mentioned:
        child = "son" if subject.gender == "male" else "daughter"
        sentences.append((dice.pick(IN_OTHER_ARTICLE[subject.kind, relation]), {"o": inline(subject), "c": child}))
    sentences += [(text, {}) for text in dice.shuffled(FILLERS[entity.kind])[: dice.between(1, 3)]]
    text = [lead.format_map({**words, **values})]
    for template, own in dice.shuffled(sentences):
        mention = words["name"] if dice.chance(0.3) else words["pronoun"]
        sentence = template.format_map({**words, **own, "s": mention, "m": mention})
        text.append(sentence[0].upper() + sentence[1:])
    # `an` before a vowel where a wording says `a`
    return Passage(entity.title, entity.title, re.sub(r"\b([Aa]) (?=[aeio]|18\d\d )", r"\1n ", " ".join(text)))


def _words(entity: Entity) -> dict[str, str]:
    """The words by which an article refers to its own subject."""
    name = inline(entity)
    noun = "the novel" if entity.kind == "book" else f"the {entity.kind}"
    words = {"name": name, "Name": name[0].upper() + name[1:], "pronoun": noun, "p": f"{noun}'s"}
    if entity.kind == "person":
        he, his, him, child = _PRONOUNS[entity.gender]
        words |= {"pronoun": he, "p": his, "him": him, "child": child}
        words["be"] = "was" if "death_date" in entity.facts else "is"
    for relation in ("country", "nationality"):
        if (fact := entity.facts.get(relation)) and fact.in_own_article:
            words["demonym"] = demonym(fact.value)
    return words


@cache
def _fields(template: str) -> frozenset[str]:
    return frozenset(re.findall(r"\{(\w+)\}", template))
