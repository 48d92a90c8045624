"""Eight questions, and a language model that reads."""

from __future__ import annotations

import pytest
from compile_helpers import make_examples, reading_lm


@pytest.fixture
def examples():
    return make_examples(8)


@pytest.fixture
def lm():
    return reading_lm()[0]
