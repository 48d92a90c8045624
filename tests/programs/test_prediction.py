"""Citations: statements of an answer with the passages that entail them."""

import copy
import json
import pickle

import dspy
import pytest
from support import ProgramEngine, TableEntailment, lm_of, play, scripted_lm

from knowgap.programs.baselines.rag import RAG
from knowgap.programs.knowgap import KnowGap
from knowgap.programs.migres import MIGRES
from knowgap.programs.prediction import cite_answer
from knowgap.programs.replies.text import fits_style
from knowgap.programs.statements import LMEntailment
from knowgap.programs.trace.steps import Reasoned
from knowgap.retrieval.passage import Hit, Passage

MOOR = Passage("moor", "Ada Moor", "Ada Moor painted ships in the harbour of Tarn. She was born in Wick in 1871.")
FERRY = Passage(
    "ferry", "The Grey Ferry", "The Grey Ferry is a painting by Ada Moor. It hangs in the town hall of Tarn."
)
MILL = Passage("mill", "The mill of Isk", "The mill grinds corn [/bold] for <b>three</b> villages.")
ALL = [MILL, FERRY, MOOR]
HOP = "Where was the painter of The Grey Ferry born?"


class Fixed:
    """An index that always finds the same."""

    def __init__(self, *passages):
        self.passages = passages

    def search(self, queries, k):
        return [[Hit(p, 1.0 / n, n) for n, p in enumerate(self.passages, start=1)] for _ in queries]


def answered(answer, *passages, **settings):
    lm, engine = scripted_lm(lambda *_: {"answer": answer})
    with dspy.context(lm=lm):
        prediction = RAG(Fixed(*passages), **settings)(question=HOP)
        assert prediction.citations == prediction.citations
    assert len(engine.calls) == (1 if answer else 2)  # an empty answer is asked for once more
    return prediction


def ids(citation):
    return [passage.id for passage in citation.passages]


def test_each_sentence_of_a_long_answer_is_a_statement():
    answer = "Ada Moor was born in Wick [1][3]. Bo Reed built the bridge of Aldern in 1850."
    supported, unsupported = answered(answer, *ALL, style="long").citations
    assert (supported.statement, ids(supported), supported.absent) == ("Ada Moor was born in Wick.", ["moor"], ())
    assert supported.supported
    assert (unsupported.statement, ids(unsupported)) == ("Bo Reed built the bridge of Aldern in 1850.", [])
    assert not unsupported.supported
    assert unsupported.absent == ("1850", "Bo Reed", "Aldern")


def test_a_sentence_may_rest_on_passages_together():
    [citation] = answered(
        "Ada Moor, who painted The Grey Ferry, was born in Wick in 1871.", *ALL, style="long"
    ).citations
    assert ids(citation) == ["moor", "ferry"]


def test_a_short_answer_cites_passages_that_contain_it_and_most_of_the_question():
    [citation] = answered("Wick", *ALL).citations
    assert (citation.statement, ids(citation), citation.absent) == ("Wick", ["moor"], ())
    [citation] = answered("Aldern", *ALL).citations
    assert (citation.passages, citation.absent) == ((), ("Aldern",))
    twin = Passage("twin", "Ada Moor", "Ada Moor, the painter of ships, was born in Wick in 1871.")
    inn = Passage("inn", "The Wick inn", "An inn of Wick.")
    [citation] = cite_answer("Where was Ada Moor born?", "Wick", [inn, MOOR, MILL, twin])
    assert ids(citation) == ["moor", "twin"]
    assert ids(cite_answer("Where is an old mill?", "Wick", [inn, MOOR])[0]) == ["inn"]


@pytest.mark.parametrize(
    ("answer", "absent"),
    [
        ("1871", ()),
        ("in 1871", ()),
        ("1872", ("1872",)),
        ("town hall of Tarn", ()),
        ("three", ()),
        ("3 villages", ()),
        ("Moor", ()),
        ("Tom Moor", ("Tom Moor",)),
        ("the sea", ("the sea",)),
    ],
)
def test_a_short_answer_that_no_passage_contains_is_absent(answer, absent):
    [citation] = cite_answer(HOP, answer, ALL)
    assert (citation.absent, citation.supported) == (absent, not absent)


def test_a_yes_or_no_cites_what_the_question_is_about():
    [yes] = cite_answer("Was Ada Moor born in Wick?", "yes", ALL, "yes_no")
    assert (yes.statement, ids(yes), yes.absent) == ("yes", ["moor", "ferry"], ())
    [no] = cite_answer("Were Ada Moor and the mill older than The Grey Ferry?", "No.", ALL)
    assert (len(ids(no)), no.absent) == (1, ())
    assert cite_answer("Is it?", "yes", [], "yes_no")[0].passages == ()


def test_a_model_reads_a_short_answer_with_its_question_and_the_letter_of_an_option_cites_nothing():
    model = TableEntailment()
    cite_answer("Where was Ada Moor born?", "Wick", [MOOR], "short", model)
    assert {claim for _, claim in model.pairs} == {'The answer to the question "Where was Ada Moor born?" is "Wick".'}
    assert cite_answer("Where was Ada Moor born?\nA. Tarn\nB. Wick", "B", [MOOR], "choice", model) == []


@pytest.mark.parametrize("answer", ["", "unknown", "Unknown.", "unanswerable"])
def test_an_unknown_answer_cites_nothing(answer):
    assert answered(answer, *ALL).citations == []


