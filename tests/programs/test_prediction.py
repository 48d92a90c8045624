"""Citations: statements of an answer with the passages that hold them, and their numbers and places in an answer."""

import pickle

import dspy
import pytest
from support import TableEntailment, TableRetriever, play, scripted_lm

from knowgap.programs.baselines.rag import RAG
from knowgap.programs.migres import MIGRES
from knowgap.programs.passages import LMEntailment, strip_numbers
from knowgap.programs.prediction import NOT_SUPPORTED, AnswerSource, CitedAnswer, cite_answer
from knowgap.programs.replies.text import fits_style
from knowgap.retrieval.documents.sources import Source
from knowgap.retrieval.grounding import support
from knowgap.retrieval.passage import Passage

MOOR = Passage("moor", "Ada Moor", "Ada Moor painted ships in the harbour of Tarn. She was born in Wick in 1871.")
FERRY = Passage("ferry", "The Grey Ferry", "The Grey Ferry is a painting by Ada Moor. It hangs in Tarn.")
MILL = Passage("mill", "The mill of Isk", "The mill grinds corn [/bold] for <b>three</b> villages.")
ALL = [MILL, FERRY, MOOR]
HOP = "Where was the painter of The Grey Ferry born?"


def answered(program, answer):
    prediction, engine = play(program, HOP, answer=answer)
    assert engine.acts == ["answer"]
    return prediction


def ids(citation):
    return [passage.id for passage in citation.passages]


# What is cited.


def test_each_sentence_of_a_long_answer_is_a_statement():
    answer = "Ada Moor was born in Wick [1][3]. Bo Reed built the bridge of Aldern in 1850."
    supported, unsupported = answered(RAG(TableRetriever(ALL), style="long"), answer).citations
    assert (supported.statement, ids(supported), supported.absent) == ("Ada Moor was born in Wick.", ["moor"], ())
    assert (ids(unsupported), unsupported.absent) == ([], ("1850", "Bo Reed", "Aldern"))
    assert len(cite_answer(HOP, "She was born in Wick. It hangs in Tarn.", ALL)) == 2


def test_a_sentence_is_supported_by_passages_alone_or_together():
    assert support("Ada Moor was born in Wick.", ALL) == [MOOR]
    assert support("The painter of The Grey Ferry, Ada Moor, was born in Wick in 1871.", ALL) == [MOOR, FERRY]
    assert support("Ada Moor was born in Wick in 1872.", ALL) == []
    copies = [Passage(str(n), MOOR.title, MOOR.text) for n in range(5)]
    assert len(support("Ada Moor was born in Wick.", copies)) == 3


TWIN = Passage("twin", "Ada Moor", "Ada Moor, the painter of ships, was born in Wick in 1871.")
INN = Passage("inn", "The Wick inn", "An inn of Wick.")


@pytest.mark.parametrize(
    ("question", "answer", "passages", "style", "cited", "absent"),
    [
        # those that contain it, and of these those with most of the question
        ("Where was Ada Moor born?", "Wick", [INN, MOOR, MILL, TWIN], "short", ["moor", "twin"], ()),
        ("Where is an old mill?", "Wick", [INN, MOOR], "short", ["inn"], ()),
        (HOP, "in 1871", ALL, "short", ["moor"], ()),
        (HOP, "3 villages", ALL, "short", ["mill"], ()),
        *((HOP, answer, ALL, "short", [], (answer,)) for answer in ("1872", "Tom Moor", "the sea")),
        # a yes or no cites what the question is about
        ("Was Ada Moor born in Wick?", "yes", ALL, "yes_no", ["moor", "ferry"], ()),
        ("Were Ada Moor and the mill older than The Grey Ferry?", "No.", ALL, "short", ["ferry"], ()),
        ("Is it?", "yes", [], "yes_no", [], ()),
    ],
)
def test_what_a_short_answer_cites_and_what_is_in_no_passage(question, answer, passages, style, cited, absent):
    [citation] = cite_answer(question, answer, passages, style)
    assert (citation.statement, ids(citation), citation.absent) == (answer, cited, absent)
    assert citation.supported is bool(cited)


@pytest.mark.parametrize(("answer", "style"), [("Unknown.", "short"), ("B", "choice")])
def test_an_unknown_answer_and_an_option_cite_nothing(answer, style):
    assert cite_answer(HOP, answer, ALL, style) == []


def test_passages_that_the_model_wrote_are_not_cited():
    script = {
        "knowledge": {"knows": True, "passage": "Ada Moor was born in Wick."},
        "leaf": {"statements": [{"statement": "Ada Moor was born in Wick.", "sources": [1]}]},
        "main": {"answerable": True, "answer": "Wick", "confidence": 4, "explanation": "…"},
    }
    prediction, _ = play(MIGRES(TableRetriever([]), iterations=1, entailment=TableEntailment()), HOP, **script)
    [citation] = prediction.citations
    assert citation.to_dict() == {"statement": "Wick", "supported": False, "passages": [], "absent": []}


# What an entailment model judges.


def test_a_model_reads_a_short_answer_with_its_question_and_names_three_passages_the_most_probable_first():
    model = TableEntailment(lambda premise, _: int(premise[-1]) / 5)
    parts = [Passage(str(n), "", f"part{n}") for n in range(6)]
    [citation] = cite_answer("Where was Ada Moor born?", "Wick", parts, "short", model)
    assert ids(citation) == ["5", "4", "3"]
    assert {claim for _, claim in model.pairs} == {'The answer to the question "Where was Ada Moor born?" is "Wick".'}


