"""What the baselines ask, apart from what they share with one another and with the five methods."""

import dspy

from knowgap.signatures.types import SourcePassage, Statement, SubAnswer


# Chain of thought: Wei et al., 2022.
class ReasonDirectly(dspy.Signature):
    """Think the question through step by step, then answer it from your own knowledge."""

    question: str = dspy.InputField()
    style: str = dspy.InputField(desc="how the answer should be worded")
    reasoning: str = dspy.OutputField(desc="the steps, one sentence each", default_factory=str)
    answer: str = dspy.OutputField(desc="the answer in the asked style")


# ReAct: Yao et al., 2023.
class AnswerBySearching(dspy.Signature):
    """Find the answer to the question by searching, and give it in the asked style.

    Search for one fact at a time, and use the names found so far in the next search. Finish as soon as the answer is
    settled, or when searching on would not help.
    """

    question: str = dspy.InputField()
    style: str = dspy.InputField(desc="how the answer should be worded")
    answer: str = dspy.OutputField(desc="the answer in the asked style")


# Self-Ask: Press et al., 2023.
class FollowUp(dspy.Signature):
    """Decide whether another simple question must be answered before the question can be, and ask it.

    The follow-up asks for one fact, in full words, with the names that earlier answers gave; it repeats none that was
    asked. When the answers so far settle the question, no follow-up is needed.
    """

    question: str = dspy.InputField()
    sub_answers: list[SubAnswer] = dspy.InputField(desc="follow-up questions answered so far; may be empty")
    needed: bool = dspy.OutputField(desc="True if a follow-up question is needed")
    query: str = dspy.OutputField(desc="the follow-up question; empty if none is needed", default_factory=str)


# IRCoT: Trivedi et al., 2023.
class NextStep(dspy.Signature):
    """Write the next sentence of the reasoning that leads to the answer of the question.

    One sentence that states one fact, with full names, and goes beyond the sentences so far. Take the fact from the
    passages where they have it. Once the sentences so far, with this one, settle the question, it is the last one.
    """

    question: str = dspy.InputField()
    passages: list[SourcePassage] = dspy.InputField(desc="may be empty")
    known: list[str] = dspy.InputField(desc="the sentences so far, in order; may be empty")
    reasoning: str = dspy.OutputField(desc="the next sentence, and no more than one")
    finished: bool = dspy.OutputField(
        desc="True if the reasoning, with this sentence, arrives at the answer", default_factory=bool
    )


# FLARE: Jiang et al., 2023.
class NextSentence(dspy.Signature):
    """Write the next sentence of a text that answers the question, and say how sure you are of it.

    One sentence that states one fact, with full names, and goes beyond the sentences so far. Take the fact from the
    passages where they have it. The text is finished once it arrives at the answer with this sentence; give it then.
    """

    question: str = dspy.InputField()
    passages: list[SourcePassage] = dspy.InputField(desc="may be empty")
    known: list[str] = dspy.InputField(desc="the sentences so far, in order; may be empty")
    style: str = dspy.InputField(desc="how the answer should be worded")
    reasoning: str = dspy.OutputField(desc="the next sentence, and no more than one")
    confidence: float = dspy.OutputField(
        desc="probability that the sentence is right, from 0 to 1", default_factory=float, ge=0, le=1
    )
    finished: bool = dspy.OutputField(
        desc="True if the text, with this sentence, arrives at the answer", default_factory=bool
    )
    answer: str = dspy.OutputField(
        desc="the answer in the asked style if the text is finished; else empty", default_factory=str
    )


# Chain-of-Note: Yu et al., 2023.
class ReadingNotes(dspy.Signature):
    """Write a reading note on each passage in turn, then answer the question from the notes.

    A passage may answer the question: note the answer and where it says so. It may give background from which,
    with what you know, the answer can be inferred: note what follows. Or it may be beside the point: note that, and
    rely on what you know. When neither passages nor knowledge settle the question, give your best answer.
    """

    question: str = dspy.InputField()
    passages: list[SourcePassage] = dspy.InputField(desc="may be empty")
    style: str = dspy.InputField(desc="how the answer should be worded")
    note: str = dspy.OutputField(
        desc="one line for each passage, with its id, and one on what follows from them", default_factory=str
    )
    answer: str = dspy.OutputField(desc="the answer in the asked style")


# Least-to-Most: Zhou et al., 2023.
class DecomposeInOrder(dspy.Signature):
    """Break the question into the simpler questions that must be answered first, in the order of answering.

    Easiest first; a later one may speak of the answer to an earlier one. Leave out the question itself. When it
    needs no steps, return an empty list.
    """

    question: str = dspy.InputField()
    questions: list[str] = dspy.OutputField(desc="the simpler questions in order; may be empty")


# Self-Rerank: Adaptive-Note's baseline.
class RankPassages(dspy.Signature):
    """Rank the passages by how much they help to answer the question, and leave out those that do not help.

    A passage helps if it holds a fact that the answer needs, also if only for one step of it.
    """

    question: str = dspy.InputField()
    passages: list[SourcePassage] = dspy.InputField()
    relevant_ids: list[int] = dspy.OutputField(desc="ids of the passages that help, most helpful first; may be empty")


# ALCE: Gao et al., 2023; VTG.
class AnswerWithCitations(dspy.Signature):
    """Answer the question in statements that each cite the passages they rest on.

    Every statement is one self-contained sentence and cites the ids of the passages that say it, as few as suffice.
    Together the statements give the facts that lead to the answer. Passages may be beside the point: cite those that
    help.
    """

    question: str = dspy.InputField()
    passages: list[SourcePassage] = dspy.InputField(desc="may be empty")
    style: str = dspy.InputField(desc="how the answer should be worded")
    statements: list[Statement] = dspy.OutputField(
        desc="the facts that lead to the answer, with their source ids", default_factory=list
    )
    answer: str = dspy.OutputField(desc="the answer that follows, in the asked style")
