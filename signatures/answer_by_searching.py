"""An answer that is searched for, one query at a time (the ReAct baseline)."""

import dspy

__all__ = ["AnswerBySearching"]


class AnswerBySearching(dspy.Signature):
    """Find the answer to the question by searching, and give it in the asked style.

    Search for one fact at a time, and use the names found so far in the next search. Finish as soon as the answer is
    settled, or when searching on would not help.
    """

    question: str = dspy.InputField()
    style: str = dspy.InputField(desc="how the answer should be worded")
    answer: str = dspy.OutputField(desc="the answer in the asked style")
