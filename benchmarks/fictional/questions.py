"""Questions on a fictional world, of eight types, each with answer, aliases, gold passages, evidence and steps."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import date

import dspy

from fictional.articles import demonym, inline, show, show_date
from fictional.names import Dice
from fictional.question_wordings import (
    BRIDGE_COMPARISONS,
    COMPARISONS,
    DESCRIPTIONS,
    KINSHIP,
    MENTIONS,
    QUESTIONS,
    RELATION_NAMES,
    YES_NO,
)
from fictional.world import Entity, World
from knowgap.compiling.data.dataset import make_example

MIX: Mapping[str, int] = {
    "compositional": 26, "comparison": 16, "bridge_comparison": 14, "inference": 10, "single_hop": 12, "yes_no": 12,
    "ambiguous": 5, "unanswerable": 5,
}  # fmt: skip
"""Percentages of the types of question."""

_HOPS = (2, 2, 3, 2, 4, 2, 3)
_MAY_BE_UNANSWERABLE = (
    ("person", "birth_date"), ("person", "birth_place"), ("person", "death_place"), ("person", "alma_mater"),
    ("person", "death_date"), ("film", "star"), ("film", "studio"), ("company", "founder"), ("band", "singer"),
    ("band", "label"), ("album", "producer"), ("book", "publisher"), ("city", "mayor"),
)  # fmt: skip
"""Kind and relation of the facts that an unanswerable question may ask for."""


@dataclass(slots=True)
class _Draft:
    """A question's gold passages, evidence and steps, collected fact by fact by `read`."""

    gold: list[str] = field(default_factory=list)
    evidences: list[list[str]] = field(default_factory=list)
    steps: list[dict[str, str]] = field(default_factory=list)

    def read(self, subject: Entity, relation: str) -> list[str]:
        """Add a stated fact's passage, triple and sub-question; return its value in all accepted spellings."""
        fact = subject.facts[relation]
        if not fact.in_own_article:
            assert isinstance(fact.value, Entity)
            self.gold.append(fact.value.title)
        else:
            self.gold.append(subject.title)
        answers = _spellings(subject, relation)
        self.evidences.append([subject.title, RELATION_NAMES.get(relation, relation), answers[0]])
        question = QUESTIONS[subject.kind, relation][0].format(
            x=MENTIONS.get(subject.kind, ["{x}"])[0].format(x=inline(subject))
        )
        self.steps.append({"question": question, "answer": answers[0]})
        return answers


def ask_questions(world: World, count: int) -> list[dspy.Example]:
    """Ask different questions about a world, mixed by `MIX` and in mixed order.

    Args:
        world: what is asked about.
        count: how many to ask; fewer come back where the world, which has facts for about 150, runs out.
    """
    return _Asker(world, count).ask()


