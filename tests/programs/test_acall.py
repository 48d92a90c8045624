"""Steps as they happen, and what a question that is left leaves undone."""

import asyncio
import threading

import dspy
import pytest
from dspy.utils.exceptions import LMError
from support import ScriptedEngine, TableRetriever, lm_of, scripted_lm

from knowgap.programs.baselines.iter_retgen import IterRetGen
from knowgap.programs.baselines.rag import RAG
from knowgap.programs.trace.recorder import threads


def test_steps_are_told_until_an_error():
    def fail(*_):
        raise ConnectionError("nobody is at home")

    told = []
    with dspy.context(lm=scripted_lm(fail)[0]), pytest.raises(LMError, match="nobody is at home"):
        RAG(TableRetriever({}))(question="Where?", listener=lambda step, _: told.append(step.kind))
    assert told == ["asked", "retrieved"]


def test_a_question_that_is_left_calls_nothing_more():
    held, free, told = threading.Event(), threading.Event(), []

    class Held(ScriptedEngine):
        def complete(self, request):
            held.set()
            free.wait(60)
            return super().complete(request)

    async def leave():
        program = IterRetGen(TableRetriever({}), iterations=3)
        asked = program.acall(question="Where?", listener=lambda step, _: told.append(step.kind))
        task = asyncio.ensure_future(asked)
        await asyncio.to_thread(held.wait, 60)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    engine = Held(lambda *_: {"answer": "Tarn"})
    with dspy.context(lm=lm_of(engine)):
        asyncio.run(leave())
    free.set()
    threads().shutdown()  # once all of it has ended
    threads.cache_clear()
    assert told.count("retrieved") == 1
    assert len(engine.calls) <= 1
