"""Values read out of sentences, chains followed, and answers guessed: written for this test, and public data sets."""

import os
from collections import Counter
from pathlib import Path

import pytest

from knowgap.compile.data import load_dataset
from knowgap.compile.evaluation.metrics.f1 import token_f1
from knowgap.lms.embedded.english.questions import parse
from knowgap.lms.embedded.english.relations import relation_of_noun
from knowgap.lms.embedded.english.sentences import read_passage, read_statement, standalone
from knowgap.lms.embedded.reading import STRICT, find_values
from knowgap.lms.embedded.solving import answer


def read(name, relation, text, title=""):
    found = find_values(name, relation_of_noun(relation), read_passage(title, text))
    return found[0].value if found and found[0].score >= STRICT else None


@pytest.mark.parametrize(
    ("name", "relation", "text", "title", "expected"),
    [
        ("Blue Sea", "director", "Blue Sea is a 1950 film written and directed by Ilse Morn.", "", "Ilse Morn"),
        ("Blue Sea", "director", "Ilse Morn directed Blue Sea in Lisbon.", "", "Ilse Morn"),
        ("Blue Sea", "director", "She later directed Blue Sea.", "Ilse Morn", "Ilse Morn"),
        ("Blue Sea", "director", "The director of Blue Sea is Ilse Morn.", "", "Ilse Morn"),
        ("Blue Sea", "director", "Its director, Ilse Morn, was ill.", "Blue Sea", "Ilse Morn"),
        ("Blue Sea", "director", "The sets were made by the art director Ola Fisk.", "Blue Sea", None),
        ("Ilse Morn", "director", "Ilse Morn directed Blue Sea.", "", None),
        ("Blue Sea", "performer", "\"Blue Sea\" is a song by English singer Dara Kwan.", "", "Dara Kwan"),
        ("Ann Lee", "date of birth", "Ann Lee (4 May 1920 – 1 June 1999) was a poet.", "", "4 May 1920"),
        ("Ann Lee", "date of death", "Ann Lee (4 May 1920 – 1 June 1999) was a poet.", "", "1 June 1999"),
        ("Ann Lee", "date of death", "Ann Lee (born 4 May 1920) is a poet.", "", None),
        ("Ann Lee", "date of death", "She passed away in March 1999.", "Ann Lee", "March 1999"),
        ("Ann Lee", "place of birth", "Born in Porto, Lee moved north.", "Ann Lee", "Porto"),
        ("Ann Lee", "place of birth", "She was born on 4 May 1920 in Porto, Portugal.", "Ann Lee", "Porto, Portugal"),
        ("Ann Lee", "place of death", "Ann Lee was born in Porto and died in Ghent.", "", "Ghent"),
        ("Ann Lee", "place of death", "Lee spent her last years in Ghent and died there.", "Ann Lee", "Ghent"),
        ("Ann Lee", "nationality", "Ann Lee was a Portuguese poet.", "", "Portuguese"),
        ("Ann Lee", "occupation", "Ann Lee was a poet and painter who lived in Ghent.", "", "poet and painter"),
        ("Ann Lee", "spouse", "In 1940 Ann Lee married Tom Hill.", "", "Tom Hill"),
        ("Ann Lee", "father", "Ann Lee was the daughter of Karl Lee and Mia Dorn.", "", "Karl Lee"),
        ("Ann Lee", "alma mater", "Lee attended the University of Ghent.", "Ann Lee", "University of Ghent"),
        ("Ann Lee", "cause of death", "Lee died of pneumonia in 1999.", "Ann Lee", "pneumonia"),
        ("Orle", "country", "Orle (also known as Orlum) is a town in Dale County, Norland.", "Orle", "Norland"),
        ("Orle", "population", "The town has 12,400 inhabitants.", "Orle", "12,400"),
        ("Sorn", "length", "The Sorn is 1251 kilometres long.", "", "1251 kilometres"),
        ("Acme", "founder", "Acme was founded in 1950 by Ann Lee.", "", "Ann Lee"),
        ("Acme", "founding date", "Acme was founded in 1950 by Ann Lee.", "", "1950"),
        ("Orle United", "goalkeeper", "The goalkeeper of Orle United is Tom Hill.", "", "Tom Hill"),
    ],
)  # fmt: skip
def test_values(name, relation, text, title, expected):
    assert read(name, relation, text, title) == expected


def read_all(passages):
    return [s for number, passage in enumerate(passages.items(), start=1) for s in read_passage(*passage, number)]


FILMS = read_all(
    {
        "Blue Sea": "Blue Sea is a 1950 Danish film. It was directed by Ilse Morn.",
        "Red Sand": "Red Sand is a 1961 film directed by Ola Fisk and starring Ann Lee.",
        "Ilse Morn": "Ilse Morn (4 May 1920 – 1 June 1999) was a Danish director. She was born in Aarhus.",
        "Ola Fisk": "Ola Fisk (born 7 July 1931 in Bergen) is a Norwegian director. He never worked again.",
    }
)


