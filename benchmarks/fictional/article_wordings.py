"""How the articles of the fictional encyclopedia word each fact.

In a template, `{s}` is the article's subject at the head of a sentence (its name or a pronoun), `{m}` the same within a
sentence, `{p}` its possessive, `{name}` its name, `{o}` the fact's value or other entity, and `{c}` "son" or "daughter"
for that entity. A lead (an article's first sentence) has one field for each relation that it states.
"""

from __future__ import annotations

# fmt: off
POSTS = ("harbour master", "town archivist", "fire chief", "schools inspector", "city librarian", "tax collector",
         "chief surveyor", "market overseer")
"""Posts that a person may have held, each in another city; also the names of these relations."""

LEADS: dict[str, list[str]] = {
    "person": ["{name} ({birth_date} – {death_date}) was a {demonym} {occupation}.",
        "{name} ({birth_date}, {birth_place} – {death_date}, {death_place}) was a {demonym} {occupation}.",
        "{name} (born {birth_date} in {birth_place}) {be} a {demonym} {occupation}.",
        "{name} {be} a {demonym} {occupation} who was born in {birth_place}.", "{name} {be} a {occupation}."],
    "film": ["{name} is a {release_year} {genre} film starring {star}.",
        "{name} is a {genre} film directed by {director} and starring {star}.", "{name} is a {genre} film."],
    "book": ["{name} is a {year} novel by {author}.", "{name} is a novel written by {author} and published in {year}.",
        "{name} is a novel."],
    "company": ["{name} is a {industry} company based in {headquarters}.",
        "{name} is a {industry} company founded in {founded} by {founder}.", "{name} is a {industry} company."],
    "city": ["{name} is a city in {country}.", "{name} is a city in {country} with a population of {population}.",
        "{name} is a {demonym} city with {population} inhabitants."],
    "river": ["{Name} is a river in {country}.", "{Name} is a {demonym} river that is {length} long.",
        "{Name} is a tributary of {mouth} in {country}."],
    "country": ["{name} is a country whose capital is {capital}.", "{name} is a country of {population} people.",
        "{name} is a mountainous country."],
    "university": ["{Name} is a university in {city}.",
        "{Name} is a research university located in {city}, founded in {founded}.", "{Name} is a public university."],
    "band": ["{name} are a rock band formed in {formed_in} in {formed}.",
        "{name} are a folk band formed in {formed} and fronted by {singer}.", "{name} is a pop group."],
    "album": ["{name} is a {year} album by {band}.", "{name} is an album by {band}, released in {year}.",
        "{name} is a studio album."],
    "model": ["{Name} is a {product} made by {maker}.", "{Name} is a {product} that {maker} built from {year} on.",
        "{Name} is a {product} from the works of {maker}."],
}

IN_OWN_ARTICLE: dict[str, dict[str, list[str]]] = {
    "person": {
        "birth_date": ["{s} was born on {o}.", "{p} date of birth is {o}.", "{s} came into the world on {o}."],
        "birth_place": ["{s} was born in {o}.", "{p} birthplace is {o}.", "Born in {o}, {m} spent a quiet childhood."],
        "nationality": ["{s} held {o} citizenship.", "{s} was a {o} citizen.", "{p} nationality is {o}."],
        "father": ["{p} father was {o}.", "{s} was a child of {o}, {p} father.", "{s} was raised by {p} father, {o}."],
        "mother": ["{p} mother was {o}.", "{s} was the {child} of a well-read mother, {o}."],
        "spouse": ["{s} was married to {o}.", "{s} married {o}.", "{p} spouse was {o}."],
        "alma_mater": ["{s} studied at {o}.", "{s} graduated from {o}.", "{s} was educated at {o}."],
        "death_date": ["{s} died on {o}.", "{p} death on {o} was widely reported.", "{s} passed away on {o}."],
        "death_place": ["{s} died in {o}.", "{s} spent {p} last years in {o} and died there."],
        **{post: [f"{{s}} served as {post} of {{o}}.", f"{{s}} was appointed {post} of {{o}}.",
            f"{{s}} spent some years as {post} of {{o}}.", f"In {{o}}, {{m}} was {post}."] for post in POSTS},
    },
    "film": {
        "director": ["The film was directed by {o}.", "It was directed by {o}.", "{o} directed the film."],
        "release_year": ["It was released in {o}.", "The film was first shown in {o}.", "{s} premiered in {o}."],
        "star": ["{o} plays the leading role.", "It stars {o}.", "The lead role went to {o}."],
        "studio": ["It was produced by {o}.", "{o} produced the film.", "The production company was {o}."],
    },
    "book": {
        "author": ["It was written by {o}.", "The novel was written by {o}.", "{o} wrote the novel."],
        "year": ["It was published in {o}.", "The novel first appeared in {o}.", "{s} came out in {o}."],
        "publisher": ["It was published by {o}.", "{o} published the novel.", "{p} publisher was {o}."],
    },
    "company": {
        "founder": ["It was founded by {o}.", "The company was established by {o}.", "{p} founder was {o}."],
        "founded": ["It was founded in {o}.", "The company dates from {o}.", "{s} was established in {o}."],
        "headquarters": ["Its headquarters are in {o}.", "The company is based in {o}."],
    },
    "city": {
        "country": ["It lies in {o}.", "The city belongs to {o}.", "{s} is located in {o}."],
        "population": ["It has a population of {o}.", "The population is {o}.", "{s} has {o} inhabitants."],
        "river": ["It lies on {o}.", "{s} is situated on {o}.", "{o} flows through the city."],
    },
    "river": {
        "length": ["It is {o} long.", "The river has a length of {o}.", "{p} total length is {o}."],
        "mouth": ["It flows into {o}.", "{s} empties into {o}.", "The river is a tributary of {o}."],
        "country": ["It is located in {o}.", "The river is in {o}.", "{s} flows through {o}."],
    },
    "country": {
        "capital": ["Its capital is {o}.", "The capital is {o}.", "{o} is the capital city."],
        "population": ["It has a population of {o}.", "The population is {o}.", "{s} has {o} inhabitants."],
    },
    "university": {
        "city": ["It is located in {o}.", "Its campus is in {o}.", "{s} is situated in {o}."],
        "founded": ["It was founded in {o}.", "{s} was established in {o}.", "Its charter dates from {o}."],
    },
    "band": {
        "singer": ["{p} lead singer is {o}.", "{o} is the lead singer.", "The band is fronted by {o}."],
        "formed": ["It was formed in {o}.", "The band was formed in {o}.", "The group came together in {o}."],
        "formed_in": ["The band was formed in {o}.", "It was formed in {o}.", "The group comes from {o}."],
        "label": ["It is signed to {o}.", "{p} record label is {o}.", "The band records for {o}."],
    },
    "album": {
        "band": ["It was recorded by {o}.", "The album is by {o}.", "{s} is the work of {o}."],
        "year": ["It was released in {o}.", "The album came out in {o}.", "{s} appeared in {o}."],
        "producer": ["It was produced by {o}.", "{o} produced the album.", "{p} producer was {o}."],
        "catalogue": ["Its catalogue number is {o}.", "It is number {o} in the catalogue.", "Shops ordered it as {o}."],
    },
    "model": {
        "designer": ["It was designed by {o}.", "{o} designed it.", "{p} designer was {o}."],
        "year": ["It went on sale in {o}.", "The first one left the works in {o}.", "{s} was introduced in {o}."],
        "kit": ["Its service kit has the part number {o}.", "The service kit for it is part {o}."],
    },
}
"""Sentences in the subject's own article, by kind and relation."""

