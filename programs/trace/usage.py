"""What calls to a language model use and cost."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, TypeVar

import dspy
import numpy as np
from dspy.clients.base_lm import GLOBAL_HISTORY
from dspy.dsp.utils.settings import main_thread_config
from pydantic import BaseModel, ConfigDict

__all__ = ["Prices", "Usage", "UsageTracker", "dollars", "token_prices", "track_usage", "without_history"]

T = TypeVar("T", float, np.ndarray)
Prices = tuple[float, float]
"""US dollars per million prompt tokens and per million completion tokens."""

_LEFT_IN_HISTORY = 8
"""How many calls DSPy keeps where it is to keep none. It removes the oldest entry of a full history before it appends
one, and of several threads that do so at once, one would find no entry where too few are kept."""


class Usage(BaseModel):
    """Calls to a language model, their tokens and their price.

    Attributes:
        calls: calls that reached the language model.
        cached_calls: calls answered from a cache instead.
        cut: calls of either kind whose reply ended at the limit of tokens.
        prompt_tokens: of the calls that reached it.
        completion_tokens: of the calls that reached it.
        cached_prompt_tokens: of the calls answered from a cache, as far as their replies say.
        cached_completion_tokens: likewise.
        money: US dollars for the calls that reached it, as far as prices are known.
        unpriced_calls: calls whose price is not known.
    """

    model_config = ConfigDict(extra="forbid")

    calls: int = 0
    cached_calls: int = 0
    cut: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0
    cached_prompt_tokens: int = 0
    cached_completion_tokens: int = 0
    money: float = 0.0
    unpriced_calls: int = 0

    @property
    def asked(self) -> int:
        """Calls in all: those that would have reached the language model without a cache."""
        return self.calls + self.cached_calls

    @property
    def tokens(self) -> int:
        """Prompt and completion tokens of the calls that reached the language model."""
        return self.prompt_tokens + self.completion_tokens

    def __add__(self, other: Usage) -> Usage:
        return Usage(**{name: value + getattr(other, name) for name, value in self})


class UsageTracker:
    """Counts the calls made under `track_usage`, in any thread.

    DSPy's own tracker forgets calls that a cache answers, and its callbacks see neither usage nor price. But DSPy
    appends an entry on every call to the `history` of every module in `caller_modules`; a tracker stands among them.
    It always seems empty, so that DSPy's limit on the length of a history removes nothing.

    Args:
        prices: overrides the prices that DSPy knows.
    """

    def __init__(self, prices: Prices | None = None):
        self.usage, self._prices = Usage(), prices
        self._lock = threading.Lock()

    @property
    def history(self) -> UsageTracker:
        """Where DSPy appends entries."""
        return self

    def __len__(self) -> int:
        return 0

    def append(self, entry: Mapping[str, Any]) -> None:
        """Count the call of an entry."""
        self.add(_usage_of(entry, self._prices))

    def add(self, usage: Usage) -> None:
        """Count calls that were made elsewhere."""
        with self._lock:
            self.usage += usage


class _NoHistory:
    """Stands among the caller modules where DSPy is to keep no history, and removes entries from that of all calls."""

    _lock = threading.Lock()

    @property
    def history(self) -> _NoHistory:
        """Where DSPy appends entries."""
        return self

    def __len__(self) -> int:
        return 0

    def append(self, entry: Mapping[str, Any]) -> None:
        """Remove an entry that was appended a moment ago."""
        with self._lock:
            for position in range(len(GLOBAL_HISTORY) - 1, -1, -1):
                if GLOBAL_HISTORY[position] is entry:
                    del GLOBAL_HISTORY[position]
                    return


@contextmanager
def track_usage(tracker: UsageTracker) -> Iterator[UsageTracker]:
    """Let `tracker` count the calls made in this context.

    It also counts them if DSPy's settings say that no history of calls is to be kept. Then none is kept, besides the
    last eight calls of each language model and of each predictor.
    """
    size = 0 if dspy.settings.disable_history else dspy.settings.max_history_size
    callers = [*(dspy.settings.caller_modules or []), tracker] if size else [_NoHistory(), tracker]
    with dspy.context(caller_modules=callers, disable_history=False, max_history_size=size or _LEFT_IN_HISTORY):
        yield tracker


@contextmanager
def without_history() -> Iterator[None]:
    """Let DSPy keep neither a history nor a trace of the calls made in this context.

    Trackers around it count as before, and a trace that somebody collects (`dspy.context(trace=[])`) is collected.
    """
    trackers = [caller for caller in dspy.settings.caller_modules or () if isinstance(caller, UsageTracker)]
    trace = dspy.settings.trace
    with dspy.context(
        caller_modules=[_NoHistory(), *trackers],
        disable_history=not trackers,
        max_history_size=_LEFT_IN_HISTORY,
        trace=None if trace is main_thread_config.trace else trace,
    ):
        yield


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


def dollars(prompt_tokens: T, completion_tokens: T, prices: Prices) -> T:
    """The price of tokens in US dollars: of numbers, or of arrays of them."""
    return (prompt_tokens * prices[0] + completion_tokens * prices[1]) / 1e6


def _usage_of(entry: Mapping[str, Any], prices: Prices | None) -> Usage:
    """The usage of one call; a call that a cache answered is billed nothing, but its response tells its tokens."""
    billed, response = entry.get("usage"), entry.get("response")
    responses = response if isinstance(response, tuple) else (response,)
    parts = [billed] if billed else [_get(part, "usage") for part in responses]
    prompt = sum(_get(part, "prompt_tokens") or _get(part, "input_tokens") or 0 for part in parts)
    completion = sum(_get(part, "completion_tokens") or _get(part, "output_tokens") or 0 for part in parts)
    choices = [choice for part in responses for choice in (part, *(_get(part, "choices") or ()))]
    cut = int(any(_get(choice, "finish_reason") == "length" for choice in choices))
    if _get(response, "cache_hit") or (not billed and prompt + completion > 0):
        return Usage(cached_calls=1, cut=cut, cached_prompt_tokens=prompt, cached_completion_tokens=completion)
    price = dollars(prompt, completion, prices) if prices is not None else entry.get("cost")
    return Usage(
        calls=1,
        cut=cut,
        prompt_tokens=prompt,
        completion_tokens=completion,
        money=price or 0.0,
        unpriced_calls=price is None,
    )


def _get(source: Any, name: str) -> Any:
    return source.get(name) if isinstance(source, Mapping) else getattr(source, name, None)
