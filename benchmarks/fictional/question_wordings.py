"""How the questions about the fictional encyclopedia are worded.

Each wording is written three times, for train, dev and test, so that no split shows the wordings of another.
"""

from __future__ import annotations

Three = tuple[str, str, str]

# fmt: off
MENTIONS: dict[str, Three] = {
    "film": ("the film {x}", "the motion picture {x}", "the movie {x}"),
    "book": ("the novel {x}", "the book {x}", "the work of fiction {x}"),
    "album": ("the album {x}", "the long-playing record {x}", "the record {x}"),
    "band": ("the band {x}", "the group {x}", "the musical group {x}"),
    "company": ("the company {x}", "the firm {x}", "the business {x}"),
    "catalogue": ("the album with the catalogue number {x}", "the record that was sold as number {x}",
                  "the album whose number is {x}"),
}
"""How a question mentions an entity, by kind; other kinds are mentioned by their name alone."""

DESCRIPTIONS: dict[tuple[str, str], Three] = {
    ("film", "director"): ("the director of {x}", "the person who directed {x}", "the filmmaker responsible for {x}"),
    ("film", "star"): ("the star of {x}", "the lead actor of {x}", "the performer with the main part in {x}"),
    ("film", "studio"): ("the studio that made {x}", "the production company of {x}", "the company that produced {x}"),
    ("book", "author"): ("the author of {x}", "the writer of {x}", "the novelist who wrote {x}"),
    ("book", "publisher"): ("the publisher of {x}", "the house that published {x}",
                            "the company that brought out {x}"),
    ("company", "founder"): ("the founder of {x}", "the person who founded {x}", "the person who started {x}"),
    ("company", "headquarters"): ("the city where {x} is based", "the city with the head office of {x}",
                                  "the place from which {x} is run"),
    ("band", "singer"): ("the lead singer of {x}", "the person who fronts {x}", "the vocalist of {x}"),
    ("band", "formed_in"): ("the home town of {x}", "the city where {x} was formed", "the city that {x} came from"),
    ("band", "label"): ("the record label of {x}", "the label that {x} is signed to",
                        "the company that releases the records of {x}"),
    ("album", "band"): ("the band that recorded {x}", "the ensemble that recorded {x}", "the musicians who made {x}"),
    ("album", "producer"): ("the producer of {x}", "the person who produced {x}",
                            "the person in charge of producing {x}"),
    ("model", "designer"): ("the designer of {x}", "the person who designed {x}",
                            "the person to whom the design of {x} is owed"),
    ("city", "river"): ("the river on which {x} lies", "the river that flows through {x}", "the river at {x}"),
    ("city", "country"): ("the country of {x}", "the country to which {x} belongs", "the country that {x} is in"),
    ("river", "mouth"): ("the river into which {x} flows", "the river that {x} joins",
                         "the river in which {x} ends"),
    ("university", "city"): ("the city that is home to {x}", "the home city of {x}", "the city in which one finds {x}"),
    ("person", "birth_place"): ("the birthplace of {x}", "the city where {x} was born", "the native city of {x}"),
    ("person", "death_place"): ("the city where {x} died", "the place of death of {x}",
                                "the city in which the life of {x} ended"),
    ("person", "spouse"): ("the spouse of {x}", "the person married to {x}", "the husband or wife of {x}"),
    ("person", "father"): ("the father of {x}", "the man who was the father of {x}",
                           "the man whose son or daughter was {x}"),
    ("person", "mother"): ("the mother of {x}", "the woman who was the mother of {x}",
                           "the woman whose son or daughter was {x}"),
    ("person", "alma_mater"): ("the university that {x} attended", "the alma mater of {x}",
                               "the place of learning where {x} studied"),
    ("person", "post"): ("the city where {x} was {post}", "the city that had {x} as its {post}",
                         "the city that employed {x} as {post}"),
}
"""The value of a fact, by kind and relation."""

