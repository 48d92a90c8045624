"""Passages of texts: nothing is lost, nothing is longer than the window, and an edit stays where it is."""

import itertools
import random

import pytest

from knowgap.retrieval.documents.splitting import Splitter
from knowgap.retrieval.documents.text import Text
from knowgap.retrieval.passage import Passage, document_id
from tests.retrieval.documents.files import WINDOW


def sentences(count, seed=0, words="river stone bridge lamp tower field clerk moth"):
    draw = random.Random(seed)
    return [f"{' '.join(draw.choices(words.split(), k=9)).capitalize()} {n}." for n in range(count)]


def split(text, *, markdown=False, tokens=64, **more):
    return Splitter(WINDOW, tokens).split_file("folder/notes.md", Text(text, markdown=markdown, unit="page", **more))


def longest(pieces):
    return max(WINDOW.count([str(passage) for passage, _ in pieces]))


LONG = {
    "sentences": " ".join(sentences(200)),
    "wrapped lines": "\n".join(" ".join(sentences(200))[n : n + 72] for n in range(0, 9000, 72)),
    "lines of Windows": "\r\n".join(sentences(200)),
    "no punctuation": " ".join(sentences(200)).replace(".", ""),
    "no spaces": "".join(map(str, range(5000))),
    "Chinese": "".join(f"我们在第{n}座老桥上看见了一座灯塔。" for n in range(200)),
    "emoji": "".join(f"🦊🦉{n} " for n in range(800)),
    "blank lines": "\n\n\n\n".join(sentences(80)),
}
SQUEEZED = {kind: "".join(text.split()) for kind, text in LONG.items()}


@pytest.mark.parametrize("markdown", [False, True])
@pytest.mark.parametrize("kind", LONG)
def test_no_passage_is_too_long_and_every_character_is_in_one(kind, markdown):
    text = LONG[kind]
    pieces = split(text, markdown=markdown)
    assert longest(pieces) <= 64
    assert max(len(passage.text) for passage, _ in pieces) <= 64 * 12
    at = 0
    for passage, _ in pieces:  # what passages begin with may be repeated
        words = "".join(passage.text.split())
        found = SQUEEZED[kind].find(words, max(0, at - len(words)))
        assert 0 <= found <= at
        at = max(at, found + len(words))
    assert at == len(SQUEEZED[kind])


def test_passages_overlap_by_a_sentence_where_the_text_was_cut():
    pieces = [passage.text for passage, _ in split(" ".join(sentences(60)), tokens=128)]
    for before, after in itertools.pairwise(pieces):
        first = after.split(". ")[0]
        assert before.rstrip(".").endswith(first)


LINES = {
    "a log": [f"2024-05-{n % 28 + 1:02} 12:00:{n:02} pump{n:02} pressure {n} bar, all is well" for n in range(60)],
    "short lines": [
        *(f"Item {letter}" for letter in "abcdefghijklmnopqrstuvwxyz"),
        *(f"\nThe passage with the number {n} stands for itself, alone, between blank lines.\n" for n in range(9)),
    ],
    "columns": [
        f"Town{n:02}    founded in {1200 + n}      Mayor Name {n:02}      {5000 + n} people" for n in range(60)
    ],
}


@pytest.mark.parametrize("kind", LINES)
def test_a_row_of_plain_text_stays_a_line(kind):
    text = "\n".join(LINES[kind])
    found = [line for passage, _ in split(text) for line in passage.text.split("\n")]
    assert {*found} == {*text.split("\n")}


def test_headings_are_titles_and_a_short_section_is_one_passage():
    text = "# Handbook\n\nFor all.\n\n## Leave\n\n### Sick leave\n\nCall Ada.\n\n```\n# no heading\n```\n\n## Old\n"
    pieces = [(passage.title, passage.text) for passage, _ in split(text, markdown=True)]
    assert pieces == [
        ("Handbook", "For all."),
        ("Handbook / Leave / Sick leave", "Call Ada.\n\n```\n# no heading\n```"),
        ("Handbook / Old", "## Old"),
    ]
    underlined = split("Tarn\n====\n\nA town.\n\nIsk\n---\n\nA river.", markdown=True)
    assert [passage.title for passage, _ in underlined] == ["Tarn", "Tarn / Isk"]
    untitled = split("Before.\n\n# One\n\nText.\n", markdown=True)
    assert [passage.title for passage, _ in untitled] == ["notes", "notes / One"]


def test_headings_and_titles_that_are_too_long_are_in_the_text():
    heading = " ".join(sentences(6))
    pieces = split(f"# Top\n\n## {heading}\n\n### Below\n\nThe text.\n", markdown=True)
    assert longest(pieces) <= 64
    text = " ".join(f"{passage.title} {passage.text}" for passage, _ in pieces)
    assert {*heading.split()} <= {*text.split()}
    title = " ".join(sentences(30))
    parts = Splitter(WINDOW, 64).split_passage(Passage("orle", title, "The text itself."))
    assert max(WINDOW.count([*map(str, parts)])) <= 64
    said = " ".join(part.text for part in parts)
    assert all(sentence in said for sentence in [*sentences(30), "The text itself."])


def test_ids_come_from_the_document_and_what_the_passage_says():
    one, two, again = (passage.id for passage, _ in split("# A\n\nS.\n\n# B\n\nS.\n\n# A\n\nS.\n", markdown=True))
    assert (one != two, again) == (True, f"{one}-2")
    assert {*map(document_id, (one, two, again))} == {"folder/notes.md"}
    assert document_id("Tarn#2") is None


def test_pages_are_told():
    pages = ["alpha " * 90, "beta " * 90, "gamma " * 90]
    starts = [(sum(len(page) for page in pages[:n]), n + 1) for n in range(3)]
    places = [str(source) for _, source in split("".join(pages), pages=starts)]
    assert places[0] == "folder/notes.md, page 1"
    assert places[-1] == "folder/notes.md, page 3"
    assert any("pages" in place for place in places)


def test_a_passage_that_fits_stays_as_it_is():
    splitter = Splitter(WINDOW, 64)
    fitting = Passage("orle", "Orle Bridge", "The bridge\nwas  designed by Ada Venn.\n")
    assert splitter.split_passage(fitting) == [fitting]
