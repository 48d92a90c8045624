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
from knowgap.retrieval.lexical import FUNCTION_WORDS, words
from knowgap.retrieval.passage import Passage
from knowgap.retrieval.sentences import split_sentences
from knowgap.signatures.values import is_unknown

if TYPE_CHECKING:
    from knowgap.programs.trace.trace import Trace
    from knowgap.retrieval.entailment.model import EntailmentModel

NOT_SUPPORTED = "Your documents do not say this."
"""How an answer in sentences begins if what was read does not state it."""
_IN_SENTENCES = ("long", "news")
"""Styles whose answers can be understood without the question."""


@dataclass(frozen=True, slots=True)
class Citation:
    """A statement of an answer with the passages that support it.

    Attributes:
        statement: a sentence of a long answer, or the whole of a short one, without bracketed citations.
        passages: the passages that entail the statement, in the order of the prediction; empty if none does.
        score: the probability, 0 to 1, that the passages entail the statement: that of the best passage, or of all of
            them if `together`. If `passages` is empty, the probability that all passages of the prediction together
            entail it.
        together: whether the passages entail the statement only together, and none of them alone.
        own: ids of the passages that the language model wrote itself.
    """

    statement: str
    passages: tuple[Passage, ...]
    score: float
    together: bool = False
    own: tuple[str, ...] = ()

    @property
    def supported(self) -> bool:
        """Whether at least one passage that supports the statement was retrieved, not written by the model."""
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


def say_unsupported(question: str, guess: str, missing: str, explanation: str) -> str:
    """An answer in sentences that says that the documents do not answer the question, and what is missing.

    If the question is not in English, the model's explanation, which is in the question's language, says so.
    """
    english = not FUNCTION_WORDS.isdisjoint(words(question))
    said = [NOT_SUPPORTED] if english or not explanation else [explanation]
    if missing and said == [NOT_SUPPORTED]:
        said.append(f"Missing: {missing.rstrip('.')}.")
    if guess:
        said.append(f"A guess: {guess}")
    return " ".join(said)


class CitedPrediction(dspy.Prediction):
    """What a program returns: `answer`, `passages`, `trace`, and `citations`, which are computed when they are read.

    `supported` says whether what was read states the answer; it is None if the program does not judge that. `missing`
    is what is still missing, and `guess` an answer that is not supported; both may be empty.

    Its `repr` shows the titles of the passages, and all other fields except lists and dictionaries.
    """

    _style = "short"
    _entailment: EntailmentModel | None = None

    def __init__(self, base: Any = None, **fields: Any):
        super().__init__(base, **fields)
        if isinstance(base, CitedPrediction):
            self._style, self._entailment = base._style, base._entailment

    @classmethod
    def of(
        cls, prediction: dspy.Prediction, trace: Trace, style: str = "short", entailment: EntailmentModel | None = None
    ) -> CitedPrediction:
        """Make a prediction whose citations this entailment model judges, or the embedded one if it is None.

        The answer is its last field, which `dspy.majority` compares.

        Raises:
            TypeError: it is not what a program's `forward` has to return.
        """
        if not (isinstance(prediction, dspy.Prediction) and {"answer", "passages"} <= {*prediction.keys()}):
            raise TypeError(f"forward returned {prediction!r:.200}: end it with self.conclude(answer, passages)")
        cited = cls()
        vars(cited).update(vars(prediction))
        cited._store = {"supported": None, "missing": "", "guess": "", **prediction, "trace": trace}
        cited._store["answer"] = cited._store.pop("answer")
        cited._style, cited._entailment = style, entailment
        return cited

    @property
    def nearest(self) -> list[Passage]:
        """The passages nearest to an answer that is not supported; empty if it is, or if that was not judged."""
        return list(self.passages) if self.supported is False else []

    @property
    def citations(self) -> list[Citation]:
        """The statements of the answer, each with the passages that entail it; empty if the answer is unknown.

        The program's entailment model judges, or the embedded one if the program has none. No language model is called.
        """
        if self.supported is False and self._style == "sentence":
            return []
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
        # The entailment model is not pickled.
        return {name: value for name, value in vars(self).items() if name != "_entailment"}


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

    Each sentence of a long answer is a statement, as in ALCE (Gao et al., 2023). A short answer is joined with its
    question in the hypothesis `The answer to the question "…" is "…"`, as in Attributed Question Answering (Bohnet et
    al., 2022). The passages that entail a statement alone support it. If none does, those that entail it together and
    are needed for that support it, at most three, the number that ALCE counts.

    Args:
        question: the question.
        answer: the answer; one that is empty or unknown has no statements.
        passages: the candidates.
        style: the style of the answer, one of `STYLES`. The letter of a choice is replaced by the text of its option.
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
    """Find the passages that entail a hypothesis; return them, the probability, and whether they do so only together.

    `alone` holds the probability that each passage entails the hypothesis by itself. If only all passages together
    entail it, those that are not needed are left out one by one, the least probable first.
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
    """The hypothesis that the entailment model reads for each statement of an answer."""
    if style == "choice":
        question, answer = _chosen_option(question, answer)
    text = strip_numbers(answer)
    sentences = [sentence for line in text.splitlines() for sentence in split_sentences(line)]
    sentences = [sentence for sentence in sentences if re.search(r"\w", sentence)]
    if style in _IN_SENTENCES or len(sentences) > 1 or (style == "sentence" and not fits_style(text, "short")):
        return {sentence: sentence for sentence in sentences}
    return {text.strip(): f'The answer to the question "{question.strip()}" is "{text.strip()}".'}


def _chosen_option(question: str, letter: str) -> tuple[str, str]:
    """The question without its lettered options, and the text of the chosen one; both unchanged if it has none."""
    options = re.compile(r"^\s*\(?([A-Z]|\d)[.):]\s+(.+)$", re.MULTILINE)
    texts = dict(options.findall(question))
    chosen = texts.get(letter.strip("(). \n"))
    return (options.sub("", question).strip(), chosen) if chosen else (question, letter)
