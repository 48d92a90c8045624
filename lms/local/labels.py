"""How likely given continuations of a prompt are, token by token."""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from typing import Any

from knowgap.lms.local.jobs import ScoringJob
from knowgap.lms.local.loading import LocalModel

__all__ = ["pad_rows", "score_continuations"]


def pad_rows(rows: Sequence[Sequence[int]], pad: int, *, left: bool, device: Any) -> tuple[Any, Any]:
    """Fill rows of tokens up to one length: ids and mask, both of shape (rows, longest)."""
    import torch

    longest = max(map(len, rows))
    filled = [[pad] * (longest - len(row)) for row in rows]
    ids = [[*fill, *row] if left else [*row, *fill] for row, fill in zip(rows, filled, strict=True)]
    kept = [[1] * len(row) for row in rows]
    blank = [[0] * len(fill) for fill in filled]
    mask = [[*b, *k] if left else [*k, *b] for k, b in zip(kept, blank, strict=True)]
    return torch.tensor(ids, device=device), torch.tensor(mask, device=device)


def score_continuations(local: LocalModel, jobs: Sequence[ScoringJob]) -> list[list[list[float]]]:
    """The log-probabilities of the tokens of each continuation of each job, in one pass over all of them."""
    import torch

    pairs = [(job.ids, tokens) for job in jobs for tokens in job.continuations]
    with torch.inference_mode():
        scores = iter((_seq2seq_scores if local.is_seq2seq else _causal_scores)(local, pairs))
    return [[next(scores) for _ in job.continuations] for job in jobs]


def _causal_scores(local: LocalModel, pairs: Sequence[tuple[list[int], list[int]]]) -> list[list[float]]:
    rows = [[*prompt, *tokens] for prompt, tokens in pairs]
    ids, mask = pad_rows(rows, local.pad_id, left=True, device=local.device)
    accepted = inspect.signature(local.model.forward).parameters
    inputs = {"position_ids": (mask.cumsum(-1) - 1).clamp(min=0)} if "position_ids" in accepted else {}
    if "logits_to_keep" in accepted:  # those of the continuations, and of the token before them
        inputs["logits_to_keep"] = 1 + max(len(tokens) for _, tokens in pairs)
    logits = local.model(input_ids=ids, attention_mask=mask, use_cache=False, **inputs).logits
    return [_token_scores(row[-1 - len(tokens) : -1], tokens) for row, (_, tokens) in zip(logits, pairs, strict=True)]


def _seq2seq_scores(local: LocalModel, pairs: Sequence[tuple[list[int], list[int]]]) -> list[list[float]]:
    ids, mask = pad_rows([prompt for prompt, _ in pairs], local.pad_id, left=False, device=local.device)
    start = local.model.generation_config.decoder_start_token_id
    start = local.model.config.decoder_start_token_id if start is None else start
    written, _ = pad_rows([[start, *tokens] for _, tokens in pairs], local.pad_id, left=False, device=local.device)
    logits = local.model(input_ids=ids, attention_mask=mask, decoder_input_ids=written, use_cache=False).logits
    return [_token_scores(row[: len(tokens)], tokens) for row, (_, tokens) in zip(logits, pairs, strict=True)]


def _token_scores(logits: Any, tokens: Sequence[int]) -> list[float]:
    """Log-probabilities of tokens; `logits` has shape (tokens, vocabulary)."""
    scores = logits.float().log_softmax(-1)
    return [float(scores[position, token]) for position, token in enumerate(tokens)]
