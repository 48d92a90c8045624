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

import dspy

from fictional.article_wordings import POSTS
from fictional.articles import demonym, inline, show, show_date, write_articles
from fictional.names import Dice
from fictional.question_wordings import DEV, RELATION_NAMES, TEST, TRAIN, Wordings
from fictional.world import WORLDS_PER_SEED, Entity, World
from knowgap.compiling.data.dataset import make_example

MIX: Mapping[str, int] = {
    "two_step": 36, "three_step": 20, "candidates": 14, "code": 10, "comparison": 5, "yes_no": 5, "unanswerable": 10,
}  # fmt: skip
"""Percentages of the types of question."""

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
    """A question's gold passages, evidence and steps, collected fact by fact by `read`.

    Args:
        wordings: of the sub-questions.
        first: gold passages that the question's own words lead to.
    """

    wordings: Wordings
    gold: list[str] = field(default_factory=list)
    first: set[str] = field(default_factory=set)
    evidences: list[list[str]] = field(default_factory=list)
    steps: list[dict[str, str]] = field(default_factory=list)

    def read(self, subject: Entity, relation: str) -> list[str]:
        """Add a stated fact's passage, triple and sub-question; return its value in all accepted spellings."""
        answers = self.state(subject, relation)
        key, post = (subject.kind, "post" if relation in POSTS else relation), relation
        question = self.wordings.questions[key].format(x=mention(self.wordings, subject), post=post)
        self.steps.append({"question": question, "answer": answers[0]})
        return answers

    def read_work(self, work: Entity, relation: str, year: int | None) -> None:
        """Add the fact that leads from a maker to the work, with its passage, triple and sub-question."""
        maker = self.state(work, relation)[0]
        template = self.wordings.works[work.kind, relation][1]
        question = template.format(x=maker, year=year, product=product(work))
        self.steps.append({"question": question, "answer": work.name})

    def state(self, subject: Entity, relation: str) -> list[str]:
        fact = subject.facts[relation]
        holder = subject
        if not fact.in_own_article:
            assert isinstance(fact.value, Entity)
            holder = fact.value
        if not self.gold:
            self.first.add(holder.title)
        self.gold.append(holder.title)
        answers = _spellings(subject, relation)
        self.evidences.append([subject.title, RELATION_NAMES.get(relation, relation), answers[0]])
        return answers


Made = tuple[str, list[str], _Draft]


def mention(wordings: Wordings, entity: Entity) -> str:
    """Name an entity in a question, with its kind where its name does not show it."""
    return wordings.mentions.get(entity.kind, "{x}").format(x=inline(entity))


def product(work: Entity) -> object:
    """What a model is: camera, radio, …; empty for other works."""
    return work.facts["product"].value if work.kind == "model" else ""


def ask_questions(world: World, count: int) -> list[dspy.Example]:
    """Ask different questions about a world, mixed by `MIX` and in mixed order.

    Args:
        world: what is asked about; its number decides the wordings.
        count: how many to ask; fewer come back where the world, which has facts for about 120, runs out.
    """
    return _Asker(world, count).ask()


