"""Meters language models: counts the calls of a model and what they cost, and repeats calls that failed.

A tracker is a DSPy callback. It sees each call before it is made, and those that end in an error; and it lets a model
report the entry that DSPy makes for its history, which tells the tokens, also of a reply from a cache.
"""

from __future__ import annotations

import contextvars
import functools
import os
import re
import socket
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from typing import Any, TypeVar

import dspy
from dspy.utils import exceptions
from dspy.utils.callback import ACTIVE_CALL_ID, BaseCallback
from dspy.utils.exceptions import ContextWindowExceededError, LMError, LMProviderError, is_retryable_lm_error
from pydantic import BaseModel, Field
from typing_extensions import Self

from knowgap.lms.cancelling import check_cancelled, pause

T = TypeVar("T")

Prices = tuple[float, float]
"""US dollars per million prompt tokens and per million completion tokens."""

_LONGEST_PAUSE = 60.0
"""Seconds; an endpoint may ask for hours (`Retry-After`)."""


class Counts(BaseModel, extra="forbid"):
    """What is counted of calls to a language model. Tokens are those of all calls, cached ones included."""

    cached_calls: int = Field(default=0, description="calls of the language model that a cache answered")
    uncounted_calls: int = Field(default=0, description="calls that went around the meter; they are in no other number")
    failed_calls: int = Field(default=0, description="calls that ended in an error")
    unreported_calls: int = Field(default=0, description="calls whose reply does not state its tokens")
    prompt_tokens: int = Field(default=0, description="tokens of prompts")
    completion_tokens: int = Field(default=0, description="tokens of completions")

    def __add__(self, other: Self) -> Self:
        return type(self)(**{name: value + getattr(other, name) for name, value in self})


class Usage(Counts):
    """Calls to a language model, their tokens and their price.

    Attributes:
        calls: calls that were sent to the language model, failed ones included.
        cut: calls, sent or answered from a cache, whose reply ended at the limit of tokens.
        money: US dollars for the calls that were sent, as far as prices are known.
    """

    calls: int = 0
    cut: int = 0
    money: float = 0.0

    @property
    def asked(self) -> int:
        """Calls in all: those that would have been sent to the language model without a cache."""
        return self.calls + self.cached_calls

    @property
    def answered(self) -> int:
        """Calls of either kind that did not end in an error."""
        return self.asked - self.failed_calls


class UsageTracker(BaseCallback):
    """Counts the calls made under `track_usage`, in any thread that has DSPy's settings.

    Args:
        prices: replace the prices that DSPy knows.
    """

    def __init__(self, prices: Prices | None = None):
        self.usage, self.prices = Usage(), prices
        self._lock = threading.Lock()
        self._asked: dict[str, int] = {}  # running predictors, and how many calls they have made

    def add(self, usage: Usage) -> None:
        """Count calls that were made elsewhere."""
        with self._lock:
            self.usage += usage

    def on_lm_start(self, call_id: str, instance: Any, inputs: dict[str, Any]) -> None:
        """Stop a cancelled question before its next call; let the model report its replies from now on."""
        check_cancelled()
        if (predictor := ACTIVE_CALL_ID.get()) in self._asked:
            self._asked[predictor] += 1
        if not isinstance(record := instance.update_history, functools.partial):
            instance.update_history = functools.partial(_report, record)

    def on_lm_end(self, call_id: str, outputs: Any, exception: BaseException | None = None) -> None:
        """Count a request that failed, if it may have reached the language model."""
        kept_back = isinstance(exception, (exceptions.LMConfigurationError, exceptions.LMUnsupportedFeatureError))
        if isinstance(exception, LMError) and not kept_back and not _refuses_connections(exception):
            self.add(Usage(calls=1, failed_calls=1))

    def on_module_start(self, call_id: str, instance: Any, inputs: dict[str, Any]) -> None:
        """Note that a predictor begins to ask."""
        if isinstance(instance, dspy.Predict):
            self._asked[call_id] = 0

    def on_module_end(self, call_id: str, outputs: Any, exception: BaseException | None = None) -> None:
        """Count as uncounted a predictor's reply for which no call was seen: the model overrides `__call__`."""
        if self._asked.pop(call_id, None) == 0 and exception is None:
            self.add(Usage(uncounted_calls=1))


def _report(record: Callable[[Any], None], entry: Mapping[str, Any]) -> None:
    """Stand in for a model's `update_history`: report an entry to the active trackers, and record it if wanted."""
    for tracker in _trackers():
        tracker.add(usage_of(entry, tracker.prices))
    if keeps_history():
        record(entry)


def _trackers() -> list[UsageTracker]:
    """The trackers that count the calls made here."""
    return [callback for callback in dspy.settings.callbacks or () if isinstance(callback, UsageTracker)]


def keeps_history() -> bool:
    """Whether DSPy is to keep a history of the calls made here."""
    return not dspy.settings.disable_history and dspy.settings.max_history_size > 0


@contextmanager
def track_usage(tracker: UsageTracker) -> Iterator[UsageTracker]:
    """Let `tracker` count the calls made in this context, those included that a cache answers or that fail.

    Calls of a model whose class overrides `__call__` are only reported as uncounted.
    """
    # DSPy makes the entries that models report only while it is set to keep a history, even one of no size.
    history = nullcontext() if keeps_history() else without_history()
    callbacks = [*(dspy.settings.callbacks or ()), tracker]
    with history, dspy.context(disable_history=False, callbacks=callbacks):
        yield tracker


