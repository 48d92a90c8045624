"""The facts of a fictional world: who was born where, who directed what, which river runs through which city.

A world is a numbered, closed cluster of some 270 entities; worlds with different numbers share no name. Three worlds
make an encyclopedia, one each for train, dev and test: seed 0 is worlds 0 to 2, seed 1 worlds 3 to 5, and so on. A fact
is stated in the article of its subject, in the article of its object, in both, or in none. The last are what the
encyclopedia does not know.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import date
from itertools import count
from typing import Any

from fictional.article_wordings import IN_OTHER_ARTICLE, POSTS
from fictional.names import Dice, coin

WORLDS_PER_SEED = 3
_NAMES_PER_KIND = 256  # names of each kind that one world may use
_OCCUPATIONS = ("architect", "astronomer", "botanist", "chess player", "composer", "engineer", "explorer", "geologist",
                "historian", "journalist", "judge", "painter", "physician", "sculptor", "swimmer")  # fmt: skip
_GENRES = ("comedy", "crime", "drama", "horror", "musical", "mystery", "romance", "science fiction", "thriller", "war",
           "western")  # fmt: skip
_NOUNS = ("Orchard", "Lantern", "Harbour", "Clockmaker", "Garden", "Letter", "Mirror", "Staircase", "Winter", "Falcon",
          "Bridge", "Promise", "Shadow", "Railway", "Ferryman", "Summer", "Castle", "Witness")  # fmt: skip
_PLURALS = ("Foxes", "Pilots", "Lanterns", "Wolves", "Sailors", "Mirrors", "Kings", "Sparrows", "Machines", "Strangers")
_INDUSTRIES = ("chocolate", "shipbuilding", "watchmaking", "tractor", "camera", "textile", "radio", "bicycle", "glass")
_PRODUCTS = ("camera", "radio", "typewriter", "tractor")


@dataclass(frozen=True, slots=True)
class Fact:
    """The value of a relation, and where it is stated.

    Args:
        value: an entity, a date, a number or a word.
        in_own_article: the subject's article states it.
        in_other_article: the value is an entity, and its article states the fact.
    """

    value: Any
    in_own_article: bool = True
    in_other_article: bool = False

    @property
    def stated(self) -> bool:
        """Whether any article states it."""
        return self.in_own_article or self.in_other_article


@dataclass(eq=False, slots=True)
class Entity:
    """Something that has an article.

    Args:
        kind: "person", "film", "city", …
        name: what texts call it.
        variants: other names that count as the same answer.
        gender: "male" or "female" for a person, else empty.
        title: unique title of its article, also the passage's id.
        has_namesake: another entity of its kind has the same name.
        month_first: its article writes dates as "May 3, 1901".
        facts: by relation.
        mentioned: (subject, relation) of the facts of other entities that its article states.
    """

    kind: str
    name: str
    variants: Sequence[str] = ()
    gender: str = ""
    title: str = ""
    has_namesake: bool = False
    month_first: bool = False
    facts: dict[str, Fact] = field(default_factory=dict)
    mentioned: list[tuple[Entity, str]] = field(default_factory=list)

    def __getitem__(self, relation: str) -> Any:
        return self.facts[relation].value

    def year(self, relation: str) -> int:
        """The year of a fact whose value is a date or a year."""
        return self[relation].year if isinstance(self[relation], date) else self[relation]


class World:
    """All entities of a world, by kind.

    Args:
        number: from 0.
    """

    def __init__(self, number: int) -> None:
        self.number = number
        self.entities: dict[str, list[Entity]] = defaultdict(list)
        self._dice = Dice(number)
        self._numbers = defaultdict(lambda: count(number * _NAMES_PER_KIND))
        self._add_places()
        self._add_families()
        self._add_institutions()
        self._add_works()
        self._add_models()
        self._add_namesakes()
        for entity in self.all():
            entity.title = entity.title or entity.name
            entity.month_first = self._dice.chance(0.5)

    def all(self) -> list[Entity]:
        """Every entity, kind by kind."""
        return [entity for kind in self.entities.values() for entity in kind]

    def _coin(self, kind: str) -> str:
        return coin(kind, next(self._numbers[kind]))

    def _add(self, kind: str, name: str, variants: Sequence[str] = (), gender: str = "") -> Entity:
        entity = Entity(kind, name, variants, gender)
        self.entities[kind].append(entity)
        return entity

    def _pick(self, kind: str) -> Entity:
        return self._dice.pick(self.entities[kind])

    def _put(self, subject: Entity, relation: str, value: Any, hidden: float = 0.0) -> None:
        """Add a fact, stated in one article or both, or with probability `hidden` in none."""
        in_own = in_other = False
        if not self._dice.chance(hidden):
            lot = self._dice.below(100)
            own_only = (subject.kind, relation) not in IN_OTHER_ARTICLE or len(getattr(value, "mentioned", ())) >= 4
            in_own, in_other = own_only or lot < 75, not own_only and lot >= 50
        self._state(subject, relation, value, in_own, in_other)

    def _state(self, subject: Entity, relation: str, value: Any, in_own: bool = True, in_other: bool = False) -> None:
        """Add a fact that is stated in the articles named."""
        subject.facts[relation] = Fact(value, in_own, in_other)
        if in_other:
            value.mentioned.append((subject, relation))

    def _credit(self, work: Entity, relation: str, maker: Entity, *, listed: bool) -> None:
        """Say who made a work: for some makers only in the list of works in their own article."""
        if listed:
            self._state(work, relation, maker, in_own=False, in_other=True)
        else:
            self._put(work, relation, maker, hidden=0.06)

    def _cast(self, work: Entity, relation: str, people: Sequence[Entity], age: int, hidden: float) -> None:
        """Add to a work one of the people who were of that age, and under 44, in its year, if there is one."""
        year = work["release_year" if work.kind == "film" else "year"]
        grown = [person for person in people if age <= year - person.year("birth_date") <= 43]
        if grown:
            self._put(work, relation, self._dice.pick(grown), hidden)

    def _add_places(self) -> None:
        dice = self._dice
        for _ in range(4):
            name = self._coin("country")
            country = self._add("country", name)
            rivers: list[Entity] = []
            for _ in range(3):
                stem = self._coin("river")
                rivers.append(self._add("river", f"{stem} River", [stem, f"River {stem}"]))
                self._put(rivers[-1], "length", dice.between(61, 1290))
                self._put(rivers[-1], "country", country)
            for main in rivers[1:]:
                self._put(main, "mouth", rivers[0], hidden=0.1)
            cities = [self._coin("city") for _ in range(7)]
            for stem in cities:
                city = self._add("city", stem, [f"{stem}, {name}"])
                self._put(city, "country", country)
                self._put(city, "population", dice.between(9_100, 2_400_000))
                self._put(city, "river", dice.pick(rivers), hidden=0.08)
            self._put(country, "capital", self.entities["city"][-7])
            self._put(country, "population", dice.between(2_500_000, 61_000_000))
        for city in self.entities["city"][::2]:
            if dice.chance(0.4):
                school = self._add("university", f"University of {city.name}", [f"{city.name} University"])
                self._put(school, "city", city)
            else:
                school = self._add("university", f"{self._coin('surname')} College")
                self._put(school, "city", self._pick("city"))
            self._put(school, "founded", dice.between(1640, 1875))

    def _person(self, gender: str, surname: str, born: int, country: Entity | None = None) -> Entity:
        dice = self._dice
        taken = {person.name for person in self.entities["person"]}
        while (name := f"{dice.given_name(gender)} {surname}") in taken:
            continue
        person = self._add("person", name, gender=gender)
        place = self._pick("city")
        while country and place["country"] is not country and dice.chance(0.8):
            place = self._pick("city")
        birth = self._day(born)
        self._put(person, "birth_date", birth, hidden=0.08)
        self._put(person, "birth_place", place, hidden=0.1)
        self._put(person, "nationality", country or place["country"], hidden=0.05)
        self._put(person, "occupation", dice.pick(_OCCUPATIONS))
        if dice.chance(0.6):
            self._put(person, "alma_mater", self._pick("university"), hidden=0.15)
        if born < 1935:
            self._put(person, "death_date", self._day(born + dice.between(44, 86)), hidden=0.08)
            self._put(person, "death_place", self._pick("city"), hidden=0.2)
        return person

    def _day(self, year: int) -> date:
        return date(year, self._dice.between(1, 12), self._dice.between(1, 28))

    def _child(self, husband: Entity, wife: Entity, gender: str) -> Entity:
        born = max(husband.year("birth_date"), wife.year("birth_date")) + self._dice.between(21, 33)
        child = self._person(gender, husband.name.split()[-1], born, husband["nationality"])
        self._put(child, "father", husband, hidden=0.06)
        self._put(child, "mother", wife, hidden=0.06)
        return child

    def _marry(self, husband: Entity, wife: Entity) -> None:
        lot = 100 if self._dice.chance(0.1) else self._dice.below(100)
        in_his, in_hers = lot < 70, 40 <= lot < 100
        husband.facts["spouse"] = Fact(wife, in_his, in_hers)
        wife.facts["spouse"] = Fact(husband, in_hers, in_his)

    def _add_families(self) -> None:
        dice, genders = self._dice, ("male", "female")
        parents = [
            [self._person(g, self._coin("surname"), dice.between(1858, 1884)) for g in genders] for _ in range(12)
        ]
        for _ in range(2):
            children = []
            for husband, wife in parents:
                self._marry(husband, wife)
                children.append([self._child(husband, wife, gender) for gender in genders])
            # Each son marries the next family's daughter, so that everyone who is married has parents-in-law.
            parents = [[son, children[n - 1][1]] for n, (son, _) in enumerate(children)]
        for husband, wife in parents[::2]:
            self._marry(husband, wife)
        for _ in range(24):
            self._person(dice.pick(genders), self._coin("surname"), dice.between(1880, 1972))

    def _hire(self, occupation: str, count: int) -> list[Entity]:
        """Give that occupation to some persons who still have an ordinary one."""
        free = [person for person in self.entities["person"] if person["occupation"] in _OCCUPATIONS]
        chosen = self._dice.shuffled(free)[:count]
        for person in chosen:
            self._put(person, "occupation", occupation)
        return chosen

    def _company(self, stem: str, suffix: str, founder: Entity, industry: str, hidden: Sequence[float]) -> None:
        company = self._add("company", f"{stem} {suffix}", [stem])
        self._put(company, "founder", founder, hidden[0])
        self._put(company, "founded", founder.year("birth_date") + self._dice.between(23, 41))
        self._put(company, "headquarters", self._pick("city"), hidden[1])
        self._put(company, "industry", industry)

    def _add_institutions(self) -> None:
        dice = self._dice
        for n, founder in enumerate(self._hire("merchant", 10)):
            industry = _PRODUCTS[n] if n < len(_PRODUCTS) else dice.pick(_INDUSTRIES)
            stem = dice.pick((founder.name.split()[-1], self._coin("company")))
            suffix = dice.pick(("Works", "Company", "Group"))
            if any(company.name == f"{stem} {suffix}" for company in self.entities["company"]):
                stem, suffix = self._coin("company"), "Works"
            self._company(stem, suffix, founder, industry, hidden=(0.08, 0.05))
        for trade, suffix in (("publishing", "Press"), ("film", "Pictures"), ("record", "Records")):
            for _ in range(2 if trade == "record" else 3):
                [founder] = self._hire("entrepreneur", 1)
                self._company(self._coin("company"), suffix, founder, trade, hidden=(0.05, 0.0))
        for official in self._hire("civil servant", 9):
            posts, cities = dice.shuffled(POSTS)[:5], dice.shuffled(self.entities["city"])
            for post, city in zip(posts, cities, strict=False):
                self._state(official, post, city)

    def _title(self) -> str:
        dice, word = self._dice, self._coin("title")
        noun = dice.pick(_NOUNS)
        return dice.pick((f"The {noun} of {word}", f"{word} and the {noun}", f"Another {noun} for {word}",
                          f"{word} Rising", f"Farewell to {word}", f"The {word} {noun}"))  # fmt: skip

    def _of_trade(self, trade: str) -> Entity:
        return self._dice.pick([company for company in self.entities["company"] if company["industry"] == trade])

    def _add_works(self) -> None:
        dice = self._dice
        directors, actors = self._hire("film director", 15), self._hire("actor", 10)
        for actor in actors:
            self._put(actor, "occupation", "actor" if actor.gender == "male" else "actress")
        for n in range(60):
            director = directors[n % len(directors)]
            film = self._add("film", self._title())
            self._credit(film, "director", director, listed=director in directors[:6])
            self._put(film, "release_year", director.year("birth_date") + dice.between(26, 43))
            self._cast(film, "star", actors, age=17, hidden=0.12)
            self._put(film, "studio", self._of_trade("film"), hidden=0.12)
            self._put(film, "genre", dice.pick(_GENRES))
        authors = self._hire("novelist", 10)
        for n in range(36):
            author = authors[n % len(authors)]
            book = self._add("book", self._title())
            self._credit(book, "author", author, listed=author in authors[:4])
            self._put(book, "year", author.year("birth_date") + dice.between(26, 43))
            self._put(book, "publisher", self._of_trade("publishing"), hidden=0.1)
        codes = self._codes(16, " ")
        for n, singer in enumerate(self._hire("singer", 16)):
            word = self._coin("title")
            plural = dice.pick(_PLURALS)
            name, bare = dice.pick(((f"The {word} {plural}", f"{word} {plural}"), (f"{word} Quartet", word)))
            band = self._add("band", name, [bare])
            self._put(band, "singer", singer, hidden=0.08)
            self._put(band, "formed", singer.year("birth_date") + dice.between(18, 27))
            self._put(band, "formed_in", self._pick("city"), hidden=0.06)
            self._put(band, "label", self._of_trade("record"), hidden=0.1)
            album = self._add("album", self._title())
            self._credit(album, "band", band, listed=n % 2 == 0)
            self._put(album, "catalogue", codes[n])
            self._put(album, "year", band["formed"] + dice.between(1, 9))
            self._cast(album, "producer", self.entities["person"], age=20, hidden=0.1)

    def _codes(self, count: int, mark: str) -> list[str]:
        """Different codes of two letters, a mark and four digits, each one digit away from the first."""
        letters = "".join(self._dice.pick("BDFGHKLMNPRSTVZ") for _ in range(2))
        first = str(self._dice.between(1000, 9999))
        near = [first[:n] + digit + first[n + 1 :] for n in (1, 2, 3) for digit in "0123456789" if digit != first[n]]
        return [letters + mark + number for number in [first, *self._dice.shuffled(near)][:count]]

    def _add_models(self) -> None:
        """Give each of the first companies three models whose numbers, and those of their service kits, look alike."""
        designers = self._dice.shuffled([p for p in self.entities["person"] if p.year("birth_date") < 1960])
        for company in self.entities["company"][: len(_PRODUCTS)]:
            numbers, kits = self._codes(3, ""), self._codes(3, "-")
            for n, (number, kit) in enumerate(zip(numbers, kits, strict=True)):
                designer = designers.pop()
                model = self._add("model", f"{company.variants[0]} {number[2:]}")
                self._put(model, "product", company["industry"])
                self._state(model, "maker", company)
                self._credit(model, "designer", designer, listed=n != 1)
                self._put(model, "year", designer.year("birth_date") + self._dice.between(24, 43))
                self._put(model, "kit", kit)

    def _add_namesakes(self) -> None:
        """Give one name to two persons, and to a film and a novel, several times each."""
        singles = self._dice.shuffled(self.entities["person"][-18:])
        films = self._dice.shuffled(self.entities["film"])
        for _ in range(3):
            first = singles.pop()
            second = next(person for person in singles if person.year("birth_date") != first.year("birth_date"))
            singles.remove(second)
            second.name, second.gender = first.name, first.gender
            for person in (first, second):
                person.has_namesake = True
                person.facts = {r: replace(fact, in_own_article=True) for r, fact in person.facts.items()}
                person.title = f"{person.name} (born {person.year('birth_date')})"
        for film, book in zip(films[:6], self.entities["book"], strict=False):
            book.name = film.name
            film.title, book.title = f"{film.name} (film)", f"{book.name} (novel)"