QUESTIONS: dict[tuple[str, str], Three] = {
    ("film", "director"): ("Who directed {x}?", "Who was the director of {x}?", "Which filmmaker made {x}?"),
    ("film", "star"): ("Who stars in {x}?", "Who plays the lead in {x}?", "Which performer has the main part in {x}?"),
    ("film", "studio"): ("Which studio made {x}?", "Which company produced {x}?",
                         "What is the name of the production company of {x}?"),
    ("book", "author"): ("Who wrote {x}?", "Who is the author of {x}?", "Which novelist is {x} by?"),
    ("book", "publisher"): ("Which company published {x}?", "Who is the publisher of {x}?", "Who brought out {x}?"),
    ("company", "founder"): ("Who founded {x}?", "Who is the founder of {x}?", "Who started {x}?"),
    ("company", "founded"): ("In which year was {x} founded?", "When was {x} established?",
                             "What is the founding year of {x}?"),
    ("company", "headquarters"): ("In which city is {x} based?", "Where is the head office of {x}?",
                                  "From which city is {x} run?"),
    ("band", "singer"): ("Who is the lead singer of {x}?", "Who fronts {x}?", "Who is the vocalist of {x}?"),
    ("band", "formed"): ("In which year was {x} formed?", "When did {x} come together?",
                         "What was the first year of {x}?"),
    ("band", "formed_in"): ("In which city was {x} formed?", "What is the home town of {x}?",
                            "Which city did {x} come from?"),
    ("band", "label"): ("Which record label is {x} signed to?", "What is the label of {x}?",
                        "Which company releases the records of {x}?"),
    ("album", "band"): ("Which band recorded {x}?", "Which ensemble recorded {x}?", "Which musicians made {x}?"),
    ("album", "producer"): ("Who produced {x}?", "Who was the producer of {x}?", "Who was in charge of producing {x}?"),
    ("album", "catalogue"): ("What is the catalogue number of {x}?", "Which catalogue number does {x} have?",
                             "Under which number is {x} listed in the catalogue?"),
    ("model", "designer"): ("Who designed {x}?", "Who was the designer of {x}?", "To whom is the design of {x} owed?"),
    ("model", "kit"): ("What is the part number of the service kit for {x}?", "Which service kit does {x} need?",
                       "Under which part number does one order the service kit of {x}?"),
    ("city", "river"): ("On which river does {x} lie?", "Which river flows through {x}?", "What river is {x} on?"),
    ("city", "country"): ("In which country is {x}?", "Which country does {x} belong to?",
                          "What is the country that {x} is in?"),
    ("city", "population"): ("What is the population of {x}?", "How many inhabitants does {x} have?",
                             "How many people live in {x}?"),
    ("country", "capital"): ("What is the capital of {x}?", "Which city is the capital of {x}?",
                             "From which capital is {x} governed?"),
    ("river", "length"): ("How long is {x}?", "What is the length of {x}?", "How many kilometres long is {x}?"),
    ("river", "mouth"): ("Into which river does {x} flow?", "Which river does {x} join?",
                         "In which river does {x} end?"),
    ("university", "city"): ("In which city is {x} located?", "Which city is home to {x}?",
                             "In which city does one find {x}?"),
    ("university", "founded"): ("In which year was {x} founded?", "When was {x} established?",
                                "What is the founding year of {x}?"),
    ("person", "birth_date"): ("When was {x} born?", "What is the date of birth of {x}?",
                               "On what day was {x} born?"),
    ("person", "birth_place"): ("Where was {x} born?", "What is the birthplace of {x}?",
                                "Of which city was {x} a native?"),
    ("person", "death_date"): ("When did {x} die?", "What is the date of death of {x}?",
                               "On what day did {x} die?"),
    ("person", "death_place"): ("Where did {x} die?", "What is the place of death of {x}?",
                                "In which city did the life of {x} end?"),
    ("person", "spouse"): ("Who was {x} married to?", "Who is the spouse of {x}?",
                           "Who was the husband or wife of {x}?"),
    ("person", "father"): ("Who is the father of {x}?", "Which man was the father of {x}?",
                           "Of which man was {x} a child?"),
    ("person", "mother"): ("Who is the mother of {x}?", "Which woman was the mother of {x}?",
                           "Of which woman was {x} a child?"),
    ("person", "alma_mater"): ("Which university did {x} attend?", "What is the alma mater of {x}?",
                               "At which place of learning did {x} study?"),
    ("person", "nationality"): ("What is the nationality of {x}?", "What nationality does {x} have?",
                                "Of which country was {x} a citizen?"),
    ("person", "post"): ("In which city was {x} {post}?", "Which city had {x} as its {post}?",
                         "Which city employed {x} as {post}?"),
}
"""Questions for the value of a fact, by kind and relation."""

