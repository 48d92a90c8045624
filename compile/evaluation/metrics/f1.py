"""Token F1 under HotpotQA's rule for yes and no."""

from __future__ import annotations

from collections import Counter
from typing import Any

from knowgap.compiling.evaluation.metrics.normalize import normalize_answer, predicted_answer, reference_answers

__all__ = ["f1", "token_f1"]

_CLOSED = frozenset({"yes", "no", "noanswer"})


def token_f1(answer: str, reference: str) -> float:
    """Harmonic mean of token precision and recall of two normalised answers, in [0, 1].

    Tokens are counted with multiplicity. If either answer is `yes`, `no` or `noanswer` and the two differ, the score is
    0, as in the HotpotQA evaluation script (Yang et al., 2018).
    """
    left, right = normalize_answer(answer), normalize_answer(reference)
    if left != right and (left in _CLOSED or right in _CLOSED):
        return 0.0
    left_tokens, right_tokens = left.split(), right.split()
    same = sum((Counter(left_tokens) & Counter(right_tokens)).values())
    if same == 0:
        return 0.0
    precision, recall = same / len(left_tokens), same / len(right_tokens)
    return 2 * precision * recall / (precision + recall)


def f1(example: Any, prediction: Any, trace: Any = None) -> float:
    """The best `token_f1` of the prediction over the example's answer and aliases."""
    answer = predicted_answer(prediction)
    if answer is None:
        return 0.0
    return max(token_f1(answer, reference) for reference in reference_answers(example))