def test_the_language_model_is_asked_once_for_all_statements_and_counts():
    answer = "Ada Moor was born in Wick. She painted The Grey Ferry. Bo Reed built it."
    reply = {"answer": answer, "sources": ["3", "2, 3", "none"]}
    lm, engine = scripted_lm(lambda fields, _: {name: reply[name] for name in fields})
    program = RAG(TableRetriever(ALL), style="long")
    program.part_names, program.entailment = ("retriever", "entailment"), LMEntailment()
    with dspy.context(lm=lm):
        prediction = program(question=HOP)
    assert [ids(citation) for citation in prediction.citations] == [["moor"], ["ferry", "moor"], []]
    assert [citation.absent for citation in prediction.citations] == [(), (), ("Bo Reed",)]
    assert (len(engine.calls), prediction.trace.cost.lm_calls, prediction.trace.cost.critical_calls) == (2, 2, 2)
    assert len(engine.calls[-1][1]["statements"]) == 3
    assert pickle.loads(pickle.dumps(prediction)).citations == prediction.citations
    with dspy.context(lm=lm):
        prediction = program.configure(max_calls=1)(question=HOP)
    assert len(engine.calls) == 3  # the rule judges where no call is left
    assert ids(prediction.citations[0]) == ["moor"]


# How an answer shows its sources.

BRIDGE = Passage("bridge", "Orle Bridge", "It opened in 1931. The Orle Bridge was designed by Ada Venn.")
VENN = Passage("venn", "Ada Venn", "Ada Venn was an engineer. Ada Venn was born in Tarn.")


def numbered(answer, *passages):
    return CitedAnswer.of(answered(RAG(TableRetriever(passages or (VENN, BRIDGE)), style="sentence"), answer))


@pytest.mark.parametrize(("answer", "guess"), [("unknown", ""), ("Wick", "Wick")])
def test_a_refused_answer_without_a_guess_says_so_in_every_style(answer, guess):
    main = {"answerable": False, "missing": "the town"}
    script = {"knowledge": {"knows": False}, "leaf": {"statements": []}, "main": main, "last": {"answer": answer}}
    prediction, _ = play(MIGRES(TableRetriever([]), iterations=1), HOP, **script)
    assert (prediction.supported, prediction.guess) == (False, guess)
    assert CitedAnswer.of(prediction).text == (guess or f"{NOT_SUPPORTED} Missing: the town.")


def test_numbers_stand_before_the_end_of_each_statement_in_the_order_of_the_text():
    said = "The Orle Bridge was designed\nby Ada Venn [2]. Ada Venn was born in Tarn. Nobody painted it."
    found = numbered(said, VENN, BRIDGE, MILL)
    assert found.text == (
        "The Orle Bridge was designed\nby Ada Venn [1]. Ada Venn was born in Tarn [2]. Nobody painted it."
    )
    assert [(source.number, source.passage_id, source.sentence) for source in found.sources] == [
        (1, "bridge", "The Orle Bridge was designed by Ada Venn."),
        (2, "venn", "Ada Venn was born in Tarn."),
        (3, "mill", ""),
    ]


def test_a_table_is_one_statement():
    table = "| Bridge | Year |\n|---|---|\n| Orle | 1931 |"
    found = numbered(f"These are known:\n{table}", Passage("table", "Bridges", table))
    assert found.text.endswith(f"{table} [1]")


def test_brackets_that_are_no_numbers_of_sources_stay():
    assert strip_numbers("a[0] is [Fe(CN)6] [link] [1, 12], x[31mRED][2].") == "a[0] is [Fe(CN)6] [link], x[31mRED]."
    assert numbered("It is array[0] and [Fe(CN)6].").text == "It is array[0] and [Fe(CN)6]."


@pytest.mark.parametrize(
    ("place", "title", "file", "position"),
    [
        (Source("lines.jsonl", "line", 4, 4), "Manual / Setup / Ports", "", ""),
        (Source("manual.pdf", "page", 4, 4), "Manual", "manual.pdf", "Setup / Ports, page 4"),
        (Source("towns.xlsx", "row", 2, 5), "Manual", "towns.xlsx", "Setup / Ports, rows 2–5"),
    ],
)
def test_a_source_says_where_it_stands(place, title, file, position):
    source = AnswerSource.of(3, Passage("id", "Manual / Setup / Ports", "text"), place)
    known = {name: value for name, value in {"file": file, "position": position}.items() if value}
    assert str(source) == f"[3] {', '.join([title, *known.values()])}"
    assert source.to_dict() == {"number": 3, "title": title, "passage_id": "id", **known}


# Answers that are longer than their style.


FILMS = "Which film has the director who died first, The Gull or 12 Boats?"
TITLE = "The Boat That Came Back to Orle in Spring: Part Two"
TOWNS = "Are Orle or Tarn towns?"


@pytest.mark.parametrize(
    ("answer", "style", "question", "fits"),
    [
        ("The Lord of the Rings: The Two Towers", "short", "", True),
        ("She was born in 1911.", "short", "", False),
        ('"The Gull."', "short", "", True),
        ("No.", "yes_no", "", True),
        # it chooses between the names that a question offers
        *((answer, "short", FILMS, True) for answer in ("the film", "12 Boats", "The Boats")),
        *((answer, "short", FILMS, False) for answer in ("Ada Venn", "the")),
        ("No", "yes_no", TOWNS, True),
        ("No.", "short", TOWNS, True),
        ("8,848", "short", "How many feet or meters high is it?", True),
        # a long title that the question names
        (TITLE, "short", f"Which came out first, {TITLE} or Blue Sea?", True),
        (TITLE, "short", HOP, False),
    ],
)
def test_which_answers_fit_their_style(answer, style, question, fits):
    assert fits_style(answer, style, question) == fits