IN_OTHER_ARTICLE: dict[tuple[str, str], list[str]] = {
    ("person", "birth_place"): ["{o} was born in {name}.", "{o} is a native of {name}."],
    ("person", "father"): ["{s} was the father of {o}.", "{o} was {p} {c}.", "{p} {c} {o} became well known."],
    ("person", "mother"): ["{s} was the mother of {o}.", "{o} was {p} {c}.", "{p} {c} {o} became well known."],
    ("film", "director"): ["{s} directed {o}.", "{s} was the director of {o}.", "{p} work as a director includes {o}."],
    ("film", "star"): ["{s} played the leading role in {o}.", "{s} starred in {o}.", "{s} was the star of {o}."],
    ("book", "author"): ["{s} wrote {o}.", "{s} was the author of {o}.", "{p} novels include {o}."],
    ("company", "founder"): ["{s} founded {o}.", "{s} was the founder of {o}.", "{s} established {o}."],
    ("company", "headquarters"): ["{o} has its headquarters there.", "The city is home to {o}."],
    ("city", "river"): ["It flows through {o}.", "The river passes through {o}.", "{o} lies on its banks."],
    ("country", "capital"): ["It is the capital of {o}.", "The city is the capital of {o}."],
    ("band", "formed_in"): ["{o} were formed there.", "The band {o} was formed in {name}.", "{o} come from {name}."],
    ("album", "band"): ["{s} recorded {o}.", "{p} albums include {o}.", "{s} released the album {o}."],
    ("model", "designer"): ["{s} designed {o}.", "{s} was the designer of {o}.", "{p} designs include {o}."],
}
"""Sentences in the article of the fact's object: here `{s}` is the object and `{o}` the fact's subject."""

FILLERS: dict[str, list[str]] = {
    "person": ["{s} was fond of long walks.", "{s} kept a diary for many years.",
        "{p} letters were collected after the war.", "A street was later named after {him}.",
        "{s} spoke four languages."],
    "film": ["It received mixed reviews.", "The score was praised by critics.",
        "It was a modest success at the box office.", "Much of it was shot at night.",
        "The only surviving print was restored later."],
    "book": ["It has been translated into eleven languages.", "The plot follows three sisters.",
        "Reviewers admired its dialogue.", "The manuscript was thought lost for a time.",
        "It is set in a mountain village."],
    "company": ["It employs several hundred people.", "A fire destroyed its first building.", "Its logo shows a heron.",
        "It went through two mergers.", "Its products are sold abroad."],
    "city": ["The old town was rebuilt after a fire.", "A market is held every Thursday.",
        "It is known for its stone bridges.", "The cathedral dates from the Middle Ages.",
        "It has a tram network of five lines."],
    "river": ["It is navigable for small boats.", "Several mills once stood on its banks.",
        "It is known for its trout.", "Its upper course is steep.", "Floods were common before the dam was built."],
    "country": ["It is known for its wool.", "Most of the land is forest.", "Its flag is green and white.",
        "It has a long coast.", "The mountains in the north are rarely visited."],
    "university": ["It has about nine thousand students.", "The library holds rare maps.",
        "Its colours are grey and gold.", "It is known for its school of medicine.",
        "The main building was designed in a plain style."],
    "band": ["They toured for three years without a break.", "Their early songs were about the sea.",
        "The drummer left after the first tour.", "They are known for wearing grey on stage.",
        "Their concerts are said to be loud."],
    "album": ["It was recorded in six days.", "It reached the charts in two countries.",
        "The cover shows an empty boat.", "Critics praised its quiet second half.", "It has ten songs."],
    "model": ["It was sold in a grey box.", "About four thousand were built.", "Collectors like its plain lines.",
        "A smaller one was planned but never built.", "Few are still in working order."],
}
# fmt: on
"""Sentences that state no fact, by kind of article."""
