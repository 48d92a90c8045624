"""Finds spans of passages that answer a question, with a MiniLM whose upper layers are trained for it.

A linear layer over the encoder says where the answer starts and where it ends; the encoder's first position stands for
"not in this passage" (Devlin et al. 2019, section 4.3). The weights are stored as differences to all-MiniLM-L6-v2, in
four bits. `benchmarks/bundled_models/reading.py` trains them.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Iterator, Sequence
from functools import lru_cache
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from knowgap.retrieval.lru_cache import LRUCache
from knowgap.retrieval.minilm import minilm_folder, read_weights, tokenizer_of
from knowgap.retrieval.passage import encodable

_WINDOW, _OVERLAP, _QUESTION_TOKENS = 160, 48, 48
_LONGEST_ANSWER = 40  # tokens
_ENDS_TRIED = 12  # most likely first and last tokens that are combined into spans
_SPANS_OF_A_PASSAGE = 5
_SENTENCE_END = re.compile(r"\w{3}[.!?] +[^\W\d_a-z]")  # within a span: no answer goes on in the next sentence
_DECIMALS = 2  # from one processor to the next, log-odds differ by 5e-6, at most 3e-5


class Candidate(NamedTuple):
    """A span of a passage that may answer a question, as the passage writes it.

    `start` is its first character in the passage's text and `end` the one after its last; both are -1 in the title.
    `margin` is the sum of the log-odds of its start and its end against "not in this passage".
    """

    text: str
    start: int
    end: int
    margin: float


class SpanHead:
    """The trained reader. Thread-safe; caches the spans of the latest 16,384 pairs of question and passage.

    Args:
        folder: has `span_head.safetensors` and `span_head.json`; None takes the bundled weights.

    Raises:
        CheckpointError: the files are missing or damaged, or belong to another encoder.
    """

    def __init__(self, folder: str | Path | None = None) -> None:
        from knowgap.retrieval.bert import Bert

        _, tensors = read_weights(folder or Path(__file__).parent, "span_head")
        self._output = tensors["output"].astype(np.float32)
        self._tokenizer = tokenizer_of(minilm_folder())
        self._encoder = Bert(minilm_folder(), "cpu", tensors)
        self._lock = threading.Lock()
        self._known: LRUCache[tuple[str, str, str], list[Candidate]] = LRUCache(16_384)

    def candidates(self, question: str, passages: Sequence[tuple[str, str]]) -> list[list[Candidate]]:
        """The spans of each passage (title, text) that may answer a question: at most five, best first, disjoint."""
        pairs = [(question, title, text) for title, text in passages]
        return self._known.get(pairs, self._read) if question.strip() else [[] for _ in pairs]

    def _read(self, pairs: Sequence[tuple[str, str, str]]) -> list[list[Candidate]]:
        import torch

        with self._lock:
            windows = tokenize_pairs(self._tokenizer, pairs)
        found: list[list[Candidate]] = [[] for _ in pairs]
        for window in windows:
            types = [int(i >= window.first) for i in range(len(window.ids))]
            ids = torch.tensor([window.ids])
            states = self._encoder(ids, torch.ones_like(ids), torch.tensor([types]))[0]
            logits = (states.numpy() @ self._output.T).astype(np.float64)
            found[window.pair] += _spans(logits, window, *pairs[window.pair][1:])
        return [_without_overlaps(candidates) for candidates in found]


class Window(NamedTuple):
    """A question with a stretch of a passage, `[CLS] question [SEP] title. text [SEP]`: the pair's number, token ids.

    The passage starts at token `first`; from there on `offsets` has the first character of each token in `title. text`,
    and the one after its last.
    """

    pair: int
    ids: list[int]
    first: int
    offsets: Sequence[tuple[int, int]]


def tokenize_pairs(
    tokenizer: Any, pairs: Sequence[tuple[str, str, str]], window: int = _WINDOW, overlap: int = _OVERLAP
) -> list[Window]:
    """Tokenize (question, title, text): windows of at most `window` tokens; those of a passage share `overlap` tokens.

    The truncation of the tokenizer, one that `tokenizer_of` makes, is changed, so that only one thread may use it at a
    time.
    """
    tokenizer.no_truncation()
    pairs = [(asked, title, text) for asked, title, text in map(encodable, pairs)]
    asked = tokenizer.encode_batch([asked for asked, _, _ in pairs])
    ends = (max(end for _, end in text.offsets[:_QUESTION_TOKENS]) for text in asked)
    tokenizer.enable_truncation(window, stride=overlap, strategy="only_second")
    read = tokenizer.encode_batch(
        [(question[:end], joined(title, text)) for (question, title, text), end in zip(pairs, ends, strict=True)]
    )
    return [
        Window(pair, part.ids, (first := part.type_ids.index(1)), part.offsets[first:-1])
        for pair, text in enumerate(read)
        for part in (text, *text.overflowing)
    ]


def joined(title: str, text: str) -> str:
    """A passage as the encoder reads it."""
    return f"{title}. {text}" if title.strip() else text


def _spans(logits: npt.NDArray[np.float64], window: Window, title: str, text: str) -> Iterator[Candidate]:
    """The spans of a window, from the logits of each token as start and as end, [tokens, 2]."""
    none, inside, offsets = logits[0], logits[window.first : -1], window.offsets
    whole, before = joined(title, text), len(joined(title, text)) - len(text)
    firsts, lasts = np.argsort(-inside, axis=0, kind="stable")[:_ENDS_TRIED].T
    for first, last in product(firsts, lasts):
        start, end = offsets[first][0], offsets[last][1]
        is_answer = 0 <= last - first < _LONGEST_ANSWER and not start < before < end
        if is_answer and not _SENTENCE_END.search(whole, start, end):
            margin = round(float(inside[first, 0] + inside[last, 1] - none.sum()), _DECIMALS)
            place = (start - before, end - before) if start >= before else (-1, -1)
            yield Candidate(whole[start:end].strip(), *place, margin)


def _without_overlaps(candidates: Sequence[Candidate]) -> list[Candidate]:
    """The best spans, none of which overlaps a better one; spans of a title overlap one another."""
    kept: list[Candidate] = []
    for c in sorted(candidates, key=lambda c: (-c.margin, c.start, c.end)):
        if c.text and not any(max(c.start, k.start) < min(c.end, k.end) or c.start == k.start for k in kept):
            kept.append(c)
    return kept[:_SPANS_OF_A_PASSAGE]


@lru_cache(maxsize=1)
def span_head() -> SpanHead:
    """The one reader of this process, loaded at the first call."""
    return SpanHead()
