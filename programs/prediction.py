"""What a program returns: a prediction that says which passages support which statement of its answer."""

from __future__ import annotations

import copy
import functools
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import dspy

from knowgap.errors import shorten
from knowgap.programs.citations import MAX_CITATIONS, is_needed, joined, strip_numbers
from knowgap.programs.replies.outputs import fits_style
from knowgap.programs.trace.steps import Prompted
from knowgap.retrieval.passage import Passage
from knowgap.retrieval.sentences import split_sentences
from knowgap.signatures.values import is_unknown

if TYPE_CHECKING:
    from knowgap.retrieval.entailment.model import EntailmentModel

_IN_SENTENCES = ("long", "news")
"""Styles whose answers stand by themselves, without the question."""


@dataclass(frozen=True, slots=True)
class Citation:
    """A statement of an answer with the passages that support it.

    Attributes:
        statement: a sentence of a long answer, or the whole of a short one, without bracketed citations.
        passages: that entail the statement, in the order of the prediction; empty if none does.
        score: the probability, 0 to 1, that they entail it: that of the best one, or of all together. Without any, that
            of all passages of the prediction together.
        together: none of the passages entails the statement alone, all of them together do.
        own: ids of the passages that the language model wrote itself.
    """

    statement: str
    passages: tuple[Passage, ...]
    score: float
    together: bool = False
    own: tuple[str, ...] = ()

    @property
    def supported(self) -> bool:
        """Whether a passage supports the statement that the model did not write itself."""
        return any(passage.id not in self.own for passage in self.passages)

    def to_dict(self) -> dict[str, Any]:
        """The citation as a JSON-ready mapping, with passages by their ids."""
        return {
            "statement": self.statement,
            "supported": self.supported,
            "passages": [passage.id for passage in self.passages],
            "score": self.score,
            "together": self.together,
            "own": list(self.own),
        }


class CitedPrediction(dspy.Prediction):
    """What a program returns: `answer`, `passages`, `trace`, and `citations`, which are computed when they are read.

    Printed, it is the answer, the titles of the passages, and figures in a few lines.
    """

    _style = "short"
    _entailment: EntailmentModel | None = None

    def __init__(self, base: Any = None, **fields: Any):
        super().__init__(base, **fields)
        if isinstance(base, CitedPrediction):
            self._style, self._entailment = base._style, base._entailment

    @classmethod
    def of(cls, prediction: dspy.Prediction, style: str, entailment: EntailmentModel | None) -> CitedPrediction:
        """A prediction with the citations of its answer, which the entailment model or the embedded one judges."""
        cited = cls()
        vars(cited).update(vars(prediction))
        cited._style, cited._entailment = style, entailment
        return cited

    @property
    def citations(self) -> list[Citation]:
        """Which of the passages support which statement of the answer, as the entailment model judges.

        It is that of the program, if the program has one, else the embedded one. No language model is called. Empty if
        the answer is unknown.
        """
        own = {step.passage for step in self.trace.of(Prompted)}
        return cite_answer(self.trace.question, self.answer, self.passages, self._style, self._entailment, own=own)

    def __repr__(self) -> str:
        shown = {}
        for name, value in self.items():
            if name == "passages":
                shown[name] = [passage.title or passage.id for passage in value]
            elif not isinstance(value, (list, dict)):
                shown[name] = shorten(value) if isinstance(value, str) else value
        return f"Prediction({', '.join(f'{name}={value!r}' for name, value in shown.items())})"

    def __deepcopy__(self, memo: dict[int, Any]) -> CitedPrediction:
        twin = type(self)(self)
        memo[id(self)] = twin
        twin._store = copy.deepcopy(self._store, memo)
        return twin

    def __getstate__(self) -> dict[str, Any]:
        # Models are not for other processes.
        return {name: value for name, value in vars(self).items() if name != "_entailment"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state)


