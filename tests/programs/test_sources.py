"""The numbered sources of an answer, their files and positions."""

import dspy
import pytest
from support import scripted_lm

from knowgap.programs.baselines.rag import RAG
from knowgap.programs.sources import AnswerSource, CitedAnswer
from knowgap.programs.statements import strip_numbers
from knowgap.retrieval.documents.sources import Source
from knowgap.retrieval.passage import Hit, Passage

BRIDGE = Passage("bridge", "Orle Bridge", "It opened in 1931. The Orle Bridge was designed by Ada Venn.")
VENN = Passage("venn", "Ada Venn", "Ada Venn was an engineer. Ada Venn was born in Tarn.")


class Both:
    def search(self, queries, k):
        return [[Hit(VENN, 2.0, 1), Hit(BRIDGE, 1.0, 2)] for _ in queries]


def cited(answer, style="sentence"):
    lm, _ = scripted_lm(lambda *_: {"answer": answer})
    program = RAG(Both(), style=style)
    with dspy.context(lm=lm):
        return CitedAnswer.of(program(question="Who designed the Orle Bridge?"))


def test_numbers_stand_before_the_end_of_each_statement_in_the_order_of_the_text():
    found = cited("The Orle Bridge was designed by Ada Venn. Ada Venn was born in Tarn. Nobody painted it.")
    assert found.text == (
        "The Orle Bridge was designed by Ada Venn [1]. Ada Venn was born in Tarn [2]. Nobody painted it."
    )
    assert [(source.number, source.passage.id) for source in found.sources] == [(1, "bridge"), (2, "venn")]
    assert [source.sentence for source in found.sources] == [
        "The Orle Bridge was designed by Ada Venn.",
        "Ada Venn was born in Tarn.",
    ]


def test_a_statement_has_three_numbers_at_most():
    same = [Hit(Passage(f"v{n}", "Ada Venn", "Ada Venn was born in Tarn."), 9.0 - n, n) for n in range(1, 6)]
    retriever = type("Five", (), {"search": lambda self, queries, k: [same[:k] for _ in queries]})()
    lm, _ = scripted_lm(lambda *_: {"answer": "Ada Venn was born in Tarn."})
    with dspy.context(lm=lm):
        found = CitedAnswer.of(RAG(retriever, style="sentence")(question="Where was Ada Venn born?"))
    assert found.text == "Ada Venn was born in Tarn [1][2][3]."
    assert [bool(source.sentence) for source in found.sources] == [True, True, True, False, False]


def test_numbers_that_the_model_wrote_give_way():
    assert cited("The Orle Bridge was designed by Ada Venn [2].").text == (
        "The Orle Bridge was designed by Ada Venn [1]."
    )


def test_brackets_that_are_no_numbers_of_sources_stay():
    assert strip_numbers("a[0] is [Fe(CN)6] [link] [1, 12], x[31mRED][2].") == "a[0] is [Fe(CN)6] [link], x[31mRED]."
    assert cited("It is array[0] and [Fe(CN)6].").text == "It is array[0] and [Fe(CN)6]."


@pytest.mark.parametrize(
    ("place", "shown", "record"),
    [
        (None, "[3] Manual / Setup / Ports", {"title": "Manual / Setup / Ports"}),
        (
            Source("manual.pdf", "page", 4, 4),
            "[3] Manual, manual.pdf, page 4",
            {"title": "Manual", "file": "manual.pdf", "position": "page 4", "page": 4, "section": "Setup / Ports"},
        ),
        (
            Source("manual.md"),
            "[3] Manual, manual.md, Setup / Ports",
            {"title": "Manual", "file": "manual.md", "position": "Setup / Ports", "section": "Setup / Ports"},
        ),
        (
            Source("towns.xlsx", "row", 2, 5),
            "[3] Manual, towns.xlsx, Setup / Ports, rows 2–5",
            {
                "title": "Manual",
                "file": "towns.xlsx",
                "position": "Setup / Ports, rows 2–5",
                "section": "Setup / Ports",
            },
        ),
    ],
)
def test_a_source_says_where_it_stands(place, shown, record):
    source = AnswerSource(3, Passage("id", "Manual / Setup / Ports", "text"), place=place)
    assert str(source) == shown
    assert source.to_dict() == {"number": 3, "passage_id": "id", **record}
