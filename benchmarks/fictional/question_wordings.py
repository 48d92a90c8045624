"""How the questions about the fictional encyclopedia are worded."""

from __future__ import annotations

# fmt: off
MENTIONS: dict[str, list[str]] = {
    "film": ["the film {x}", "{x}"],
    "book": ["the novel {x}", "{x}"],
    "album": ["the album {x}", "{x}"],
    "band": ["the band {x}", "{x}"],
    "company": ["the company {x}", "{x}"],
    "city": ["{x}", "the city of {x}"],
}
"""How a question mentions an entity, by kind; other kinds are mentioned by their name alone."""

DESCRIPTIONS: dict[tuple[str, str], list[str]] = {
    ("film", "director"): ["the director of {x}", "the person who directed {x}"],
    ("film", "star"): ["the star of {x}", "the lead actor of {x}"],
    ("film", "studio"): ["the production company of {x}", "the company that produced {x}"],
    ("book", "author"): ["the author of {x}", "the writer of {x}"],
    ("book", "publisher"): ["the publisher of {x}", "the company that published {x}"],
    ("company", "founder"): ["the founder of {x}", "the person who founded {x}"],
    ("company", "headquarters"): ["the city where {x} has its headquarters", "the city in which {x} is based"],
    ("band", "singer"): ["the lead singer of {x}", "the person who fronts {x}"],
    ("band", "formed_in"): ["the city where {x} was formed", "the home town of {x}"],
    ("band", "label"): ["the record label of {x}", "the company for which {x} records"],
    ("album", "band"): ["the band that recorded {x}", "the performer of {x}"],
    ("album", "producer"): ["the producer of {x}", "the person who produced {x}"],
    ("city", "mayor"): ["the first mayor of {x}"],
    ("city", "river"): ["the river on which {x} lies", "the river that flows through {x}"],
    ("city", "country"): ["the country of {x}", "the country to which {x} belongs"],
    ("country", "capital"): ["the capital of {x}"],
    ("river", "mouth"): ["the river into which {x} flows"],
    ("university", "city"): ["the home city of {x}", "the city that is home to {x}"],
    ("person", "birth_place"): ["the birthplace of {x}", "the city where {x} was born"],
    ("person", "death_place"): ["the city where {x} died", "the place of death of {x}"],
    ("person", "spouse"): ["the spouse of {x}", "the person married to {x}"],
    ("person", "father"): ["the father of {x}"],
    ("person", "mother"): ["the mother of {x}"],
    ("person", "alma_mater"): ["the university that {x} attended", "the alma mater of {x}"],
}
"""Descriptions of the value of a fact, by kind and relation."""

QUESTIONS: dict[tuple[str, str], list[str]] = {
    ("film", "director"): ["Who directed {x}?", "Who is the director of {x}?", "Who was {x} directed by?"],
    ("film", "release_year"): ["In which year was {x} released?", "When was {x} released?",
                               "What year did {x} come out?"],
    ("film", "country"): ["Which country is {x} from?", "In which country was {x} made?"],
    ("film", "star"): ["Who played the leading role in {x}?", "Who stars in {x}?", "Who is the lead actor of {x}?"],
    ("film", "studio"): ["Which company produced {x}?", "What is the production company of {x}?"],
    ("book", "author"): ["Who wrote {x}?", "Who is the author of {x}?"],
    ("book", "year"): ["In which year was {x} published?", "When was {x} first published?"],
    ("book", "publisher"): ["Which company published {x}?", "Who is the publisher of {x}?"],
    ("company", "founder"): ["Who founded {x}?", "Who is the founder of {x}?", "Who established {x}?"],
    ("company", "founded"): ["In which year was {x} founded?", "When was {x} established?"],
    ("company", "headquarters"): ["In which city is {x} based?", "Where are the headquarters of {x}?"],
    ("band", "singer"): ["Who is the lead singer of {x}?", "Who fronts {x}?"],
    ("band", "formed"): ["In which year was {x} formed?", "When was {x} formed?"],
    ("band", "formed_in"): ["In which city was {x} formed?", "Where was {x} formed?"],
    ("band", "label"): ["Which record label is {x} signed to?", "What is the record label of {x}?"],
    ("album", "band"): ["Which band recorded {x}?", "Who recorded {x}?"],
    ("album", "year"): ["In which year was {x} released?", "When did {x} come out?"],
    ("album", "producer"): ["Who produced {x}?", "Who was the producer of {x}?"],
    ("city", "mayor"): ["Who was the first mayor of {x}?"],
    ("city", "river"): ["On which river does {x} lie?", "Which river flows through {x}?"],
    ("city", "country"): ["In which country is {x}?", "Which country does {x} belong to?"],
    ("city", "population"): ["What is the population of {x}?", "How many inhabitants does {x} have?"],
    ("country", "capital"): ["What is the capital of {x}?", "Which city is the capital of {x}?"],
    ("river", "length"): ["How long is {x}?", "What is the length of {x}?"],
    ("river", "mouth"): ["Which river does {x} flow into?", "Into which river does {x} empty?"],
    ("university", "city"): ["In which city is {x} located?", "Where is {x}?"],
    ("university", "founded"): ["In which year was {x} founded?", "When was {x} established?"],
    ("person", "birth_date"): ["When was {x} born?", "What is the date of birth of {x}?", "On what date was {x} born?"],
    ("person", "birth_place"): ["Where was {x} born?", "In which city was {x} born?", "What is the birthplace of {x}?"],
    ("person", "death_date"): ["When did {x} die?", "What is the date of death of {x}?"],
    ("person", "death_place"): ["Where did {x} die?", "In which city did {x} die?"],
    ("person", "nationality"): ["What is the nationality of {x}?", "What nationality is {x}?"],
    ("person", "spouse"): ["Who was {x} married to?", "Who is the spouse of {x}?"],
    ("person", "father"): ["Who is the father of {x}?", "Who was the father of {x}?"],
    ("person", "mother"): ["Who is the mother of {x}?", "Who was the mother of {x}?"],
    ("person", "alma_mater"): ["Which university did {x} attend?", "Where did {x} study?",
                             "What is the alma mater of {x}?"],
}
"""Questions for the value of a fact, by kind and relation; the first wording is that of the decompositions."""

