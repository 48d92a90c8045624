"""MIGRES: its hyperparameters one by one, and what ends it."""

import pytest
from migres_script import (
    FERRY,
    GAP,
    NOISE,
    NOT_YET,
    PAINTED,
    QUESTION,
    SECOND,
    THIRD,
    ask,
    decide,
    learn,
    small,
    two_steps,
)
from support import TableReranker

from knowgap.errors import UsageError
from knowgap.programs.migres import MIGRES
from knowgap.programs.trace.steps import (
    Compressed,
    Extracted,
    Prompted,
    Queried,
    Rejected,
    Reranked,
)


def read(engine):
    """Titles and texts of the passages in each call of the leaf module."""
    return [[(p["title"], p["text"]) for p in given["passages"]] for given in engine.asked("leaf")]


# Retrieval module.


def test_delta_is_the_rerankers_own_unless_it_is_set_and_must_be_known():
    assert list(two_steps(small(threshold=5.0))[0].trace.of(Reranked)[0].kept) == []
    assert list(two_steps(small(threshold=5.0, delta=1.0))[0].trace.of(Reranked)[0].kept) == ["ferry", "noise"]
    with pytest.raises(UsageError, match="table"):
        two_steps(small(threshold=None))


def test_the_delta_of_a_preset_is_for_bge_alone():
    bge, other = TableReranker(lambda *_: 0.0, 3.0), TableReranker(lambda *_: 0.0, -1.0)
    bge.name = "BAAI/bge-reranker-base"
    assert MIGRES.from_preset("open_domain", reranker=bge).delta == 5.0
    with pytest.warns(UserWarning, match="delta"):
        assert MIGRES.from_preset("open_domain", reranker=other).delta is None


def test_a_passage_hit_by_several_queries_keeps_its_highest_score():
    for queries in ([SECOND, THIRD], [THIRD, SECOND]):
        prediction, engine = two_steps(small(), query=[ask(*queries)])
        assert prediction.trace.of(Reranked)[1].kept == {"moor": 6.0}
        assert engine.asked("leaf")[1]["queries"] == [SECOND]


def sentence_scores(whole, *sentences):
    starts = [f"{FERRY.title}: {start}" for start in ("Ada", "It hangs", "It is")]
    return {(QUESTION, str(FERRY)): whole, **{(QUESTION, s): v for s, v in zip(starts, sentences, strict=True)}}


@pytest.mark.parametrize(
    ("whole", "sentences", "text", "compression"),
    [
        (4.0, (5.0, -1.0, 3.0), "Ada Moor painted it in 1911. It is small.", "sentences"),
        (6.0, (5.0, 4.0, -1.0), FERRY.text, "sentences"),  # it outscores all its sentences
        (5.0, (5.0, -1.0, -1.0), "Ada Moor painted it in 1911.", "sentences"),  # it does not outscore the best
        (4.0, (5.0, -1.0, -1.0), FERRY.text, "none"),
    ],
)
def test_sentence_filter_and_the_whole_passage_if_it_outscores_its_sentences(whole, sentences, text, compression):
    program = small({QUESTION: [FERRY]}, sentence_scores(whole, *sentences), compression=compression)
    prediction, engine = two_steps(program, leaf=[learn((PAINTED, 1))], query=[ask()])
    assert read(engine)[0] == [(FERRY.title, text)]
    assert [step.text for step in prediction.trace.of(Compressed)] == ([] if text == FERRY.text else [text])
    assert program.entailment.pairs == [(str(FERRY), PAINTED)]  # entailment is asked with the whole passage


@pytest.mark.parametrize(("how", "act"), [("summary", "summarise"), ("snippet", "snippet")])
def test_the_model_summarises_or_excerpts_until_enough_are_relevant(how, act):
    def compress(given):
        return {"relevant": given["passage"].startswith("The Grey Ferry"), how: "By Ada Moor."}

    first = {(QUESTION, "The Grey Ferry"): 4.0, (QUESTION, "Ferries"): 5.0}  # the noise ranks first
    prediction, engine = two_steps(small(score=first, compression=how, top_k=1, iterations=1), **{act: compress})
    assert read(engine) == [[(FERRY.title, "By Ada Moor.")]]
    assert [given["passage"] for given in engine.asked(act)] == [str(NOISE), str(FERRY)]
    assert prediction.passages == [FERRY]  # as it was retrieved


