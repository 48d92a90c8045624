"""What is read of what was retrieved: passages reranked, then cut down by sentences or by the model.

Sources: MIGRES, section 3.2 (sentence-level rerank and filtering) and table 5 (summary and snippet, after ALCE).
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal, NamedTuple

import dspy

from knowgap.errors import UsageError
from knowgap.programs.base import Program
from knowgap.programs.outputs import text_of
from knowgap.programs.trace.recorder import run_concurrently
from knowgap.programs.trace.steps import Compressed, Reranked
from knowgap.retrieval.passage import Hit, Passage
from knowgap.retrieval.sentences import split_sentences
from knowgap.signatures import IRRELEVANT

if TYPE_CHECKING:
    from knowgap.retrieval.rerankers.reranker import Reranker

__all__ = ["ReadPassages", "ScoredPassage", "compress", "filter_sentences", "rerank", "resolve_threshold"]


class ScoredPassage(NamedTuple):
    """A passage with its best score, and the query that it got it for."""

    score: float
    query: str
    passage: Passage


ReadPassages = dict[Passage, tuple[str, Passage]]
"""The passage as it will be read → its query, and the passage as it was found; best first."""


def resolve_threshold(reranker: Reranker, delta: float | None) -> float:
    """The threshold δ in force: `delta`, or the reranker's own default where that is None.

    Raises:
        UsageError: where neither is known.
    """
    value = reranker.default_threshold if delta is None else delta
    if value is None:
        raise UsageError(f"the reranker {reranker.name} has no default threshold: set delta, or calibrate it")
    return value


def rerank(
    program: Program,
    reranker: Reranker,
    queries: Sequence[str],
    hits: Sequence[Sequence[Hit]],
    delta: float | None = None,
) -> list[ScoredPassage]:
    """Score passages against the queries that found them and note it.

    Args:
        program: whose trace it stands in.
        reranker: scores (query, text) pairs.
        queries: as they were retrieved for.
        hits: what was found, one list per query.
        delta: passages that score less are dropped; None keeps all.

    Returns:
        Each passage once, with its maximum score over the queries; best first, ties by id.
    """
    pairs = [(query, hit.passage) for query, found in zip(queries, hits, strict=True) for hit in found]
    scores = reranker.score([(query, str(passage)) for query, passage in pairs])
    best: dict[str, ScoredPassage] = {}
    for (query, passage), score in zip(pairs, scores, strict=True):
        if passage.id not in best or score > best[passage.id].score:
            best[passage.id] = ScoredPassage(score, query, passage)
    ranked = sorted(best.values(), key=lambda entry: (-entry.score, entry.passage.id))
    kept = [entry for entry in ranked if delta is None or entry.score >= delta]
    program.record(
        Reranked(
            threshold=delta,
            kept={entry.passage.id: round(entry.score, 4) for entry in kept},
            dropped={entry.passage.id: round(entry.score, 4) for entry in ranked[len(kept) :]},
        )
    )
    return kept


def filter_sentences(
    program: Program, reranker: Reranker, ranked: Sequence[ScoredPassage], delta: float
) -> ReadPassages:
    """Keep the sentences that score `delta` or more; the whole passage where it outscores them all."""
    split = [split_sentences(entry.passage.text) for entry in ranked]
    pairs = [
        (entry.query, str(Passage(entry.passage.id, entry.passage.title, sentence)))
        for entry, sentences in zip(ranked, split, strict=True)
        for sentence in sentences
    ]
    scores = iter(reranker.score(pairs))
    result: ReadPassages = {}
    for (score, query, passage), sentences in zip(ranked, split, strict=True):
        scored = [(sentence, next(scores)) for sentence in sentences]
        chosen = [sentence for sentence, value in scored if value >= delta]
        if not chosen or all(score > value for _, value in scored) or len(chosen) == len(sentences):
            result[passage] = (query, passage)
            continue
        cut = Passage(passage.id, passage.title, " ".join(chosen))
        program.record(Compressed(how="sentences", passage=passage.id, text=cut.text), passage)
        result[cut] = (query, passage)
    return result


def compress(
    program: Program,
    predictor: dspy.Module,
    how: Literal["summary", "snippet"],
    ranked: Sequence[ScoredPassage],
    top_k: int,
) -> ReadPassages:
    """Let the model summarise or excerpt passages, best first, until `top_k` of them are relevant.

    Args:
        program: whose trace it stands in.
        predictor: asked for the output field `how`, given `question` and `passage`.
        how: what it writes.
        ranked: the passages, best first; `top_k` at a time are read at once.
        top_k: how many are wanted.
    """
    result: ReadPassages = {}
    for start in range(0, len(ranked), top_k):
        batch = ranked[start : start + top_k]
        tasks = [
            functools.partial(
                program.ask, predictor, inlined=[entry.passage], question=entry.query, passage=str(entry.passage)
            )
            for entry in batch
        ]
        for (_, query, passage), output in zip(batch, run_concurrently(tasks), strict=True):
            text = text_of(output, how)
            if not text or text.casefold().startswith(IRRELEVANT) or len(result) == top_k:
                continue
            cut = Passage(passage.id, passage.title, text)
            program.record(Compressed(how=how, passage=passage.id, text=cut.text), passage)
            result[cut] = (query, passage)
        if len(result) == top_k:
            break
    return result
