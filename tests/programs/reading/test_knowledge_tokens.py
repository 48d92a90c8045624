"""Tokens of external knowledge: what was retrieved and read counts, what the model wrote itself does not."""

import dspy
import pytest
from support import OverlapRetriever, by_output, scripted_lm

from knowgap.programs.baselines.direct import Direct
from knowgap.programs.baselines.flare import FLARE
from knowgap.programs.baselines.rag import RAG
from knowgap.programs.baselines.self_refine import SelfRefine
from knowgap.programs.blend_filter import BlendFilter
from knowgap.programs.reading.knowledge_tokens import knowledge_tokens, split_words
from knowgap.retrieval.passage import Passage

FERRY = Passage("ferry", "The Grey Ferry", "Ada Moor painted it in 1911; it hangs in Tarn.")  # 3 and 10 words
MOOR = Passage("moor", "", "Moor was born in Wick, in the north.")  # 8 words
QUESTION = "Where was the painter of the ferry born?"


def ask(program, **script):
    lm, engine = scripted_lm(by_output(script))
    with dspy.context(lm=lm):
        return program(question=QUESTION).trace.cost.knowledge_tokens, engine


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", []),
        ("— … !", []),
        ("It's 3.5 km, isn't it?", ["It", "s", "3", "5", "km", "isn", "t", "it"]),
        ("在2023年，Orle 建桥。", ["在", "2023", "年", "Orle", "建", "桥"]),
        ("עדה מור ציירה", ["עדה", "מור", "ציירה"]),
    ],
)
def test_words(text, words):
    assert split_words(text) == words


def test_of_the_inputs_passages_count_and_nothing_else():
    assert knowledge_tokens([FERRY, MOOR]) == 13 + 8
    assert knowledge_tokens([FERRY, MOOR], model_texts=[MOOR.text]) == 13


@pytest.fixture
def retriever():
    return OverlapRetriever([FERRY, MOOR])


def test_one_reading(retriever):
    assert ask(RAG(retriever), answer=[{"answer": "Wick"}])[0] == 21
    assert ask(RAG(retriever, top_k=1), answer=[{"answer": "Wick"}])[0] == 8
    assert ask(Direct(), answer=[{"answer": "Wick"}])[0] == 0


def test_a_reply_that_cannot_be_read_is_paid_for_twice(retriever):
    words, engine = ask(RAG(retriever), answer=lambda *_: "mumble")
    assert (words, len(engine.calls)) == (2 * 21, 2)


def test_a_note_is_the_models_own_and_passages_in_its_place_are_not(retriever):
    assert ask(SelfRefine(retriever), note=[{"note": MOOR.text}], answer=[{"answer": "Wick"}])[0] == 21
    assert ask(SelfRefine(retriever), note=[{"note": ""}], answer=[{"answer": "Wick"}])[0] == 2 * 21


def test_passages_in_place_of_a_text_without_sentences_count(retriever):
    draft = {"reasoning": "", "answer": "", "confidence": 0.9}
    words, engine = ask(FLARE(retriever, iterations=1), reasoning=[draft], answer=[{"answer": "Wick"}])
    assert MOOR.text in engine.calls[-1][1]["text"]
    assert words == 2 * 21


def test_a_judged_passage_counts_whether_it_is_kept_or_not(retriever):
    program = BlendFilter(retriever, external=False, internal=False, relevance=0.5)

    def judge(outputs, inputs):
        return {"relevant": {"noul": 0.9 if "Wick" in inputs["passage"] else 0.1}}

    words, _ = ask(
        program, relevant=judge, reasoning=[{"reasoning": "", "answer": "Wick"}], answer=[{"answer": "Wick"}]
    )
    assert words == 13 + 8 + 8