class _Asker:
    def __init__(self, world: World, count: int) -> None:
        self.dice = Dice(world.number * 2 + 2_000_000_000)
        self.world, self.count = world, count
        self.unambiguous = [entity for entity in world.all() if not entity.has_namesake]
        self.asked: set[str] = set()
        self.subjects: set[tuple[str, ...]] = set()

    def ask(self) -> list[dspy.Example]:
        makers = {
            "compositional": self.compositional, "comparison": self.comparison,
            "bridge_comparison": self.bridge_comparison, "inference": self.inference, "single_hop": self.single_hop,
            "yes_no": self.yes_no, "ambiguous": self.ambiguous, "unanswerable": self.unanswerable,
        }  # fmt: skip
        examples: list[dspy.Example] = []
        done = 0
        for number, kind in enumerate(MIX):
            passed = sum(list(MIX.values())[: number + 1])
            wanted = passed * self.count // 100 - done
            done += wanted
            drafts = makers[kind]()
            for _ in range(wanted):
                made = next(drafts, None)
                if made is None:
                    break
                question, answers, draft = made
                examples.append(
                    make_example(
                        id="",
                        question=question,
                        answers=answers,
                        type=kind,
                        gold_ids=draft.gold,
                        evidences=draft.evidences,
                        decomposition=draft.steps,
                    )
                )
        examples = self.dice.shuffled(examples)
        for number, example in enumerate(examples):
            example.id = f"fictional-0-{self.world.number}-{number}"
        return examples

    def new(self, question: str, *subjects: str) -> bool:
        """Whether neither the question nor one on the same subjects was asked before; remember both."""
        if question in self.asked or subjects in self.subjects:
            return False
        self.asked.add(question)
        self.subjects.add(subjects)
        return True

    def name(self, entity: Entity) -> str:
        ways = MENTIONS.get(entity.kind, ["{x}"])
        way = ways[0] if entity.shares_name_across_kinds else self.dice.pick(ways)
        return way.format(x=inline(entity))

    def draws(self) -> Iterator[int]:
        """Number the attempts; there are enough for any quota that can be met."""
        yield from range(40 * self.count + 400)

    def is_stated(self, entity: Entity, relation: str) -> bool:
        fact = entity.facts.get(relation)
        return fact is not None and fact.stated

    def single_hop(self) -> Iterator[tuple[str, list[str], _Draft]]:
        for _ in self.draws():
            entity = self.dice.pick(self.unambiguous)
            relation = self.dice.pick(list(entity.facts))
            if not self.is_stated(entity, relation) or (entity.kind, relation) not in QUESTIONS:
                continue
            question = self.dice.pick(QUESTIONS[entity.kind, relation]).format(x=self.name(entity))
            if self.new(question, entity.title):
                draft = _Draft()
                yield question, draft.read(entity, relation), draft

    def walk(self, start: Entity, hops: int) -> list[tuple[Entity, str]] | None:
        """Draw a path of stated facts from an entity; only its last stop may have a namesake."""
        path: list[tuple[Entity, str]] = []
        entity, visited = start, {start}
        for hop in range(hops):
            last = hop == hops - 1
            table = QUESTIONS if last else DESCRIPTIONS
            choices = [r for r in entity.facts if (entity.kind, r) in table and self.is_stated(entity, r)]
            if not choices:
                return None
            relation = self.dice.pick(choices)
            path.append((entity, relation))
            value = entity.facts[relation].value
            if isinstance(value, Entity):
                if value in visited or (value.has_namesake and not last):
                    return None
                visited.add(value)
                entity = value
        relations = tuple(relation for _, relation in path)
        return None if any(relations[n : n + 2] in KINSHIP.values() for n in range(hops)) else path

    def compositional(self) -> Iterator[tuple[str, list[str], _Draft]]:
        finals: Counter[str] = Counter()
        made = 0
        kinds = ("film", "book", "album", "band", "company", "person")
        starts = [entity for entity in self.unambiguous if entity.kind in kinds]
        for _ in self.draws():
            hops = _HOPS[made % len(_HOPS)]
            path = self.walk(self.dice.pick(starts), hops)
            # Most paths end in countries and cities: let no relation end more than a sixth of the questions.
            if path is None or finals[path[-1][1]] > 1 + made // 6:
                continue
            phrase = self.name(path[0][0])
            for entity, relation in path[:-1]:
                phrase = self.dice.pick(DESCRIPTIONS[entity.kind, relation]).format(x=phrase)
            entity, relation = path[-1]
            question = self.dice.pick(QUESTIONS[entity.kind, relation]).format(x=phrase)
            if self.new(question, path[0][0].title):
                finals[relation] += 1
                made += 1
                draft = _Draft()
                answers = [draft.read(*fact) for fact in path][-1]
                yield question, answers, draft

    def inference(self) -> Iterator[tuple[str, list[str], _Draft]]:
        people = [entity for entity in self.unambiguous if entity.kind == "person"]
        for _ in self.draws():
            person, kin = self.dice.pick(people), self.dice.pick(list(KINSHIP))
            first, second = KINSHIP[kin]
            if not self.is_stated(person, first):
                continue
            relative = person.facts[first].value
            if not isinstance(relative, Entity) or relative.has_namesake or not self.is_stated(relative, second):
                continue
            way = self.dice.pick(("Who is the {kin} of {x}?", "Who was the {kin} of {x}?", "Who is {x}'s {kin}?"))
            question = way.format(kin=kin, x=person.name)
            if self.new(question, person.title, kin):
                draft = _Draft()
                draft.read(person, first)
                yield question, draft.read(relative, second), draft

    def pair(self, kind: str, *relations: str) -> tuple[Entity, Entity] | None:
        """Draw two entities of a kind for which all facts along the relations are stated."""
        able = [e for e in self.unambiguous if e.kind == kind and self.has_path(e, *relations)]
        if len(able) < 2:
            return None
        first, second = self.dice.shuffled(able)[:2]
        return first, second

    def has_path(self, entity: Entity, *relations: str) -> bool:
        for number, relation in enumerate(relations):
            if not self.is_stated(entity, relation):
                return False
            value = entity.facts[relation].value
            if number < len(relations) - 1:
                if not isinstance(value, Entity) or value.has_namesake:
                    return False
                entity = value
        return True

    def follow(self, draft: _Draft, entity: Entity, relations: tuple[str, ...]) -> object:
        """Read the facts along the relations and return the last value."""
        value: object = entity
        for relation in relations:
            assert isinstance(value, Entity)
            draft.read(value, relation)
            value = value.facts[relation].value
        return value

    def compare(
        self, tables: Mapping[tuple[str, ...], list[tuple[str, bool]]]
    ) -> Iterator[tuple[str, list[str], _Draft]]:
        for attempt in self.draws():
            kind, *relations = key = list(tables)[attempt % len(tables)]
            pair = self.pair(kind, *relations)
            if pair is None:
                continue
            draft = _Draft()
            values = [_size(self.follow(draft, entity, tuple(relations))) for entity in pair]
            if values[0] == values[1]:
                continue
            way, larger = self.dice.pick(tables[key])
            question = way.format(x=inline(pair[0]), y=inline(pair[1]))
            if self.new(question, *sorted(entity.title for entity in pair)):
                first_wins = (values[0] > values[1]) == larger
                winner = pair[0] if first_wins else pair[1]
                yield question, [winner.name, *winner.variants], draft

    def comparison(self) -> Iterator[tuple[str, list[str], _Draft]]:
        return self.compare({**COMPARISONS})

    def bridge_comparison(self) -> Iterator[tuple[str, list[str], _Draft]]:
        return self.compare({**BRIDGE_COMPARISONS})

    def yes_no(self) -> Iterator[tuple[str, list[str], _Draft]]:
        made = 0
        for attempt in self.draws():
            kind, *relations = key = list(YES_NO)[attempt % len(YES_NO)]
            pair = self.pair(kind, *relations)
            if pair is None:
                continue
            draft = _Draft()
            first, second = (self.follow(draft, entity, tuple(relations)) for entity in pair)
            if (first is second) != (made % 2 == 0):
                continue
            question = self.dice.pick(YES_NO[key]).format(x=inline(pair[0]), y=inline(pair[1]))
            if self.new(question, *sorted(entity.title for entity in pair)):
                made += 1
                yield question, ["yes", "true"] if first is second else ["no", "false"], draft

    def ambiguous(self) -> Iterator[tuple[str, list[str], _Draft]]:
        bearers: dict[tuple[str, str], list[Entity]] = {}
        for entity in self.world.all():
            if entity.has_namesake:
                bearers.setdefault((entity.kind, entity.name), []).append(entity)
        for _ in self.draws():
            first, second = self.dice.pick(list(bearers.values()))
            relation = self.dice.pick([r for r in first.facts if (first.kind, r) in QUESTIONS])
            if relation not in second.facts or first.facts[relation].value == second.facts[relation].value:
                continue
            question = self.dice.pick(QUESTIONS[first.kind, relation]).format(x=self.name(first))
            if self.new(question, first.name, relation):
                draft = _Draft()
                yield question, [*draft.read(first, relation), *draft.read(second, relation)], draft

    def unanswerable(self) -> Iterator[tuple[str, list[str], _Draft]]:
        unstated = [
            (e, r)
            for e in self.unambiguous
            for r, fact in e.facts.items()
            if not fact.stated and (e.kind, r) in _MAY_BE_UNANSWERABLE
        ]
        for entity, relation in self.dice.shuffled(unstated):
            question = self.dice.pick(QUESTIONS[entity.kind, relation]).format(x=self.name(entity))
            if self.new(question, entity.title, "unanswerable"):
                yield question, ["unanswerable", "unknown", "noanswer"], _Draft(gold=[entity.title])


def _size(value: object) -> int:
    """The number that a comparison compares; days for a date."""
    return value.toordinal() if isinstance(value, date) else int(str(value))


def _spellings(subject: Entity, relation: str) -> list[str]:
    """A fact's value as the article writes it, then in the other accepted spellings."""
    value, shown = subject.facts[relation].value, show(subject, relation)
    if isinstance(value, Entity):
        if value.kind == "country":
            return [shown, value.name, demonym(value)]
        return [shown, *value.variants]
    if isinstance(value, date):
        return [shown, show_date(value, not subject.month_first), value.isoformat()]
    if relation == "population":
        return [shown, str(value)]
    if relation == "length":
        return [shown, f"{value} km", str(value)]
    return [shown]
