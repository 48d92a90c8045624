"""Questions parsed into chains, choices and yes/no forms: English written for this test."""

import pytest

from knowgap.lms.embedded.english.questions import parse
from knowgap.lms.embedded.english.relations import relation_of_noun


def chains(text):
    return [(chain.entity, [relation.name for relation in chain.relations]) for chain in parse(text).chains]


@pytest.mark.parametrize(
    ("text", "entity", "relations"),
    [
        ("Where was the director of the film The Green Door born?", "The Green Door", ["director", "place of birth"]),
        ("What is the birthplace of Ann Lee's father?", "Ann Lee", ["father", "place of birth"]),
        ("When is Ann Lee's father's birthday?", "Ann Lee", ["father", "date of birth"]),
        ("Who is the wife of the man who founded Acme Corporation?", "Acme Corporation", ["founder", "spouse"]),
        ("In which year was the college that Tom Hill attended founded?", "Tom Hill", ["alma mater", "founding date"]),
        ("Who wrote the novel on which Blue Sea is based?", "Blue Sea", ["based", "author"]),
        ("Tom Hill's husband was born in which city?", "Tom Hill", ["spouse", "place of birth"]),
        ("By whom was Blue Sea directed?", "Blue Sea", ["director"]),
        ("What nationality is the author of Blue Sea?", "Blue Sea", ["author", "nationality"]),
        ("Which country is the singer of Blue Sea from?", "Blue Sea", ["performer", "country"]),
        ("Which river flows through the city where Ann Lee was born?", "Ann Lee", ["place of birth", "flows through"]),
        ("Who is the maternal grandfather of Ann Lee?", "Ann Lee", ["mother", "father"]),
        ("Who is Ann Lee's mother-in-law?", "Ann Lee", ["spouse", "mother"]),
        ("Who is the goalkeeper of Orle United?", "Orle United", ["goalkeeper"]),
        ("How did the producer of Blue Sea die?", "Blue Sea", ["producer", "cause of death"]),
        ("Where was the man who directed Gold born?", "Gold", ["director", "place of birth"]),
        (
            "What is the capital of the country to which the town where Ann Lee died belongs?",
            "Ann Lee",
            ["place of death", "country", "capital"],
        ),
        ("How many people live in the capital of Norland?", "Norland", ["capital", "population"]),
    ],
)
def test_chains(text, entity, relations):
    question = parse(text)
    assert question.form == "value"
    assert chains(text) == [(entity, relations)]


@pytest.mark.parametrize(
    ("text", "options", "relations", "least"),
    [
        ("Who was born first, Ann Lee or Tom Hill?", ("Ann Lee", "Tom Hill"), ["date of birth"], True),
        ("Which film has the director who died later, Blue Sea or Red, Hot Sand?", ("Blue Sea", "Red, Hot Sand"),
         ["director", "date of death"], False),
        ("Between Ann Lee and Tom Hill, who is younger?", ("Ann Lee", "Tom Hill"), ["date of birth"], False),
        ("Which is longer, the Rhone or the Loire?", ("Rhone", "Loire"), ["length"], False),
        ("Was Ann Lee or Tom Hill born earlier?", ("Ann Lee", "Tom Hill"), ["date of birth"], True),
        ("Which album came out more recently, One or Two?", ("One", "Two"), ["release date"], False),
    ],
)  # fmt: skip
def test_choices(text, options, relations, least):
    question = parse(text)
    assert (question.form, question.options, question.least) == ("pick", options, least)
    assert [r.name for r in question.chains[0].relations] == relations


@pytest.mark.parametrize(
    ("text", "form", "expected"),
    [
        ("Are Ann Lee and Tom Hill from the same country?", "same", ["country"]),
        ("Were the directors of Blue Sea and Red Sand of the same nationality?", "same", ["director", "nationality"]),
        ("Were Blue Sea and Red Sand directed by the same person?", "same", ["director"]),
        ("Is Ann Lee older than Tom Hill?", "order", ["date of birth"]),
    ],
)
def test_yes_or_no(text, form, expected):
    question = parse(text)
    assert (question.form, question.kind) == (form, "yesno")
    assert [[r.name for r in chain.relations] for chain in question.chains] == [expected, expected]


ODD = ["Did it rain?", "Why?", "", "???", "כמה זה?", "من كتب هذا الكتاب؟", "the of of of", "or or or"]


@pytest.mark.parametrize("text", ODD)
def test_what_is_not_understood_has_no_chain(text):
    assert parse(text).chains == ()


def test_asking_and_parsing_a_relation_agree():
    for name in ("director", "author", "spouse", "father", "place of birth", "date of death", "country", "capital"):
        assert chains(relation_of_noun(name).question("Ann Lee")) == [("Ann Lee", [name])]


LONG = ["the wife of the man who " * 420 + "?", "A's b of " * 1100, "Which is older, " + " or A" * 2000, "x" * 10_000]


@pytest.mark.parametrize("text", [*LONG, "Are A" + " and A" * 1600 + " both in the same country?"])
def test_ten_thousand_characters_are_parsed(text):
    assert parse(text[:10_000]).form in ("value", "open", "pick", "polar", "same", "order")
