"""Calls to a language model: repeated after faults, and counted with their tokens and prices."""

import contextvars
import functools
import json
from concurrent.futures import ThreadPoolExecutor

import dspy
import pytest
from dspy.clients.base_lm import GLOBAL_HISTORY
from dspy.lm15 import Message, Request
from dspy.utils.exceptions import LMError
from endpoint import endpoint
from support import scripted_lm

from knowgap.compiling import evaluate
from knowgap.compiling.evaluation.provenance import Provenance
from knowgap.compiling.evaluation.results import Evaluation
from knowgap.compiling.evaluation.runner import QuestionRecord
from knowgap.compiling.run import Run
from knowgap.errors import LanguageModelUnreachable
from knowgap.lms import check_reachable, metering
from knowgap.lms.metering import Usage, UsageTracker, token_prices, track_usage, usage_of
from knowgap.programs.baselines.rag import Direct

NOT_JSON = (200, {}, '{"choices": [{"mess')


@pytest.fixture
def pauses(monkeypatch):
    made = []
    monkeypatch.setattr(metering, "pause", made.append)
    return made


def asked(lm):
    with dspy.context(lm=lm):
        return Direct()(question="Where?").answer


@pytest.mark.parametrize(
    ("faults", "made"),
    [
        *(([fault, fault], [1, 2]) for fault in ((429, {}, "{}"), (500, {}, "busy"), (503, {}, ""), NOT_JSON, "reset")),
        ([(429, {"Retry-After": "3600"}, "{}"), (503, {"Retry-After": "7"}, "{}")], [60, 7]),
    ],
)
def test_faults_that_pass_are_waited_for(server, pauses, faults, made):
    server.faults = faults
    assert asked(server.lm()) == "Tarn"
    assert pauses == made
    assert len(server.bodies) == 3
    assert len({str(body) for body in server.bodies}) == 1


@pytest.mark.parametrize(
    ("status", "message", "made"),
    [
        (400, "The decoder prompt (length 5000) is longer than the maximum model length of 4096.", []),
        (400, "The engine prompt length 5000 exceeds the max_model_len 4096. Please reduce prompt.", []),
        (500, "Context size has been exceeded.", [1, 2, 4]),  # llama.cpp, whose slots may share the window
    ],
)
def test_a_prompt_that_is_too_long_is_no_fault_of_the_server(server, pauses, status, message, made):
    server.fault_of = lambda text: (status, {}, json.dumps({"error": {"message": message}}))
    with pytest.raises(dspy.ContextWindowExceededError):
        asked(server.lm(max_tokens=300))
    assert pauses == made


def test_a_server_that_is_gone_is_waited_for_but_not_at_first(server, pauses):
    with endpoint() as gone:
        pass
    lm = gone.lm()
    with pytest.raises(LanguageModelUnreachable, match=f"does not answer at {gone.api_base}"):
        check_reachable(lm)
    assert pauses == []
    with pytest.raises(LMError):
        asked(lm)
    assert pauses == [1, 2, 4]


def test_calls_of_models_that_predictors_and_code_bring_along_are_counted():
    """With their tokens, in DSPy's threads too, and without a history of them that grows."""
    other, third = answering(), answering(cache=True)
    reader = dspy.Predict("question -> answer")
    reader.lm = other
    with dspy.context(lm=answering(), disable_history=True), track_usage(UsageTracker()) as tracker:
        for _ in range(4):
            dspy.Parallel(num_threads=8, disable_progress_bar=True)([(reader, {"question": "Where?"})] * 40)
            third("Where?")
            third(Request(model=third.model, messages=(Message.user("Where?"),)))
    usage = tracker.usage
    assert (usage.calls, usage.cached_calls, usage.unreported_calls) == (160 + 2, 6, 0)
    assert usage.prompt_tokens > 20
    assert other.history == []


REFUSED = (400, {}, '{"error": {"message": "content filter"}}')


