"""Questions on a fictional world, each with its one answer, gold passages, evidence and steps.

A question of several steps is asked only where its words do not lead past the first step: no later passage has a word
of a name in the question, and none has more than two of the question's other words in common with it (five where a
code is asked for: "service kit" and "part number" are in the articles of all models).
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date
from itertools import cycle, islice
from typing import Any

import dspy

from fictional import question_wordings as wordings
from fictional.article_wordings import POSTS
from fictional.articles import demonym, inline, show, show_date, write_articles
from fictional.names import Dice
from fictional.world import WORLDS_PER_SEED, Entity, World
from knowgap.compiling.data.dataset import make_example

MIX: Mapping[str, int] = {
    "two_step": 36, "three_step": 20, "candidates": 14, "code": 10, "comparison": 5, "yes_no": 5, "unanswerable": 10,
}  # fmt: skip
"""How many questions of each type are asked."""

_STARTS = ("film", "book", "album", "band", "company", "person", "university", "city")
_MAY_BE_UNANSWERABLE = (
    ("person", "birth_date"), ("person", "birth_place"), ("person", "death_place"), ("person", "alma_mater"),
    ("person", "death_date"), ("film", "star"), ("film", "studio"), ("company", "founder"), ("band", "singer"),
    ("band", "label"), ("album", "producer"), ("book", "publisher"),
)  # fmt: skip
"""Kind and relation of the facts that an unanswerable question may ask for."""
_MOST_SHARED, _MOST_SHARED_FOR_CODES = 2, 5
_STOP = frozenset(re.findall(r"\w+", """
    a an and are as at by citizen did do does each for from had has have how in into is it its long many much name of on
    one or people person that the to under was were what when where which who whom whose with year"""))  # fmt: skip
_KINDS_OF_NAME = frozenset(("university", "college", "river", "records", "press", "pictures", "works", "group",
                            "company"))  # fmt: skip
Path = list[tuple[Entity, str]]


@dataclass(slots=True)
class _Draft:
    """A question with its answers, gold passages, evidence and steps, collected fact by fact.

    Args:
        split: number of the split, whose wordings the sub-questions have.
        first: gold passages that the question's own words lead to.
    """

    split: int
    question: str = ""
    answers: list[str] = field(default_factory=list)
    gold: list[str] = field(default_factory=list)
    first: set[str] = field(default_factory=set)
    evidences: list[list[str]] = field(default_factory=list)
    steps: list[dict[str, str]] = field(default_factory=list)

    def read(self, subject: Entity, relation: str) -> None:
        """Add a stated fact's passage, triple and sub-question; the answers become its value in all spellings."""
        self.answers = self.state(subject, relation)
        template = wordings.QUESTIONS[subject.kind, "post" if relation in POSTS else relation][self.split]
        question = template.format(x=_mention(subject, self.split), post=relation)
        self.steps.append({"question": question, "answer": self.answers[0]})

    def read_work(self, work: Entity, relation: str, year: int | None = None) -> None:
        """Add the fact that leads from a maker to the work, with its passage, triple and sub-question."""
        [maker, *_] = self.state(work, relation)
        question = _work_of(maker, work, wordings.WORKS[work.kind, relation][1][self.split], year)
        self.steps.append({"question": question, "answer": work.name})

    def state(self, subject: Entity, relation: str) -> list[str]:
        """Add a stated fact's passage and triple; return its value in all accepted spellings."""
        holder = subject if subject.facts[relation].in_own_article else subject[relation]
        if not self.gold:
            self.first.add(holder.title)
        self.gold.append(holder.title)
        answers = _spellings(subject, relation)
        self.evidences.append([subject.title, wordings.RELATION_NAMES.get(relation, relation), answers[0]])
        return answers


