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
from knowgap.retrieval.sentences import split_sentences


class ScoredPassage(NamedTuple):
    """A passage with its best score, and the query for which it has this score."""

    score: float
    query: str
    passage: Passage


class ReadPassage(NamedTuple):
    """A passage as the model reads it, the passage as it was retrieved, and the query that it answers."""

    shown: Passage
    original: Passage
    query: str


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
) -> list[ScoredPassage]:
    """Score passages against the queries that found them, and record a `Reranked` step.

    A passage that scores less than `delta` is dropped; None drops none.

    Returns:
        Each passage once, with its highest score over the queries; best first, ties by id.
    """
    pairs = [(query, hit.passage) for query, found in zip(queries, hits, strict=True) for hit in found]
    scores = reranker.score([(query, str(passage)) for query, passage in pairs])
    best: dict[str, ScoredPassage] = {}
    for (query, passage), score in zip(pairs, scores, strict=True):
        if passage.id not in best or score > best[passage.id].score:
            best[passage.id] = ScoredPassage(score, query, passage)
    ranked = sorted(best.values(), key=lambda scored: (-scored.score, scored.passage.id))
    kept = [scored for scored in ranked if delta is None or scored.score >= delta]
    dropped = ranked[len(kept) :]
    program.record(Reranked(threshold=delta, kept=_rounded(kept), dropped=_rounded(dropped)))
    return kept


def _rounded(ranked: Sequence[ScoredPassage]) -> dict[str, float]:
    return {scored.passage.id: round(scored.score, 4) for scored in ranked}


def filter_sentences(
    program: Program, reranker: Reranker, ranked: Sequence[ScoredPassage], delta: float
) -> list[ReadPassage]:
    """Keep the sentences that score at least `delta`, or the whole passage if it outscores all its sentences.

    A sentence is scored with the title before it. A passage also stays whole if none of its sentences reaches `delta`.
    """
    split = [split_sentences(scored.passage.text) for scored in ranked]
    pairs = [
        (scored.query, str(replace(scored.passage, text=sentence)))
        for scored, own in zip(ranked, split, strict=True)
        for sentence in own
    ]
    scores = iter(reranker.score(pairs))
    filtered: list[ReadPassage] = []
    for (score, query, passage), sentences in zip(ranked, split, strict=True):
        sentence_scores = [next(scores) for _ in sentences]
        chosen = [text for text, value in zip(sentences, sentence_scores, strict=True) if value >= delta]
        shown = passage
        if 0 < len(chosen) < len(sentences) and score <= max(sentence_scores):
            shown = replace(passage, text=" ".join(chosen))
            program.record(Compressed(how="sentences", passage=passage.id, text=shown.text), passage)
        filtered.append(ReadPassage(shown, passage, query))
    return filtered


def compress(
    program: Program,
    predictor: dspy.Module,
    how: Literal["summary", "snippet"],
    ranked: Sequence[ScoredPassage],
    top_k: int,
) -> tuple[list[ReadPassage], int]:
    """Let the model summarise or excerpt passages, best first, until `top_k` of them are relevant (section 4.4).

    From `question` and `passage`, the predictor says whether the passage is `relevant`, and writes the field `how`. A
    text without that judgement counts as relevant. The model reads as many passages at a time as are still wanted.

    Returns:
        The relevant ones, shortened, and how many of `ranked` were read for them.
    """
    relevant, read = list[ReadPassage](), 0
    while batch := ranked[read : read + top_k - len(relevant)]:
        read += len(batch)
        tasks = [
            functools.partial(program.ask, predictor, inlined=[passage], question=query, passage=str(passage))
            for _, query, passage in batch
        ]
        for (_, query, passage), output in zip(batch, run_concurrently(tasks), strict=True):
            text = text_of(output, how)
            if output is None or not text or output.get("relevant") is False:
                program.record(Judged(what="relevance", value=False, passage=passage.id), passage)
            else:
                program.record(Compressed(how=how, passage=passage.id, text=text), passage)
                relevant.append(ReadPassage(replace(passage, text=text), passage, query))
    return relevant, read