def cite_answer(
    question: str,
    answer: str,
    passages: Sequence[Passage],
    style: str = "short",
    entailment: EntailmentModel | None = None,
    *,
    own: set[str] | frozenset[str] = frozenset(),
) -> list[Citation]:
    """Find the passages that entail each statement of an answer.

    Of a long answer, each sentence is a statement, as in ALCE (Gao et al., 2023). A short answer says nothing without
    its question: its hypothesis is `The answer to the question "…" is "…"`, as in Attributed Question Answering (Bohnet
    et al., 2022). A statement rests on the passages that entail it alone. If none
    does, it rests on those that entail it together and are needed for that, up to three, as many as ALCE counts.

    Args:
        question: the question.
        answer: no statement is made of an answer that is empty or says that it is unknown.
        passages: the candidates.
        style: of the answer, one of `STYLES`. A choice is read as the text of the option.
        entailment: the model that judges, with its default threshold; None for the embedded one.
        own: ids of passages that the language model wrote itself.
    """
    if is_unknown(answer):
        return []
    model = entailment or _embedded()
    hypotheses = _hypotheses(question, answer, style)
    alone = iter(model.entails([(str(passage), each) for each in hypotheses.values() for passage in passages]))
    citations = []
    for statement, hypothesis in hypotheses.items():
        probabilities = [next(alone) for _ in passages]
        found, score, together = _support(model, hypothesis, passages, probabilities)
        written = tuple(passage.id for passage in found if passage.id in own)
        citations.append(Citation(statement, tuple(found), score, together, written))
    return citations


def _support(
    model: EntailmentModel, hypothesis: str, passages: Sequence[Passage], alone: Sequence[float]
) -> tuple[Sequence[Passage], float, bool]:
    """The passages that entail a hypothesis, with which probability, and whether only all of them together do.

    `alone` holds the probability that each passage entails it by itself.

    Where only all passages together entail it, those that are not needed for that are left out one by one, first those
    that entail it least.
    """

    def entails(some: Sequence[Passage]) -> float:
        return model.entails([(joined(some), hypothesis)])[0]

    threshold = model.default_threshold
    found = [passage for passage, probability in zip(passages, alone, strict=True) if probability >= threshold]
    if found:
        return found, max(alone), False
    score = entails(passages)
    if score < threshold:
        return [], score, False
    needed = list(passages)
    for position in sorted(range(len(passages)), key=lambda i: (alone[i], -i)):
        place = needed.index(passages[position])
        if not is_needed(place, needed, lambda some: entails(some) >= threshold):
            del needed[place]
    return (needed, entails(needed), True) if len(needed) <= MAX_CITATIONS else ([], score, False)


@functools.cache
def _embedded() -> EntailmentModel:
    from knowgap.retrieval.entailment.embedded import EmbeddedEntailment

    return EmbeddedEntailment()


def _hypotheses(question: str, answer: str, style: str) -> dict[str, str]:
    """What the entailment model reads for each statement of an answer."""
    if style == "choice":
        question, answer = _chosen_option(question, answer)
    text = strip_numbers(answer)
    sentences = [sentence for line in text.splitlines() for sentence in split_sentences(line)]
    sentences = [sentence for sentence in sentences if re.search(r"\w", sentence)]
    if style in _IN_SENTENCES or len(sentences) > 1 or (style == "sentence" and not fits_style(text, "short")):
        return {sentence: sentence for sentence in sentences}
    return {text.strip(): f'The answer to the question "{question.strip()}" is "{text.strip()}".'}


def _chosen_option(question: str, letter: str) -> tuple[str, str]:
    """The question without its lettered options, and the text of the chosen one; both as they are if it has none."""
    options = re.compile(r"^\s*\(?([A-Z]|\d)[.):]\s+(.+)$", re.MULTILINE)
    texts = dict(options.findall(question))
    chosen = texts.get(letter.strip("(). \n"))
    return (options.sub("", question).strip(), chosen) if chosen else (question, letter)