def ask_questions(world: World) -> list[dspy.Example]:
    """Ask a hundred different questions about a world, mixed by `MIX` and in mixed order, in the wordings of its split.

    A world has facts for about 120.
    """
    asker = _Asker(world)
    candidates = cycle([asker.by_post(), asker.by_year(), asker.by_name(), asker.by_post(), asker.by_year()])
    codes = cycle([asker.codes(way) for way in range(4)])
    ways = {
        "two_step": asker.chains(2), "three_step": asker.chains(3), "candidates": _in_turn(candidates),
        "code": _in_turn(codes), "comparison": asker.comparison(), "yes_no": asker.yes_no(),
        "unanswerable": asker.unanswerable(),
    }  # fmt: skip
    examples = [
        make_example(
            question=draft.question[0].upper() + draft.question[1:],
            answers=draft.answers,
            type=kind,
            gold_ids=draft.gold,
            evidences=draft.evidences,
            decomposition=draft.steps,
        )
        for kind, share in MIX.items()
        for draft in islice(ways[kind], share)
    ]
    examples = asker.dice.shuffled(examples)
    for number, example in enumerate(examples):
        example.id = f"fictional-{asker.seed}-{asker.split}-{number}"
    return examples


class _Asker:
    def __init__(self, world: World) -> None:
        self.world = world
        self.seed, self.split = divmod(world.number, WORLDS_PER_SEED)
        self.dice = Dice(world.number * 2 + 2_000_000_000)
        self.draws = range(6000)  # attempts at one type of question, more than a world ever needs
        self.texts = {passage.id: passage.text for passage in write_articles(world)}
        self.unambiguous = [entity for entity in world.all() if not entity.has_namesake]
        self.makers: dict[tuple[Entity, str], list[Entity]] = {}
        for entity in world.all():
            for relation, fact in entity.facts.items():
                if (entity.kind, relation) in wordings.WORKS:
                    self.makers.setdefault((fact.value, relation), []).append(entity)
        self.asked: set[str | tuple[str, ...]] = set()

    def new(self, question: str, *key: str) -> bool:
        """Whether neither the question nor one of that key was asked before; remember both."""
        if {question, key} & self.asked:
            return False
        self.asked |= {question, key}
        return True

    def is_out_of_sight(self, question: str, draft: _Draft, named: str, most: int = _MOST_SHARED) -> bool:
        """Whether the question's words lead to no passage after the first, of which there is at least one."""
        names = _words(named) - _KINDS_OF_NAME
        words = {word[:5] for word in _words(question)}
        later = [id for id in draft.gold if id not in draft.first]
        for id in later:
            found = _words(f"{id} {self.texts[id]}")
            if names & found or len(words & {word[:5] for word in found}) > most:
                return False
        return bool(later)

    def step(self, entity: Entity, relations: Sequence[str]) -> str | None:
        """Draw a stated relation of the entity among these."""
        able = [r for r in entity.facts if r in relations and entity.facts[r].stated]
        return self.dice.pick(able) if able else None

    def leading(self, entity: Entity) -> list[str]:
        """Relations of the entity that lead on to one that can be named and has a name of its own."""
        return [r for r in entity.facts if (entity.kind, r) in wordings.DESCRIPTIONS and not entity[r].has_namesake]

    def walk(self, entity: Entity, hops: int) -> Path:
        """Draw a path of stated facts that ends in one that can be asked for and visits nothing twice; may be empty."""
        path: Path = []
        visited = {entity}
        for hop in range(1, hops + 1):
            asked = [r for r in entity.facts if (entity.kind, r) in wordings.QUESTIONS]
            relation = self.step(entity, asked if hop == hops else self.leading(entity))
            if relation is None or entity[relation] in visited:
                return []
            path.append((entity, relation))
            entity = entity[relation]
            visited.add(entity)
        return path

    def word(self, phrase: str, path: Path) -> str:
        """Describe and ask along a path from what the phrase names."""
        for entity, relation in path[:-1]:
            phrase = wordings.DESCRIPTIONS[entity.kind, relation][self.split].format(x=phrase)
        entity, relation = path[-1]
        return wordings.QUESTIONS[entity.kind, relation][self.split].format(x=phrase)

    def take(self, question: str, path: Path, named: str, *key: str, draft: _Draft | None = None) -> _Draft | None:
        """Read the facts of a path; None if the question is not new, or gives its answer or a later passage away."""
        draft = draft or _Draft(self.split)
        draft.question = question
        for fact in path:
            draft.read(*fact)
        most = _MOST_SHARED_FOR_CODES if path[-1][1] in ("kit", "catalogue") else _MOST_SHARED
        given = any(answer.lower() in question.lower() for answer in draft.answers)
        hidden = not given and self.is_out_of_sight(question, draft, named, most)
        return draft if hidden and self.new(question, *key) else None

    def chains(self, hops: int) -> Iterator[_Draft]:
        finals: Counter[str] = Counter()
        for attempt in self.draws:
            kind = _STARTS[attempt % len(_STARTS)]
            start = self.dice.pick([entity for entity in self.unambiguous if entity.kind == kind])
            path = self.walk(start, hops)
            # Most paths end in cities and persons: let no relation end more than an eighth of the questions.
            if not path or finals[path[-1][1]] > 1 + finals.total() // 8:
                continue
            question = self.word(_mention(start, self.split), path)
            if draft := self.take(question, path, start.name, str(hops), start.title):
                finals[path[-1][1]] += 1
                yield draft

    def by_post(self) -> Iterator[_Draft]:
        """One of five cities in which a person held a post."""
        holders = [entity for entity in self.unambiguous if any(post in entity.facts for post in POSTS)]
        for _ in self.draws:
            person = self.dice.pick(holders)
            post = self.dice.pick([post for post in POSTS if post in person.facts])
            last = self.walk(person[post], 1)
            if not last:
                continue
            phrase = wordings.DESCRIPTIONS["person", "post"][self.split].format(x=person.name, post=post)
            path = [(person, post), *last]
            if draft := self.take(self.word(phrase, last), path, person.name, person.title, post):
                yield draft

    def by_year(self) -> Iterator[_Draft]:
        """One of the works of a maker, told from the others by the year that only its own article states."""
        listed = [
            (maker, relation, works) for (maker, relation), works in self.makers.items() if len(works) > 1
            and not maker.has_namesake and works[0].kind in ("film", "book")
        ]  # fmt: skip
        for _ in self.draws:
            maker, relation, works = self.dice.pick(listed)
            work = self.dice.pick(works)
            dated = "release_year" if work.kind == "film" else "year"
            year, path = work[dated], self.walk(work, self.dice.between(1, 2))
            same = [other for other in works if other[dated] == year]
            if work.facts[relation].in_own_article or work.has_namesake or len(same) > 1 or not path:
                continue
            if path[0][1] in (relation, dated) or not work.facts[relation].stated:
                continue
            draft = _Draft(self.split)
            draft.read_work(work, relation, year)
            draft.state(work, dated)
            phrase = _work_of(maker.name, work, wordings.WORKS[work.kind, relation][0][self.split], year)
            if self.take(self.word(phrase, path), path, maker.name, maker.title, "works", draft=draft):
                yield draft

    def by_name(self) -> Iterator[_Draft]:
        """One of two things of a name: the other one has nothing of what the question asks for."""
        bearers: dict[str, list[Entity]] = {}
        for entity in self.world.all():
            bearers.setdefault(entity.name, []).append(entity)
        shared = [entities for entities in bearers.values() if len(entities) > 1]
        for _ in self.draws:
            entity, other = self.dice.shuffled(self.dice.pick(shared))
            path = self.walk(entity, 2)
            if not path or path[0][1] in other.facts:
                continue
            if draft := self.take(self.word(entity.name, path), path, entity.name, entity.name):
                yield draft

    def codes(self, way: int) -> Iterator[_Draft]:
        """By a catalogue number (0), by a model's number (1), for a service kit (2), for a catalogue number (3)."""
        kind, relation, code = ("album", "band", "catalogue") if way in (0, 3) else ("model", "designer", "kit")
        for _ in self.draws:
            work = self.dice.pick(self.world.entities[kind])
            fact, maker, draft = work.facts[relation], work[relation], _Draft(self.split)
            if maker.has_namesake or not fact.stated:
                continue
            if way < 2:
                last = self.walk(maker, 1)
                if not last or not fact.in_own_article:
                    continue
                path, named, phrase = [(work, relation), *last], work.name, _mention(work, self.split)
                if way == 0:
                    named = work[code]
                    phrase = wordings.MENTIONS[code][self.split].format(x=named)
            else:
                if fact.in_own_article or len(self.makers[maker, relation]) > 1:
                    continue
                path, named = [(work, code)], maker.name
                phrase = _work_of(_mention(maker, self.split), work, wordings.WORKS[kind, relation][0][self.split])
                draft.read_work(work, relation)
            if self.take(self.word(phrase, path), path, named, work.title, str(way), draft=draft):
                yield draft

    def pairs(self, table: Mapping[Any, wordings.Three]) -> Iterator[tuple[list[Entity], list[Any], _Draft]]:
        """Two entities of a kind whose paths along the table's relations are stated, with where these lead."""
        for attempt in self.draws:
            kind, first, second = key = list(table)[attempt % len(table)]
            pair = self.dice.shuffled([e for e in self.unambiguous if e.kind == kind and first in self.leading(e)])[:2]
            leads = [entity[first] for entity in pair]
            draft = _Draft(self.split)
            for entity, lead in zip(pair, leads, strict=True):
                if not self.step(entity, [first]) or not self.step(lead, [second]):
                    break
                draft.first.add((entity if entity.facts[first].in_own_article else lead).title)
                draft.read(entity, first)
                draft.read(lead, second)
            if len(draft.steps) < 4 or leads[0] is leads[1]:
                continue
            draft.question = table[key][self.split].format(x=inline(pair[0]), y=inline(pair[1]))
            if self.is_out_of_sight(draft.question, draft, f"{pair[0].name} {pair[1].name}"):
                yield pair, [lead[second] for lead in leads], draft

    def comparison(self) -> Iterator[_Draft]:
        for pair, values, draft in self.pairs(wordings.COMPARISONS):
            if values[0] != values[1] and self.new(draft.question, *sorted(entity.title for entity in pair)):
                winner = pair[values.index(max(values))]
                draft.answers = [winner.name, *winner.variants]
                yield draft

    def yes_no(self) -> Iterator[_Draft]:
        wanted = self.world.number % 2 == 0
        for pair, (first, second), draft in self.pairs(wordings.YES_NO):
            if (first is second) == wanted and self.new(draft.question, *sorted(entity.title for entity in pair)):
                draft.answers = ["yes", "true"] if wanted else ["no", "false"]
                wanted = not wanted
                yield draft

    def unanswerable(self) -> Iterator[_Draft]:
        """What no article states: of what a first fact leads to, and of what the question names, in turn."""
        named: list[Path] = [
            [(entity, relation)]
            for entity in self.unambiguous
            for relation, fact in entity.facts.items()
            if not fact.stated and (entity.kind, relation) in _MAY_BE_UNANSWERABLE
        ]
        longer: list[Path] = [
            [(start, relation), *path]
            for start in self.unambiguous
            for relation in self.leading(start)
            for path in named
            if start.facts[relation].stated and start[relation] is path[0][0]
        ]
        pairs = zip(self.dice.shuffled(longer), self.dice.shuffled(named), strict=False)
        for path in (path for pair in pairs for path in pair):
            start, (described, _) = path[0][0], path[-1]
            question, draft = self.word(_mention(start, self.split), path), _Draft(self.split)
            for fact in path[:-1]:
                draft.read(*fact)
            draft.gold.append(described.title)
            hidden = len(path) == 1 or self.is_out_of_sight(question, draft, start.name)
            if hidden and self.new(question, described.title, "unanswerable"):
                draft.question, draft.answers = question, ["unanswerable"]
                yield draft


