"""KnowGap: two rounds of reading and planning, its hyperparameters, and what it says if the documents do not."""

import pytest
from support import UNREADABLE, TableReranker, TableRetriever, play

from knowgap.programs.knowgap import KnowGap
from knowgap.programs.prediction import NOT_SUPPORTED
from knowgap.programs.trace.steps import Answered, Missing, Queried, Retrieved, Stopped
from knowgap.retrieval.passage import Passage

QUESTION = "Where was the designer of the Orle Bridge born?"
BORN = "Ada Venn born"
BRIDGE = Passage("bridge", "Orle Bridge", "The Orle Bridge was designed by Ada Venn in 1931.")
RIVER = Passage("river", "Orle", "The Orle is a river of the north.")
VENN = Passage("venn", "Ada Venn", "Ada Venn was born in Tarn.")
MILL = Passage("mill", "Mill of Wick", "The mill burnt down.")
TABLE = {QUESTION: [BRIDGE, RIVER], BORN: [VENN, BRIDGE, MILL]}


def reply(relevant_ids=(), answer="", answerable=False, queries=(), steps=()):
    """The outputs of a round."""
    said = {"steps": list(steps), "relevant_ids": list(relevant_ids), "answerable": answerable, "answer": answer}
    return {**said, "queries": list(queries)}


def verdict(answer, relevant_ids=(), supported=False, explanation="They do not say."):
    """The outputs of the last reading."""
    said = {"explanation": explanation, "relevant_ids": list(relevant_ids)}
    return {**said, "supported": supported, "answer": answer}


FIRST = reply([1], queries=[BORN], steps=["designer of the bridge: Ada Venn [1]", "where Ada Venn was born: MISSING"])
SETTLED = reply([1, 2], "Tarn", True, steps=["designer: Ada Venn [1]", "birthplace: Tarn [2]"])


def ask(read, last=None, table=TABLE, **kwargs):
    return play(KnowGap(TableRetriever(table), **kwargs), QUESTION, read=read, last=last)


def ids(passages):
    return [passage.id for passage in passages]


def shown(engine, act="read"):
    """The titles of the passages in each prompt."""
    return [[passage["title"] for passage in inputs["passages"]] for inputs in engine.asked(act)]


def test_what_is_missing_is_searched_for_and_found():
    prediction, engine = ask([FIRST, SETTLED])
    assert (prediction.answer, prediction.supported, prediction.missing, prediction.guess) == ("Tarn", True, "", "")
    assert ids(prediction.passages) == ["bridge", "venn"]
    assert engine.acts == ["read", "read"]
    assert engine.asked("read")[1]["searched"] == [QUESTION, BORN]
    assert shown(engine) == [["Orle Bridge", "Orle"], ["Orle Bridge", "Ada Venn", "Mill of Wick"]]
    trace = prediction.trace
    assert [step.missing for step in trace.of(Missing)] == ["where Ada Venn was born"]
    assert [step.queries for step in trace.of(Queried)] == [[BORN]]
    assert trace.of(Answered)[-1].supported is True


def test_an_answer_that_does_not_choose_between_the_names_of_its_question_is_read_again():
    question = "Which bridge has the older designer, Orle Bridge or Wick Bridge?"
    program = KnowGap(TableRetriever({question: [BRIDGE, RIVER]}))
    for answer, acts in (("Ada Venn", ["read", "last"]), ("Orle Bridge", ["read"])):
        prediction, engine = play(
            program, question, read=[reply([1], answer, True)], last=verdict("Orle Bridge", [1], True)
        )
        assert (prediction.answer, prediction.supported, engine.acts) == ("Orle Bridge", True, acts)


@pytest.mark.parametrize("first", [reply([0, 1, 3], "Ada Venn", True), reply([], "ADA venn", True)])
def test_a_question_that_the_first_passages_settle_costs_one_call(first):
    """Numbers of no passage are ignored; a reply that names no passage rests on those that contain its answer."""
    prediction, engine = ask([first])
    assert (prediction.supported, ids(prediction.passages), engine.acts) == (True, ["bridge"], ["read"])


