"""RA-ISF's tree of sub-questions, and the interfaces of the models that are trained for its sub-modules."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol, runtime_checkable

from knowgap.programs.replies.outputs import clean_lines
from knowgap.programs.trace.steps import Judged
from knowgap.retrieval.passage import Passage
from knowgap.signatures import UNKNOWN, SubAnswer

REFERENCE = re.compile(r"#(\d{1,2})(?!\d)")
"""How a sub-question refers to the answer of an earlier one: by its number, from 1."""


class Solution(NamedTuple):
    """The answer to a question or sub-question, and what it rests on."""

    answer: str
    passages: Sequence[Passage] = ()
    sub_answers: Sequence[SubAnswer] = ()


@dataclass(eq=False)
class SubQuestion:
    """A node of the tree: the user's question or a sub-question, until and after it is solved.

    Attributes:
        question: the text; references such as `#1` stay in it until the answers they stand for are filled in.
        path: the questions above it in the tree, the user's first.
        branch: the numbers of the sub-questions from the root to it.
        earlier: the sub-questions that its references stand for, by number; empty once their answers are filled in.
        twin: the node that asked the same question before, whose solution is taken over.
        circular: whether a node that asked the same question waits for this one; there is no twin then.
        parts: its sub-questions, once it is decomposed.
        given: passages that were relevant to the question directly above it.
        relevant: the passages that are relevant to it.
        guess: the answer that relevant passages suggest without settling the question.
        solution: None until it is solved.
    """

    question: str
    path: tuple[str, ...] = ()
    branch: str = ""
    earlier: dict[int, SubQuestion] = field(default_factory=dict)
    twin: SubQuestion | None = None
    circular: bool = False
    parts: list[SubQuestion] = field(default_factory=list)
    given: Sequence[Passage] = ()
    relevant: Sequence[Passage] = ()
    guess: Solution | None = None
    solution: Solution | None = None

    def waits_for(self, other: SubQuestion) -> bool:
        """Whether this node cannot be solved before the other."""
        if self is other or self.solution is not None:
            return self is other
        needed = [*self.parts, *self.earlier.values(), *([self.twin] if self.twin else [])]
        return any(node.waits_for(other) for node in needed)


def ready_questions(node: SubQuestion, asked: list[SubQuestion]) -> list[SubQuestion]:
    """The unsolved questions at and below a node that wait for no other, in the order of the tree.

    Fills in the answers that a question refers to, unless one of them is unknown. Then looks for its twin among the
    questions `asked` so far; if there is none, the question is added to them. All of this happens between the
    concurrent steps and in the order of the tree, so that the result does not depend on which step ends first.
    """
    if node.solution is not None:
        return []
    if node.parts:
        below = [found for part in node.parts for found in ready_questions(part, asked)]
        return below if any(part.solution is None for part in node.parts) else [node]
    if any(other.solution is None for other in node.earlier.values()):
        return []
    if node.twin is None and node not in asked:
        _fill_in(node)
        if not node.earlier:
            twin = next((other for other in asked if same_question(other.question, node.question)), None)
            node.circular = twin is not None and twin.waits_for(node)
            node.twin = None if node.circular else twin
        if node.twin is None and not node.earlier:
            asked.append(node)
    return [node] if node.twin is None or node.twin.solution is not None else []


def _fill_in(node: SubQuestion) -> None:
    """Replace references such as `#1` by the answers of earlier sub-questions, unless one of these is unknown."""
    answers = {n: other.solution.answer for n, other in node.earlier.items() if other.solution is not None}
    if UNKNOWN not in answers.values():
        node.question = REFERENCE.sub(lambda m: " ".join(answers.get(int(m[1]), m[0]).split()), node.question)
        node.earlier = {}


def same_question(one: str, other: str) -> bool:
    """Whether `clean_lines` regards two questions as the same."""
    return bool(clean_lines([one], 1, [other])[1])


class _Judge(Protocol):
    """A trained model that judges; `threshold` is the probability from which it says yes."""

    name: str
    threshold: float


@runtime_checkable
class SelfKnowledgeJudge(_Judge, Protocol):
    """Judges whether the language model knows the answers to questions."""

    def knows(self, questions: Sequence[str]) -> list[float]:
        """The probability, 0 to 1, that the answer to each question is known."""
        ...


@runtime_checkable
class RelevanceJudge(_Judge, Protocol):
    """Judges whether passages are relevant to questions."""

    def relevant(self, pairs: Sequence[tuple[str, str]]) -> list[float]:
        """The probability, 0 to 1, that the passage is relevant, for each (question, passage)."""
        ...


@runtime_checkable
class Decomposer(Protocol):
    """Breaks questions into sub-questions."""

    name: str

    def decompose(self, questions: Sequence[str]) -> list[list[str]]:
        """The sub-questions of each question; one that needs an earlier answer refers to it as `#1`, `#2`, ..."""
        ...


def judged_by(model: _Judge, what: str, probability: float, threshold: float | None, passage: str = "") -> Judged:
    """Make the step that records a trained model's judgement; without a `threshold`, the model's own applies."""
    limit = model.threshold if threshold is None else threshold
    reason = f"probability {probability:.3f}"
    return Judged(what=what, value=probability >= limit, passage=passage, reason=reason, by=model.name)