@pytest.mark.parametrize(("fault", "calls"), [((500, {}, "busy"), 4), (REFUSED, 1), (None, 0)])
def test_requests_that_end_in_an_error_are_counted_if_a_server_got_them(server, pauses, fault, calls):
    server.fault_of = lambda text: fault
    if fault is None:
        with endpoint() as gone:
            server.api_base = gone.api_base
    with track_usage(UsageTracker()) as tracker, pytest.raises(LMError):
        asked(server.lm())
    assert len(server.bodies) == calls
    assert tracker.usage == Usage(calls=calls, failed_calls=calls)


@pytest.mark.parametrize(("fault", "failed"), [(REFUSED, True), (None, False)])
def test_a_question_that_fails_costs_what_was_sent_for_it(server, pauses, fault, failed):
    """After an error, or a reply that fills the window."""
    server.fault_of, server.reply_of = lambda text: fault, lambda body: "cut " * 9
    example = dspy.Example(question="Where?", answer="Tarn").with_inputs("question")
    [record] = evaluate(Direct(), [example], "f1", run=Run(server.lm(max_tokens=9, cache=False))).records
    assert record.cost.lm_calls == len(server.bodies) > 0
    assert record.cost.failed_calls == failed * len(server.bodies)


def test_tokens_that_a_server_does_not_report_are_not_zero(server):
    server.usage_of = lambda written: {}
    with dspy.context(lm=server.lm()):
        cost = Direct()(question="Where?").trace.cost
    assert (cost.lm_calls, cost.unreported_calls) == (1, 1)
    assert "– tokens" in str(cost)
    found = Evaluation(records=[QuestionRecord(id="q", cost=cost)], metrics=["f1"], provenance=Provenance())
    assert found.costs()["tokens"] is None


def answering(**kwargs):
    return scripted_lm(lambda *_: {"answer": "Ada"}, **kwargs)[0]


def test_calls_from_a_cache_are_counted_apart():
    with dspy.context(lm=answering(cache=True)), track_usage(UsageTracker(prices=(2.0, 8.0))) as tracker:
        for _ in range(2):
            dspy.Predict("question -> answer")(question="Who was asked twice?")
    usage = tracker.usage
    assert (usage.calls, usage.cached_calls, usage.asked) == (1, 1, 2)
    assert usage.prompt_tokens > 2
    assert usage.money == pytest.approx((2 * usage.prompt_tokens + 8 * usage.completion_tokens) / 2 / 1e6)


@pytest.mark.parametrize("setting", [{}, {"disable_history": True}, {"max_history_size": 0}])
def test_every_tracker_around_a_call_counts_it_and_no_history_is_kept_where_none_is_wanted(setting):
    """Neither by DSPy, nor by the language model and the predictor."""
    lm, predictor = answering(), dspy.Predict("question -> answer")
    GLOBAL_HISTORY.clear()  # DSPy keeps so many calls and no more: a full list does not grow

    def ask(number):
        with track_usage(UsageTracker()) as tracker:
            predictor(question=f"Who is number {number}?")
        return tracker.usage.calls

    with dspy.context(lm=lm, **setting), track_usage(UsageTracker()) as outer, ThreadPoolExecutor(16) as pool:
        tasks = [functools.partial(contextvars.copy_context().run, ask, number) for number in range(90)]
        assert [future.result() for future in [pool.submit(task) for task in tasks]] == [1] * 90
    assert (outer.usage.calls, outer.usage.money) == (90, 0.0)
    assert len(GLOBAL_HISTORY) == len(lm.history) == len(predictor.history) == (0 if setting else 90)


def test_calls_without_usage_count_as_paid_for():
    """A budget of calls would otherwise never end with a model that reports no tokens."""
    for response in (None, ({"usage": None}, {"usage": None})):
        assert usage_of({"usage": {}, "response": response}, None) == Usage(calls=1, unreported_calls=1)
    known = {"usage": {"prompt_tokens": 3, "completion_tokens": None}, "cost": 0.5}
    assert usage_of(known, None) == Usage(calls=1, prompt_tokens=3, money=0.5)


def test_prices_come_from_the_table_of_dspy():
    assert token_prices("openai/gpt-4o") == pytest.approx((2.5, 10.0))
    assert token_prices("knowgap/extractive-10") == (0, 0)
    assert token_prices("openai/unheard-of") is None
    assert token_prices("") is None