@pytest.mark.parametrize(
    "first",
    [
        reply([1], "Tarn", True, [BORN], ["birthplace: MISSING"]),
        reply([1], "Tarn", True, [BORN], ["birthplace: Tarn, REMEMBERED."]),
        reply([], "Tarn", True, [BORN]),  # no passage is named
        reply([1], "unknown", True, [BORN]),
    ],
)
def test_what_is_not_settled_is_not_the_end(first):
    prediction, _ = ask([first, SETTLED], verdict("Tarn"))
    assert prediction.trace.cost.retrievals == 2


def test_without_a_query_the_missing_fact_is_the_query_once():
    none = reply([1], steps=["Ada Venn born: MISSING"])
    prediction, engine = ask([none, reply([1], "Wick", steps=["Ada Venn born: MISSING"])])
    assert engine.asked("read")[1]["searched"] == [QUESTION, BORN]
    assert (prediction.answer, prediction.supported, prediction.guess) == ("Wick", False, "Wick")
    assert prediction.missing == BORN
    assert ids(prediction.passages) == ["bridge"]


def test_without_a_query_and_a_guess_it_is_read_once_more():
    prediction, engine = ask([FIRST, reply([])], verdict("Tarn", [2], True))
    assert engine.acts == ["read", "read", "last"]
    assert shown(engine, "last") == [["Orle Bridge", "Ada Venn", "Mill of Wick", "Orle"]]
    assert (prediction.answer, prediction.supported, ids(prediction.passages)) == ("Tarn", True, ["venn"])


def test_rounds_without_a_useful_passage_end_the_search():
    dry = [reply([], "Wick", queries=[f"query {n}"]) for n in range(9)]
    prediction, engine = ask(dry, patience=3, iterations=9)
    assert (len(engine.acts), prediction.answer, prediction.supported) == (3, "Wick", False)
    assert prediction.trace.of(Stopped)[-1].reason == "nothing new"


def test_one_iteration_is_plain_retrieval_with_a_verdict():
    prediction, engine = ask([], verdict("Ada Venn", [1], True), iterations=1)
    assert (engine.acts, prediction.answer, prediction.supported) == (["last"], "Ada Venn", True)
    unsupported, _ = ask([], verdict("Ada Venn", [], True, ""), table={QUESTION: [MILL]}, iterations=1)
    assert (unsupported.answer, unsupported.supported) == ("Ada Venn", False)


def test_nothing_useful_is_dropped_when_enough_is_kept():
    first = reply([1, 2], queries=[BORN], steps=["birthplace: MISSING"])
    second = reply([1, 2, 3], queries=["mill"], steps=["birthplace: MISSING"])
    _, engine = ask([first, second], verdict("x"), keep=2, iterations=3)
    assert shown(engine)[1][:2] == ["Orle Bridge", "Orle"]
    assert shown(engine, "last") == [["Orle Bridge", "Orle", "Ada Venn", "Mill of Wick"]]


def test_the_first_of_each_query_is_read_before_the_second_of_any():
    table = {QUESTION: [BRIDGE], "a": [VENN, MILL], "b": [RIVER]}
    _, engine = ask([reply([1], queries=["a", "b"])], verdict("x"), table=table, iterations=2)
    assert shown(engine, "last") == [["Orle Bridge", "Ada Venn", "Orle", "Mill of Wick"]]


def test_a_reranker_orders_what_is_found_and_drops_what_scores_less_than_delta():
    reranker = TableReranker(lambda query, text: float("Venn" in text) - float("mill" in text))
    table = {QUESTION: [MILL, RIVER, BRIDGE]}
    program = KnowGap(TableRetriever(table), reranker=reranker, iterations=1, delta=0.0)
    prediction, engine = play(program, QUESTION, read=[], last=verdict("x"))
    assert shown(engine, "last") == [["Orle Bridge", "Orle"]]
    assert [step.k for step in prediction.trace.of(Retrieved)] == [20]


