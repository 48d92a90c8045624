"""The facts of a fictional world: who was born where, who directed what, which river runs through which city.

A world is a numbered, closed cluster of some 270 entities; worlds with different numbers share no name. Three worlds
make an encyclopedia, one each for train, dev and test: seed 0 is worlds 0 to 2, seed 1 worlds 3 to 5, and so on. A fact
is stated in the article of its subject, in the article of its object, in both, or in none. The last are what the
encyclopedia does not know.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import date

from fictional.article_wordings import IN_OTHER_ARTICLE, POSTS
from fictional.names import Dice, coin

WORLDS_PER_SEED = 3
SAMPLE_SEED = 0
"""The seed of the sample that comes with knowgap."""
UNSEEN_SEEDS = (147, 148, 149)
"""Seeds for the figures of a release: no program is run on them before the figures of an issue are reported."""

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

    value: Entity | date | int | str
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
        title: unique title of its article, also the passage's id.
        gender: "male" or "female" for a person, else empty.
        variants: other names that count as the same answer.
        has_namesake: another entity of its kind has the same name.
        month_first: its article writes dates as "May 3, 1901".
        facts: by relation.
        mentioned: (subject, relation) of the facts of other entities that its article states.
    """

    kind: str
    name: str
    title: str = ""
    gender: str = ""
    variants: list[str] = field(default_factory=list)
    has_namesake: bool = False
    month_first: bool = False
    facts: dict[str, Fact] = field(default_factory=dict)
    mentioned: list[tuple[Entity, str]] = field(default_factory=list)

    def year(self, relation: str) -> int:
        """The year of a fact whose value is a date or a year."""
        value = self.facts[relation].value
        return value.year if isinstance(value, date) else int(str(value))


@dataclass(slots=True)
class World:
    """All entities of a world, by kind."""

    number: int
    entities: dict[str, list[Entity]] = field(default_factory=dict)

    def all(self) -> list[Entity]:
        """Every entity, kind by kind."""
        return [entity for kind in self.entities.values() for entity in kind]


def build_world(number: int) -> World:
    """Build the world of a number, from 0."""
    return _Builder(number).build()


