"""Tiny models that several tests of retrieval read."""

from pathlib import Path

import pytest

from tests.retrieval.conformance import QUERIES, corpus
from tests.retrieval.tiny import write_colbert


@pytest.fixture(scope="session")
def checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A ColBERT checkpoint with random weights, 32 wide; not to be changed."""
    texts = [*map(str, corpus()), *QUERIES]
    return write_colbert(tmp_path_factory.mktemp("tiny") / "colbert", texts, dim=32)
