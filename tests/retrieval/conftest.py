"""Tiny models that several tests of retrieval read."""

import json
from pathlib import Path

import pytest

from knowgap.retrieval.colbert.embedded import SETTINGS
from knowgap.retrieval.window import EMBEDDED
from tests.retrieval.conformance import QUERIES, corpus
from tests.retrieval.tiny import write_colbert


@pytest.fixture(scope="session")
def checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A ColBERT checkpoint like the embedded one, but with random weights, 32 wide; not to be changed."""
    texts = [*map(str, corpus()), *QUERIES]
    folder = write_colbert(tmp_path_factory.mktemp("tiny") / "colbert", texts, dim=32)
    (folder / SETTINGS).write_text(json.dumps({"encoder": EMBEDDED}), encoding="utf-8")
    return folder
