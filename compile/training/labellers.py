"""Where the labels of RA-ISF's sub-models come from: a teacher, or the data set (appendix A)."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence

import dspy

from knowgap.compiling.evaluation.metrics import get_metric
from knowgap.compiling.evaluation.provenance import lm_name, lm_settings
from knowgap.compiling.teacher import ask_teacher
from knowgap.compiling.training.labelling import Item, Labeller
from knowgap.errors import UsageError
from knowgap.programs.ra_isf import RAISF
from knowgap.programs.replies.outputs import clean_lines
from knowgap.programs.sub_modules import REFERENCE
from knowgap.retrieval.passage import Passage, Retriever

_QUESTIONS_AT_ONCE = 64


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

    identity = ["answers rightly", metric, *_identity(lm, asked.answer, asked.wording)]
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

    return Labeller("know", f"what {lm.model} says it knows", _identity(lm, asked.know), label, calls=1)


def retrieve_items(
    examples: Sequence[dspy.Example], retriever: Retriever, k: int = 5, corpus: Iterable[Passage] = ()
) -> list[Item]:
    """Each question with the `k` best passages (appendix A.2), and with its gold passages that are not among them.

    Args:
        examples: the questions.
        retriever: as RA-ISF will search with.
        k: passages of each question; 5 in the paper's runs.
        corpus: where gold passages are looked up; none of them is added without it.
    """
    passages = {passage.id: passage for passage in corpus}
    items: list[Item] = []
    for start in range(0, len(examples), _QUESTIONS_AT_ONCE):
        asked = examples[start : start + _QUESTIONS_AT_ONCE]
        found = retriever.search([example.question for example in asked], k)
        for example, hits in zip(asked, found, strict=True):
            retrieved = {hit.passage.id: hit.passage for hit in hits}
            gold = {id: passages[id] for id in example.get("gold_ids") or () if id in passages}
            items += [Item(example, passage) for passage in (gold | retrieved).values()]
    return items


def judges_relevance(lm: dspy.BaseLM, program: RAISF | None = None) -> Labeller:
    """Ask a language model about each passage by itself (appendix A.2).

    Args:
        lm: the teacher.
        program: the demonstrations of its `relevance` go into the prompts.
    """
    asked = program or RAISF()

    def label(item: Item) -> tuple[bool | None, int]:
        inputs = {"question": item.example.question, "passage": str(item.passage)}
        output, calls = ask_teacher(asked.relevance, lm, **inputs)
        return (None if output is None else bool(output.relevant)), calls

    return Labeller("relevant", f"what {lm.model} finds relevant", _identity(lm, asked.relevance), label, calls=1)


def gold_passages() -> Labeller:
    """Take a data set's gold passages for relevant, and all others for irrelevant: no call, unlike the paper."""

    def label(item: Item) -> tuple[bool | None, int]:
        gold = item.example.get("gold_ids")
        if not gold:
            return None, 0
        if item.passage is None:
            raise UsageError(f"no passage is given for {item.example.question!r}")
        return item.passage.id in gold, 0

    return Labeller("relevant", "gold passages of the data set", "gold passages", label)


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

    identity = _identity(lm, predictor, asked.max_questions)
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


def _identity(lm: dspy.BaseLM, predictor: dspy.Predict, *more: object) -> list[object]:
    """What decides the replies of a language model to a predictor, as JSON values."""
    state = {name: value for name, value in predictor.dump_state().items() if name in ("demos", "signature")}
    return [lm_name(lm), lm_settings(lm), state, *more]
