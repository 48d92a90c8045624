"""A follow-up question is completed by what was said, with one call of the language model."""

import dspy
import pytest
from support import UNREADABLE, scripted_lm

import knowgap
from knowgap.programs.follow_up import FollowUp
from knowgap.signatures import SubAnswer

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


@pytest.mark.parametrize(
    ("question", "complete"),
    [
        ("Where was she born?", "Where was Ada Venn born?"),
        ("When was it built?", "When was Orle Bridge built?"),
        ("Who were their parents?", "Who were Ada Venn's parents?"),
        ("What is Tarn?", "What is Tarn?"),
    ],
)
def test_the_embedded_reader_fills_in_a_pronoun(question, complete):
    with dspy.context(lm=knowgap.make_lm("extractive")):
        assert FollowUp(SAID)(question=question).answer == complete
