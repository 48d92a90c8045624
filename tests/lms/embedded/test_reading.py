"""Answers read out of sentences and followed through steps: English written for this test."""

import pytest

from knowgap.compiling.evaluation.metrics.answers import normalize_answer
from knowgap.lms.embedded.inputs import read_passage, read_statement
from knowgap.lms.embedded.reading import Answer, answer, bridge, read
from knowgap.lms.embedded.text import mentions, names_in, standalone, value_of


def read_all(passages):
    return [s for number, passage in enumerate(passages.items(), start=1) for s in read_passage(*passage, number)]


@pytest.mark.parametrize(
    ("question", "text", "title", "expected"),
    [
        ("Who directed Blue Sea?", "Blue Sea is a 1950 film written and directed by Ilse Morn.", "", "Ilse Morn"),
        ("Who directed Blue Sea?", "Its director, Ilse Morn, was ill.", "Blue Sea", "Ilse Morn"),
        ("Who sang Blue Sea?", "\"Blue Sea\" is a song by English singer Dara Kwan.", "", "Dara Kwan"),
        ("When was Ann Lee born?", "Ann Lee (4 May 1920 – 1 June 1999) was a poet.", "Ann Lee", "4 May 1920"),
        ("When did Ann Lee die?", "Ann Lee (4 May 1920 – 1 June 1999) was a poet.", "Ann Lee", "1 June 1999"),
        ("In which year was Ann Lee born?", "Ann Lee (4 May 1920 – 1 June 1999) was a poet.", "Ann Lee", "1920"),
        ("On which river does the city with a port lie?", "Orle is a city in Trond. The Orne River flows through it.",
         "Orle", "Orne River"),
        ("Where did Ann Lee die?", "Ann Lee was born in Porto and died in Ghent.", "", "Ghent"),
        ("What did Ann Lee die of?", "Lee died of pneumonia in 1999.", "Ann Lee", "pneumonia"),
        ("How many people live in Orle?", "In Orle live 12,400 people, mostly on its two hills.", "Orle", "12,400"),
        ("How long is the Sorn?", "The Sorn is 1251 kilometres long.", "", "1251 kilometres"),
        ("Who founded Acme?", "Acme was founded in 1950 by Ann Lee.", "", "Ann Lee"),
        ("Which river flows through Orle?", "The Sorn River flows through Orle.", "Sorn River", "Sorn River"),
    ],
)  # fmt: skip
def test_simple_questions(question, text, title, expected):
    assert normalize_answer(read(question, tuple(read_passage(title, text)))[0].text) == normalize_answer(expected)


def test_probabilities_are_of_different_answers_and_of_none():
    sentences = read_all({"Ann Lee": "Ann Lee was born in Porto.", "Porto": "A port."})
    found = read("Where was Ann Lee born?", tuple(sentences))
    assert len({one.text for one in found}) == len(found)
    assert 0.5 < sum(one.probability for one in found) <= 1
    assert read("Where was Ann Lee born?", tuple(read_passage("Kettle", "A kettle boils.")))[0].probability < 0.3
    assert read("Where was Ann Lee born?", ()) == []
    assert {"Porto"} <= {one.text for one in found}.difference({"Ann Lee"})


FILMS = read_all({
    "Blue Sea": "Blue Sea is a 1950 film directed by Ilse Morn.",
    "Red Sand": "Red Sand is a 1961 film directed by Ola Fisk and starring Ann Lee.",
    "Ilse Morn": "Ilse Morn (4 May 1920 – 1 June 1999) was a Danish director. She was born in Aarhus.",
    "Ola Fisk": "Ola Fisk (born 7 July 1931) is a Norwegian director. He was born in Bergen.",
})  # fmt: skip


@pytest.mark.parametrize(
    ("question", "expected"),
    [
        ("Where was the director of Blue Sea born?", "Aarhus"),
        ("When did the person who directed Blue Sea die?", "1 June 1999"),
        ("Which film has the director who is younger, Blue Sea or Red Sand?", "Red Sand"),
        ("Which film was released first, Blue Sea or Red Sand?", "Blue Sea"),
        ("Do the directors of Blue Sea and Red Sand have the same nationality?", "no"),
        ("Are Ilse Morn and Ola Fisk both directors?", "yes"),
    ],
)
def test_answers_from_several_passages(question, expected):
    found = answer(question, FILMS)
    assert (found.text, found.settled) == (expected, True)
    assert found.support


def test_what_is_not_settled_is_asked_next_with_the_names_found():
    found = answer("Where was the director of Blue Sea born?", FILMS[:1])
    assert not found.settled
    assert found.open == ("Where was Ilse Morn born?",)
    assert [fact.asked for fact in found.facts if fact.settled] == ["Who is the director of Blue Sea?"]
    assert bridge("Where was the director of Blue Sea born?", found)[0] == "Where was Ilse Morn born?"
    guessed = Answer("", 0.0, guesses=("Where was Ola Fisk born?",))
    assert "Where was Ola Fisk born?" in bridge("Where was the director of Blue Sea born?", guessed)
    compared = answer("Who is older, Ada Moor or Tom Hill?", FILMS)
    assert compared.open == ("When was Ada Moor born?", "When was Tom Hill born?")


def test_names_bridge_where_no_syntax_helps():
    proposals = bridge("In which port was the maker of Blue Sea raised?", answer("Why?", FILMS[:1]))
    assert any(text.startswith("Ilse Morn ") for text in proposals)


