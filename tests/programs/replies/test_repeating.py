"""Replies that cannot be read or were cut off: asked once more, not kept in the cache, and counted."""

from __future__ import annotations

import dataclasses

import dspy
import pytest
from support import UNREADABLE, ScriptedEngine, in_chat_format, lm_of

from knowgap.lms import quiet_dspy
from knowgap.lms.engines import InProcessEngine
from knowgap.programs.baselines.direct import Direct
from knowgap.programs.trace.steps import Malformed

READABLE = in_chat_format({"answer": "Tarn"})
LONGER = in_chat_format({"answer": "Tarn on the Isk"})
CUT = " (cut)"
"""Ends a scripted reply that the limit of tokens cut off."""


class Replies(ScriptedEngine):
    """Gives these replies in order, the last one for ever; those that end with `CUT` are cut off."""

    def __init__(self, *replies):
        super().__init__(lambda *_: self.rest.pop(0) if len(self.rest) > 1 else self.rest[0])
        self.rest = list(replies)

    def complete(self, request):
        response = super().complete(request)
        text = response.message.text or ""
        return dataclasses.replace(response, finish_reason="length") if text.endswith(CUT) else response


@pytest.fixture(params=["memory", "disk"])
def cached(request, tmp_path):
    """Replies are cached in memory, or on disk alone."""
    quiet_dspy(tmp_path / "cache" if request.param == "disk" else None)
    dspy.cache.enable_memory_cache = request.param == "memory"


def ask(engine, **settings):
    with dspy.context(lm=lm_of(engine, cache=True), **settings):
        prediction = Direct()(question="Where?")
    cost = prediction.trace.cost
    return prediction.answer, cost.lm_calls, cost.cached_calls, cost.unreadable, cost.cut


@pytest.mark.usefixtures("cached")
@pytest.mark.parametrize("unreadable", [UNREADABLE, ""])
def test_unreadable_replies_are_asked_again_by_the_next_run(unreadable):
    engine = Replies(unreadable, unreadable, READABLE)
    assert ask(engine) == ("", 2, 0, 2, 0)  # in the chat format and as JSON: no third time
    assert ask(engine) == ("Tarn", 1, 0, 0, 0)
    assert ask(engine) == ("Tarn", 1, 1, 0, 0)
    assert len(engine.calls) == 3


@pytest.mark.usefixtures("cached")
def test_an_unreadable_reply_is_asked_once_more_where_the_adapter_does_not():
    engine = Replies(UNREADABLE, '{"answer": "Tarn"}')
    assert ask(engine, adapter=dspy.ChatAdapter(use_json_adapter_fallback=False)) == ("Tarn", 2, 0, 0, 0)
    assert ask(engine, adapter=dspy.ChatAdapter(use_json_adapter_fallback=False)) == ("Tarn", 1, 1, 0, 0)
    engine = Replies(UNREADABLE)
    with dspy.context(lm=lm_of(engine), adapter=dspy.ChatAdapter(use_json_adapter_fallback=False)):
        trace = Direct()(question="Who?").trace
    assert len(engine.calls) == trace.cost.lm_calls == trace.cost.unreadable == 2
    assert len(trace.of(Malformed)) == 1


@pytest.mark.usefixtures("cached")
def test_a_reply_that_was_cut_off_is_replaced_in_the_cache():
    engine = Replies(f"[[ ## answer ## ]]\nTarn{CUT}", LONGER)
    assert ask(engine) == ("Tarn on the Isk", 2, 0, 0, 1)
    assert ask(engine) == ("Tarn on the Isk", 1, 1, 0, 0)


@pytest.mark.usefixtures("cached")
def test_replies_that_are_cut_off_again_count_and_are_not_kept():
    engine = Replies(f"[[ ## answer ## ]]\nTarn{CUT}")
    for asked in (2, 4):
        assert ask(engine) == (f"Tarn{CUT}", 2, 0, 0, 2)
        assert len(engine.calls) == asked


class Local(Replies, InProcessEngine):
    """Stands for a model in this process."""

    supported_params = frozenset({"temperature", "max_tokens", "stop"})


@pytest.mark.parametrize(("temperature", "asked"), [(None, 1), (0.0, 1), (0.7, 2)])
def test_a_model_in_this_process_is_not_asked_for_the_same_reply_again(temperature, asked):
    engine = Local(f"[[ ## answer ## ]]\nTarn{CUT}")
    with dspy.context(lm=lm_of(engine).copy(temperature=temperature, max_tokens=512)):
        cost = Direct()(question="Where?").trace.cost
    assert len(engine.calls) == cost.lm_calls == cost.cut == asked


def test_what_was_cut_off_counts_where_the_second_reply_cannot_be_read():
    engine = Replies(f"[[ ## answer ## ]]\nTarn{CUT}", UNREADABLE)
    assert ask(engine) == (f"Tarn{CUT}", 3, 0, 0, 1)


def test_a_repeated_call_is_one_demonstration():
    trace = []
    ask(Replies(f"[[ ## answer ## ]]\nTarn{CUT}", LONGER), trace=trace)
    assert [prediction.answer for _, _, prediction in trace] == ["Tarn on the Isk"]
