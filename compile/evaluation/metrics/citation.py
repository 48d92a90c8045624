"""Citation recall and precision by entailment (ALCE: Gao et al., 2023, section 4).

An answer cites with numbers in brackets, `[1]` for the first of the prediction's passages. Recall is the fraction of
its sentences that their cited passages, taken together, entail. Precision is the fraction of its citations that are
needed: the cited passages entail the sentence, and either this one alone does, or the others without it do not.
ALCE splits sentences with nltk; here `knowgap.retrieval.split_sentences` does.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from knowgap.compiling.evaluation.metrics.normalize import predicted_answer
from knowgap.errors import UsageError
from knowgap.programs.statements import MAX_CITATIONS, entailment_of, strip_citations

if TYPE_CHECKING:
    from knowgap.retrieval.entailment import EntailmentModel

_BETWEEN = "\u2060"  # no word ends here
_Claim = tuple[str, list[int]]
"""A sentence with the positions of the passages that it cites."""


def score_citations(answer: str, passages: Sequence[Any], entailment: EntailmentModel) -> tuple[float, float]:
    """Citation recall and precision of an answer; passages entail a sentence if the probability is at least 0.5.

    The model is asked once about all sentences, and once more where supported sentences have several citations.

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

    def judge(claims: Sequence[_Claim]) -> list[bool]:
        pairs = [("\n".join(texts[n] for n in cited), claim) for claim, cited in claims]
        return [probability >= 0.5 for probability in entailment.entails(pairs)] if pairs else []

    claims = list[_Claim]()
    for sentence in sentences:
        cited = [int(number) - 1 for number in re.findall(r"\[(\d+)", sentence)]
        if cited and all(0 <= n < len(texts) for n in cited):
            claims.append((strip_citations(sentence).strip(), cited[:MAX_CITATIONS]))
    supported = [claim for claim, held in zip(claims, judge(claims), strict=True) if held]
    several = [(claim, cited) for claim, cited in supported if len(cited) > 1]
    alone = [(claim, [n]) for claim, cited in several for n in cited]
    others = [(claim, [*cited[:i], *cited[i + 1 :]]) for claim, cited in several for i in range(len(cited))]
    held = judge([*alone, *others])
    needed = len(supported) - len(several)  # a single citation is needed
    needed += sum(by_itself or not without for by_itself, without in zip(held, held[len(alone) :], strict=False))
    citations = sum(len(cited) for _, cited in claims)
    return len(supported) / len(sentences) if sentences else 0.0, needed / citations if citations else 0.0


class CitationRecall:
    """Fraction of the answer's sentences that the passages they cite entail.

    Args:
        entailment: the model that judges, or its name: `lm` is the language model in DSPy's settings. There is no
            default, since the rule of `grounding` reads words, and would reward answers that copy.

    Raises:
        UsageError: the name is empty.
        CheckpointError: there is no model of this name.
    """

    name = "citation_recall"

    def __init__(self, entailment: EntailmentModel | str) -> None:
        if not entailment:
            raise UsageError(
                f"metric {self.name} needs a model that says what passages state: {self.name}@lm asks the language "
                f"model, {self.name}@MODEL a model of natural language inference (its folder or hub name)"
            )
        self.entailment = entailment_of(entailment)

    def __call__(self, example: Any, prediction: Any, trace: Any = None) -> float:
        """The prediction's citation recall; 0 without an answer."""
        return self._scores(prediction)[0]

    def _scores(self, prediction: Any) -> tuple[float, float]:
        passages = getattr(prediction, "passages", None) or []
        return score_citations(predicted_answer(prediction) or "", passages, self.entailment)


class CitationPrecision(CitationRecall):
    """Fraction of the answer's citations that are needed; see `CitationRecall` for the arguments."""

    name = "citation_precision"

    def __call__(self, example: Any, prediction: Any, trace: Any = None) -> float:
        """The prediction's citation precision; 0 without an answer."""
        return self._scores(prediction)[1]
