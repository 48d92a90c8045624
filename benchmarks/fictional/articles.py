"""The articles of a fictional world, each relation in several wordings."""

from __future__ import annotations

import re
from datetime import date
from functools import cache

from fictional.article_wordings import FILLERS, IN_OTHER_ARTICLE, IN_OWN_ARTICLE, LEADS
from fictional.names import Dice
from fictional.world import Entity, Fact, World
from knowgap.retrieval.passage import Passage

_MONTHS = ("January", "February", "March", "April", "May", "June", "July", "August", "September", "October", "November",
           "December")  # fmt: skip
_DEMONYM_OF = frozenset({"nationality", "country"})


def demonym(country: Entity) -> str:
    """The adjective of a country: Belotonia, Belotonian."""
    return country.name + ("n" if country.name.endswith("a") else "i")


def inline(entity: Entity) -> str:
    """Name the entity within a sentence, with "the" where its name needs it."""
    needs_article = entity.kind in ("river", "model") or entity.name.startswith("University")
    return f"the {entity.name}" if needs_article else entity.name


def show_date(day: date, month_first: bool) -> str:
    """Write a date in one of the two English orders."""
    month = _MONTHS[day.month - 1]
    return f"{month} {day.day}, {day.year}" if month_first else f"{day.day} {month} {day.year}"


def show(subject: Entity, relation: str) -> str:
    """Write a fact's value as the subject's article does, without "the" before it."""
    value = subject.facts[relation].value
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
    facts = {relation: fact for relation, fact in entity.facts.items() if fact.in_own_article}
    values = {relation: _value_in_text(entity, relation, fact) for relation, fact in facts.items()}
    lead = dice.pick([lead for lead in LEADS[entity.kind] if _fields(lead) - words.keys() <= values.keys()])
    used = _fields(lead) | (_DEMONYM_OF if "demonym" in _fields(lead) else frozenset())
    sentences: list[tuple[str, str, str]] = []
    for relation in facts:
        if relation not in used and relation in IN_OWN_ARTICLE[entity.kind]:
            sentences.append((dice.pick(IN_OWN_ARTICLE[entity.kind][relation]), values[relation], ""))
    for subject, relation in entity.mentioned:
        child = "son" if subject.gender == "male" else "daughter"
        sentences.append((dice.pick(IN_OTHER_ARTICLE[subject.kind, relation]), inline(subject), child))
    for text in dice.shuffled(FILLERS[entity.kind])[: dice.between(1, 3)]:
        sentences.append((text, "", ""))
    text = [lead.format_map({**words, **values})]
    for template, value, child in dice.shuffled(sentences):
        mention = words["name"] if dice.chance(0.3) else words["pronoun"]
        sentence = template.format_map({**words, "o": value, "s": mention, "m": mention, "c": child})
        text.append(sentence[0].upper() + sentence[1:])
    return Passage(id=entity.title, title=entity.title, text=_articles(" ".join(text)))


def _value_in_text(entity: Entity, relation: str, fact: Fact) -> str:
    if isinstance(fact.value, Entity) and relation != "nationality":
        return inline(fact.value)
    return show(entity, relation)


def _words(entity: Entity) -> dict[str, str]:
    """The words by which an article refers to its own subject."""
    name = inline(entity)
    noun = "the novel" if entity.kind == "book" else f"the {entity.kind}"
    words = {"name": name, "Name": name[0].upper() + name[1:], "pronoun": noun, "p": f"{noun}'s"}
    if entity.kind == "person":
        he, his, him = ("he", "his", "him") if entity.gender == "male" else ("she", "her", "her")
        child, spouse = ("son", "husband") if entity.gender == "male" else ("daughter", "wife")
        dead = "death_date" in entity.facts
        words.update(pronoun=he, p=his, him=him, child=child, spouse_word=spouse, be="was" if dead else "is")
    for relation in ("country", "nationality"):
        if (fact := entity.facts.get(relation)) and fact.in_own_article and isinstance(fact.value, Entity):
            words["demonym"] = demonym(fact.value)
    return words


@cache
def _fields(template: str) -> frozenset[str]:
    return frozenset(re.findall(r"\{(\w+)\}", template))


def _articles(text: str) -> str:
    """Put `an` before a vowel where a wording says `a`."""
    return re.sub(r"\b([Aa]) (?=[aeio]|18\d\d )", r"\1n ", text)
