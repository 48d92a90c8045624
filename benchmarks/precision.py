"""Encoding in bfloat16, where the processor supports it, beside single precision: processor time, and recall.

Both are measured in one process, in turns, so that a busy machine slows both down alike; a figure is the least of the
rounds.
"""

from __future__ import annotations

import argparse
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from pathlib import Path
from statistics import fmean
from typing import Any
from unittest.mock import patch

import numpy as np
from models.random_cross_encoder import write_random_cross_encoder
from real_data import NOT_THERE, real_data
from table import Table, note, ratio, seconds

from knowgap.compiling.data import load_dataset
from knowgap.compiling.evaluation.metrics import recall
from knowgap.compiling.evaluation.statistics import mean_interval
from knowgap.lms.embedded.span_head import SpanHead
from knowgap.retrieval import ColBERTIndex
from knowgap.retrieval.colbert.checkpoint import write_embedded_checkpoint
from knowgap.retrieval.colbert.encoder import TokenEncoder
from knowgap.retrieval.device import bfloat16_on
from knowgap.retrieval.minilm import SentenceEncoder, sentence_encoder
from knowgap.retrieval.passage import Passage
from knowgap.retrieval.rerankers import relevance
from knowgap.retrieval.rerankers.cross_encoder import load_cross_encoder, predict_logits

_MODULES = ("colbert.encoder", "minilm", "rerankers.cross_encoder")
"""Those of `knowgap.retrieval` that compute in the precision of `half_precision`."""
_PAIRS = 20
"""Of a round, beside ten times as many passages."""


def add_arguments(group: Any) -> None:
    """Add the options of this benchmark."""
    group.add_argument("--rounds", type=int, help="turns of each precision (5; quick 2)")
    group.add_argument("--precision-questions", type=int, help="real questions, with their paragraphs (all; quick 20)")


def measure(options: argparse.Namespace) -> Iterator[Table]:
    """One table about time, and one about recall."""
    if not bfloat16_on("cpu"):
        note("precision: left out, since this processor does not compute in bfloat16")
        return
    yield _times(options.rounds or (2 if options.quick else 5))
    yield _recalls(options, options.precision_questions or (20 if options.quick else None))


@contextmanager
def _single_precision() -> Iterator[None]:
    """Compute in single precision during the block."""
    patches = [patch(f"knowgap.retrieval.{name}.half_precision", lambda device: nullcontext()) for name in _MODULES]
    patches.append(patch("knowgap.lms.embedded.span_head.half_precision", lambda device: nullcontext()))
    for each in patches:
        each.start()
    try:
        yield
    finally:
        for each in patches:
            each.stop()


@contextmanager
def _eight_bits() -> Iterator[None]:
    """Compute the linear layers of a ColBERT with eight bits during the block, as torch's dynamic quantization does."""
    import torch
    from torch.ao.quantization import quantize_dynamic
    from torch.ao.quantization.qconfig import per_channel_dynamic_qconfig

    def quantize(model: Any) -> None:
        quantize_dynamic(model, {torch.nn.Linear: per_channel_dynamic_qconfig}, inplace=True)

    with warnings.catch_warnings(), _single_precision():
        warnings.simplefilter("ignore")  # PyTorch moves quantization to another package
        with patch("knowgap.retrieval.colbert.packed_weights.pack_linear_layers", quantize):
            yield


