"""A study's demonstrations show excerpts of long passages, and a program's own demonstrations stay as they are."""

import dspy
from compile_helpers import make_examples, make_retriever

from knowgap.compiling.demonstrations.demo_sets import EXCERPT_WORDS, DemoSets, excerpt
from knowgap.programs.baselines.rag import RAG

FILLER = "The house has been painted in a new colour every few years since it was built beside the old mill."
FIRST, FACT = "Orle is a town on the river Isk.", "Its bridge was built by Marna Tolk in 1871."
LONG = " ".join([FIRST, *[FILLER] * 4, FACT, FILLER])


def test_an_excerpt_has_the_first_sentence_and_that_of_the_answer_in_their_order():
    found = excerpt(LONG, {"marna", "tolk"}, {"bridge", "orle"})
    assert found.startswith(f"{FIRST} ")
    assert FACT in found
    assert len(found.split()) <= EXCERPT_WORDS
    by_question = excerpt(LONG, {"yes"}, {"bridge", "orle"})
    assert FACT in by_question


def test_a_short_passage_stays_as_it_is_and_a_long_sentence_whole():
    short = f"{FIRST}  {FACT}"
    assert excerpt(short, {"nothing"}, set()) == short
    endless = " ".join(["word"] * 2 * EXCERPT_WORDS) + "."
    assert excerpt(endless, {"nothing"}, set()) == endless


def test_drawn_sets_have_excerpts_and_the_own_set_has_not():
    passages = [{"id": 1, "title": "Orle", "text": LONG}]
    demo = {"question": "Who built the bridge of Orle?", "passages": passages, "style": "short", "answer": "Marna Tolk"}
    program, own = (RAG(make_retriever(make_examples(2))) for _ in range(2))
    for each in (program, own):
        each.answer.demos = [dspy.Example(**demo)]
    program.answer.demos[0]["question"] = "Who made the bridge of Orle?"
    _, mine, drawn = DemoSets.draw(program, own).sets["answer"]
    assert mine[0]["passages"] == passages
    [shown] = drawn[0]["passages"]
    assert {**shown, "text": LONG} == passages[0]
    assert FACT in shown["text"]
    assert len(shown["text"]) < len(LONG)
    assert {name: drawn[0][name] for name in ("question", "style", "answer")} == {
        name: demo[name] for name in ("question", "style", "answer")
    }
