"""Find questions that ask the same as earlier ones."""

from __future__ import annotations

import numpy as np

from knowgap.compiling.evaluation.metrics.normalize import normalize_answer

_SIMILAR = 0.85
"""Cosine of two sentence vectors.

Of 864 questions of HotpotQA, 2WikiMultihopQA, NQ and the sample, no two with the same answer come so near; of ten pairs
of wordings of one question, nine do. Without the answer, similarity says little: "Where was Ada Venn born?" and "When
was Ada Venn born?" have 0.97.
"""


class RepetitionFilter:
    """Remembers questions, and tells whether another one asks the same.

    It does if it has the same words as an earlier one, or is similar to one with the same answer, by MiniLM.
    """

    def __init__(self) -> None:
        self._texts: set[str] = set()
        self._vectors: dict[str, list[np.ndarray]] = {}

    def repeats(self, question: str, answer: str) -> bool:
        """Whether a question repeats an earlier one; if it does not, it is remembered."""
        from knowgap.retrieval.minilm import sentence_encoder

        text, key = " ".join(question.casefold().split()), normalize_answer(answer)
        [vector] = sentence_encoder().encode([question])
        near = any(float(vector @ other) >= _SIMILAR for other in self._vectors.get(key, ()))
        if near or text in self._texts:
            return True
        self._texts.add(text)
        self._vectors.setdefault(key, []).append(vector)
        return False