def test_a_model_names_at_most_three_passages_the_most_probable_first():
    parts = [Passage(str(n), "", f"part{n}") for n in range(6)]
    [citation] = cite_answer(
        "Which?", "All", parts, entailment=TableEntailment(lambda premise, _: int(premise[-1]) / 5)
    )
    assert ids(citation) == ["5", "4", "3"]


def test_the_language_model_is_asked_once_for_all_statements_and_counts():
    answer = "Ada Moor was born in Wick. She painted The Grey Ferry. Bo Reed built it."
    reply = {"answer": answer, "sources": ["3", "2, 3", "none"]}
    lm, engine = scripted_lm(lambda fields, _: {name: reply[name] for name in fields})
    program = RAG(Fixed(*ALL), style="long")
    program.part_names, program.entailment = ("retriever", "entailment"), LMEntailment()
    with dspy.context(lm=lm):
        prediction = program(question=HOP)
    assert [ids(citation) for citation in prediction.citations] == [["moor"], ["ferry", "moor"], []]
    assert [citation.absent for citation in prediction.citations] == [(), (), ("Bo Reed",)]
    assert (len(engine.calls), prediction.trace.cost.lm_calls, prediction.trace.cost.critical_calls) == (2, 2, 2)
    _, inputs = engine.calls[-1]
    assert len(inputs["statements"]) == 3
    assert pickle.loads(pickle.dumps(prediction)).citations == prediction.citations
    with dspy.context(lm=lm):
        prediction = program.configure(max_calls=1)(question=HOP)
    assert len(engine.calls) == 3  # the rule judges where no call is left
    assert ids(prediction.citations[0]) == ["moor"]


def test_passages_that_the_model_wrote_are_not_cited():
    model = TableEntailment()
    program = MIGRES(Fixed(), iterations=1, entailment=model, prompt_knowledge=True)
    engine = ProgramEngine(
        program,
        {
            "knowledge": {"knows": True, "passage": "Ada Moor was born in Wick."},
            "leaf": {"statements": [{"statement": "Ada Moor was born in Wick.", "sources": [1]}]},
            "main": {"answerable": True, "answer": "Wick", "confidence": 4, "explanation": "…"},
        },
    )
    with dspy.context(lm=lm_of(engine)):
        prediction = program(question=HOP)
    [citation] = prediction.citations
    assert (ids(citation), citation.supported, citation.absent) == ([], False, ())
    assert json.loads(json.dumps(citation.to_dict())) == {
        "statement": "Wick",
        "supported": False,
        "passages": [],
        "absent": [],
    }


def test_nothing_is_judged_before_citations_are_read_and_copies_have_them():
    def refuse(premise, hypothesis):
        raise AssertionError("asked")

    model = TableEntailment(refuse)
    lm, _ = scripted_lm(lambda *_: {"answer": "Wick"})
    with dspy.context(lm=lm):
        program = RAG(Fixed(*ALL), style="long")
        program.part_names, program.entailment = ("retriever", "entailment"), model
        prediction = program(question=HOP)
    assert "citations" not in prediction.keys()  # noqa: SIM118
    model.rule = lambda premise, hypothesis: float("Wick" in premise)
    for copied in (prediction, copy.deepcopy(prediction), prediction.copy()):
        assert [ids(citation) for citation in copied.citations] == [["moor"]]
        assert copied == prediction


@pytest.mark.parametrize(
    ("answer", "style", "fits"),
    [
        ("Marie Curie", "short", True),
        ("The Lord of the Rings: The Two Towers", "short", True),
        ("Robert Downey Jr.", "short", True),
        ("The Tell-Tale Heart and Other Stories Inc.", "short", True),
        ("She was born in 1911.", "short", False),
        ("Ada Orle directed the film Blue Sea.", "short", False),
        ('Ada Orle was nicknamed "The Gull."', "short", False),
        ('"The Gull."', "short", True),
        ("The film that came out first was Blue Sea", "short", False),
        ("(B)", "choice", True),
        ("No.", "yes_no", True),
        ("No, it is not.", "yes_no", False),
        ("She was born in 1911.", "long", True),
    ],
)
def test_which_answers_are_longer_than_their_style(answer, style, fits):
    assert fits_style(answer, style) == fits


def test_knowgap_shortens_a_sentence_where_a_short_answer_is_asked_for():
    def last(text):
        return {"last": {"explanation": "", "relevant_ids": [1], "supported": True, "answer": text}}

    script = {"shorten": lambda inputs: inputs["text"][:8]}
    program = KnowGap(Fixed(*ALL), iterations=1)
    prediction, engine = play(program, HOP, **script, **last("Ada Orle directed the film Blue Sea."))
    assert (prediction.answer, engine.acts) == ("Ada Orle", ["last", "shorten"])
    assert [step.text for step in prediction.trace.of(Reasoned)] == ["Ada Orle directed the film Blue Sea."]
    limited = KnowGap(Fixed(*ALL), iterations=1, max_calls=1)
    prediction, engine = play(limited, HOP, **script, **last("Ada Orle directed the film Blue Sea."))
    assert (prediction.answer, engine.acts) == ("Ada Orle directed the film Blue Sea.", ["last"])
    assert play(program, HOP, **last("Ada Orle"))[1].acts == ["last"]
    title = "The Boat That Came Back to Orle in Spring: Part Two"
    assert play(program, f"Which came out first, {title} or Blue Sea?", **last(title))[1].acts == ["last"]
