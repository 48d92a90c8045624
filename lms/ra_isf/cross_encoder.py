"""Cross-encoders that judge: a pair of texts gets one logit, that of yes."""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from knowgap.errors import CheckpointError, shorten
from knowgap.lms.ra_isf.card import SubModelCard

__all__ = ["CrossEncoderReader"]

_PAIRS_PER_BATCH = 32
_loading = threading.RLock()


class CrossEncoderReader:
    """A model for sequence classification with one label, such as sentence-transformers trains. Thread-safe.

    Args:
        folder: of the model, or its name on the hub. Weights that it lacks are the same each time.
        card: how it is asked.
        device: where to compute; None takes a GPU if there is one.

    Raises:
        CheckpointError: it cannot be loaded.
    """

    def __init__(self, folder: str | Path, card: SubModelCard, device: str | None = None) -> None:
        import torch
        from transformers import AutoModelForSequenceClassification, AutoTokenizer

        self._card, self._lock = card, threading.Lock()
        try:
            with _quietly(), torch.random.fork_rng(devices=[]):
                torch.manual_seed(0)
                self._tokenizer: Any = AutoTokenizer.from_pretrained(str(folder))
                model: Any = AutoModelForSequenceClassification.from_pretrained(str(folder), num_labels=1)
        except (OSError, ValueError, KeyError, RuntimeError) as error:
            raise CheckpointError(f"{folder}: cannot be loaded ({shorten(error, 200)})") from error
        self._model = model.to(device or ("cuda" if torch.cuda.is_available() else "cpu")).eval()

    def probabilities(self, inputs: Sequence[tuple[str, str]]) -> list[float]:
        """The probability of yes for each (question, passage); of the longer text, as much is read as there is room."""
        import torch

        found = [0.0] * len(inputs)
        by_length = sorted(range(len(inputs)), key=lambda i: len(inputs[i][0]) + len(inputs[i][1]))
        for start in range(0, len(inputs), _PAIRS_PER_BATCH):
            batch = by_length[start : start + _PAIRS_PER_BATCH]
            questions, passages = zip(*(inputs[i] for i in batch), strict=True)
            with self._lock, torch.inference_mode():
                encoded = self._tokenizer(
                    list(questions),
                    list(passages),
                    padding=True,
                    truncation="longest_first",
                    max_length=self._card.max_tokens,
                    return_tensors="pt",
                )
                logits = self._model(**encoded.to(self._model.device)).logits[:, 0].float()
            for i, probability in zip(batch, logits.sigmoid().tolist(), strict=True):
                found[i] = probability
        return found


@contextmanager
def _quietly() -> Iterator[None]:
    """Load a model without progress bars and load reports; one thread at a time."""
    from transformers.utils import logging as messages

    with _loading:
        bars, level = messages.is_progress_bar_enabled(), messages.get_verbosity()
        messages.disable_progress_bar()
        messages.set_verbosity(logging.ERROR)
        try:
            yield
        finally:
            messages.set_verbosity(level)
            if bars:
                messages.enable_progress_bar()
