"""Reranks the retrieved passages, then filters or shortens the text of those that a model reads.

Source: MIGRES, section 3.2 (sentence-level reranking and filtering) and table 5 (summary and snippet, after ALCE).
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import replace
from typing import Literal, NamedTuple

import dspy

from knowgap.errors import UsageError
from knowgap.programs.base import Program
from knowgap.programs.replies.text import text_of
from knowgap.programs.trace.recorder import run_concurrently
from knowgap.programs.trace.steps import Compressed, Judged, Reranked
from knowgap.retrieval.passage import Hit, Passage
from knowgap.retrieval.rerankers.reranker import Reranker
from knowgap.retrieval.words import split_sentences


class Found(NamedTuple):
    """A retrieved passage, its best score, the query for which it has this score, and what the model reads of it."""

    passage: Passage
    score: float
    query: str
    shown: Passage


def resolve_threshold(reranker: Reranker, delta: float | None) -> float:
    """The relevance threshold δ: `delta`, or the reranker's default if that is None.

    Raises:
        UsageError: neither is set.
    """
    threshold = reranker.default_threshold if delta is None else delta
    if threshold is None:
        raise UsageError(f"the reranker {reranker.name} has no default threshold: set delta, or calibrate it")
    return threshold


def rerank(
    program: Program,
    reranker: Reranker,
    queries: Sequence[str],
    hits: Sequence[Sequence[Hit]],
    delta: float | None = None,
) -> list[Found]:
    """Score passages against the queries that found them, and record a `Reranked` step.

    A passage that scores less than `delta` is dropped; None drops none.

    Returns:
        Each passage once, with its highest score over the queries; best first, ties by id.
    """
    pairs = [(query, hit.passage) for query, found in zip(queries, hits, strict=True) for hit in found]
    scores = reranker.score([(query, str(passage)) for query, passage in pairs])
    best: dict[str, Found] = {}
    for (query, passage), score in zip(pairs, scores, strict=True):
        if passage.id not in best or score > best[passage.id].score:
            best[passage.id] = Found(passage, score, query, passage)
    ranked = sorted(best.values(), key=lambda found: (-found.score, found.passage.id))
    kept = [found for found in ranked if delta is None or found.score >= delta]
    parts = (kept, ranked[len(kept) :])
    scored = [{found.passage.id: round(found.score, 4) for found in part} for part in parts]
    program.record(Reranked(threshold=delta, kept=scored[0], dropped=scored[1]))
    return kept


def filter_sentences(program: Program, reranker: Reranker, ranked: Sequence[Found], delta: float) -> list[Found]:
    """Keep the sentences that score at least `delta`, or the whole passage if it outscores all its sentences.

    A sentence is scored with the title before it. A passage also stays whole if none of its sentences reaches `delta`.
    """
    split = [split_sentences(found.passage.text) for found in ranked]
    titled = [
        (found.query, str(replace(found.passage, text=sentence)))
        for found, sentences in zip(ranked, split, strict=True)
        for sentence in sentences
    ]
    scores, filtered = iter(reranker.score(titled)), list[Found]()
    for found, sentences in zip(ranked, split, strict=True):
        scored = [(text, next(scores)) for text in sentences]
        chosen = [text for text, score in scored if score >= delta]
        if 0 < len(chosen) < len(sentences) and found.score <= max(score for _, score in scored):
            found = _shortened(program, "sentences", found, " ".join(chosen))
        filtered.append(found)
    return filtered


def compress(
    program: Program,
    predictor: dspy.Module,
    how: Literal["summary", "snippet"],
    ranked: Sequence[Found],
    top_k: int,
) -> tuple[list[Found], int]:
    """Let the model summarise or excerpt passages, best first, until `top_k` of them are relevant (section 4.4).

    From `question` and `passage`, the predictor says whether the passage is `relevant`, and writes the field `how`. A
    text without that judgement counts as relevant. The model reads as many passages at a time as are still wanted.

    Returns:
        The relevant ones, shortened, and how many of `ranked` were read for them.
    """
    relevant, read = list[Found](), 0
    while batch := ranked[read : read + top_k - len(relevant)]:
        read += len(batch)
        tasks = [
            functools.partial(program.ask, predictor, inlined=[passage], question=query, passage=str(passage))
            for passage, _, query, _ in batch
        ]
        for found, output in zip(batch, run_concurrently(tasks), strict=True):
            text = text_of(output, how)
            if output is None or not text or output.get("relevant") is False:
                program.record(Judged(what="relevance", value=False, passage=found.passage.id))
            else:
                relevant.append(_shortened(program, how, found, text))
    return relevant, read


def _shortened(program: Program, how: Literal["sentences", "summary", "snippet"], found: Found, text: str) -> Found:
    program.record(Compressed(how=how, passage=found.passage.id, text=text))
    return found._replace(shown=replace(found.passage, text=text))
