"""Calls to a language model: repeated after a fault that may pass, shown while they wait, not begun once cancelled."""

from __future__ import annotations

import copy
import functools
import logging
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import dspy
from dspy.utils.dummies import DummyLM
from dspy.utils.exceptions import LMError, LMProviderError, is_retryable_lm_error

from knowgap.programs.replies.cancelling import check_cancelled, pause

__all__ = ["Wait", "current_wait", "is_garbled", "patient"]

_LOG = logging.getLogger("knowgap")
_LONGEST_PAUSE = 60.0
"""Seconds; an endpoint may ask for hours (`Retry-After`)."""


class Wait(NamedTuple):
    """How long calls have been waiting for a language model: no reply has come for so many seconds."""

    model: str
    seconds: float


class _CallsUnderWay:
    """When the calls under way began, and when the last reply came."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._begun: dict[object, tuple[float, str]] = {}
        self._last_reply = 0.0

    @contextmanager
    def call(self, model: str) -> Iterator[None]:
        key = object()
        with self._lock:
            self._begun[key] = time.monotonic(), model
        try:
            yield
        finally:
            with self._lock:
                del self._begun[key]
                self._last_reply = time.monotonic()

    def wait(self) -> Wait | None:
        with self._lock:
            if not self._begun:
                return None
            begun, model = min(self._begun.values())
            return Wait(model, time.monotonic() - max(begun, self._last_reply))


_under_way = _CallsUnderWay()
_told: set[str] = set()
"""Models whose `Retry-After` has been said."""
_answered: set[tuple[str, Any]] = set()
"""Models with their addresses that have answered: where another one refuses the connection, its server is not there."""


def current_wait() -> Wait | None:
    """What this process waits for; None if no call to a language model is under way."""
    return _under_way.wait()


def patient(lm: Any) -> Any:
    """A copy of a language model whose calls are repeated here, as often as DSPy would repeat them.

    DSPy itself waits as long as an endpoint asks it to, and goes on when the question is cancelled. Here, a call is
    repeated after a lost connection, a timeout, a status 429 or 5xx, and a garbled answer, with pauses of 1, 2, 4, …
    seconds, or of what the endpoint asks for, a minute at most. What is no language model of DSPy's is returned as it
    is.
    """
    if not isinstance(lm, dspy.BaseLM) or isinstance(lm, _Patient):
        return lm
    cls = _patient_class(type(lm))
    twin: Any = cls.__new__(cls)
    vars(twin).update(vars(copy.copy(lm)))
    # DSPy repeats no call of a class with a `forward` of its own.
    twin.retries = lm.num_retries if type(lm).forward in (dspy.LM.forward, DummyLM.forward) else 0
    twin.num_retries = 0
    return twin


class _Patient:
    """Mixed into the class of a language model."""

    model: str
    kwargs: dict[str, Any]
    retries: int

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        with _under_way.call(self.model):
            for attempt in range(self.retries):
                check_cancelled()
                try:
                    return self._once(*args, **kwargs)
                except LMError as error:
                    if not self._may_pass(error):
                        raise
                    seconds = self._pause_after(error, attempt)
                pause(seconds)
            check_cancelled()
            return self._once(*args, **kwargs)

    def _once(self, *args: Any, **kwargs: Any) -> Any:
        parent: Any = super()
        reply = parent.__call__(*args, **kwargs)
        _answered.add((self.model, self.kwargs.get("api_base")))
        return reply

    def _may_pass(self, error: LMError) -> bool:
        if (self.model, self.kwargs.get("api_base")) not in _answered and _refuses_connections(error):
            return False
        return is_retryable_lm_error(error) or is_garbled(error)

    def _pause_after(self, error: LMError, attempt: int) -> float:
        """Seconds until the next attempt; what an endpoint asks for is said once."""
        asked = error.retry_after
        if asked is None:
            return min(2.0**attempt, _LONGEST_PAUSE)
        seconds = min(asked, _LONGEST_PAUSE)
        if self.model not in _told:
            _told.add(self.model)
            _LOG.warning(
                "%s asks to be left alone for %.0f s (Retry-After): asking again after %.0f s",
                self.model,
                asked,
                seconds,
            )
        return seconds


@functools.lru_cache(maxsize=64)
def _patient_class(cls: type[dspy.BaseLM]) -> type[dspy.BaseLM]:
    names = {"__module__": cls.__module__, "__qualname__": cls.__qualname__}
    made: Any = type(cls.__name__, (_Patient, cls), names)
    return made


def _refuses_connections(error: BaseException | None) -> bool:
    while error is not None:
        if isinstance(error, (ConnectionRefusedError, socket.gaierror)):
            return True
        error = error.__cause__ or error.__context__
    return False


def is_garbled(error: BaseException) -> bool:
    """Whether an endpoint answered with status 200 and a body that is no JSON: cut off, a page of HTML, or empty."""
    return isinstance(error, LMProviderError) and error.status == 200
