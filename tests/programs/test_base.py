"""What every program inherits beyond the conformance suite: the ledger, unreadable output, its place in DSPy."""

import dspy
import pytest
from dspy.clients.base_lm import GLOBAL_HISTORY
from support import OverlapRetriever, scripted_lm

from knowgap.compiling import evaluate
from knowgap.compiling.run import Run
from knowgap.programs.base import Program
from knowgap.programs.baselines.rag import RAG
from knowgap.programs.trace.recorder import run_concurrently
from knowgap.retrieval.passage import Passage

CORPUS = [
    Passage("moor", "Ada Moor", "Ada Moor painted ships in the harbour of Tarn."),
    Passage("tarn", "Tarn", "Tarn is a town by the sea, known for its harbour."),
    Passage("reed", "Bo Reed", "Bo Reed wrote plays about mountains."),
]
QUESTION = "Who painted ships?"


@pytest.fixture
def rag():
    return RAG(OverlapRetriever(CORPUS), top_k=2)


# The ledger.


@pytest.mark.parametrize("concurrent", [True, False])
def test_searches_of_a_program_that_another_one_asks_are_not_known_to_that_one(rag, concurrent):
    class Asks(Program):
        needs_retriever = False

        def forward(self, question):
            [inner] = run_concurrently([lambda: rag(question=question)])
            return self.conclude(inner.answer, inner.passages)

    outer = Asks()
    outer.concurrent = concurrent
    example = dspy.Example(question=QUESTION, answer="Ada Moor", gold_ids=["orle"]).with_inputs("question")
    lm, _ = scripted_lm(lambda *_: {"answer": "Ada Moor"})
    found = evaluate(outer, [example], "exact_match", run=Run(lm=lm))
    assert (found.records[0].cost.unseen_searches, found.costs()["retrievals"]) == (1, None)
    assert "found" not in found.records[0].scores


# In DSPy's hands.


def test_a_question_leaves_nothing_where_no_history_is_wanted(rag):
    """Neither in DSPy's history nor in its trace; an optimizer collects its own trace all the same."""
    GLOBAL_HISTORY.clear()  # DSPy keeps so many calls and no more: a full list does not grow
    dspy.settings.trace.clear()
    with dspy.context(lm=scripted_lm(lambda *_: {"answer": "Ada Moor"})[0], disable_history=True):
        rag(question=QUESTION)
        assert (GLOBAL_HISTORY, dspy.settings.trace) == ([], [])
        with dspy.context(trace=[]):
            rag(question=QUESTION)
            assert [inputs["question"] for _, inputs, _ in dspy.settings.trace] == [QUESTION]