WORKS: dict[tuple[str, str], tuple[Three, Three]] = {
    ("film", "director"): (
        ("the film that {x} directed in {year}", "the {year} film by {x}", "the film that {x} made in {year}"),
        ("Which film did {x} direct in {year}?", "What is the {year} film by {x}?",
         "Which film did {x} make in {year}?")),
    ("book", "author"): (
        ("the novel that {x} wrote in {year}", "the {year} novel by {x}", "the book that {x} brought out in {year}"),
        ("Which novel did {x} write in {year}?", "What is the {year} novel by {x}?",
         "Which book did {x} bring out in {year}?")),
    ("album", "band"): (
        ("the album by {x}", "the album that {x} recorded", "the album that {x} made"),
        ("What is the album by {x}?", "Which album did {x} record?", "Which album did {x} make?")),
    ("model", "designer"): (
        ("the {product} by the designer {x}", "the {product} that {x} designed",
         "the {product} whose design is owed to {x}"),
        ("Which {product} is by the designer {x}?", "Which {product} did {x} design?",
         "Which {product} owes its design to {x}?")),
}
"""By kind and relation, the one work of its maker `{x}` (in the year `{year}`), and a question for it."""

COMPARISONS: dict[tuple[str, ...], Three] = {
    ("film", "director", "birth_date"): ("Which film has the younger director, {x} or {y}?",
        "Whose director was born later, that of {x} or that of {y}?",
        "Which of the movies {x} and {y} was made by the younger filmmaker?"),
    ("book", "author", "birth_date"): ("Which novel has the younger author, {x} or {y}?",
        "Whose author was born later, that of {x} or that of {y}?",
        "Which of the books {x} and {y} is by the younger novelist?"),
    ("book", "publisher", "founded"): ("Which novel has the younger publisher, {x} or {y}?",
        "Whose publisher was established later, that of {x} or that of {y}?",
        "Which of the books {x} and {y} was brought out by the more recently founded company?"),
}
"""Which of two entities leads to the larger value."""

YES_NO: dict[tuple[str, ...], Three] = {
    ("film", "director", "nationality"): ("Do the directors of {x} and {y} have the same nationality?",
        "Are the people who directed {x} and {y} from one country?",
        "Were the filmmakers responsible for {x} and {y} citizens of the same country?"),
    ("book", "author", "nationality"): ("Do the authors of {x} and {y} have the same nationality?",
        "Are the writers of {x} and {y} from one country?",
        "Were the novelists who wrote {x} and {y} citizens of the same country?"),
}
"""Whether two entities lead to the same value."""

RELATION_NAMES: dict[str, str] = {
    "birth_date": "date of birth", "birth_place": "place of birth", "death_date": "date of death",
    "death_place": "place of death", "alma_mater": "educated at", "release_year": "publication date",
    "year": "publication date", "founded": "inception", "formed": "inception", "formed_in": "location of formation",
    "headquarters": "headquarters location", "singer": "lead singer", "label": "record label",
    "studio": "production company", "star": "cast member", "river": "located on river", "kit": "service kit",
    "mouth": "mouth of the watercourse", "catalogue": "catalogue number",
}
"""Names of relations in evidence triples, where they are not the relation's own."""
# fmt: on