class _Builder:
    def __init__(self, number: int) -> None:
        self.first_name = number * _NAMES_PER_KIND
        self.dice = Dice(number)
        self.world = World(number)
        self.counters: dict[str, int] = {}

    def build(self) -> World:
        self.add_places()
        self.add_families()
        self.add_institutions()
        self.add_works()
        self.add_models()
        self.add_namesakes()
        for entity in self.world.all():
            entity.title = entity.title or entity.name
            entity.month_first = self.dice.chance(0.5)
        return self.world

    def coin(self, kind: str) -> str:
        number = self.counters.get(kind, 0)
        self.counters[kind] = number + 1
        assert number < _NAMES_PER_KIND, kind
        return coin(kind, self.first_name + number)

    def add(self, kind: str, name: str, variants: Sequence[str] = (), gender: str = "") -> Entity:
        entity = Entity(kind, name, gender=gender, variants=list(variants))
        self.world.entities.setdefault(kind, []).append(entity)
        return entity

    def pick(self, kind: str) -> Entity:
        return self.dice.pick(self.world.entities[kind])

    def put(self, subject: Entity, relation: str, value: Entity | date | int | str, hidden: float = 0.0) -> None:
        """Add a fact, stated in one article or both, or with probability `hidden` in none."""
        in_own = in_other = False
        if not self.dice.chance(hidden):
            lot = self.dice.below(100)
            own_only = (subject.kind, relation) not in IN_OTHER_ARTICLE or len(getattr(value, "mentioned", ())) >= 4
            in_own, in_other = own_only or lot < 75, not own_only and lot >= 50
        self.state(subject, relation, value, in_own, in_other)

    def state(
        self, subject: Entity, relation: str, value: Entity | date | int | str, in_own: bool, in_other: bool
    ) -> None:
        """Add a fact that is stated in the articles named."""
        subject.facts[relation] = Fact(value, in_own, in_other)
        if in_other and isinstance(value, Entity):
            value.mentioned.append((subject, relation))

    def add_places(self) -> None:
        dice = self.dice
        for _ in range(4):
            name = self.coin("country")
            country = self.add("country", name)
            rivers: list[Entity] = []
            for _ in range(3):
                stem = self.coin("river")
                river = self.add("river", f"{stem} River", [stem, f"River {stem}"])
                rivers.append(river)
                self.put(river, "length", dice.between(61, 1290))
                self.put(river, "country", country)
            for main in rivers[1:]:
                self.put(main, "mouth", rivers[0], hidden=0.1)
            cities = []
            for _ in range(7):
                stem = self.coin("city")
                city = self.add("city", stem, [f"{stem}, {name}"])
                cities.append(city)
                self.put(city, "country", country)
                self.put(city, "population", dice.between(9_100, 2_400_000))
                self.put(city, "river", dice.pick(rivers), hidden=0.08)
            self.put(country, "capital", cities[0])
            self.put(country, "population", dice.between(2_500_000, 61_000_000))
        for city in self.world.entities["city"][::2]:
            if dice.chance(0.4):
                school = self.add("university", f"University of {city.name}", [f"{city.name} University"])
                self.put(school, "city", city)
            else:
                school = self.add("university", f"{self.coin('surname')} College")
                self.put(school, "city", self.pick("city"))
            self.put(school, "founded", dice.between(1640, 1875))

    def person(self, gender: str, surname: str, born: int, country: Entity | None = None) -> Entity:
        dice = self.dice
        taken = {person.name for person in self.world.entities.get("person", [])}
        name = f"{dice.given_name(gender)} {surname}"
        while name in taken:
            name = f"{dice.given_name(gender)} {surname}"
        person = self.add("person", name, gender=gender)
        place = self.pick("city")
        while country and place.facts["country"].value is not country and dice.chance(0.8):
            place = self.pick("city")
        home = country or place.facts["country"].value
        birth = self.day(born)
        self.put(person, "birth_date", birth, hidden=0.08)
        self.put(person, "birth_place", place, hidden=0.1)
        self.put(person, "nationality", home, hidden=0.05)
        self.put(person, "occupation", dice.pick(_OCCUPATIONS))
        if dice.chance(0.6):
            self.put(person, "alma_mater", self.pick("university"), hidden=0.15)
        if born < 1935:
            self.put(person, "death_date", self.day(born + dice.between(44, 86)), hidden=0.08)
            self.put(person, "death_place", self.pick("city"), hidden=0.2)
        return person

    def day(self, year: int) -> date:
        return date(year, self.dice.between(1, 12), self.dice.between(1, 28))

    def marry(self, husband: Entity, wife: Entity) -> None:
        lot = 100 if self.dice.chance(0.1) else self.dice.below(100)
        in_his, in_hers = lot < 70, 40 <= lot < 100
        husband.facts["spouse"] = Fact(wife, in_his, in_hers)
        wife.facts["spouse"] = Fact(husband, in_hers, in_his)

    def add_families(self) -> None:
        dice = self.dice
        parents = [(self.ancestor("male"), self.ancestor("female")) for _ in range(12)]
        for generation in range(2):
            children: list[tuple[Entity, Entity]] = []
            for husband, wife in parents:
                self.marry(husband, wife)
                pair = []
                for gender in ("male", "female"):
                    born = max(husband.year("birth_date"), wife.year("birth_date")) + dice.between(21, 33)
                    nation = husband.facts["nationality"].value
                    assert isinstance(nation, Entity)
                    child = self.person(gender, husband.name.split()[-1], born, nation)
                    self.put(child, "father", husband, hidden=0.06)
                    self.put(child, "mother", wife, hidden=0.06)
                    pair.append(child)
                children.append((pair[0], pair[1]))
            # Each son marries the next family's daughter, so that everyone who is married has parents-in-law.
            parents = [(son, children[n - 1][1]) for n, (son, _) in enumerate(children)]
            if generation == 1:
                for husband, wife in parents[::2]:
                    self.marry(husband, wife)
        for _ in range(24):
            self.person(dice.pick(("male", "female")), self.coin("surname"), dice.between(1880, 1972))

    def ancestor(self, gender: str) -> Entity:
        return self.person(gender, self.coin("surname"), self.dice.between(1858, 1884))

    def hire(self, occupation: str, count: int) -> list[Entity]:
        """Give that occupation to some persons who still have an ordinary one."""
        free = [person for person in self.world.entities["person"] if person.facts["occupation"].value in _OCCUPATIONS]
        chosen = self.dice.shuffled(free)[:count]
        for person in chosen:
            self.put(person, "occupation", occupation)
        return chosen

    def add_institutions(self) -> None:
        dice = self.dice
        for n, founder in enumerate(self.hire("merchant", 10)):
            industry = _PRODUCTS[n] if n < len(_PRODUCTS) else dice.pick(_INDUSTRIES)
            stem = dice.pick((founder.name.split()[-1], self.coin("company")))
            name = f"{stem} {dice.pick(('Works', 'Company', 'Group'))}"
            if any(company.name == name for company in self.world.entities.get("company", [])):
                stem = self.coin("company")
                name = f"{stem} Works"
            company = self.add("company", name, [stem])
            self.put(company, "founder", founder, hidden=0.08)
            self.put(company, "founded", founder.year("birth_date") + dice.between(23, 41))
            self.put(company, "headquarters", self.pick("city"), hidden=0.05)
            self.put(company, "industry", industry)
        for trade in ("publishing", "publishing", "publishing", "film", "film", "film", "record", "record"):
            stem = self.coin("company")
            suffix = {"publishing": "Press", "film": "Pictures", "record": "Records"}[trade]
            company = self.add("company", f"{stem} {suffix}", [stem])
            self.put(company, "founder", self.hire("entrepreneur", 1)[0], hidden=0.05)
            founder = company.facts["founder"].value
            assert isinstance(founder, Entity)
            self.put(company, "founded", founder.year("birth_date") + dice.between(23, 41))
            self.put(company, "headquarters", self.pick("city"))
            self.put(company, "industry", trade)
        for official in self.hire("civil servant", 9):
            posts, cities = dice.shuffled(POSTS)[:5], dice.shuffled(self.world.entities["city"])
            for post, city in zip(posts, cities, strict=False):
                self.state(official, post, city, in_own=True, in_other=False)

    def title(self) -> str:
        dice, word = self.dice, self.coin("title")
        noun = dice.pick(_NOUNS)
        return dice.pick((f"The {noun} of {word}", f"{word} and the {noun}", f"Another {noun} for {word}",
                          f"{word} Rising", f"Farewell to {word}", f"The {word} {noun}"))  # fmt: skip

    def of_trade(self, trade: str) -> Entity:
        return self.dice.pick([c for c in self.world.entities["company"] if c.facts["industry"].value == trade])

    def add_works(self) -> None:
        dice = self.dice
        directors, actors = self.hire("film director", 15), self.hire("actor", 10)
        for actor in actors:
            self.put(actor, "occupation", "actor" if actor.gender == "male" else "actress")
        for n in range(60):
            director = directors[n % len(directors)]
            film = self.add("film", self.title())
            self.credit(film, "director", director, listed=director in directors[:6])
            self.put(film, "release_year", director.year("birth_date") + dice.between(26, 43))
            grown = [a for a in actors if 17 <= film.year("release_year") - a.year("birth_date") <= 43]
            if grown:
                self.put(film, "star", dice.pick(grown), hidden=0.12)
            self.put(film, "studio", self.of_trade("film"), hidden=0.12)
            self.put(film, "genre", dice.pick(_GENRES))
        authors = self.hire("novelist", 10)
        for n in range(36):
            author = authors[n % len(authors)]
            book = self.add("book", self.title())
            self.credit(book, "author", author, listed=author in authors[:4])
            self.put(book, "year", author.year("birth_date") + dice.between(26, 43))
            self.put(book, "publisher", self.of_trade("publishing"), hidden=0.1)
        codes = self.codes(16)
        for n, singer in enumerate(self.hire("singer", 16)):
            word = self.coin("title")
            plural = dice.pick(_PLURALS)
            name, bare = dice.pick(((f"The {word} {plural}", f"{word} {plural}"), (f"{word} Quartet", word)))
            band = self.add("band", name, [bare])
            self.put(band, "singer", singer, hidden=0.08)
            self.put(band, "formed", singer.year("birth_date") + dice.between(18, 27))
            self.put(band, "formed_in", self.pick("city"), hidden=0.06)
            self.put(band, "label", self.of_trade("record"), hidden=0.1)
            album = self.add("album", self.title())
            self.credit(album, "band", band, listed=n % 2 == 0)
            self.put(album, "catalogue", f"{codes[n][:-4]} {codes[n][-4:]}")
            self.put(album, "year", band.year("formed") + dice.between(1, 9))
            year = album.year("year")
            grown = [p for p in self.world.entities["person"] if 20 <= year - p.year("birth_date") <= 43]
            if grown:
                self.put(album, "producer", dice.pick(grown), hidden=0.1)

    def credit(self, work: Entity, relation: str, maker: Entity, *, listed: bool) -> None:
        """Say who made a work: for some makers only in the list of works in their own article."""
        if listed:
            self.state(work, relation, maker, in_own=False, in_other=True)
        else:
            self.put(work, relation, maker, hidden=0.06)

    def codes(self, count: int) -> list[str]:
        """Different codes of two letters and four digits, each one digit away from the first."""
        letters = "".join(self.dice.pick("BDFGHKLMNPRSTVZ") for _ in range(2))
        digits = str(self.dice.between(1000, 9999))
        near = [digits[:n] + str(d) + digits[n + 1 :] for n in range(1, 4) for d in range(10) if str(d) != digits[n]]
        return [letters + number for number in [digits, *self.dice.shuffled(near)][:count]]

    def add_models(self) -> None:
        """Give each of the first companies three models whose numbers, and those of their service kits, look alike."""
        grown = [person for person in self.world.entities["person"] if person.year("birth_date") < 1960]
        designers = self.dice.shuffled(grown)
        for company in self.world.entities["company"][: len(_PRODUCTS)]:
            product = company.facts["industry"].value
            numbers, kits = self.codes(3), self.codes(3)
            for n, (number, kit) in enumerate(zip(numbers, kits, strict=True)):
                designer = designers.pop()
                model = self.add("model", f"{company.variants[0]} {number[2:]}")
                self.put(model, "product", product)
                self.state(model, "maker", company, in_own=True, in_other=False)
                self.credit(model, "designer", designer, listed=n != 1)
                self.put(model, "year", designer.year("birth_date") + self.dice.between(24, 43))
                self.put(model, "kit", f"{kit[:-4]}-{kit[-4:]}")

    def add_namesakes(self) -> None:
        """Give one name to two persons, and to a film and a novel, several times each."""
        singles = self.dice.shuffled(self.world.entities["person"][-18:])
        films = self.dice.shuffled(self.world.entities["film"])
        for _ in range(3):
            first = singles.pop()
            second = next(person for person in singles if person.year("birth_date") != first.year("birth_date"))
            singles.remove(second)
            second.name, second.gender = first.name, first.gender
            for person in (first, second):
                person.has_namesake = True
                person.facts = {r: Fact(f.value, True, f.in_other_article) for r, f in person.facts.items()}
                person.title = f"{person.name} (born {person.year('birth_date')})"
        for film, book in zip(films[:6], self.world.entities["book"], strict=False):
            book.name = film.name
            film.title, book.title = f"{film.name} (film)", f"{book.name} (novel)"
