"""Greetings and thanks: which messages are, and which are questions."""

import pytest
from support import TableRetriever

from knowgap.programs.baselines.rag import RAG
from knowgap.programs.greetings import greet
from knowgap.programs.trace.steps import Retrieved
from knowgap.retrieval import BM25Index, Passage

SAID = [
    "Hello!", "hi 👋", "Hi there, thanks a lot!!", "Good morning.", "Guten Tag", "Danke schön!", "Grüß Gott",
    "Bonjour !", "¡Gracias!", "Grazie mille", "obrigado", "Dank je wel", "Dziękuję", "Tack så mycket", "Teşekkürler",
    "СПАСИБО", "شكراً", "你好", "ありがとう！", "안녕하세요", "it’s not a greeting",
]  # fmt: skip


@pytest.mark.parametrize("message", SAID)
def test_a_greeting_gets_a_line_without_a_search_or_a_source(message):
    said = greet(RAG(TableRetriever({})), message)
    assert (said is None) is ("not a greeting" in message)
    if said is not None:
        assert said.answer.strip()
        assert (said.passages, said.citations, said.supported) == ([], [], None)
        assert (said.trace.question, said.trace.cost.lm_calls, said.trace.of(Retrieved)) == (message, 0, [])


@pytest.mark.parametrize(
    "message", ["", "!!", "hello?", "你好？", "Hello, who designed the bridge", "Hello Dolly", "thanksgiving"]
)
def test_anything_else_is_a_question(message):
    assert greet(RAG(TableRetriever({})), message) is None


def test_the_title_of_a_document_is_a_question(tmp_path):
    index = BM25Index.build([Passage("film", "Hello / Cast", "A film of 1999.")], tmp_path / "films")
    assert greet(RAG(index), "Hello") is None
    assert greet(RAG(index), "Hello!") is not None
    assert greet(RAG(index), "Hi") is not None
