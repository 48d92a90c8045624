"""Draft a question from passages with a language model, and check it."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import dspy
from pydantic import BaseModel

from knowgap.compiling.evaluation.metrics.answers import normalize_answer
from knowgap.compiling.evaluation.runner import fatal_cause, is_connection_error
from knowgap.compiling.questions.material import Material
from knowgap.compiling.teacher import ask_teacher
from knowgap.errors import LanguageModelError
from knowgap.programs.replies.text import text_of
from knowgap.retrieval.passage import Passage
from knowgap.retrieval.words import words
from knowgap.signatures import STYLES, JudgeAnswer
from knowgap.signatures.questions import AnswerIfSettled, ReadQuestion, WriteOneHop, WriteTwoHops

KINDS: dict[str, str] = {
    "one_hop": "one fact of one passage",
    "two_hop": "a fact about something that another passage tells",
}
"""The kinds of questions, and what each asks for."""

_STYLE = STYLES["short"]
_LONGEST_ANSWER = 12  # words


class Draft(BaseModel, extra="forbid"):
    """A question that was written, and what the checks found.

    Attributes:
        id: an id made from its kind and passages.
        kind: a key of `KINDS`.
        passages: id, title and text of each gold passage.
        question: empty if none was written.
        answer: short; worded as in the passages.
        aliases: the answer in other words, as found in the passages when the question was checked.
        from_memory: whether the language model knows the answer without a passage.
        dropped: why it is not kept; empty if it is.
    """

    id: str
    kind: str
    passages: list[dict[str, str]]
    question: str = ""
    answer: str = ""
    aliases: list[str] = []
    from_memory: bool = False
    dropped: str = ""

    def to_line(self) -> str:
        """The question in the layout of users' own questions, with the mark `from_memory`: a line of JSON Lines."""
        record: dict[str, Any] = {
            "id": self.id,
            "question": self.question,
            "answer": [self.answer, *self.aliases],
            "type": self.kind,
            "gold_ids": [passage["id"] for passage in self.passages],
            "from_memory": self.from_memory,
        }
        return json.dumps(record, ensure_ascii=False) + "\n"


def write_draft(lm: dspy.BaseLM, material: Material) -> Draft:
    """Have a language model write a question and check it; the first check that fails drops it.

    Raises:
        LanguageModelError: the language model does not answer, and would not answer other requests either.
    """
    draft = Draft(id=material.id, kind=material.kind, passages=[p.to_dict() for p in material.passages])
    try:
        _compose(draft, lm, material)
        _check_words(draft, material.passages)
        _check(draft, lm, list(material.passages))
    except _Dropped as reason:
        draft.dropped = str(reason)
    except LanguageModelError as error:
        cause = error.__cause__
        if cause is None or fatal_cause(cause) is not None or is_connection_error(cause):
            raise
        draft.dropped = "the language model refused the request"
    return draft


def _compose(draft: Draft, lm: dspy.BaseLM, material: Material) -> None:
    """Have the question written."""
    signature, link = (WriteTwoHops, {"link": material.link}) if material.kind == "two_hop" else (WriteOneHop, {})
    output = _ask(lm, signature, passages=list(material.passages), **link, style=_STYLE)
    draft.question, draft.answer = text_of(output, "question"), text_of(output)
    if not (output.possible and draft.question and draft.answer):
        raise _Dropped("the passages give no question of the kind")


def _check(draft: Draft, lm: dspy.BaseLM, passages: list[Passage]) -> None:
    """Have the question answered without passages, from all and from each."""

    def is_answer(answer: str) -> bool:
        """Whether it is the draft's answer: in the same words, or as the language model judges."""
        if not answer or normalize_answer(answer) == normalize_answer(draft.answer):
            return bool(answer)
        asked = {"question": draft.question, "prediction": answer, "reference": draft.answer}
        return bool(_ask(lm, JudgeAnswer, **asked).correct)

    read = _ask(lm, ReadQuestion, question=draft.question, style=_STYLE)
    if not read.clear:
        raise _Dropped("the question is not understood by itself")
    draft.from_memory = bool(read.knows) and is_answer(text_of(read))
    settled = _ask(lm, AnswerIfSettled, question=draft.question, passages=passages, style=_STYLE)
    if not settled.settled:
        raise _Dropped("its passages do not settle it")
    found = text_of(settled)
    if not is_answer(found):
        raise _Dropped("another answer is found in its passages")
    if normalize_answer(found) != normalize_answer(draft.answer) and len(found.split()) <= _LONGEST_ANSWER:
        draft.aliases = [found]
    for passage in passages if len(passages) > 1 else ():
        alone = _ask(lm, AnswerIfSettled, question=draft.question, passages=[passage], style=_STYLE)
        if alone.settled and is_answer(text_of(alone)):
            raise _Dropped("one of its two passages settles it")


def _ask(lm: dspy.BaseLM, signature: type[dspy.Signature], **inputs: Any) -> dspy.Prediction:
    output = ask_teacher(dspy.Predict(signature), lm, **inputs)
    if output is None:
        raise _Dropped("a reply of the language model could not be read")
    return output


class _Dropped(Exception):
    """Why a draft is dropped."""


def _check_words(draft: Draft, passages: Sequence[Passage]) -> None:
    """Look for what is wrong with a question and its answer without a language model."""
    answer, told = (normalize_answer(" ".join(words(text))) for text in (draft.answer, draft.question))
    read = {word for passage in passages for word in words(str(passage))}
    for reason, applies in (
        ("the answer has more than 12 words", len(words(draft.answer)) > _LONGEST_ANSWER),
        ("the answer stands in the question", f" {answer} " in f" {told} "),
        ("the answer is not worded as in the passages", not answer or not {*words(draft.answer)} <= read),
    ):
        if applies:
            raise _Dropped(reason)