def test_a_model_that_knows_nothing_writes_nothing():
    said = {"knows": False, "passage": "I don't know."}
    prediction, engine = two_steps(small({}, iterations=1), knowledge=[said])
    assert (prediction.trace.of(Prompted), prediction.passages, engine.asked("leaf")) == ([], [], [])


def test_without_prompted_knowledge_it_goes_on_with_new_queries_and_the_last_answer_may_still_use_its_own():
    prediction, engine = two_steps(small({}, prompt_knowledge=False, iterations=2), main=[])
    assert engine.acts == ["main", "query", "last"]  # a module that would be asked the same is asked once
    assert (prediction.answer, prediction.supported, prediction.missing) == ("Wick", False, GAP)


# Leaf module.


def test_a_statement_is_kept_with_the_cited_passages_that_entail_it_alone():
    said = "Ada Moor painted it in 1911."
    program = small(entails=lambda premise, hypothesis: 0.8 * (hypothesis in premise), delta=0.0, compression="none")
    leaf = [learn((said, 1, 2), ("It hangs in Wick.", 1), ("Out of nowhere.",), ("Of passage 7.", 7, 0, -1))]
    prediction, engine = two_steps(program, leaf=leaf)
    (extracted, *_) = prediction.trace.of(Extracted)
    assert (extracted.statements, extracted.sources) == ([said], [["ferry"]])
    assert [step.what for step in prediction.trace.of(Rejected)] == [
        "It hangs in Wick.",
        "Out of nowhere.",
        "Of passage 7.",
    ]
    assert engine.asked("main")[0]["known"] == [said]


@pytest.mark.parametrize(("threshold", "taken"), [(None, True), (0.3, True), (0.61, False)])
def test_entailment_threshold(threshold, taken):
    program = small(entails=lambda *_: 0.6, entailment_threshold=threshold)
    assert (PAINTED in two_steps(program)[0].known) is taken


# Main module.


@pytest.mark.parametrize(
    ("said", "answered"),
    [
        ({"answerable": True, "answer": "Wick"}, True),
        ({"answerable": True, "answer": "Wick", "missing": "Nothing."}, True),
        ({"answer": "Wick"}, True),  # it does not say, but it answers and misses nothing
        ({"answer": "Wick", "missing": GAP}, False),
        ({"answerable": False, "answer": "The information is insufficient.", "missing": GAP}, False),
        ({"answerable": True, "answer": " "}, False),
        ({"answerable": True, "answer": "It is called Unanswerable."}, True),  # no word in a text decides
    ],
)
def test_the_main_module_says_whether_it_answers(said, answered):
    prediction, engine = two_steps(small(), main=[said, decide("Wick")])
    assert engine.acts.count("main") == (1 if answered else 2)
    assert (prediction.trace.stopped, prediction.supported) == ("answered", True)
    assert prediction.answer == (said["answer"] if answered else "Wick")


def test_after_the_last_iteration_the_model_may_use_its_own_knowledge():
    prediction, engine = two_steps(small(iterations=1), main=[decide(NOT_YET, GAP)])
    assert engine.acts == ["leaf", "main", "last"]
    assert (prediction.answer, prediction.trace.stopped) == ("Wick", "iterations")
    assert (prediction.supported, prediction.missing) == (False, GAP)


# Query generator and memory module.


def test_memory_leaves_out_passages_read_and_queries_asked():
    prediction, engine = two_steps(small(delta=0.0), query=[ask(QUESTION.upper().rstrip("?"), SECOND, f" {SECOND} ")])
    assert prediction.trace.of(Queried)[0].queries == [SECOND]
    assert len(prediction.trace.of(Queried)[0].repeated) == 2
    assert [list(step.kept) for step in prediction.trace.of(Reranked)] == [["ferry", "noise"], ["moor"]]
    assert engine.asked("query")[0].keys() == {"question", "asked", "known", "missing", "max_queries"}


def test_it_stops_without_a_new_query():
    prediction, engine = two_steps(small(), main=[], query=[ask(QUESTION)])
    assert (prediction.trace.stopped, engine.acts[-1]) == ("no new query", "last")
