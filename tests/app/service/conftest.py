"""What the tests of the service share: an index of one river, servers and their clients, and waiting."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import httpx
from support import TableRetriever, scripted_lm

from knowgap.programs.base import Program
from knowgap.programs.baselines.rag import RAG
from knowgap.retrieval.passage import Passage
from knowgap.service import Server

SECONDS = 150  # a bound for waiting; nothing here takes that long
ISK = Passage("isk", "Isk", "The Isk flows through Tarn.")


OneRiver = partial(TableRetriever, [ISK])  # an index that finds the Isk


class Doubting(Program):
    """Finds one passage, which does not state the answer, and guesses."""

    def forward(self, question):
        passages = self.retrieve_passages(question, 1)
        return self.conclude("The Orle.", passages, supported=False, missing="which river flows through Orle")


def answering(text: str = "the Isk") -> Any:
    """A language model that always gives this answer."""
    return scripted_lm(lambda *_: {"reasoning": "It says so.", "answer": text})[0]


def serve(program: Any = None, lm: Any = None, **options: Any) -> Server:
    """A server of a program, or of plain retrieval from the index of one river."""
    return Server(RAG(OneRiver()) if program is None else program, lm or answering(), **{"port": 0, **options})


@contextmanager
def asking(program: Any = None, lm: Any = None, **options: Any) -> Iterator[httpx.Client]:
    """A client of such a server."""
    with serve(program, lm, **options) as server, httpx.Client(base_url=server.url, timeout=SECONDS) as client:
        yield client


def wait_until(true: Callable[[], object]) -> None:
    end = time.monotonic() + SECONDS
    while not true():
        assert time.monotonic() < end
        time.sleep(0.02)