def _in_turn(ways: Iterator[Iterator[_Draft]]) -> Iterator[_Draft]:
    """Draw from each in turn; some have more than others."""
    return filter(None, (next(way, None) for way in ways))


def _mention(entity: Entity, split: int) -> str:
    """Name an entity in a question, with its kind where its name does not show it."""
    return wordings.MENTIONS.get(entity.kind, ("{x}",) * 3)[split].format(x=inline(entity))


def _work_of(maker: str, work: Entity, template: str, year: int | None = None) -> str:
    """Word the work of a maker; of models, also what they are: camera, radio, …."""
    return template.format(x=maker, year=year, product=work["product"] if work.kind == "model" else "")


def _words(text: str) -> set[str]:
    return set(re.findall(r"\w+", text.lower())) - _STOP


def _spellings(subject: Entity, relation: str) -> list[str]:
    """A fact's value as the article writes it, then in the other accepted spellings."""
    value, shown = subject[relation], show(subject, relation)
    if isinstance(value, Entity):
        return [shown, value.name, demonym(value)] if value.kind == "country" else [shown, *value.variants]
    if isinstance(value, date):
        return [shown, show_date(value, not subject.month_first), value.isoformat()]
    return [shown, *{"population": [str(value)], "length": [f"{value} km", str(value)]}.get(relation, [])]
