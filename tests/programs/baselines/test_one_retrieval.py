"""Baselines that retrieve once or never: Direct, CoT, RAG, RAG with CoT, Chain-of-Note."""

import pytest

from knowgap.programs.baselines.direct import ChainOfThought, Direct
from knowgap.programs.baselines.rag import RAG, ChainOfNote, RAGChainOfThought
from knowgap.programs.trace.steps import Answered, Reasoned, Retrieved

REPLY = {"reasoning": "It says so.", "note": "1: she directed it. 2: she was born in Tarn.", "answer": " Tarn "}


def reply(outputs, inputs):
    return {name: REPLY[name] for name in outputs}


@pytest.mark.parametrize(
    ("program", "outputs", "steps"),
    [
        (Direct, ("answer",), ["answered"]),
        (ChainOfThought, ("reasoning", "answer"), ["reasoned", "answered"]),
        (RAG, ("answer",), ["retrieved", "answered"]),
        (RAGChainOfThought, ("reasoning", "answer"), ["retrieved", "reasoned", "answered"]),
        (ChainOfNote, ("note", "answer"), ["retrieved", "reasoned", "answered"]),
    ],
)
@pytest.mark.parametrize("top_k", [1, 3])
def test_one_call_answers_from_the_first_k_passages(whole, corpus, ask, kinds, program, outputs, steps, top_k):
    read = corpus[:top_k] if program.needs_retriever else []
    prediction, engine = ask(program(whole, **({"top_k": top_k} if read else {})), reply)
    assert prediction.answer == "Tarn"
    assert prediction.passages == read
    assert kinds(prediction) == ["asked", *steps]
    [(fields, inputs)] = engine.calls
    assert fields == outputs
    assert [(p["id"], p["title"]) for p in inputs.get("passages", [])] == [(n, p.title) for n, p in enumerate(read, 1)]
    for name in set(outputs) - {"answer"}:
        assert prediction[name] == REPLY[name]
    ids = [passage.id for passage in read]
    assert [step.hits for step in prediction.trace.of(Retrieved)] == ([[ids]] if read else [])
    assert prediction.trace.of(Answered)[0].passages == ids
    assert all(step.passages == ids for step in prediction.trace.of(Reasoned) if step.what == "note")