COMPARISONS: dict[tuple[str, str], list[tuple[str, bool]]] = {
    ("film", "release_year"): [("Which film was released first, {x} or {y}?", False),
                               ("Which film came out later, {x} or {y}?", True),
                               ("Which film is older, {x} or {y}?", False)],
    ("person", "birth_date"): [("Who was born first, {x} or {y}?", False), ("Who is younger, {x} or {y}?", True),
                               ("Who was born earlier, {x} or {y}?", False)],
    ("person", "death_date"): [("Who died first, {x} or {y}?", False), ("Who died later, {x} or {y}?", True)],
    ("city", "population"): [("Which city has more inhabitants, {x} or {y}?", True),
                             ("Which city has the smaller population, {x} or {y}?", False)],
    ("river", "length"): [("Which river is longer, {x} or {y}?", True), ("Which river is shorter, {x} or {y}?", False)],
    ("company", "founded"): [("Which company was founded first, {x} or {y}?", False),
                             ("Which company was established later, {x} or {y}?", True)],
    ("university", "founded"): [("Which university is older, {x} or {y}?", False),
                                ("Which university was founded later, {x} or {y}?", True)],
    ("band", "formed"): [("Which band was formed first, {x} or {y}?", False)],
    ("book", "year"): [("Which novel was published first, {x} or {y}?", False),
                       ("Which novel was published later, {x} or {y}?", True)],
}
"""Comparisons of two entities in one relation, and whether the larger value is the answer."""

BRIDGE_COMPARISONS: dict[tuple[str, str, str], list[tuple[str, bool]]] = {
    ("film", "director", "birth_date"): [("Which film has the director who was born first, {x} or {y}?", False),
                                         ("Which film has the younger director, {x} or {y}?", True),
                                         ("Which film whose director is older, {x} or {y}?", False)],
    ("film", "director", "death_date"): [("Which film has the director who died first, {x} or {y}?", False),
                                         ("Which film has the director who died later, {x} or {y}?", True)],
    ("film", "star", "birth_date"): [("Which film has the older star, {x} or {y}?", False)],
    ("book", "author", "birth_date"): [("Which novel has the author who was born earlier, {x} or {y}?", False),
                                       ("Which novel has the younger author, {x} or {y}?", True)],
    ("book", "author", "death_date"): [("Which novel has the author who died earlier, {x} or {y}?", False)],
    ("company", "founder", "birth_date"): [("Which company has the founder who was born first, {x} or {y}?", False)],
    ("band", "singer", "birth_date"): [("Which band has the older lead singer, {x} or {y}?", False)],
    ("album", "producer", "birth_date"): [("Which album has the producer who was born later, {x} or {y}?", True)],
}
"""Comparisons of what two entities lead to."""

YES_NO: dict[tuple[str, ...], list[str]] = {
    ("film", "country"): ["Are {x} and {y} from the same country?",
                          "Do the films {x} and {y} come from the same country?"],
    ("film", "director"): ["Were {x} and {y} directed by the same person?"],
    ("person", "birth_place"): ["Were {x} and {y} born in the same city?", "Do {x} and {y} share a birthplace?"],
    ("person", "nationality"): ["Do {x} and {y} have the same nationality?",
                                "Are {x} and {y} of the same nationality?"],
    ("person", "alma_mater"): ["Did {x} and {y} attend the same university?"],
    ("city", "country"): ["Are {x} and {y} in the same country?", "Do {x} and {y} belong to the same country?"],
    ("city", "river"): ["Do {x} and {y} lie on the same river?"],
    ("book", "publisher"): ["Were {x} and {y} published by the same company?"],
    ("company", "headquarters"): ["Are {x} and {y} based in the same city?"],
    ("film", "director", "nationality"): ["Do the directors of {x} and {y} have the same nationality?"],
    ("book", "author", "nationality"): ["Are the authors of {x} and {y} of the same nationality?"],
}
"""Yes/no questions on whether two entities (or what they lead to) agree in a relation."""

KINSHIP: dict[str, tuple[str, str]] = {
    "paternal grandfather": ("father", "father"),
    "paternal grandmother": ("father", "mother"),
    "maternal grandfather": ("mother", "father"),
    "maternal grandmother": ("mother", "mother"),
    "father-in-law": ("spouse", "father"),
    "mother-in-law": ("spouse", "mother"),
}
"""Kinship that follows from two facts."""

RELATION_NAMES: dict[str, str] = {
    "birth_date": "date of birth", "birth_place": "place of birth", "death_date": "date of death",
    "death_place": "place of death", "alma_mater": "educated at", "release_year": "publication date",
    "year": "publication date", "founded": "inception", "formed": "inception", "formed_in": "location of formation",
    "headquarters": "headquarters location", "singer": "lead singer", "label": "record label", "mayor": "first mayor",
    "studio": "production company", "star": "cast member", "river": "located on river",
    "mouth": "mouth of the watercourse",
}
"""Names of relations in evidence triples, where they are not the relation's own."""
# fmt: on
