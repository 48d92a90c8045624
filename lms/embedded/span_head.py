"""Spans that answer a question, read from passages by MiniLM whose upper layers are trained for it.

Question and passage go through the encoder together; one linear layer says where the answer starts and where it ends,
and the encoder's first position stands for "not in this passage" (Devlin et al. 2019, section 4.3). The file of weights
holds the differences to all-MiniLM-L6-v2 in four bits, so the encoder of the installation is needed too. How it is
trained: `knowgap.compile.training.embedded.reading`.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from scipy.special import expit

from knowgap.errors import CheckpointError
from knowgap.retrieval.device import half_precision, padded_batches
from knowgap.retrieval.index.files import file_digest
from knowgap.retrieval.lru_cache import LRUCache

__all__ = ["Candidate", "Reading", "Span", "SpanHead", "span_head"]

_WINDOW, _OVERLAP, _QUESTION_TOKENS = 160, 48, 48
_LONGEST_ANSWER = 40  # tokens
_ENDS_TRIED = 12  # first and last tokens of spans, the likeliest of each
_SPANS_OF_A_PASSAGE = 5
_TOKENS_PER_BATCH = 2048
_NAME = "span_head"


@dataclass(frozen=True, slots=True)
class Span:
    """A part of a passage that may answer a question.

    Attributes:
        text: as the passage has it.
        passage: number of the passage, from 0.
        start: first character in the passage's text; -1 if the span stands in the title.
        end: the character after the last; -1 if the span stands in the title.
        score: probability that the span answers the question, comparable between passages.
    """

    text: str
    passage: int
    start: int
    end: int
    score: float


class Reading(NamedTuple):
    """What was read: spans, best first, and the probability that none of the passages answers."""

    spans: list[Span]
    none: float


class Candidate(NamedTuple):
    """A span of a passage before calibration.

    Attributes:
        text: as the passage has it.
        start: as in `Span`.
        end: as in `Span`.
        margin: log-odds against "not in this passage".
        certainty: log-probability within the passage.
    """

    text: str
    start: int
    end: int
    margin: float
    certainty: float


class SpanHead:
    """The trained reader. Thread-safe; remembers the latest 16,384 pairs of question and passage.

    Args:
        folder: has `span_head.safetensors` and `span_head.json`; None takes the weights that come with the package.

    Raises:
        CheckpointError: the files are missing or damaged, or belong to another encoder.
    """

    def __init__(self, folder: str | Path | None = None) -> None:
        self._tokenizer, self._encoder, self._output, self._settings = _load(Path(folder or Path(__file__).parent))
        self._lock = threading.Lock()
        self._known: LRUCache[tuple[str, str, str], list[Candidate]] = LRUCache(16_384)

    def read(self, question: str, passages: Sequence[tuple[str, str]]) -> Reading:
        """Find the spans of passages that answer a question.

        Args:
            question: in English.
            passages: (title, text) of each; a title may be blank.

        Returns:
            At most five spans of each passage, best first, none of which overlaps a better one; and the probability
            that no passage answers.
        """
        read = self.candidates(question, passages)
        a, b, bias = self._settings["span"]
        spans = [
            Span(c.text, number, c.start, c.end, float(expit(a * c.margin + b * c.certainty + bias)))
            for number, candidates in enumerate(read)
            for c in candidates
        ]
        spans.sort(key=lambda span: (-span.score, span.passage, span.start))
        margins = [c.margin for candidates in read for c in candidates]
        slope, intercept = self._settings["none"]
        return Reading(spans, float(expit(slope * max(margins) + intercept)) if margins else 1.0)

    def candidates(self, question: str, passages: Sequence[tuple[str, str]]) -> list[list[Candidate]]:
        """The best spans of each passage with their log-odds, before calibration."""
        pairs = [(question, title, text) for title, text in passages]
        return self._known.get(pairs, self._read) if question.strip() else []

    def _read(self, pairs: Sequence[tuple[str, str, str]]) -> list[list[Candidate]]:
        import torch

        with self._lock:
            windows = tokenize_pairs(self._tokenizer, pairs)
        logits: list[npt.NDArray[np.float32]] = [np.empty((0, 2), np.float32)] * len(windows)
        ids = [window.ids for window in windows]
        for batch, tokens, attention in padded_batches(ids, _TOKENS_PER_BATCH, self._tokenizer.pad_token_id):
            types = torch.zeros_like(tokens)
            for row, i in enumerate(batch):
                types[row, windows[i].first : len(ids[i])] = 1
            with torch.inference_mode(), half_precision("cpu"):
                output = self._encoder(input_ids=tokens, attention_mask=attention, token_type_ids=types)
            values = output.last_hidden_state.float().numpy() @ self._output.T
            for row, i in enumerate(batch):
                logits[i] = values[row, : len(ids[i])]
        found: list[list[Candidate]] = [[] for _ in pairs]
        for window, values in zip(windows, logits, strict=True):
            _, title, text = pairs[window.pair]
            found[window.pair] += _candidates(window, values, title, text)
        return [_without_overlaps(candidates) for candidates in found]


class Window(NamedTuple):
    """A question with a stretch of a passage, tokenized.

    Attributes:
        pair: number of the pair of question and passage.
        ids: token ids, `[CLS] question [SEP] title. text [SEP]`.
        first: where the passage's tokens start.
        offsets: the first character of each token from `first` on, and the one after its last, in `title. text`.
    """

    pair: int
    ids: list[int]
    first: int
    offsets: list[tuple[int, int]]


def tokenize_pairs(
    tokenizer: Any, pairs: Sequence[tuple[str, str, str]], window: int = _WINDOW, overlap: int = _OVERLAP
) -> list[Window]:
    """Tokenize (question, title, text): windows of at most `window` tokens, which overlap in a long passage."""
    questions = tokenizer([pair[0] for pair in pairs], truncation=True, max_length=_QUESTION_TOKENS)["input_ids"]
    passages = tokenizer(
        [joined(title, text) for _, title, text in pairs],
        add_special_tokens=False,
        return_offsets_mapping=True,
        verbose=False,
    )
    windows = []
    for number, (question, ids, offsets) in enumerate(
        zip(questions, passages["input_ids"], passages["offset_mapping"], strict=True)
    ):
        room = window - len(question) - 1
        start = 0
        while ids:
            part = slice(start, start + room)
            windows.append(
                Window(number, [*question, *ids[part], tokenizer.sep_token_id], len(question), offsets[part])
            )
            if start + room >= len(ids):
                break
            start += room - overlap
    return windows


def joined(title: str, text: str) -> str:
    """A passage as the encoder reads it."""
    return f"{title}. {text}" if title.strip() else text


def _candidates(window: Window, logits: npt.NDArray[np.float32], title: str, text: str) -> list[Candidate]:
    """The best spans of a window."""
    inside = logits[window.first : window.first + len(window.offsets)].astype(np.float64)
    none = float(logits[0].sum())
    total = sum(float(np.logaddexp.reduce([logits[0, k], *inside[:, k]])) for k in (0, 1))
    firsts, lasts = (np.argsort(-inside[:, k])[:_ENDS_TRIED] for k in (0, 1))
    pairs = [(i, j) for i in firsts for j in lasts if 0 <= j - i < _LONGEST_ANSWER]
    pairs.sort(key=lambda pair: -(inside[pair[0], 0] + inside[pair[1], 1]))
    whole, before = joined(title, text), len(joined(title, text)) - len(text)
    kept: list[Candidate] = []
    for first, last in pairs:
        start, end = window.offsets[first][0], window.offsets[last][1]
        if start < before < end:
            continue
        value = float(inside[first, 0] + inside[last, 1])
        place = (start - before, end - before) if start >= before else (-1, -1)
        kept.append(Candidate(whole[start:end].strip(), *place, value - none, value - total))
    return _without_overlaps(kept)


def _without_overlaps(candidates: Sequence[Candidate]) -> list[Candidate]:
    """The best spans, none of which overlaps a better one; spans of a title overlap one another."""
    kept: list[Candidate] = []
    for c in sorted(candidates, key=lambda c: (-c.margin, c.start)):
        if c.text and not any(max(c.start, k.start) < min(c.end, k.end) or c.start == k.start for k in kept):
            kept.append(c)
        if len(kept) == _SPANS_OF_A_PASSAGE:
            break
    return kept


def _load(folder: Path) -> tuple[Any, Any, npt.NDArray[np.float32], dict[str, Any]]:
    """Return tokenizer, encoder, output layer [2, 384] and settings."""
    import torch
    from safetensors.numpy import load_file

    from knowgap.retrieval.colbert.stock_runtime import quiet_transformers
    from knowgap.retrieval.minilm import MINILM_DIGEST, minilm_folder

    weights = folder / f"{_NAME}.safetensors"
    try:
        settings = json.loads((folder / f"{_NAME}.json").read_text("utf-8"))
        intact = settings["sha256"] == file_digest(weights) and settings["encoder"] == MINILM_DIGEST
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise CheckpointError(f"{folder}: no weights of the span head ({error})") from error
    if not intact:
        raise CheckpointError(f"{weights}: damaged, or made for another encoder; reinstall knowgap, or train it again")
    tensors = load_file(weights)
    with quiet_transformers():
        from transformers import AutoModel, AutoTokenizer

        tokenizer: Any = AutoTokenizer.from_pretrained(str(minilm_folder()))
        encoder: Any = AutoModel.from_pretrained(str(minilm_folder())).eval()
    state = dict(encoder.named_parameters())
    with torch.no_grad():
        for name in state:
            if f"{name}.scale" in tensors:
                state[name] += torch.from_numpy(unpack_nibbles(tensors[name], tensors[f"{name}.scale"]))
            elif name in tensors:
                state[name] += torch.from_numpy(tensors[name].astype(np.float32))
    return tokenizer, encoder, tensors["output"].astype(np.float32), settings


def unpack_nibbles(packed: npt.NDArray[np.uint8], scale: npt.NDArray[np.float16]) -> npt.NDArray[np.float32]:
    """Read a matrix of numbers of four bits.

    Args:
        packed: [rows, columns / 2]; the lower half of each byte comes first; 8 stands for 0.
        scale: [rows, groups]; what a step is worth in each group of neighbouring columns.

    Returns:
        [rows, columns].
    """
    steps = np.stack([packed & 15, packed >> 4], axis=-1).astype(np.float32).reshape(*scale.shape, -1) - 8
    return (steps * scale.astype(np.float32)[:, :, None]).reshape(len(packed), -1)


@lru_cache(maxsize=1)
def span_head() -> SpanHead:
    """The one reader of this process, loaded at the first call."""
    return SpanHead()
