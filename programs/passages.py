"""Passages as a language model reads and cites them, and what says which passages state a statement."""

from __future__ import annotations

import functools
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import dspy

from knowgap.programs.replies.asking import ask_until_read
from knowgap.programs.trace.recorder import RECORDER
from knowgap.retrieval.entailment import EntailmentModel, make_entailment
from knowgap.retrieval.grounding import GroundingEntailment
from knowgap.retrieval.passage import NeverCopied, Passage
from knowgap.retrieval.words import WORD
from knowgap.signatures import SourcePassage, WhichPassages


def number_passages(inputs: Mapping[str, Any], signature: Any = None) -> tuple[dict[str, Any], list[Passage]]:
    """Number the passages of each list of passages among a predictor's inputs, from 1.

    Returns:
        The inputs with `SourcePassage`s in place of passages, or with texts for a field of the type `list[str]`; and
        the passages themselves.
    """
    fields = getattr(signature, "input_fields", {})
    numbered, passages = dict(inputs), list[Passage]()
    for name, value in inputs.items():
        if isinstance(value, list) and any(isinstance(item, Passage) for item in value):
            if name in fields and fields[name].annotation == list[str]:
                numbered[name] = [str(passage) for passage in value]
            else:
                numbered[name] = [SourcePassage(id=n, title=p.title, text=p.text) for n, p in enumerate(value, start=1)]
            passages += value
    return numbered, passages


def cited(passages: Sequence[Passage], numbers: Iterable[int]) -> list[Passage]:
    """The passages that a model cites by number, each once, in the order of citation; unknown numbers are ignored."""
    known = [number for number in dict.fromkeys(numbers) if 1 <= number <= len(passages)]
    return [passages[number - 1] for number in known]


def distinct(passages: Iterable[Passage]) -> list[Passage]:
    """Each passage once, in order of first appearance."""
    return list({passage.id: passage for passage in passages}.values())


def knowledge_tokens(passages: Iterable[Passage]) -> int:
    """The number of words in the titles and texts of retrieved passages.

    These are the tokens of external knowledge that a language model reads (MIGRES, table 5).
    """
    return sum(len(WORD.findall(f"{passage.title} {passage.text}")) for passage in passages)


Claims = dict[str, list[Passage]]
"""The passages that each statement cites."""


def strip_numbers(text: str) -> str:
    """The text without the numbers of sources that a model wrote into it, `[1]` or `[1, 2]`; other brackets stay."""
    return re.sub(r" ?\[[1-9]\d*(?: ?, ?[1-9]\d*)*\]", "", text)


def merge_claims(claims: Iterable[tuple[str, Sequence[Passage]]]) -> Claims:
    """Join the passages of statements that occur several times."""
    merged: Claims = {}
    for statement, passages in claims:
        merged[statement] = distinct([*merged.get(statement, []), *passages])
    return merged


def read_claims(output: dspy.Prediction | None, passages: Sequence[Passage]) -> Claims:
    """The `statements` of a reply with the passages behind the cited numbers; none if the reply could not be read."""
    statements = (output.statements or ()) if output is not None else ()
    worded = ((" ".join(item.statement.split()), cited(passages, item.sources)) for item in statements)
    return merge_claims((statement, sources) for statement, sources in worded if statement)


def entailed_claims(entailment: EntailmentModel, claims: Claims, threshold: float | None = None) -> Claims:
    """The statements that a passage they cite entails, each with the cited passages that do (MIGRES, section 3.2).

    A passage entails a statement from the probability `threshold` on; None takes the model's own.
    """
    pairs = [(str(passage), statement) for statement, passages in claims.items() for passage in passages]
    probabilities = iter(entailment.entails(pairs))
    least = entailment.default_threshold if threshold is None else threshold
    entailing = {s: [p for p in passages if next(probabilities) >= least] for s, passages in claims.items()}
    return {statement: passages for statement, passages in entailing.items() if passages}


class LMEntailment(NeverCopied):
    """Asks the language model in DSPy's settings which of the premises state which of the hypotheses, in one call.

    It judges within a question, in whose costs the call counts; if `max_calls` leaves only the last call, the rule of
    `grounding` judges.
    """

    name = "lm"
    default_threshold = 0.5

    def __init__(self) -> None:
        self._which = dspy.Predict(WhichPassages)

    def entails(self, pairs: Sequence[tuple[str, str]]) -> list[float]:
        """1 for each (premise, hypothesis) pair of which the model says so, alone or with other premises, else 0.

        If the reply cannot be read, it says so of none.

        Raises:
            LMError: the language model does not answer.
        """
        recorder = RECORDER.get()
        if not pairs or recorder.calls_left <= 1:
            return GroundingEntailment().entails(pairs)
        premises, statements = (list(dict.fromkeys(texts)) for texts in zip(*pairs, strict=True))
        passages = [SourcePassage(id=n, title="", text=text) for n, text in enumerate(premises, start=1)]
        ask = functools.partial(ask_until_read, self._which, {"passages": passages, "statements": statements})
        with dspy.context(trace=None):  # no demonstration of a program
            reply = recorder.request_once(object(), ask)
        recorder.count_calls(reply.usage, read=reply.prediction is not None)
        named = (reply.prediction.sources or []) if reply.prediction is not None else []
        stated = {s: {int(n) for n in re.findall(r"\d+", each)} for s, each in zip(statements, named, strict=False)}
        number = {premise: n for n, premise in enumerate(premises, start=1)}
        return [float(number[premise] in stated.get(hypothesis, ())) for premise, hypothesis in pairs]


def entailment_of(given: EntailmentModel | str | None) -> EntailmentModel:
    """The model of a program's argument `entailment`: itself, by name, or the rule of `grounding` for None.

    Raises:
        CheckpointError: there is no model of this name.
    """
    if isinstance(given, str):
        return LMEntailment() if given == LMEntailment.name else make_entailment(given)
    return given or GroundingEntailment()
