"""What the tests of the service share: an index of one river, a client of a server, and waiting."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import httpx
from support import scripted_lm

from knowgap.programs.base import Program
from knowgap.retrieval.passage import Hit, Passage
from knowgap.service import Server

SECONDS = 150  # a bound for waiting; nothing here takes that long
ISK = Passage("isk", "Isk", "The Isk flows through Tarn.")


class OneRiver:
    """An index that finds the Isk."""

    def search(self, queries, k):
        return [[Hit(ISK, 1.0, 1)][:k] for _ in queries]


class Doubting(Program):
    """Finds one passage, which does not state the answer, and guesses."""

    def forward(self, question):
        passages = self.retrieve_passages(question, 1)
        return self.conclude("The Orle.", passages, supported=False, missing="which river flows through Orle")


@contextmanager
def asking(program: Any, answer: str = "the Isk", **options: Any) -> Iterator[httpx.Client]:
    """A client of a server that serves the program, whose language model always gives this answer."""
    lm, _ = scripted_lm(lambda *_: {"answer": answer})
    with (
        Server(program, lm, port=0, **options) as server,
        httpx.Client(base_url=server.url, timeout=SECONDS) as client,
    ):
        yield client


def wait_until(true: Callable[[], object]) -> None:
    end = time.monotonic() + SECONDS
    while not true():
        assert time.monotonic() < end
        time.sleep(0.02)
