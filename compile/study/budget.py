"""What calls to a language model cost."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import dspy
from pydantic import BaseModel, ConfigDict

__all__ = ["Meter", "Spent", "metering"]


class Spent(BaseModel):
    """Calls to a language model, and what was paid for.

    Attributes:
        calls: calls that reached the language model.
        cached_calls: calls answered from the cache instead.
        prompt_tokens: of the calls that reached it.
        completion_tokens: of the calls that reached it.
        money: US dollars for these, as far as prices are known.
        unpriced_calls: calls whose price is not known.
    """

    model_config = ConfigDict(extra="forbid")

    calls: int = 0
    cached_calls: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0
    money: float = 0.0
    unpriced_calls: int = 0

    @property
    def asked(self) -> int:
        """Calls in all: what it would have cost without a cache."""
        return self.calls + self.cached_calls

    @property
    def tokens(self) -> int:
        """Prompt and completion tokens that were paid for."""
        return self.prompt_tokens + self.completion_tokens

    def __add__(self, other: Spent) -> Spent:
        fields = type(self).model_fields
        return Spent(**{name: getattr(self, name) + getattr(other, name) for name in fields})


class Meter:
    """Counts the calls of all programs that run under `metering`, in any thread.

    Args:
        prices: US dollars per million prompt and completion tokens; DSPy's own estimate where absent.
    """

    def __init__(self, prices: tuple[float, float] | None = None):
        self.spent, self._prices = Spent(), prices
        self._lock = threading.Lock()

    @property
    def history(self) -> Meter:
        """Where DSPy appends the entries of calls, as it does to every calling module."""
        return self

    def __len__(self) -> int:
        return 0

    def append(self, entry: Mapping[str, Any]) -> None:
        """Count one call."""
        usage = entry.get("usage") or {}
        with self._lock:
            if not usage:
                self.spent.cached_calls += 1
                return
            prompt, completion = int(usage.get("prompt_tokens") or 0), int(usage.get("completion_tokens") or 0)
            price = entry.get("cost")
            if self._prices is not None:
                price = (prompt * self._prices[0] + completion * self._prices[1]) / 1e6
            self.spent.calls += 1
            self.spent.prompt_tokens += prompt
            self.spent.completion_tokens += completion
            self.spent.money += price or 0.0
            self.spent.unpriced_calls += price is None


@contextmanager
def metering(meter: Meter) -> Iterator[Meter]:
    """Count the calls made inside, those of threads that inherit the context included."""
    with dspy.context(caller_modules=[*(dspy.settings.caller_modules or []), meter], disable_history=False):
        yield meter