def _times(rounds: int) -> Table:
    data = load_dataset()
    passages = list(data.corpus)[: 10 * _PAIRS]
    texts, questions = [str(passage) for passage in passages], [e.question for e in data.splits["dev"]][:_PAIRS]
    pairs = [(questions[n % len(questions)], text) for n, text in enumerate(texts[:_PAIRS])]
    read = [(question, p.title, p.text) for question, p in zip(questions, passages, strict=False)]
    sentences, spans = SentenceEncoder(), SpanHead()
    with tempfile.TemporaryDirectory(prefix="knowgap-benchmark-") as folder:
        write_embedded_checkpoint(passages, Path(folder) / "colbert")
        colbert = TokenEncoder(Path(folder) / "colbert")
        write_random_cross_encoder(Path(folder) / "cross")
        cross = load_cross_encoder(Path(folder) / "cross", device="cpu", labels=1, trained=True)
    fresh: dict[str, Callable[[], Any]] = {
        "passages, ColBERT": lambda: colbert.encode_passages(texts[: 5 * _PAIRS]),
        "passages, dense": lambda: sentences.encode(texts[: 5 * _PAIRS], remember=False),
        "queries, ColBERT": lambda: [colbert._encode_query(question) for question in questions],  # pyright: ignore[reportPrivateUsage]
        "queries, dense": lambda: [sentences.encode([question], remember=False) for question in questions],
        "reranker, a cross-encoder": lambda: predict_logits(cross, pairs),
        "reranker, embedded": lambda: relevance.EmbeddedReranker().score(pairs),
        "reader's spans": lambda: spans._read(read),  # pyright: ignore[reportPrivateUsage]
    }
    rows = []
    for name, compute in fresh.items():
        note(f"precision: {name}")
        single, half = [], []
        for _ in range(rounds + 1):
            with _single_precision():
                single.append(_processor_time(compute))
            half.append(_processor_time(compute))
        before, after = min(single[1:]), min(half[1:])  # the first round warms up
        rows.append([name, seconds(before), seconds(after), ratio(after, before)])
    return Table(
        "Processor time of encoding",
        ["what", "single precision", "bfloat16", "share"],
        rows,
        [f"Texts of the sample; the least of {rounds} rounds, in turns. Tokenizing is in it."],
    )


def _processor_time(compute: Callable[[], Any]) -> float:
    for remembering in (sentence_encoder, relevance._load):  # pyright: ignore[reportPrivateUsage]
        remembering.cache_clear()
    relevance.EmbeddedReranker()
    sentence_encoder()
    started = time.process_time()
    compute()
    return time.process_time() - started


def _recalls(options: argparse.Namespace, limit: int | None) -> Table:
    data = next(iter(real_data(options)), None)
    if data is None or data.name != "HotpotQA":
        return Table("Recall of gold paragraphs", ["precision"], [], [f"HotpotQA is {NOT_THERE}."])
    examples = [example for example in data.splits["dev"] if example.gold_ids][:limit]
    wanted = {identifier for example in examples for identifier in example.candidates}
    corpus = [passage for passage in data.corpus if limit is None or passage.id in wanted]
    rows, vectors = [], list[Any]()
    precisions = (("single", _single_precision()), ("bfloat16", nullcontext()), ("eight bits", _eight_bits()))
    with tempfile.TemporaryDirectory(prefix="knowgap-benchmark-") as folder:
        write_embedded_checkpoint(corpus[:100], Path(folder) / "checkpoint")
        for name, precision in precisions:
            note(f"precision: an index of {len(corpus):,} paragraphs, {name}")
            with precision:
                started = time.process_time()
                index = ColBERTIndex.build(corpus, Path(folder) / name)
                spent = time.process_time() - started
                found = index.search([example.question for example in examples], 10)
                vectors.append(_token_vectors(TokenEncoder(Path(folder) / "checkpoint"), corpus[:100]))
            searches = list(zip(examples, found, strict=True))
            cells = [str(mean_interval([recall(example, hits, k=k) for example, hits in searches])) for k in (2, 5, 10)]
            cosines = np.einsum("td,td->t", vectors[0], vectors[-1])
            rows.append([name, *cells, f"{fmean(cosines.tolist()):.5f}", f"{cosines.min():.4f}", seconds(spent)])
    columns = ["precision", *(f"recall@{k} [95%]" for k in (2, 5, 10)), "cosine", "least cosine", "time to build"]
    return Table(
        f"Gold paragraphs of {len(examples)} questions among {len(corpus):,} of HotpotQA's paragraphs, ColBERT",
        columns,
        rows,
        [
            "The cosines are of a token's vector and of its vector in single precision, over the tokens of 100 "
            "paragraphs. Queries are encoded in the same precision. Times are processor time."
        ],
    )


def _token_vectors(encoder: TokenEncoder, passages: Sequence[Passage]) -> Any:
    vectors = encoder.encode_passages([str(passage) for passage in passages])[0].astype(np.float32)
    return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