def test_in_sentences_it_says_that_the_documents_do_not():
    gone = reply([1], "Perhaps Wick.", steps=["where Ada Venn was born: MISSING"], queries=[QUESTION])
    prediction, _ = ask([gone], style="sentence")
    assert prediction.answer == f"{NOT_SUPPORTED} Missing: where Ada Venn was born. A guess: Perhaps Wick."
    assert (prediction.supported, prediction.guess, ids(prediction.passages)) == (False, "Perhaps Wick.", ["bridge"])
    assert prediction.citations == []
    bare, _ = ask([UNREADABLE] * 2, verdict("unknown"), style="sentence")
    assert (bare.answer, bare.guess) == (NOT_SUPPORTED, "")


@pytest.mark.parametrize(
    ("question", "explanation", "said"),
    [
        ("Wie hoch ist das Gehalt?", "Die Dokumente nennen das Gehalt nicht.", True),
        ("Was ist die Höhe der Orle-Brücke?", "In den Dokumenten steht nicht, was die Höhe ist.", True),
        ("¿Cuál es la altura del puente?", "Los documentos no dicen la altura.", True),
        ("橋の高さは？", "文書には橋の高さは書かれていません。", True),
        ("Orle Bridge height", "Ada Moor was born in Velden. Not known: Orle Bridge height", False),
        ("Orle Bridge height", "version: 2.2; codename: Potato. Not known: Orle Bridge height", False),
        ("Wie hoch ist die Brücke?", "Die Brücke wurde 1931 gebaut.", False),
        ("Wie hoch ist die Brücke?", "No passage states the height.", False),
        ("What is the height of the bridge?", "Die Dokumente nennen die Höhe nicht.", False),
    ],
)
def test_in_another_language_an_explanation_that_says_so_stands_for_the_sentence(question, explanation, said):
    program = KnowGap(TableRetriever({question: [MILL]}), style="sentence", iterations=1)
    prediction, _ = play(program, question, read=[], last=verdict("", explanation=explanation))
    assert prediction.answer == (explanation if said else NOT_SUPPORTED)


@pytest.mark.parametrize(
    ("answer", "taken"),
    [("in Tarn", True), ("yes", True), ("Wick", False), ("1932", False)],
)
def test_an_answer_that_stands_in_no_passage_is_not_taken(answer, taken):
    found = reply([1, 2], answer, True, steps=["designer: Ada Venn [1]", f"birthplace: {answer} [2]"])
    prediction, engine = ask([FIRST, found], verdict("Tarn", [1], True))
    assert (prediction.answer, prediction.supported) == (answer if taken else "Tarn", True)
    assert len(engine.asked("last")) == (not taken)
    if not taken:
        searched = prediction.trace.of(Queried)[-1].queries
        assert searched == ["designer: Ada Venn", f"birthplace: {answer}"]


def test_a_guess_of_the_first_round_without_a_query_is_searched_for():
    table = {**TABLE, "designer: Ada Venn": [VENN]}
    prediction, engine = ask([reply([1], "Ada Venn", steps=["designer: Ada Venn [1]"]), SETTLED], table=table)
    assert engine.asked("read")[1]["searched"] == [QUESTION, "designer: Ada Venn"]
    assert (prediction.answer, prediction.supported) == ("Tarn", True)


def test_a_sentence_where_a_short_answer_is_asked_for_is_read_again():
    told = reply([1], "The Orle Bridge was designed by Ada Venn.", True, steps=["designer of the bridge: Ada Venn [1]"])
    prediction, engine = ask([told], verdict("Ada Venn", [1], True))
    assert (prediction.answer, prediction.supported, engine.acts) == ("Ada Venn", True, ["read", "last"])
    assert prediction.trace.cost.retrievals == 1  # nothing is missing
    prediction, _ = ask([told], verdict("", [], False))
    assert (prediction.answer, prediction.supported) == ("The Orle Bridge was designed by Ada Venn.", False)
