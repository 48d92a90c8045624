"""Calls to a language model: repeated after faults, with pauses of a minute at most, and none once cancelled."""

import asyncio
import io
import threading
import time

import dspy
import pytest
from endpoint import endpoint
from rich.console import Console
from support import ScriptedEngine, lm_of

from knowgap.errors import LanguageModelUnreachable
from knowgap.lms import check_reachable, make_lm, metering, quiet_dspy
from knowgap.lms.cancelling import CallsCancelled, pause, run_cancellable
from knowgap.lms.metering import Usage, UsageTracker, current_wait, track_usage
from knowgap.programs.baselines.direct import Direct
from knowgap.programs.baselines.iter_retgen import IterRetGen
from knowgap.retrieval.passage import Hit, Passage

NOT_JSON = (200, {}, '{"choices": [{"mess')


@pytest.fixture
def server(monkeypatch):
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    quiet_dspy()
    with endpoint() as server:
        yield server


@pytest.fixture
def pauses(monkeypatch):
    made = []
    monkeypatch.setattr(metering, "pause", made.append)
    monkeypatch.setattr(metering, "_answered", set())
    return made


def asked(server, **options):
    lm = make_lm("openai/local", api_base=server.api_base, **options)
    with dspy.context(lm=lm):
        answer = Direct()(question="Where?").answer
    lm.close()
    return answer


@pytest.mark.parametrize("fault", [(429, {}, "{}"), (500, {}, "busy"), (503, {}, ""), NOT_JSON, "reset"])
def test_faults_that_pass_are_waited_for(server, pauses, fault):
    server.faults = [fault, fault]
    assert asked(server) == "Tarn"
    assert pauses == [1, 2]
    assert len(server.bodies) == 3
    assert len({str(body) for body in server.bodies}) == 1


def test_what_an_endpoint_asks_for_is_heeded_for_a_minute(server, pauses):
    server.faults = [(429, {"Retry-After": "3600"}, "{}"), (503, {"Retry-After": "7"}, "{}")]
    assert asked(server) == "Tarn"
    assert pauses == [60, 7]


def test_the_fallback_to_json_is_repeated_by_itself(server, pauses, monkeypatch):
    monkeypatch.setattr("endpoint.reply", lambda text: '{"answer": "Isk"}' if "JSON object" in text else "{}")
    server.fault_of = lambda text: NOT_JSON if len(server.bodies) == 2 else None
    assert asked(server) == "Isk"
    assert ["JSON object" in prompt for prompt in server.prompts()] == [False, True, True]


def test_a_server_that_was_there_is_waited_for_and_one_that_never_was_is_not(server, pauses):
    with endpoint() as gone:
        pass
    lm = make_lm("openai/local", api_base=gone.api_base)
    for made, answered in (([], set()), ([1, 2, 4], {("openai/local", gone.api_base)})):
        metering._answered |= answered
        with pytest.raises(LanguageModelUnreachable, match="does not answer at"):
            check_reachable(lm)
        assert pauses == made
    lm.close()


def test_a_wait_is_known_while_it_lasts(server):
    server.delay_of = lambda text: 0.5
    asking = threading.Thread(target=asked, args=(server,))
    asking.start()
    seen = []
    while asking.is_alive():
        seen.append(current_wait())
        time.sleep(0.05)
    models, seconds = zip(*filter(None, seen), strict=True)
    assert set(models) == {"openai/local"}
    assert seconds[-1] > seconds[0]
    assert current_wait() is None


class Held(ScriptedEngine):
    """Counts its calls, and answers none before it is told to."""

    def __init__(self):
        super().__init__(lambda *_: {"answer": "Tarn", "reasoning": "…"})
        self.begun, self.free = threading.Semaphore(0), threading.Event()

    def complete(self, request):
        self.begun.release()
        self.free.wait()
        return super().complete(request)


class Counting:
    """An index that counts its searches."""

    searches = 0

    def search(self, queries, k):
        self.searches += 1
        return [[Hit(Passage("isk", "Isk", "A river."), 1.0, 1)] for _ in queries]


def test_a_cancelled_acall_calls_neither_the_model_nor_the_index_again():
    engine, index = Held(), Counting()
    ended = threading.Event()

    class Ends(IterRetGen):
        def __call__(self, **inputs):
            try:
                return super().__call__(**inputs)
            finally:
                ended.set()

    async def ask():
        task = asyncio.ensure_future(Ends(index, iterations=3).acall(question="Where?"))
        await asyncio.to_thread(engine.begun.acquire)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        engine.free.set()
        await asyncio.to_thread(ended.wait)

    with dspy.context(lm=lm_of(engine)):
        asyncio.run(ask())
    assert (len(engine.calls), index.searches) == (1, 1)


def test_a_cancelled_question_is_not_repeated_after_a_fault(server, monkeypatch):
    cancelled = threading.Event()
    server.fault_of = lambda text: (500, {}, "busy")
    monkeypatch.setattr(metering, "pause", lambda seconds: (cancelled.set(), pause(seconds)))
    with pytest.raises(CallsCancelled):
        run_cancellable(cancelled, asked, server)
    assert len(server.bodies) == 1


class Around(dspy.LM):
    """A model whose class makes its calls itself."""

    def __call__(self, *args, **kwargs):
        return ["[[ ## answer ## ]]\nTarn"]


def test_a_model_that_goes_around_the_meter_is_uncounted_and_not_free():
    other = lm_of(ScriptedEngine(lambda *_: {"answer": "Tarn"}))
    reader = dspy.Predict("question -> answer")
    reader.lm = other
    with dspy.context(lm=Around("openai/around")), track_usage(UsageTracker()) as tracker:
        trace = Direct()(question="Where?").trace
        reader(question="Where?")
    assert (trace.cost.lm_calls, trace.cost.uncounted_calls) == (0, 1)
    assert tracker.usage == Usage(uncounted_calls=2)
    console = Console(file=io.StringIO())
    console.print(trace)
    assert "1 uncounted calls" in console.file.getvalue()


def test_calls_that_a_program_makes_without_ask_are_in_its_trace():
    class Plain(Direct):
        def forward(self, question):
            return dspy.Prediction(answer=dspy.Predict("question -> answer")(question=question).answer)

    with dspy.context(lm=lm_of(ScriptedEngine(lambda *_: {"answer": "Tarn"}))):
        assert Plain()(question="Where?").trace.cost.lm_calls == 1
