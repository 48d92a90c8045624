"""Answers that the documents do not support, and greetings: what each address and the tool for assistants say."""

import openai
import pytest

from knowgap.programs.prediction import NOT_SUPPORTED
from knowgap.service.mcp_tools import make_server
from tests.app.service.conftest import ISK, Doubting, OneRiver, answering, asking
from tests.app.service.test_mcp_tools import call
from tests.app.service.test_server import read_events

QUESTION, MISSING, GUESS = "Which river flows through Orle?", "which river flows through Orle", "The Orle."


@pytest.fixture(scope="module")
def doubting():
    return Doubting(OneRiver(), style="sentence")


@pytest.fixture(scope="module")
def asked(doubting):
    """Asks a question at /v1/ask and as a chat, whole and streamed, and returns the answers in these four ways."""
    with asking(doubting) as client:

        def ask(question):
            whole = client.post("/v1/ask", json={"question": question}).json()
            events = read_events(client.post("/v1/ask", json={"question": question, "stream": True}).text)
            completions = openai.OpenAI(base_url=client.base_url.join("/v1"), api_key="none").chat.completions
            chat = {"model": "knowgap/Doubting", "messages": [{"role": "user", "content": question}]}
            return whole, events, completions.create(**chat), list(completions.create(**chat, stream=True))

        yield ask


def check_verdict(answer):
    assert (answer["supported"], answer["missing"], answer["guess"]) == (False, MISSING, GUESS)
    assert (answer["sources"], answer["citations"]) == ([], [])
    assert answer["nearest"] == [{"title": "Isk", "passage_id": "isk"}]
    assert answer["passages"] == [ISK.to_dict()]


def test_an_unsupported_answer_says_so_and_names_the_nearest_passages_without_numbers(asked):
    whole, events, reply, chunks = asked(QUESTION)
    (name, streamed) = events[-1]
    assert (name, streamed["answered"]) == ("answer", False)
    for answer in (whole, streamed):
        check_verdict(answer)
        assert answer["answer"] == answer["cited_answer"]
    check_verdict(reply.model_extra["knowgap"])
    message = reply.choices[0].message
    deltas = [chunk.choices[0].delta.content for chunk in chunks if chunk.choices and chunk.choices[0].delta.content]
    assert deltas == [message.content], "text is sent once, and nothing is taken back"
    for text in (whole["answer"], message.content):
        assert text.startswith(NOT_SUPPORTED)
        assert "[1]" not in text
        assert [text.count(part) for part in (MISSING, GUESS)] == [1, 1]
    assert message.content.endswith("Isk")


def test_a_greeting_gets_a_line_and_asks_nothing(asked, doubting):
    whole, events, reply, chunks = asked("Danke!")
    [(name, streamed)] = events
    assert name == "answer"
    _, result = call(make_server(doubting, answering()), "ask", question="Danke!")
    for answer in (whole, streamed, result.structured_content):
        assert (answer["supported"], answer["sources"], answer["nearest"], answer["citations"]) == (None, [], [], [])
        assert (answer["cost"]["lm_calls"], answer["cost"]["retrievals"], answer["passages"]) == (0, 0, [])
        assert answer["cited_answer"] == answer["answer"] == reply.choices[0].message.content != ""
    assert sum(bool(chunk.choices and chunk.choices[0].delta.content) for chunk in chunks) == 1
