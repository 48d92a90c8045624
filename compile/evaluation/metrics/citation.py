"""Citation recall and precision by entailment (ALCE: Gao et al., 2023, section 4).

An answer cites with numbers in brackets, `[1]` for the first of the prediction's passages. Recall is the fraction of
its sentences that their cited passages, taken together, entail. Precision is the fraction of its citations that are
needed: the cited passages entail the sentence, and either this one alone does, or the others without it do not.
ALCE splits sentences with nltk; here `knowgap.retrieval.split_sentences` does.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from knowgap.compiling.evaluation.metrics.normalize import predicted_answer
from knowgap.programs.citations import MAX_CITATIONS, is_needed, strip_citations

if TYPE_CHECKING:
    from knowgap.retrieval.entailment.model import EntailmentModel

_BETWEEN = "\u2060"  # no word ends here


class _Scores(NamedTuple):
    recall: float
    precision: float


def score_citations(answer: str, passages: Sequence[Any], entailment: EntailmentModel) -> _Scores:
    """Citation recall and precision of an answer; passages entail a sentence if the probability is at least 0.5.

    Args:
        answer: text with citations; only its first paragraph counts, and in each sentence the first `MAX_CITATIONS`.
        passages: `[1]`, `[2]`, … in this order, each with `title` and `text`.
        entailment: judges pairs of passage text and sentence.

    Returns:
        Both in [0, 1]; a sentence that cites nothing, or a passage that does not exist, is not supported.
    """
    from knowgap.retrieval.sentences import split_sentences

    # Otherwise, a full stop after `[1][2]` would not end a sentence.
    marked = answer.strip().split("\n")[0].replace("][", _BETWEEN)
    sentences = [sentence.replace(_BETWEEN, "][") for sentence in split_sentences(marked)]
    texts = [f"Title: {passage.title}\n{passage.text}" for passage in passages]

    def holds(claim: str, cited: Sequence[int]) -> bool:
        return entailment.entails([("\n".join(texts[n] for n in cited), claim)])[0] >= 0.5

    supported = needed = citations = 0
    for sentence in sentences:
        cited = [int(number) - 1 for number in re.findall(r"\[(\d+)", sentence)]
        if not cited or not all(0 <= n < len(texts) for n in cited):
            continue
        cited = cited[:MAX_CITATIONS]
        citations += len(cited)
        claim = strip_citations(sentence).strip()
        if not holds(claim, cited):
            continue
        supported += 1
        needed += sum(is_needed(place, cited, functools.partial(holds, claim)) for place in range(len(cited)))
    return _Scores(supported / len(sentences) if sentences else 0.0, needed / citations if citations else 0.0)


class CitationRecall:
    """Fraction of the answer's sentences that the passages they cite entail.

    Args:
        entailment: the model that judges; default: the embedded one.
    """

    def __init__(self, entailment: EntailmentModel | None = None) -> None:
        self.entailment = entailment

    def score(self, prediction: Any) -> _Scores:
        """Both scores of a prediction with `answer` and `passages`; 0 and 0 without an answer."""
        answer = predicted_answer(prediction)
        if answer is None:
            return _Scores(0.0, 0.0)
        if self.entailment is None:
            from knowgap.retrieval import EmbeddedEntailment

            self.entailment = EmbeddedEntailment()
        return score_citations(answer, getattr(prediction, "passages", None) or [], self.entailment)

    def __call__(self, example: Any, prediction: Any, trace: Any = None) -> float:
        """The prediction's citation recall."""
        return self.score(prediction).recall


class CitationPrecision(CitationRecall):
    """Fraction of the answer's citations that are needed; see `CitationRecall` for the arguments."""

    def __call__(self, example: Any, prediction: Any, trace: Any = None) -> float:
        """The prediction's citation precision."""
        return self.score(prediction).precision
