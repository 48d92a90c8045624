"""Baselines that retrieve once or never: Direct, CoT, RAG, RAG with CoT, Chain-of-Note, Self-Refine, Self-Rerank."""

import pytest

from knowgap.programs.baselines.direct import ChainOfThought, Direct
from knowgap.programs.baselines.rag import RAG, ChainOfNote, RAGChainOfThought
from knowgap.programs.baselines.self_rag import SelfRefine, SelfRerank
from knowgap.programs.trace.steps import Answered, Filtered, Malformed, Noted, Retrieved

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
        (ChainOfNote, ("note", "answer"), ["retrieved", "noted", "answered"]),
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
    assert all(step.passages == ids for kind in (Answered, Noted) for step in prediction.trace.of(kind))


def test_self_refine_answers_from_its_note(whole, ask, kinds):
    prediction, engine = ask(SelfRefine(whole, top_k=2), reply)
    assert (prediction.answer, prediction.note) == ("Tarn", REPLY["note"])
    assert kinds(prediction) == ["asked", "retrieved", "noted", "answered"]
    assert [len(inputs.get("passages", [])) for _, inputs in engine.calls] == [2, 0]
    assert engine.calls[1][1]["note"] == REPLY["note"]


@pytest.mark.parametrize("note", ["[[ mumble", {"note": " "}])
def test_self_refine_reads_the_passages_if_the_note_is_empty(whole, corpus, ask, note):
    prediction, engine = ask(SelfRefine(whole), {"note": lambda *_: note, "answer": [{"answer": "Tarn"}]})
    assert (prediction.answer, prediction.note) == ("Tarn", "")
    assert engine.calls[-1][1]["note"] == "\n".join(str(passage) for passage in corpus)
    assert bool(prediction.trace.of(Malformed)) == (note == "[[ mumble")


@pytest.mark.parametrize(
    ("ids", "kept", "dropped"),
    [
        ([2, 1], ["director", "film"], ["town", "prize"]),
        ([2, 2, 9, 0, -1], ["director"], ["film", "town", "prize"]),
        ([], [], ["film", "director", "town", "prize"]),
        ("[[ mumble", ["film", "director", "town", "prize"], []),
    ],
)
def test_self_rerank_reads_what_the_model_keeps_in_its_order(whole, corpus, ask, ids, kept, dropped):
    ranking = ids if isinstance(ids, str) else {"relevant_ids": ids}
    prediction, engine = ask(SelfRerank(whole), {"relevant_ids": lambda *_: ranking, "answer": [{"answer": "Tarn"}]})
    assert prediction.answer == "Tarn"
    assert [passage.id for passage in prediction.passages] == kept
    step = prediction.trace.of(Filtered)[0]
    assert (step.kept, step.dropped) == (kept, dropped)
    titles = {passage.id: passage.title for passage in corpus}
    assert [p["title"] for p in engine.calls[-1][1]["passages"]] == [titles[i] for i in kept]
    assert bool(prediction.trace.of(Malformed)) == isinstance(ids, str)
    assert prediction.trace.cost.passages == 4
