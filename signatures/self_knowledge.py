"""Does the model know the answer itself? (RA-ISF, section 3.3, M_know)."""

import dspy

__all__ = ["SelfKnowledge"]


class SelfKnowledge(dspy.Signature):
    """Decide whether you can answer the question correctly from your own knowledge, without looking anything up.

    Say True only if you are sure of every fact that the answer needs.
    """

    question: str = dspy.InputField()
    knows: bool = dspy.OutputField(desc="True only if sure of the answer")
