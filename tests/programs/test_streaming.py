"""Steps as they happen: their order, whose settings hold, and what a loop that is left leaves undone."""

import asyncio
import threading

import dspy
import pytest
from dspy.utils.exceptions import LMError
from support import ScriptedEngine, lm_of, scripted_lm

from knowgap.errors import EmptyQuestion
from knowgap.programs.baselines.iter_retgen import IterRetGen
from knowgap.programs.baselines.rag import RAG, Direct
from knowgap.programs.streaming import _pool
from knowgap.retrieval.passage import Hit, Passage

ISK = Passage("isk", "Isk", "A river.")
RULE = {"answer": "Tarn"}


class Counting:
    """An index that counts its searches."""

    searches = 0

    def search(self, queries, k):
        self.searches += 1
        return [[Hit(ISK, 1.0, 1)] for _ in queries]


def test_errors_are_raised_from_the_iteration():
    def fail(*_):
        raise ConnectionError("nobody is at home")

    seen = []
    with dspy.context(lm=scripted_lm(fail)[0]), pytest.raises(LMError, match="nobody is at home"):
        seen.extend(RAG(Counting()).stream(question="Where?"))
    assert [step.kind for step in seen] == ["asked", "retrieved"]
    with pytest.raises(EmptyQuestion):
        next(Direct().stream(question=" "))


@pytest.mark.parametrize("how", ["stream", "acall"])
def test_a_question_that_is_left_calls_nothing_more(how):
    held, free = threading.Event(), threading.Event()

    class Held(ScriptedEngine):
        def complete(self, request):
            held.set()
            free.wait(60)
            return super().complete(request)

    engine, index = Held(lambda *_: RULE), Counting()
    program = IterRetGen(index, iterations=3)

    async def leave():
        task = asyncio.ensure_future(program.acall(question="Where?"))
        await asyncio.to_thread(held.wait, 60)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    with dspy.context(lm=lm_of(engine)):
        if how == "stream":
            stream = program.stream(question="Where?")
            assert next(stream).kind == "asked"
            assert held.wait(60)
            stream.close()
        else:
            asyncio.run(leave())
    free.set()
    _pool().shutdown()  # once all of it has ended
    _pool.cache_clear()
    assert index.searches == 1
    assert len(engine.calls) <= 1
