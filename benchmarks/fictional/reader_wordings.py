"""A fourth set of wordings, for the seed that measures the embedded reader; written without a look at its code."""

from __future__ import annotations

from fictional.question_wordings import Wordings

# fmt: off
READER = Wordings(
    mentions={
        "film": "{x} (a film)", "book": "{x} (a novel)", "album": "{x} (an album)", "band": "{x} (the musicians)",
        "company": "{x} (a company)", "catalogue": "the record listed under {x}",
    },
    descriptions={
        ("film", "director"): "the maker of {x}", ("film", "star"): "whoever had the leading role in {x}",
        ("film", "studio"): "the firm behind the production of {x}", ("book", "author"): "the person who penned {x}",
        ("book", "publisher"): "the firm that issued {x}", ("company", "founder"): "the one who set up {x}",
        ("company", "headquarters"): "the town in which {x} keeps its main offices",
        ("band", "singer"): "the voice of {x}", ("band", "formed_in"): "the town in which {x} got together",
        ("band", "label"): "the firm that {x} record for", ("album", "band"): "the act heard on {x}",
        ("album", "producer"): "whoever oversaw the production of {x}",
        ("model", "designer"): "the one who thought out the design of {x}",
        ("city", "river"): "the waterway on whose banks {x} stands", ("city", "country"): "the state that contains {x}",
        ("river", "mouth"): "the waterway that receives {x}", ("university", "city"): "the town with the campus of {x}",
        ("person", "birth_place"): "the town in which {x} came into the world",
        ("person", "death_place"): "the town in which {x} passed away",
        ("person", "spouse"): "the partner in marriage of {x}", ("person", "father"): "the male parent of {x}",
        ("person", "mother"): "the female parent of {x}",
        ("person", "alma_mater"): "the institution from which {x} graduated",
        ("person", "post"): "the town for which {x} worked as {post}",
    },
    questions={
        ("film", "director"): "By whom was {x} directed?", ("film", "star"): "Who was given the leading role in {x}?",
        ("film", "studio"): "What firm was behind the production of {x}?", ("book", "author"): "Who penned {x}?",
        ("book", "publisher"): "What firm issued {x}?",
        ("company", "founder"): "Who set up {x}?", ("company", "founded"): "Which year saw the beginning of {x}?",
        ("company", "headquarters"): "In what town does {x} keep its main offices?",
        ("band", "singer"): "Whose voice leads {x}?", ("band", "formed"): "Which year saw the beginning of {x}?",
        ("band", "formed_in"): "In what town did {x} get together?", ("band", "label"): "What firm do {x} record for?",
        ("album", "band"): "What act is heard on {x}?", ("album", "producer"): "Who oversaw the production of {x}?",
        ("album", "catalogue"): "What number was given to {x} in the catalogue?",
        ("model", "designer"): "Who thought out the design of {x}?",
        ("model", "kit"): "What number should one quote to get a service kit for {x}?",
        ("city", "river"): "On the banks of what waterway does {x} stand?",
        ("city", "country"): "What state contains {x}?", ("city", "population"): "How large is the population of {x}?",
        ("country", "capital"): "What city serves {x} as its capital?",
        ("river", "length"): "Over what distance does {x} run?", ("river", "mouth"): "What waterway receives {x}?",
        ("university", "city"): "In what town is the campus of {x}?",
        ("university", "founded"): "Which year saw the foundation of {x}?",
        ("person", "birth_date"): "On which date did {x} come into the world?",
        ("person", "birth_place"): "In what town did {x} come into the world?",
        ("person", "death_date"): "On which date did {x} pass away?",
        ("person", "death_place"): "In what town did {x} pass away?",
        ("person", "spouse"): "To whom was {x} joined in marriage?",
        ("person", "father"): "Who was the male parent of {x}?",
        ("person", "mother"): "Who was the female parent of {x}?",
        ("person", "alma_mater"): "From what institution did {x} graduate?",
        ("person", "nationality"): "What citizenship does {x} hold?",
        ("person", "post"): "For what town did {x} work as {post}?",
    },
    works={
        ("film", "director"): ("the one film of {year} that {x} made", "What film of {year} did {x} make?"),
        ("book", "author"): ("the one novel of {year} from the pen of {x}", "What novel of {year} did {x} pen?"),
        ("album", "band"): ("the one album that features {x}", "What album features {x}?"),
        ("model", "designer"): ("the one {product} that {x} thought out", "What {product} did {x} think out?"),
    },
    comparisons={
        ("film", "director", "birth_date"): "Of {x} and {y}, which had the director with the later birthday?",
        ("book", "author", "birth_date"): "Of {x} and {y}, which was penned by the person with the later birthday?",
        ("book", "publisher", "founded"): "Of {x} and {y}, which was issued by the firm that began later?",
    },
    yes_no={
        ("film", "director", "nationality"): "Is it true that the makers of {x} and {y} hold one citizenship?",
        ("book", "author", "nationality"): "Is it true that those who penned {x} and {y} hold one citizenship?",
        },
)
# fmt: on