@pytest.mark.parametrize(
    ("title", "sentence", "expected"),
    [
        ("Ilse Morn", "She was born in Aarhus.", "Ilse Morn was born in Aarhus."),
        ("Ilse Morn", "Her father was Karl Morn.", "Ilse Morn's father was Karl Morn."),
        ("Gold (film)", "Critics loved it.", "Gold: Critics loved it."),
        ("Ilse Morn", "Ilse Morn sang.", "Ilse Morn sang."),
        ("", "She sang.", "She sang."),
    ],
)
def test_statements_stand_alone(title, sentence, expected):
    (read_sentence,) = read_passage(title, sentence)
    assert standalone(read_sentence) == expected


def test_titles_names_dates_and_numbers():
    about = [sentence.title for sentence in read_statement("Gold: Critics loved it.\nAnn Lee sang. She danced.")]
    assert about == ["Gold", "Ann Lee", "Ann Lee"]
    text = "In 1940 J. R. Lee of St. Ives paid 2.5 million to the Duke of York."
    assert "Duke of York" in names_in(text)
    dates = {"4 May 1920": (1920, 5, 4), "June 3, 1921": (1921, 6, 3), "July 1922": (1922, 7, 0), "1923": (1923, 0, 0)}
    values = {text: (1940, 0, 0), "2.5 million in 1940": (2.5,), "by Lee": (), **dates}
    assert {said: value_of(said) for said in values} == values
    assert mentions("by Ann Lee", "Ann Lee (poet)")
    assert not mentions("by Annie Lee", "Ann Lee")


LONG = [piece * (2_000 // len(piece)) for piece in ("(", '"', ". ", "A ", "Al-", "1,", "12 May 19", "the A of ")]


@pytest.mark.parametrize(
    "text",
    ["", "…", "“", "مرحبا بالعالم. كيف الحال؟", "這是一個句子。這是另一個。", "\u202eabc\u202c Ann", "a\x00b", *LONG],
)
def test_any_text_can_be_read(text):
    sentences = read_passage(text[:80], text)
    assert isinstance(answer("Where was Ann Lee born?", sentences).text, str)


def test_a_passage_about_something_else_is_read_by_its_sentences():
    text = (
        "Ola Fisk was a film director. He directed The Mirror of Trond. Ola Fisk was the director of Red Sand. "
        "He was the director of Blue Sea and the Hill. He spent his last years in Ghent."
    )
    found = answer("Who is the director of Blue Sea and the Hill?", read_passage("Ola Fisk", text, 1))
    assert (found.text, found.settled) == ("Ola Fisk", True)


PEOPLE = read_all({
    "Ann Lee": "Ann Lee (born 4 May 1920) was a Danish painter. She was the mother of Tom Lee. She worked in Porto.",
    "Karl Lee": "Karl Lee was an engineer. He was the father of Tom Lee.",
    "Stores / Parts": "Part QX-4417 is a valve. The office of the manager is on the second floor.",
})  # fmt: skip


@pytest.mark.parametrize(
    ("question", "expected"),
    [
        ("Who is the father of Tom Lee?", "Karl Lee"), ("Who is the mother of Tom Lee?", "Ann Lee"),
        ("When was Ann Lee born?", "4 May 1920"), ("What is part QX-4417?", "a valve"),
        ("Where did Ann Lee die?", None), ("When was Karl Lee born?", None), ("When was Tom Lee born?", None),
        pytest.param("Where was Ann Lee born?", None, marks=pytest.mark.xfail(reason="takes where she worked")),
        ("Who is the father of Ann Hill?", None), ("What is part QX-4471?", None),
        ("What is the salary of the manager?", None),
    ],
)  # fmt: skip
def test_what_is_told_of_something_else_is_no_answer(question, expected):
    found = answer(question, PEOPLE)
    assert found.settled == (expected is not None)
    if expected:
        assert normalize_answer(found.text) == normalize_answer(expected)


def test_a_heading_that_asks_the_question_is_not_its_answer():
    sentences = read_all({"FAQ": "2.13. Does Acme support PTP?\n\nNo, PTP is not supported by Acme."})
    found = answer("Does Acme support PTP?", sentences)
    assert [s.text for s in found.support] == ["No, PTP is not supported by Acme."]


def test_a_passage_that_names_where_a_question_begins_does_not_settle_its_last_fact():
    film, port = (
        "Blue Sea is a film directed by Ilse Morn.",
        "Wick is a port. The film Blue Sea was shown there in 1950.",
    )
    found = answer("Where was the director of Blue Sea born?", read_all({"Blue Sea": film, "Wick": port}))
    assert (found.settled, found.open) == (False, ("Where was Ilse Morn born?",))


def test_a_name_that_two_passages_have_leads_to_an_answer_that_steps_and_question_agree_on():
    told = {
        "Gold (novel)": "Gold is a novel. Acme Press published the novel.",
        "Orle": "Orle is a city in Trond. It has a population of 937,833. Acme Press has its headquarters there.",
    }
    found = answer("What is the population of the city where the publisher of the novel Gold is based?", read_all(told))
    assert (found.text, found.settled) == ("937,833", True)
    assert {fact.found.text for fact in found.facts if fact.found} >= {"Acme Press", "937,833"}
