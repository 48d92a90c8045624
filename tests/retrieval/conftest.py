"""A checkpoint that several tests of retrieval read."""

import json

import numpy as np
import pytest

from knowgap.retrieval.colbert import PROJECTION, SETTINGS, TOKEN_WEIGHTS
from knowgap.retrieval.minilm import EMBEDDED


@pytest.fixture(scope="session")
def checkpoint(tmp_path_factory):
    """An embedded checkpoint with a random projection, 32 wide; not to be changed."""
    folder, rng = tmp_path_factory.mktemp("tiny"), np.random.default_rng(1)
    np.save(folder / PROJECTION, rng.normal(size=(32, 384)).astype(np.float32))
    np.save(folder / TOKEN_WEIGHTS, np.ones(30_522, np.float32))
    (folder / SETTINGS).write_text(json.dumps({"encoder": EMBEDDED}), encoding="utf-8")
    return folder