class _Asker:
    def __init__(self, world: World, count: int) -> None:
        seed, split = divmod(world.number, WORLDS_PER_SEED)
        self.words = (TRAIN, DEV, TEST)[split]
        self.prefix = f"fictional-{seed}-{split}"
        self.dice = Dice(world.number * 2 + 2_000_000_000)
        self.world, self.count = world, count
        self.texts = {passage.id: passage.text for passage in write_articles(world)}
        self.unambiguous = [entity for entity in world.all() if not entity.has_namesake]
        self.makers: dict[tuple[Entity, str], list[Entity]] = {}
        for entity in world.all():
            for relation, fact in entity.facts.items():
                if isinstance(fact.value, Entity) and (entity.kind, relation) in self.words.works:
                    self.makers.setdefault((fact.value, relation), []).append(entity)
        self.asked: set[str] = set()
        self.keys: set[tuple[str, ...]] = set()

    def ask(self) -> list[dspy.Example]:
        makers = {
            "two_step": self.chains(2), "three_step": self.chains(3),
            "candidates": _in_turn(self.by_post(), self.by_year(), self.by_name(), self.by_post(), self.by_year()),
            "code": _in_turn(*(self.codes(way) for way in range(4))), "comparison": self.comparison(),
            "yes_no": self.yes_no(), "unanswerable": self.unanswerable(),
        }  # fmt: skip
        examples: list[dspy.Example] = []
        done = passed = 0
        for kind, share in MIX.items():
            passed += share
            wanted = passed * self.count // 100 - done
            done += wanted
            for _ in range(wanted):
                if (made := next(makers[kind], None)) is None:
                    break
                question, answers, draft = made
                examples.append(
                    make_example(
                        id="",
                        question=question[0].upper() + question[1:],
                        answers=answers,
                        type=kind,
                        gold_ids=draft.gold,
                        evidences=draft.evidences,
                        decomposition=draft.steps,
                    )
                )
        examples = self.dice.shuffled(examples)
        for number, example in enumerate(examples):
            example.id = f"{self.prefix}-{number}"
        return examples

    def draws(self) -> Iterator[int]:
        """Attempts at one type of question, more than a world ever needs."""
        return iter(range(60 * self.count))

    def new(self, question: str, *key: str) -> bool:
        """Whether neither the question nor one of that key was asked before; remember both."""
        if question in self.asked or key in self.keys:
            return False
        self.asked.add(question)
        self.keys.add(key)
        return True

    def is_out_of_sight(self, question: str, draft: _Draft, named: str, most: int = _MOST_SHARED) -> bool:
        """Whether the question's words lead to no passage after the first, of which there is at least one."""
        names = {word for word in _words(named) if word not in _KINDS_OF_NAME}
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
        return [
            relation
            for relation, fact in entity.facts.items()
            if isinstance(fact.value, Entity) and not fact.value.has_namesake
            if (entity.kind, relation) in self.words.descriptions
        ]

    def walk(self, entity: Entity, hops: int) -> Path | None:
        """Draw a path of stated facts that ends in one that can be asked for and visits nothing twice."""
        path: Path = []
        visited = {entity}
        for hop in range(hops):
            last = hop == hops - 1
            asked = [r for r in entity.facts if (entity.kind, r) in self.words.questions and r not in POSTS]
            relation = self.step(entity, asked if last else self.leading(entity))
            if relation is None:
                return None
            path.append((entity, relation))
            value = entity.facts[relation].value
            if isinstance(value, Entity):
                if value in visited:
                    return None
                visited.add(value)
                entity = value
        return path

    def word(self, phrase: str, path: Path) -> str:
        """Describe and ask along a path from what the phrase names."""
        for entity, relation in path[:-1]:
            phrase = self.words.descriptions[entity.kind, relation].format(x=phrase)
        entity, relation = path[-1]
        return self.words.questions[entity.kind, relation].format(x=phrase)

    def chains(self, hops: int) -> Iterator[Made]:
        finals: Counter[str] = Counter()
        made = 0
        for attempt in self.draws():
            kind = _STARTS[attempt % len(_STARTS)]
            start = self.dice.pick([entity for entity in self.unambiguous if entity.kind == kind])
            path = self.walk(start, hops)
            # Most paths end in cities and persons: let no relation end more than an eighth of the questions.
            if path is None or finals[path[-1][1]] > 1 + made // 8:
                continue
            question = self.word(mention(self.words, start), path)
            if (found := self.along(question, path, start.name)) and self.new(question, str(hops), start.title):
                finals[path[-1][1]] += 1
                made += 1
                yield found

    def along(self, question: str, path: Path, named: str, draft: _Draft | None = None) -> Made | None:
        """Read the facts of a path; None if the question gives its answer or a later passage away."""
        draft = draft or _Draft(self.words)
        most = _MOST_SHARED_FOR_CODES if path[-1][1] in ("kit", "catalogue") else _MOST_SHARED
        answers = [draft.read(*fact) for fact in path][-1]
        given = any(answer.lower() in question.lower() for answer in answers)
        return None if given or not self.is_out_of_sight(question, draft, named, most) else (question, answers, draft)

    def by_post(self) -> Iterator[Made]:
        """One of five cities in which a person held a post."""
        holders = [entity for entity in self.unambiguous if any(post in entity.facts for post in POSTS)]
        for _ in self.draws():
            person = self.dice.pick(holders)
            post = self.dice.pick([post for post in POSTS if post in person.facts])
            city = person.facts[post].value
            assert isinstance(city, Entity)
            last = self.walk(city, 1)
            if last is None:
                continue
            phrase = self.words.descriptions["person", "post"].format(x=person.name, post=post)
            question = self.word(phrase, last)
            found = self.along(question, [(person, post), *last], person.name)
            if found and self.new(question, person.title, post):
                yield found

    def by_year(self) -> Iterator[Made]:
        """One of the works of a maker, told from the others by the year that only its own article states."""
        listed = [
            (maker, relation, works) for (maker, relation), works in self.makers.items() if len(works) > 1
            and not maker.has_namesake and works[0].kind in ("film", "book")
        ]  # fmt: skip
        for _ in self.draws():
            maker, relation, works = self.dice.pick(listed)
            work = self.dice.pick(works)
            dated = "release_year" if work.kind == "film" else "year"
            year, path = work.year(dated), self.walk(work, self.dice.between(1, 2))
            same = [other for other in works if other.year(dated) == year]
            if work.facts[relation].in_own_article or work.has_namesake or len(same) > 1 or path is None:
                continue
            if path[0][1] in (relation, dated) or not work.facts[relation].stated:
                continue
            phrase = self.words.works[work.kind, relation][0].format(x=maker.name, year=year)
            draft = _Draft(self.words)
            draft.read_work(work, relation, year)
            draft.state(work, dated)
            question = self.word(phrase, path)
            if (found := self.along(question, path, maker.name, draft)) and self.new(question, maker.title, "works"):
                yield found

    def by_name(self) -> Iterator[Made]:
        """One of two things of a name: the other one has nothing of what the question asks for."""
        bearers: dict[str, list[Entity]] = {}
        for entity in self.world.all():
            bearers.setdefault(entity.name, []).append(entity)
        shared = [entities for entities in bearers.values() if len(entities) > 1]
        for _ in self.draws():
            entity, other = self.dice.shuffled(self.dice.pick(shared))
            path = self.walk(entity, 2)
            if path is None or path[0][1] in other.facts:
                continue
            question = self.word(entity.name, path)
            if (found := self.along(question, path, entity.name)) and self.new(question, entity.name):
                yield found

    def codes(self, way: int) -> Iterator[Made]:
        """By a catalogue number (0), by a model's number (1), for a service kit (2), for a catalogue number (3)."""
        works = self.world.entities["album" if way in (0, 3) else "model"]
        for _ in self.draws():
            work = self.dice.pick(works)
            relation = "band" if work.kind == "album" else "designer"
            maker = work.facts[relation].value
            if not isinstance(maker, Entity) or maker.has_namesake or not work.facts[relation].stated:
                continue
            draft, named = _Draft(self.words), work.name
            if way < 2:
                last = self.walk(maker, 1)
                if last is None or not work.facts[relation].in_own_article:
                    continue
                path, phrase = [(work, relation), *last], mention(self.words, work)
                if way == 0:
                    named = str(work.facts["catalogue"].value)
                    phrase = self.words.mentions["catalogue"].format(x=named)
                question = self.word(phrase, path)
            else:
                if work.facts[relation].in_own_article or len(self.makers[maker, relation]) > 1:
                    continue
                path, named = [(work, "kit" if way == 2 else "catalogue")], maker.name
                phrase = self.words.works[work.kind, relation][0]
                question = self.word(phrase.format(x=mention(self.words, maker), product=product(work)), path)
                draft.read_work(work, relation, None)
            found = self.along(question, path, named, draft)
            if found and self.new(question, work.title, str(way)):
                yield found

    def pairs(self, tables: Mapping[tuple[str, ...], str]) -> Iterator[tuple[str, list[Entity], list[object], _Draft]]:
        """Two entities of a kind whose paths along the table's relations are stated, with where these lead."""
        for attempt in self.draws():
            kind, first, second = key = list(tables)[attempt % len(tables)]
            pair = self.dice.shuffled([e for e in self.unambiguous if e.kind == kind and first in self.leading(e)])[:2]
            draft, values, leads = _Draft(self.words), list[object](), list[Entity]()
            for entity in pair:
                lead = entity.facts[first].value
                assert isinstance(lead, Entity)
                if not self.step(entity, [first]) or not self.step(lead, [second]):
                    break
                draft.first.add((entity if entity.facts[first].in_own_article else lead).title)
                draft.read(entity, first)
                draft.read(lead, second)
                values.append(lead.facts[second].value)
                leads.append(lead)
            if len(values) < 2 or leads[0] is leads[1]:
                continue
            question = tables[key].format(x=inline(pair[0]), y=inline(pair[1]))
            if self.is_out_of_sight(question, draft, f"{pair[0].name} {pair[1].name}"):
                yield question, pair, values, draft

    def comparison(self) -> Iterator[Made]:
        for question, pair, values, draft in self.pairs(self.words.comparisons):
            sizes = [value.toordinal() if isinstance(value, date) else int(str(value)) for value in values]
            if sizes[0] != sizes[1] and self.new(question, *sorted(entity.title for entity in pair)):
                winner = pair[sizes.index(max(sizes))]
                yield question, [winner.name, *winner.variants], draft

    def yes_no(self) -> Iterator[Made]:
        made = 0
        for question, pair, (first, second), draft in self.pairs(self.words.yes_no):
            wanted = (made + self.world.number) % 2 == 0
            if (first is second) == wanted and self.new(question, *sorted(entity.title for entity in pair)):
                made += 1
                yield question, ["yes", "true"] if wanted else ["no", "false"], draft

    def unanswerable(self) -> Iterator[Made]:
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
            if start.facts[relation].stated and start.facts[relation].value is path[0][0]
        ]
        pairs = zip(self.dice.shuffled(longer), self.dice.shuffled(named), strict=False)
        for path in (path for pair in pairs for path in pair):
            start, (described, _) = path[0][0], path[-1]
            question, draft = self.word(mention(self.words, start), path), _Draft(self.words)
            for fact in path[:-1]:
                draft.read(*fact)
            draft.gold.append(described.title)
            hidden = len(path) == 1 or self.is_out_of_sight(question, draft, start.name)
            if hidden and self.new(question, described.title, "unanswerable"):
                yield question, ["unanswerable"], draft


def _in_turn(*ways: Iterator[Made]) -> Iterator[Made]:
    """Draw from each in turn, and from those that are left when one has no more."""
    open_ways = list(ways)
    while open_ways:
        way = open_ways.pop(0)
        if (made := next(way, None)) is not None:
            open_ways.append(way)
            yield made


def _words(text: str) -> set[str]:
    return {word for word in re.findall(r"\w+", text.lower()) if word not in _STOP}


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
