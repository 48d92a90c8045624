"""A follow-up question is completed by what was said, with one call of the language model."""

import dspy
import pytest
from support import UNREADABLE, scripted_lm

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
    ("said", "question", "complete", "invented"),
    [
        (("奥尔桥是谁设计的？", "艾达·文"), "她在哪里出生？", "艾达·文在哪里出生？", "简·奥斯汀在哪里出生？"),
        (("橋は誰が設計？", "エイダ"), "彼女はどこで生まれた？", "エイダはどこで生まれた？", "ジェンはどこで？"),
        (("من صمم جسر أورل؟", "آدا فين"), "أين ولدت؟", "أين ولدت آدا فين؟", "أين ولدت جين أوستن؟"),
        (("다리는 누가 설계했나?", "에이다 벤"), "어디서 태어났나?", "에이다 벤은 어디서 태어났나?", "제인은 어디서?"),
        (("सेतु किसने बनाया?", "एडा वेन"), "वह कहाँ पैदा हुई?", "एडा वेन कहाँ पैदा हुई?", "जेन ऑस्टेन कहाँ पैदा हुई?"),
    ],
)  # fmt: skip
def test_a_question_in_a_script_without_capital_letters_is_completed(said, question, complete, invented):
    for written, answer in ((complete, complete), (invented, question)):
        lm, _ = scripted_lm(lambda *_, written=written: {"complete_question": written})
        with dspy.context(lm=lm):
            assert FollowUp([SubAnswer(question=said[0], answer=said[1])])(question=question).answer == answer
