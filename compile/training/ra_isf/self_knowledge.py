"""Examples of the self-knowledge model: questions, and whether the language model knows their answers."""

from __future__ import annotations

import dspy

from knowgap.compiling.evaluation.metrics import get_metric
from knowgap.compiling.teacher.asking import ask_teacher, teacher_identity
from knowgap.compiling.training.ra_isf.labelling import Item, Labeller
from knowgap.programs.ra_isf import RAISF

__all__ = ["answers_rightly", "says_that_it_knows"]


def answers_rightly(lm: dspy.BaseLM, program: RAISF | None = None, *, metric: str = "exact_match") -> Labeller:
    """Ask a language model the questions without passages; it knows what it answers rightly (appendix A.1).

    Half of all yes/no questions are answered rightly by chance: `says_that_it_knows` suits these better.

    Args:
        lm: the model whose knowledge is learnt: the one that RA-ISF will ask.
        program: its style, and the demonstrations of its `answer`, go into the prompts.
        metric: an answer is right from a score of 0.5; the paper takes answers that are the same.
    """
    asked, score = program or RAISF(), get_metric(metric)

    def label(item: Item) -> tuple[bool | None, int]:
        output, calls = ask_teacher(asked.answer, lm, question=item.example.question, style=asked.wording)
        right = None if output is None else float(score(item.example, output)) >= 0.5
        return right, calls

    identity = ["answers rightly", metric, *teacher_identity(lm, asked.answer, asked.wording)]
    return Labeller("know", f"right answers of {lm.model} without passages", identity, label, calls=1)


def says_that_it_knows(lm: dspy.BaseLM, program: RAISF | None = None) -> Labeller:
    """Ask a language model whether it knows the answers (section 4.5).

    Args:
        lm: the teacher.
        program: the demonstrations of its `know` go into the prompts.
    """
    asked = program or RAISF()

    def label(item: Item) -> tuple[bool | None, int]:
        output, calls = ask_teacher(asked.know, lm, question=item.example.question)
        return (None if output is None else bool(output.knows)), calls

    return Labeller("know", f"what {lm.model} says it knows", teacher_identity(lm, asked.know), label, calls=1)
