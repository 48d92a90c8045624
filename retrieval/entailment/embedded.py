"""The entailment model that needs no download."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from knowgap.errors import CheckpointError
from knowgap.retrieval.entailment.features import FEATURES, EntailmentFeatures, stemmed
from knowgap.retrieval.lexical import content_words
from knowgap.retrieval.logistic import expit
from knowgap.retrieval.minilm import MINILM_DIGEST, sentence_encoder
from knowgap.retrieval.rerankers.relevance import coverage
from knowgap.retrieval.rerankers.reranker import PairScorer, cached
from knowgap.storage.files import json_digest, write_json

_NAME = "entailment.json"
_FRAME = re.compile(r'The answer to the question "(.*)" is "(.*?)\.?"\.?', re.DOTALL)
_LEAST_OF_ANSWER = 0.5  # the share of an answer's words that must be in a premise


@dataclass(frozen=True)
class EntailmentWeights:
    """A logistic regression over the features.

    Attributes:
        coefficients: one for each of `FEATURES`, in their order.
        intercept: the log-odds if all features are 0.
    """

    coefficients: npt.NDArray[np.float64]
    intercept: float

    def probabilities(self, features: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
        """The probability of entailment, [pairs], for each row of features, [pairs, features]."""
        return expit(features @ self.coefficients + self.intercept)

    def save(self, folder: str | Path) -> None:
        """Write `entailment.json`, with its own digest."""
        weights = dict(zip(FEATURES, self.coefficients.tolist(), strict=True)) | {"intercept": self.intercept}
        write_json(Path(folder) / _NAME, {"weights": weights, "encoder": MINILM_DIGEST, "sha256": json_digest(weights)})

    @classmethod
    def load(cls, folder: str | Path | None = None) -> EntailmentWeights:
        """Read the weights that `save` wrote to a folder; None takes those that come with the package.

        Raises:
            CheckpointError: the file is missing or damaged, or belongs to another encoder.
        """
        path = Path(folder or Path(__file__).parent) / _NAME
        try:
            record: dict[str, Any] = json.loads(path.read_text("utf-8"))
            weights = record["weights"]
            intact = record["sha256"] == json_digest(weights) and record["encoder"] == MINILM_DIGEST
            coefficients = np.array([float(weights[name]) for name in FEATURES])
            intercept = float(weights["intercept"])
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise CheckpointError(f"{path}: no weights of the embedded entailment model ({error!r})") from error
        if not intact:
            raise CheckpointError(f"{path}: damaged, or made for another encoder; reinstall knowgap, or train it again")
        return cls(coefficients, intercept)


class EmbeddedEntailment(PairScorer):
    """A logistic regression over features of premise and hypothesis, from their words and from MiniLM.

    It does not model inference. The features are how much of the hypothesis the premise covers, in words and in
    meaning; the names and numbers that the premise lacks; negation; and the order of names. A name counts as found by
    its last word unless another name that ends with that word comes first. The model seldom notices a wrong name or
    answer that also occurs in the premise, or two names that changed roles; `entailment_card.md` has the figures.
    `benchmarks/train_bundled_models.py` trains it. If the hypothesis says that something is the answer to a question,
    at least half of the answer's words, by rarity, must be in the premise; otherwise the probability is 0.

    Args:
        folder: the folder of trained weights; None takes those that come with the package.

    Raises:
        CheckpointError: the weights are missing or damaged.
    """

    def __init__(self, folder: str | Path | None = None) -> None:
        super().__init__(Path(folder or Path(__file__).parent) / _NAME)
        self.name = "embedded logistic regression over words and MiniLM"
        self.default_threshold = 0.5
        self._weights, self._features = EntailmentWeights.load(folder), EntailmentFeatures()

    @cached
    def entails(self, pairs: Sequence[tuple[str, str]]) -> list[float]:
        """A probability for each (premise, hypothesis) pair; 0 if either is blank."""
        probabilities = np.zeros(len(pairs))
        read = {}
        for i, (premise, hypothesis) in enumerate(pairs):
            unframed, answer = _unframed(hypothesis)
            if premise.strip() and hypothesis.strip() and self._is_there(answer, premise):
                read[i] = (premise, unframed)
        if read:
            probabilities[[*read]] = self._weights.probabilities(self._features([*read.values()]))
        return [round(float(value), 4) for value in probabilities]

    def _is_there(self, answer: str, premise: str) -> bool:
        words = content_words(answer)
        rarity = sentence_encoder().rarity(words)
        return not words or coverage(words, rarity, premise, stemmed) >= _LEAST_OF_ANSWER


def _unframed(hypothesis: str) -> tuple[str, str]:
    """Remove the template that Attributed Question Answering puts around question and answer; also return the answer.

    The words of the template are in no premise. A yes or no is removed too, since the model cannot tell them apart.
    """
    if (match := _FRAME.fullmatch(hypothesis.strip())) is None:
        return hypothesis, ""
    question, answer = match.groups()
    answer = "" if answer.lower() in ("yes", "no") else answer
    return f"{question.rstrip('?')} {answer}".strip() + ".", answer
