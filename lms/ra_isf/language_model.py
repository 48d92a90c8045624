"""Causal and sequence-to-sequence models: the log-probabilities of labels, and greedy text."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from knowgap.errors import CheckpointError, shorten
from knowgap.lms.ra_isf.card import SEPARATOR, SubModelCard

__all__ = ["LabelReader", "fit_prompt", "load_pretrained", "target_ids"]

_TOKENS_PER_BATCH = 4096


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


def load_pretrained(folder: str | Path, auto_class: str, device: str | None = None) -> tuple[Any, Any]:
    """Load a tokenizer and a model: a class of Transformers' Auto classes, in the precision it was saved with.

    Raises:
        CheckpointError: it cannot be loaded.
    """
    import torch
    import transformers
    from transformers.utils import logging

    shows_progress = logging.is_progress_bar_enabled()
    logging.disable_progress_bar()
    try:
        tokenizer = transformers.AutoTokenizer.from_pretrained(str(folder))
        dtype = "auto" if torch.cuda.is_available() else torch.float32
        model: Any = getattr(transformers, auto_class).from_pretrained(str(folder), dtype=dtype)
    except (OSError, ValueError, KeyError) as error:
        raise CheckpointError(f"{folder}: cannot be loaded ({shorten(error, 200)})") from error
    finally:
        if shows_progress:
            logging.enable_progress_bar()
    return tokenizer, model.to(device or ("cuda" if torch.cuda.is_available() else "cpu")).eval()


class LabelReader:
    """A causal or sequence-to-sequence model that is asked as its card says. Thread-safe.

    Args:
        tokenizer: of the model.
        model: of Transformers, ready to compute.
        card: what it was trained to do.

    Raises:
        CheckpointError: its tokenizer does not tell its labels apart, or has no token for what separates sub-questions.
    """

    def __init__(self, tokenizer: Any, model: Any, card: SubModelCard) -> None:
        self._tokenizer, self._model, self._card = tokenizer, model, card
        self._lock = threading.Lock()
        self._labels = [target_ids(tokenizer, card, label) for label in card.labels or ()]
        if card.labels and (not all(self._labels) or self._labels[0] == self._labels[1]):
            raise CheckpointError(f"{card.base}: its tokenizer does not tell {' and '.join(card.labels)} apart")
        written = tokenizer.decode(target_ids(tokenizer, card, f"a {SEPARATOR} #1"), skip_special_tokens=True)
        if card.task == "decompose" and not (SEPARATOR in written and "#" in written):
            raise CheckpointError(f"{card.base}: its tokenizer cannot write {SEPARATOR!r} and '#'")

    def probabilities(self, inputs: Sequence[tuple[str, str]]) -> list[float]:
        """The probability of yes, against no, for each (question, passage)."""
        with self._lock:
            rows = [self._encode(question, passage) for question, passage in inputs]
            scores = np.array([self._label_scores(rows, label) for label in self._labels])
        return (1 / (1 + np.exp(np.clip(scores[0] - scores[1], -50, 50)))).tolist()

    def generate(self, questions: Sequence[str]) -> list[str]:
        """The most likely text after the prompt of each question, decoded greedily."""
        import torch

        texts = [""] * len(questions)
        with self._lock, torch.inference_mode():
            rows = [self._encode(question, "") for question in questions]
            for batch in _batches(rows, 2):
                ids, mask = self._pad([rows[i] for i in batch], left=self._card.kind == "causal")
                output = self._model.generate(
                    ids,
                    attention_mask=mask,
                    max_new_tokens=self._card.max_tokens,
                    do_sample=False,
                    num_beams=1,
                    pad_token_id=self._padding,
                    eos_token_id=self._tokenizer.eos_token_id,
                )
                start = ids.shape[1] if self._card.kind == "causal" else 1
                for i, tokens in zip(batch, output[:, start:].tolist(), strict=True):
                    texts[i] = self._tokenizer.decode(tokens, skip_special_tokens=True)
        return texts

    @property
    def _padding(self) -> int:
        tokenizer = self._tokenizer
        return tokenizer.pad_token_id if tokenizer.pad_token_id is not None else tokenizer.eos_token_id

    def _encode(self, question: str, passage: str) -> list[int]:
        text = fit_prompt(self._tokenizer, self._card, question, passage)
        return self._tokenizer(text, truncation=True, max_length=self._card.max_tokens)["input_ids"]

    def _pad(self, rows: Sequence[Sequence[int]], *, left: bool = False) -> tuple[Any, Any]:
        """Token ids and attention mask, tensors [rows, longest row]."""
        import torch

        width = max(map(len, rows))
        filled = [[self._padding] * (width - len(row)) for row in rows]
        mask = [[0] * len(fill) + [1] * len(row) if left else [1] * len(row) + [0] * len(fill)
                for row, fill in zip(rows, filled, strict=True)]  # fmt: skip
        ids = [[*fill, *row] if left else [*row, *fill] for row, fill in zip(rows, filled, strict=True)]
        return torch.tensor(ids, device=self._model.device), torch.tensor(mask, device=self._model.device)

    def _label_scores(self, rows: Sequence[Sequence[int]], label: Sequence[int]) -> npt.NDArray[np.float64]:
        """The natural log-probability of a label after each prompt, [prompts]."""
        import torch

        scores = np.zeros(len(rows))
        seq2seq = self._card.kind == "seq2seq"
        for batch in _batches(rows, 1):
            prompts = [rows[i] for i in batch]
            with torch.inference_mode():
                if seq2seq:
                    ids, mask = self._pad(prompts)
                    first = self._model.config.decoder_start_token_id
                    decoder = torch.tensor([[first, *label[:-1]]] * len(batch), device=ids.device)
                    logits = self._model(input_ids=ids, attention_mask=mask, decoder_input_ids=decoder).logits
                    starts = [0] * len(batch)
                else:
                    ids, mask = self._pad([[*prompt, *label[:-1]] for prompt in prompts])
                    logits = self._model(input_ids=ids, attention_mask=mask).logits
                    starts = [len(prompt) - 1 for prompt in prompts]
            for row, (i, start) in enumerate(zip(batch, starts, strict=True)):
                steps = logits[row, start : start + len(label)].float().log_softmax(-1)
                scores[i] = float(steps[range(len(label)), list(label)].sum())
        return scores


def _batches(rows: Sequence[Sequence[int]], growth: int) -> Iterator[list[int]]:
    """Positions of rows of similar length; a batch holds 4,096 tokens, or half as many if a row doubles its length."""
    by_length = sorted(range(len(rows)), key=lambda i: (len(rows[i]), i))
    while by_length:
        size = max(1, _TOKENS_PER_BATCH // (growth * len(rows[by_length[-1]]) or 1))
        yield by_length[-size:]
        del by_length[-size:]
