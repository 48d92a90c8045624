"""Causal and sequence-to-sequence models that judge by the probability of labels, or write sub-questions."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import Future
from pathlib import Path
from typing import Any, TypeVar

from knowgap.errors import CheckpointError
from knowgap.lms.local.engine import HFEngine
from knowgap.lms.local.jobs import GenerationJob, ScoringJob
from knowgap.lms.local.prompts import check_window
from knowgap.lms.ra_isf.card import SEPARATOR, SubModelCard

__all__ = ["LabelReader", "fit_prompt", "target_ids"]

T = TypeVar("T")

_MOST_WRITTEN = 256  # tokens of all sub-questions together


class LabelReader:
    """A model that is asked as its card says. Calls of several threads are answered in batches.

    Args:
        folder: of the model, or its name on the hub.
        card: how it is asked.
        device: where to compute; None takes a GPU if there is one.

    Raises:
        CheckpointError: its tokenizer does not tell its labels apart, or cannot write what separates sub-questions.
        LanguageModelError: it cannot be loaded.
    """

    def __init__(self, folder: str | Path, card: SubModelCard, device: str | None = None) -> None:
        self._card = card
        self._local, self._queue = HFEngine(str(folder), device=device).load()
        tokenizer = self._local.tokenizer
        labels = [target_ids(tokenizer, card, label) for label in card.labels or ()]
        if card.labels and (not all(labels) or labels[0] == labels[1]):
            raise CheckpointError(f"{folder}: its tokenizer does not tell {' and '.join(card.labels)} apart")
        written = tokenizer.decode(target_ids(tokenizer, card, f"a {SEPARATOR} #1"), skip_special_tokens=True)
        if card.task == "decompose" and not (SEPARATOR in written and "#" in written):
            raise CheckpointError(f"{folder}: its tokenizer cannot write {SEPARATOR!r} and '#'")
        self._labels = [[*label, *self._local.end_ids[-1:]] for label in labels]

    def probabilities(self, inputs: Sequence[tuple[str, str]]) -> list[float]:
        """The probability of yes, against no, for each (question, passage)."""
        from scipy.special import expit

        jobs = [ScoringJob(self._encode(question, passage), self._labels) for question, passage in inputs]
        scores = self._results([self._queue.submit(job) for job in jobs])
        return [float(expit(sum(yes) - sum(no))) for no, yes in scores]

    def generate(self, questions: Sequence[str]) -> list[str]:
        """The most likely text after the prompt of each question, decoded greedily."""
        rows = [self._encode(question, "") for question in questions]
        limit = min(_MOST_WRITTEN, self._card.max_tokens)
        jobs = [GenerationJob(row, check_window(self._local, len(row), limit)) for row in rows]
        replies = self._results([self._queue.submit(job) for job in jobs])
        return [self._local.tokenizer.decode(reply.tokens, skip_special_tokens=True) for reply in replies]

    def _encode(self, question: str, passage: str) -> list[int]:
        text = fit_prompt(self._local.tokenizer, self._card, question, passage)
        return self._local.tokenizer(text, truncation=True, max_length=self._card.max_tokens)["input_ids"]

    def _results(self, futures: Sequence[Future[T]]) -> list[T]:
        """Wait for all results; whoever stops waiting cancels them."""
        try:
            return [future.result() for future in futures]
        except BaseException:
            for future in futures:
                future.cancel()
            raise


def fit_prompt(tokenizer: Any, card: SubModelCard, question: str, passage: str = "") -> str:
    """Fill in the prompt of a card; of the passage, and then of the question, as much as there is room for."""
    for _ in range(2):
        whole = card.prompt.format(question=question, passage=passage)
        surplus = len(tokenizer(whole, truncation=False, verbose=False)["input_ids"]) - card.max_tokens
        if surplus <= 0:
            return whole
        if passage:
            passage = _cut(tokenizer, passage, surplus)
        else:
            question = _cut(tokenizer, question, surplus)
    return card.prompt.format(question=question, passage=passage)


def _cut(tokenizer: Any, text: str, surplus: int) -> str:
    """The text without so many tokens at its end."""
    tokens = tokenizer(text, add_special_tokens=False, truncation=False, verbose=False)["input_ids"]
    return tokenizer.decode(tokens[: max(0, len(tokens) - surplus)], skip_special_tokens=True)


def target_ids(tokenizer: Any, card: SubModelCard, target: str) -> list[int]:
    """The tokens of what follows the prompt, without the one that ends it."""
    text = target if card.kind == "seq2seq" else f" {target}"
    return tokenizer(text, add_special_tokens=False, truncation=False, verbose=False)["input_ids"]
