"""Eight questions, a program, and a language model that reads."""

import pytest
from compile_helpers import make_examples, make_retriever, reading_lm

from knowgap.programs.baselines.rag import RAG


@pytest.fixture
def examples():
    return make_examples(8)


@pytest.fixture
def lm():
    return reading_lm()[0]


@pytest.fixture
def program(examples):
    return RAG(make_retriever(examples), top_k=5)
