"""The base class of DSPy engines whose model runs in this process."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Any

from dspy.lm15 import Request, Response, response_to_events
from typing_extensions import Self


class InProcessEngine:
    """An engine; a subclass implements `complete`.

    It has no asynchronous form: what would wait for it without blocking runs it in a thread (`dspy.asyncify`).

    Attributes:
        settings: the arguments of the engine, JSON-ready, from which DSPy makes it again.
    """

    settings: Mapping[str, Any] = MappingProxyType({})

    def complete(self, request: Request) -> Response:
        """Reply to one request."""
        raise NotImplementedError

    def stream(self, request: Request) -> Iterator[Any]:
        """Give the whole reply as a stream of events."""
        return iter(response_to_events(self.complete(request)))

    def dump_state(self) -> dict[str, Any]:
        """Return the settings, JSON-ready."""
        return dict(self.settings)

    @classmethod
    def load_state(cls, state: dict[str, Any]) -> Self:
        """Make an engine from what `dump_state` returned."""
        return cls(**state)
