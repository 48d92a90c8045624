"""A generator behind a server writes the same tree, leaves and choice as one in this process."""

from __future__ import annotations

import pytest
from support import OverlapRetriever

from knowgap.errors import LanguageModelError
from knowgap.lms.rq_rag.generator import TranscriptGenerator
from knowgap.lms.trained import load_trained
from knowgap.programs.rq_rag import RQRAG
from knowgap.retrieval.passage import Passage
from tests.lms.rq_rag.completion_server import serving

PASSAGES = [Passage("a", "Ada Moor", "She painted ships in the harbour of Tarn."), Passage("b", "Wick", "A town.")]


def answer(generator, **settings):
    program = RQRAG(OverlapRetriever(PASSAGES), generator=generator, **settings)
    return program(question="Who painted The Grey Ferry?")


@pytest.mark.parametrize(("by_text", "strategy"), [(False, "perplexity"), (False, "ensemble"), (True, "confidence")])
def test_tree_leaves_and_choice_are_the_same(tiny_generator, by_text, strategy):
    settings = {"depth": 2, "top_k": 1, "strategy": strategy}
    here = answer(TranscriptGenerator(tiny_generator, max_new_tokens=24), **settings)
    with serving(tiny_generator, by_text=by_text) as (url, asked):
        there = answer(load_trained("generator", f"{tiny_generator}@{url}"), **settings)
    assert len(here.leaves) > 3
    assert [leaf["path"] for leaf in there.leaves] == [leaf["path"] for leaf in here.leaves]
    assert [leaf["answer"] for leaf in there.leaves] == [leaf["answer"] for leaf in here.leaves]
    for one, other in zip(there.leaves, here.leaves, strict=True):
        numbers = {name: value for name, value in other.items() if isinstance(value, float)}
        assert {name: one[name] for name in numbers} == pytest.approx(numbers, abs=1e-4)
    assert (there.answer, there.passages) == (here.answer, here.passages)
    assert {body["model"] for body in asked} == {str(tiny_generator)}


def test_a_server_that_fails_is_named(tiny_generator):
    with serving(tiny_generator) as (url, asked):
        generator = TranscriptGenerator(tiny_generator, server=url + "/nothing")
        asked.clear()
    with pytest.raises(LanguageModelError, match=r"http://127.0.0.1:\d+/v1/nothing/models: "):
        generator.start("Who?", "short").write([("", "answer")])
