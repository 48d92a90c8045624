"""Passages and pairs that questions are written from."""

import itertools
from collections import Counter

from knowgap.compiling.questions.material import Corpus
from knowgap.retrieval.indexes import BM25Index
from knowgap.retrieval.passage import Passage, part_id

FILL = "It is told of in old books, and people go there in summer to look at it for a day."
PASSAGES = [
    Passage("bridge", "The Orle Bridge", f"The Orle Bridge was designed by Ada Venn. {FILL}"),
    Passage("venn", "Ada Venn", f"Ada Venn was an engineer who was born in Tarn. {FILL}"),
    Passage("tarn", "Tarn (town)", f"Tarn is a town on the river Isk, with the Orle Bridge. {FILL}"),
    Passage("film", "Tarn (film)", f"Tarn is a film of 1950 in which it rains. {FILL}"),
    Passage("it", "It", f"It is a novel, and so is 1931, and The is nothing. {FILL}"),
    Passage("short", "Short", "Ada Venn."),
    Passage("isk", "Isk", f"The Isk is a river. {FILL} It flows past towns to the sea."),
]


def corpus(passages=PASSAGES, seed=0):
    return Corpus(BM25Index.from_passages(passages), seed)


def linked(passages=PASSAGES):
    pairs = list(corpus(passages).materials("two_hop"))
    assert len({frozenset(each.passages) for each in pairs}) == len(pairs)  # none comes twice
    return {(first.id, second.id): each.link for each in pairs if each.link for first, second in [each.passages]}


def test_a_passage_is_linked_to_one_whose_title_it_mentions():
    found = linked()
    assert found.pop(("bridge", "venn")) == "Ada Venn"  # not to "It": "it" is no name
    assert {pair[0] for pair in found} == {"tarn"}
    assert {*found.values()} <= {"Isk", "Orle Bridge"}


def test_a_title_within_a_longer_one_is_not_meant():
    titles = ["Orle", "Orle Bridge", "Orle Bridge Company"]
    passages = [Passage(title, title, f"The Orle Bridge Company was founded here. {FILL}") for title in titles]
    assert linked(passages) == {(title, "Orle Bridge Company"): "Orle Bridge Company" for title in titles[:2]}
    for text, named in (("It stands in the Nimavar Bazaar of Isfahan.", False), ("They went to Bazaar.", True)):
        passages = [Passage("bazaar", "Bazaar", f"A place. {FILL}"), Passage("school", "School", f"{text} {FILL}")]
        assert linked(passages) == ({("school", "bazaar"): "Bazaar"} if named else {}), text


def test_titles_of_several_documents_lead_nowhere_and_headings_are_no_part_of_a_name():
    assert ("venn", "tarn") not in linked()
    assert ("venn", "film") not in linked()
    parts = [
        *(passage for passage in PASSAGES if passage.id not in ("venn", "film")),
        Passage(part_id("venn.md", "0123456789"), "Ada Venn / Life", f"She was born in Tarn. {FILL}"),
        Passage(part_id("venn.md", "9876543210"), "Ada Venn / Work", f"She designed bridges in Wick. {FILL}"),
    ]
    found = linked(parts)
    assert any(first == "bridge" and second.startswith("venn.md#") for first, second in found)
    assert not any(first.startswith("venn.md#") and second.startswith("venn.md#") for first, second in found)


def test_single_passages_are_spread_over_documents():
    passages = [
        Passage(part_id(f"file{n}.md", f"{part:010x}"), f"File {n}", f"Part {part} of file {n}. {FILL}")
        for n in range(5)
        for part in range(10)
    ]
    first = [each.passages[0].title for each in itertools.islice(corpus(passages).materials("one_hop"), 10)]
    assert Counter(first) == dict.fromkeys((f"File {n}" for n in range(5)), 2)
    every = [each.id for each in corpus(passages).materials("one_hop")]
    assert len({*every}) == 50
    assert every != [each.id for each in corpus(passages, seed=1).materials("one_hop")]
