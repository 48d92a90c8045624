"""Greetings and thanks, and follow-up questions, which one call completes by what was said."""

import dspy
import pytest
from support import UNREADABLE, TableRetriever, scripted_lm

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
        ({"complete_question": "Where was Ada Venn born?"}, "Where was Ada Venn born?", 1),
        ({"complete_question": ""}, "Where was she born?", 1),
        ({"complete_question": "She was born in Orle."}, "Where was she born?", 1),
        ({"complete_question": "Where was Jane Austen born?"}, "Where was she born?", 1),
        ({"complete_question": "Who designed the Orle Bridge?"}, "Where was she born?", 1),
        (UNREADABLE, "Where was she born?", 2),
    ],
)
def test_the_question_is_completed_or_left_as_it_is(reply, complete, calls):
    lm, engine = scripted_lm(lambda *_: reply)
    with dspy.context(lm=lm):
        prediction = FollowUp(SAID)(question="Where was she born?")
    assert prediction.answer == complete
    assert (len(engine.calls), prediction.trace.cost.lm_calls) == (calls, calls)
    _, inputs = engine.calls[0]
    assert inputs == {"conversation": "Who designed the Orle Bridge?\nAda Venn", "follow_up": "Where was she born?"}


def test_a_turn_is_a_line_for_the_question_and_one_for_the_answer():
    answers = ("Ada Venn\n\nin 1931", f"{NOT_SUPPORTED} Missing: Who painted it? A guess: Bo Reed")
    lm, engine = scripted_lm(lambda *_: {"complete_question": ""})
    with dspy.context(lm=lm):
        FollowUp([SubAnswer(question=f"Question {n}?", answer=a) for n, a in enumerate(answers)])(question="And now?")
    expected = ["Question 0?", "Ada Venn in 1931", "Question 1?", NOT_SUPPORTED]
    assert engine.calls[0][1]["conversation"].splitlines() == expected


def test_a_question_in_a_script_without_capital_letters_is_completed():
    lm, _ = scripted_lm(lambda *_: {"complete_question": "艾达·文在哪里出生？"})
    with dspy.context(lm=lm):
        said = [SubAnswer(question="奥尔桥是谁设计的？", answer="艾达·文")]
        assert FollowUp(said)(question="她在哪里出生？").answer == "艾达·文在哪里出生？"