@pytest.mark.parametrize(
    ("question", "expected"),
    [
        ("Where was the director of Blue Sea born?", "Aarhus"),
        ("When did the person who directed Blue Sea die?", "1 June 1999"),
        ("Which film has the director who is younger, Blue Sea or Red Sand?", "Red Sand"),
        ("Which film was released first, Blue Sea or Red Sand?", "Blue Sea"),
        ("Do the directors of Blue Sea and Red Sand have the same nationality?", "no"),
        ("Is Ilse Morn older than Ola Fisk?", "yes"),
        ("Are Ilse Morn and Ola Fisk both directors?", "yes"),
    ],
)
def test_answers_from_several_passages(question, expected):
    found = answer(parse(question), FILMS, guess=False)
    assert found.text == expected
    assert found.support


def test_an_open_step_is_named_and_nothing_is_guessed():
    reply = answer(parse("Where was the director of Blue Sea born?"), FILMS[:2], guess=False)
    assert reply.text == ""
    assert [step.missing for step in reply.lacks] == ["the place of birth of Ilse Morn"]
    assert [step.relation.question(step.name) for step in reply.lacks] == ["Where was Ilse Morn born?"]
    compared = answer(parse("Who is older, Ann Lee or Tom Hill?"), FILMS, guess=False)
    assert [step.name for step in compared.lacks] == ["Ann Lee", "Tom Hill"]


KIN = {"Mia Dorn": "Mia Dorn had a son, Kit Rowe. She sang.", "Karl Rowe": "Karl Rowe had a son, Kit Rowe. He painted."}


@pytest.mark.parametrize(
    ("question", "passages", "expected"),
    [
        # The first director's place of birth is not known.
        (
            "Where was the director of Gold born?",
            {"Gold": "Gold is a film directed by Kit Rowe and Ola Fisk."},
            "Bergen",
        ),
        ("Who is the father of Kit Rowe?", KIN, "Karl Rowe"),
        ("Who is the mother of Kit Rowe?", KIN, "Mia Dorn"),
    ],
)
def test_names_are_told_apart_by_what_is_said_of_them(question, passages, expected):
    assert answer(parse(question), [*read_all(passages), *FILMS]).text == expected


@pytest.mark.parametrize(
    ("title", "sentence", "expected"),
    [
        ("Ilse Morn", "She was born in Aarhus.", "Ilse Morn was born in Aarhus."),
        ("Ilse Morn", "Her father was Karl Morn.", "Ilse Morn's father was Karl Morn."),
        ("Gold (film)", "The film stars Ann Lee.", "Gold stars Ann Lee."),
        ("Gold (film)", "Critics loved it.", "Gold: Critics loved it."),
        ("Ilse Morn", "Ilse Morn sang.", "Ilse Morn sang."),
        ("", "She sang.", "She sang."),
    ],
)
def test_statements_stand_alone(title, sentence, expected):
    (read_sentence,) = read_passage(title, sentence)
    assert standalone(read_sentence) == expected


def test_a_statement_is_about_its_title_or_its_first_name():
    titled, plain, pronoun = read_statement("Gold: Critics loved it.\nAnn Lee sang. She danced.")
    assert [titled.title, plain.title, pronoun.title] == ["Gold", "Ann Lee", "Ann Lee"]


LONG = [piece * (10_000 // len(piece)) for piece in ("(", '"', ". ", "A ", "Al-", "1,", "12 May 19", "the A of ")]


@pytest.mark.parametrize(
    "text",
    ["", "…", "“", "مرحبا بالعالم. كيف الحال؟", "這是一個句子。這是另一個。", "\u202eabc\u202c Ann", "a\x00b", *LONG],
)
def test_any_text_can_be_read(text):
    sentences = read_passage(text[:80], text)
    assert isinstance(answer(parse("Where was Ann Lee born?"), sentences).text, str)


FOLDER = Path(os.environ.get("KNOWGAP_TEST_DATA") or "/nonexistent")


def most_frequent_name(sentences):
    return Counter(s.text for sentence in sentences for s in sentence.spans if s.kind == "name").most_common(1)[0][0]


@pytest.mark.parametrize(
    ("file", "margin"),
    [("2wikimultihopqa/2wiki_dev_164.json", 0.45), ("hotpotqa/hotpot_dev_distractor_200.json", 0.12)],
)
def test_the_reader_is_far_better_than_the_most_frequent_name(file, margin):
    if not (FOLDER / file).is_file():
        pytest.skip(f"KNOWGAP_TEST_DATA names no folder with {file}")
    data = load_dataset(FOLDER / file, split_as="dev")
    passages = {passage.id: passage for passage in data.corpus}
    gains = []
    for example in data.splits["dev"]:
        gold = [passages[id] for id in example.candidates if id in example.gold_ids]
        sentences = [s for n, p in enumerate(gold, start=1) for s in read_passage(p.title, p.text, n)]
        reply = answer(parse(example.question), sentences).text
        gains.append(token_f1(reply, example.answer) - token_f1(most_frequent_name(sentences), example.answer))
    assert sum(gains) / len(gains) > margin
