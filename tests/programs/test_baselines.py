"""The baselines: what they ask, what they read, what they note."""

import dspy
import pytest
from support import OverlapRetriever, TableRetriever, scripted_lm

from knowgap.programs import RAG, ChainOfThought, Direct, RAGChainOfThought
from knowgap.programs.trace.steps import Answered, Reasoned, Retrieved
from knowgap.retrieval.passage import Passage
from knowgap.signatures import STYLES

CORPUS = [Passage(f"p{n}", f"Boat {n}", f"Boat number {n} sailed in {1900 + n}.") for n in range(8)]
QUESTION = "When did boat number 3 sail?"


def run(program, **reply):
    lm, engine = scripted_lm(lambda *_: reply)
    with dspy.context(lm=lm):
        return program(question=QUESTION), engine


def test_direct_asks_once_and_looks_nothing_up():
    prediction, engine = run(Direct(), answer=" 1903 ")
    assert prediction.answer == "1903"
    assert prediction.passages == []
    assert engine.calls == [(("answer",), {"question": QUESTION, "style": STYLES["short"]})]
    assert [step.kind for step in prediction.trace.steps] == ["asked", "answered"]
    assert prediction.trace.cost.retrievals == 0


def test_chain_of_thought_keeps_its_reasoning():
    prediction, engine = run(ChainOfThought(), reasoning="It says so.", answer="1903")
    assert (prediction.answer, prediction.reasoning) == ("1903", "It says so.")
    assert engine.calls[0][0] == ("reasoning", "answer")
    assert "passages" not in engine.calls[0][1]
    assert [step.kind for step in prediction.trace.steps] == ["asked", "reasoned", "answered"]
    assert prediction.trace.of(Reasoned)[0].text == "It says so."


@pytest.mark.parametrize("program", [RAG, RAGChainOfThought])
@pytest.mark.parametrize("top_k", [1, 5])
def test_retrieval_baselines_read_k_passages_in_order(program, top_k):
    order = [CORPUS[n] for n in (3, 1, 4, 0, 5, 2)]
    retriever = TableRetriever({QUESTION: order})
    prediction, engine = run(program(retriever, top_k=top_k), reasoning="It says so.", answer="1903")
    ids = [passage.id for passage in order[:top_k]]
    assert retriever.searched == [QUESTION]
    assert [passage.id for passage in prediction.passages] == ids
    assert [(p["id"], p["title"]) for p in engine.calls[0][1]["passages"]] == [
        (n, passage.title) for n, passage in enumerate(order[:top_k], start=1)
    ]
    assert prediction.trace.of(Retrieved)[0].hits == [ids]
    assert prediction.trace.of(Answered)[0].passages == ids
    cost = prediction.trace.cost
    assert (cost.lm_calls, cost.critical_calls, cost.retrievals, cost.passages) == (1, 1, 1, top_k)


def test_rag_steps():
    assert [s.kind for s in run(RAG(OverlapRetriever(CORPUS)), answer="1903")[0].trace.steps] == [
        "asked",
        "retrieved",
        "answered",
    ]


def test_rag_cot_steps():
    prediction, engine = run(RAGChainOfThought(OverlapRetriever(CORPUS)), reasoning="It says so.", answer="1903")
    assert [s.kind for s in prediction.trace.steps] == ["asked", "retrieved", "reasoned", "answered"]
    assert prediction.reasoning == "It says so."
    assert engine.calls[0][0] == ("reasoning", "answer")


@pytest.mark.parametrize("program", [Direct, ChainOfThought, RAG, RAGChainOfThought])
@pytest.mark.parametrize("style", STYLES)
def test_style_reaches_the_prompt(program, style):
    _, engine = run(program(OverlapRetriever(CORPUS), style=style), reasoning="", answer="1903")
    assert engine.calls[0][1]["style"] == STYLES[style]


@pytest.mark.parametrize("program", [RAG, RAGChainOfThought])
def test_nothing_found_is_answered_from_memory(program):
    prediction, engine = run(program(TableRetriever({})), reasoning="From memory.", answer="1903")
    assert prediction.answer == "1903"
    assert prediction.passages == []
    assert engine.calls[0][1]["passages"] == []