@contextmanager
def without_history() -> Iterator[None]:
    """Let DSPy keep neither a history nor a trace of the calls made in this context.

    The active trackers count as before, and a trace that is being collected (`dspy.context(trace=[])`) is still
    collected.
    """
    trace = dspy.settings.trace
    everybodys = contextvars.Context().run(lambda: dspy.settings.trace)  # outside of every `dspy.context`
    kept = None if trace is everybodys else trace
    with dspy.context(disable_history=not _trackers(), max_history_size=0, trace=kept):
        yield


def copy_of(lm: Any, **changes: Any) -> Any:
    """A copy of a language model that shares its history; the model itself without changes (see `dspy.LM.copy`)."""
    if not changes:
        return lm
    copied = lm.copy(**changes)
    copied.history = lm.history
    return copied


def token_prices(model: str) -> Prices | None:
    """The prices of a model by its name, from the table that comes with DSPy; None if it is not there.

    A model in this process costs nothing.
    """
    from dspy.clients.model_metadata import model_info, rate

    os.environ.setdefault("LITELLM_LOCAL_MODEL_COST_MAP", "true")  # else DSPy looks for newer prices on the network
    provider, _, name = model.partition("/")
    if provider in ("knowgap", "hf"):
        return 0.0, 0.0
    info = model_info(provider, name) if name else {}
    prompt, completion = rate(info, "input_cost_per_token"), rate(info, "output_cost_per_token")
    return None if prompt is None or completion is None else (prompt * 1e6, completion * 1e6)


def dollars(prompt_tokens: float, completion_tokens: float, prices: Prices) -> float:
    """The price of tokens in US dollars."""
    return (prompt_tokens * prices[0] + completion_tokens * prices[1]) / 1e6


def usage_of(entry: Mapping[str, Any], prices: Prices | None) -> Usage:
    """The usage of one call, from the entry that DSPy makes for its history.

    A call that a cache answered is billed nothing, but its response tells its tokens.
    """
    billed, response = entry.get("usage"), entry.get("response")
    responses = response if isinstance(response, tuple) else (response,)
    parts = [billed] if billed else [get_part(part, "usage") for part in responses]
    prompt = sum(get_part(part, "prompt_tokens") or get_part(part, "input_tokens") or 0 for part in parts)
    completion = sum(get_part(part, "completion_tokens") or get_part(part, "output_tokens") or 0 for part in parts)
    choices = [choice for part in responses for choice in (part, *(get_part(part, "choices") or ()))]
    cached = bool(get_part(response, "cache_hit") or (not billed and prompt + completion))
    price = entry.get("cost") if prices is None else dollars(prompt, completion, prices)
    return Usage(
        calls=int(not cached),
        cached_calls=int(cached),
        cut=int(any(get_part(choice, "finish_reason") == "length" for choice in choices)),
        prompt_tokens=prompt,
        completion_tokens=completion,
        money=0.0 if cached else price or 0.0,
        unreported_calls=int(not cached and not prompt + completion),
    )


def get_part(source: Any, name: str) -> Any:
    """An attribute, or the value of a key; None if there is none."""
    return source.get(name) if isinstance(source, Mapping) else getattr(source, name, None)


_TOO_LONG = re.compile(
    r"context (?:size|length|window)|maximum context|maximum model length|max_model_len|prompt is too long"
    r"|too many (?:input )?tokens",
    re.I,
)


def ask_patiently(lm: dspy.BaseLM, request: Callable[..., T], *, at_first: bool = False) -> T:
    """Make a request to a language model; repeat it after a transient fault, up to `lm.num_retries` times.

    Transient faults are a lost connection, a timeout, a status 429 or 5xx, and a garbled answer. The pauses between two
    attempts are 1, 2, 4, … seconds, or what the endpoint asks for, at most a minute. `request` makes one attempt, with
    a copy of the model that does not repeat anything itself, given as `lm`. `at_first`, a server that refuses
    connections is taken for absent, and not waited for.

    Raises:
        ContextWindowExceededError: the prompt is too long, even if DSPy does not recognise the server's message.
            If the status is 500, requests are repeated first, since those under way may share a window.
        LMError: the last attempt failed, or the fault is not transient.
        CallsCancelled: the question is cancelled.
    """
    once, attempt = copy_of(lm, num_retries=0), 0
    while True:
        check_cancelled()
        try:
            return request(lm=once)
        except LMError as error:
            passes = is_retryable_lm_error(error) or is_garbled(error)
            if not passes or attempt >= lm.num_retries or (at_first and _refuses_connections(error)):
                refused = isinstance(error, (exceptions.LMInvalidRequestError, exceptions.LMServerError))
                if refused and not isinstance(error, ContextWindowExceededError) and _TOO_LONG.search(str(error)):
                    raise ContextWindowExceededError(model=lm.model, message=str(error)) from error
                raise
            seconds = 2.0**attempt if error.retry_after is None else error.retry_after
        pause(min(seconds, _LONGEST_PAUSE))
        attempt += 1


def _refuses_connections(error: BaseException | None) -> bool:
    while error is not None:
        if isinstance(error, (ConnectionRefusedError, socket.gaierror)):
            return True
        error = error.__cause__ or error.__context__
    return False


def is_garbled(error: BaseException) -> bool:
    """Whether an endpoint answered with status 200 and a body that is not JSON: cut off, a page of HTML, or empty."""
    return isinstance(error, LMProviderError) and error.status == 200
