"""Examples of the decomposition model: questions and their sub-questions."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

import dspy

from knowgap.compiling.teacher.asking import ask_teacher, teacher_identity
from knowgap.compiling.training.ra_isf.labelling import Item, Labeller
from knowgap.programs.ra_isf import RAISF
from knowgap.programs.replies.outputs import clean_lines
from knowgap.programs.sub_modules.sub_questions import REFERENCE

__all__ = ["decomposes", "refer_to_answers", "worded_sub_questions"]


def decomposes(lm: dspy.BaseLM, program: RAISF | None = None) -> Labeller:
    """Ask a language model to break the questions down (appendix A.3).

    Args:
        lm: the teacher.
        program: whether sub-questions refer to earlier answers (`chained`), how many there are at most, and the
            demonstrations that go into the prompts.
    """
    asked = program or RAISF()
    predictor = asked.chain if asked.chained else asked.decompose

    def label(item: Item) -> tuple[list[str] | None, int]:
        output, calls = ask_teacher(predictor, lm, question=item.example.question)
        questions, _ = clean_lines(output.questions if output is not None else (), asked.max_questions)
        return questions or None, calls

    identity = teacher_identity(lm, predictor, asked.max_questions)
    return Labeller("decompose", f"how {lm.model} decomposes", identity, label, calls=1)


def worded_sub_questions(*, chained: bool = True) -> Labeller:
    """Take the sub-questions that a data set has: no call, unlike the paper.

    Args:
        chained: put `#1`, `#2`, … for the answers to earlier sub-questions, which RA-ISF fills in; a question whose
            sub-questions need them has no label otherwise.
    """

    def label(item: Item) -> tuple[list[str] | None, int]:
        questions = refer_to_answers(item.example)
        refers = any(REFERENCE.search(question) for question in questions)
        return (questions if questions and (chained or not refers) else None), 0

    return Labeller("decompose", "sub-questions of the data set", ["worded", chained], label)


def refer_to_answers(example: dspy.Example) -> list[str]:
    """The sub-questions of a data set's question, with `#n` for answers to earlier ones that the question lacks.

    The answer to a sub-question is the one in the data set, or the object of an evidence triple that it names, where
    that answer is a sentence. StrategyQA's sub-questions have `#n` as they are.
    """
    steps: Sequence[Mapping[str, str]] = example.get("decomposition") or ()
    objects = [triple[2] for triple in example.get("evidences") or ()]
    told = example.question.casefold()
    answers: list[tuple[str, int]] = []  # a text, and the number of the sub-question that it answers
    questions: list[str] = []
    for number, step in enumerate(steps, start=1):
        question = " ".join(step["question"].split())
        for text, earlier in sorted(answers, key=lambda pair: -len(pair[0])):
            question = re.sub(rf"(?<!\w){re.escape(text)}(?!\w)", f"#{earlier}", question, flags=re.IGNORECASE)
        questions.append(question)
        answer = step.get("answer") or ""
        named = [text for text in objects if text.casefold() in answer.casefold()]
        answers += [
            (text, number) for text in dict.fromkeys([answer, *named]) if text.strip() and text.casefold() not in told
        ]
    return [question for question in questions if question]
