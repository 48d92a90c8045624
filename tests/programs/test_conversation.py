"""Greetings and thanks, and follow-up questions, which one call completes by what was said."""

import pytest
from support import UNREADABLE, TableRetriever, play

from knowgap.programs.baselines.rag import RAG
from knowgap.programs.conversation import FollowUp, greet
from knowgap.programs.prediction import NOT_SUPPORTED
from knowgap.programs.trace.steps import Retrieved
from knowgap.retrieval import BM25Index, Passage
from knowgap.signatures import SubAnswer

GREETINGS = [
    "Hello!", "hi 👋", "Hi there, thanks a lot!!", "Good morning.", "Guten Tag", "Danke schön!", "Grüß Gott",
    "Bonjour !", "¡Gracias!", "Grazie mille", "obrigado", "Dank je wel", "Dziękuję",
    "СПАСИБО", "شكراً", "你好", "ありがとう！",
]  # fmt: skip


QUESTIONS = [
    "it’s not a greeting", "", "!!", "hello?", "你好？", "Hello, who built it", "Hello Dolly", "thanksgiving",
]  # fmt: skip


@pytest.mark.parametrize("message", [*GREETINGS, *QUESTIONS])
def test_a_greeting_gets_a_line_without_a_search_or_a_source_and_anything_else_is_a_question(message):
    said = greet(RAG(TableRetriever({})), message)
    assert (said is not None) is (message in GREETINGS)
    if said is not None:
        assert said.answer.strip()
        assert (said.passages, said.citations, said.supported) == ([], [], None)
        assert (said.trace.question, said.trace.cost.lm_calls, said.trace.of(Retrieved)) == (message, 0, [])


def test_the_title_of_a_document_is_a_question(tmp_path):
    index = BM25Index.build([Passage("film", "Hello / Cast", "A film of 1999.")], tmp_path / "films")
    assert greet(RAG(index), "Hello") is None
    assert greet(RAG(index), "Hello!") is not None
    assert greet(RAG(index), "Hi") is not None


SAID = [SubAnswer(question="Who designed the Orle Bridge?", answer="Ada Venn [1]")]


@pytest.mark.parametrize(
    ("reply", "complete", "calls"),
    [
        ("Where was Ada Venn born?", "Where was Ada Venn born?", 1),
        ("", "Where was she born?", 1),
        ("She was born in Orle.", "Where was she born?", 1),
        ("Where was Jane Austen born?", "Where was she born?", 1),
        ("Who designed the Orle Bridge?", "Where was she born?", 1),
        (UNREADABLE, "Where was she born?", 2),
    ],
)
def test_the_question_is_completed_or_left_as_it_is(reply, complete, calls):
    prediction, engine = play(FollowUp(SAID), "Where was she born?", rewriter=reply)
    assert prediction.answer == complete
    assert (len(engine.calls), prediction.trace.cost.lm_calls) == (calls, calls)
    _, inputs = engine.calls[0]
    assert inputs == {"conversation": "Who designed the Orle Bridge?\nAda Venn", "follow_up": "Where was she born?"}


def test_a_turn_is_a_line_for_the_question_and_one_for_the_answer():
    answers = ("Ada Venn\n\nin 1931", f"{NOT_SUPPORTED} Missing: Who painted it? A guess: Bo Reed")
    said = [SubAnswer(question=f"Question {n}?", answer=answer) for n, answer in enumerate(answers)]
    _, engine = play(FollowUp(said), "And now?", rewriter="")
    expected = ["Question 0?", "Ada Venn in 1931", "Question 1?", NOT_SUPPORTED]
    assert engine.calls[0][1]["conversation"].splitlines() == expected


def test_a_question_in_a_script_without_capital_letters_is_completed():
    said = [SubAnswer(question="奥尔桥是谁设计的？", answer="艾达·文")]
    prediction, _ = play(FollowUp(said), "她在哪里出生？", rewriter="艾达·文在哪里出生？")
    assert prediction.answer == "艾达·文在哪里出生？"
