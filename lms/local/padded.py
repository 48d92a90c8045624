"""Generate for a batch of prompts that are filled up to one length."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Any

from knowgap.lms.local.jobs import GenerationJob, Reply
from knowgap.lms.local.labels import pad_rows
from knowgap.lms.local.loading import LocalModel

__all__ = ["generate_padded", "generation_config"]


def generation_config(local: LocalModel, limit: int) -> Any:
    """The model's own settings for greedy decoding of at most `limit` tokens.

    What its checkpoint says about drawing tokens is left out; what it says about special tokens, penalties and
    forbidden tokens stays.
    """
    config = copy.deepcopy(local.model.generation_config)
    config.update(
        do_sample=False, temperature=None, top_p=None, top_k=None, min_p=None, typical_p=None, num_beams=1,
        max_length=None, min_length=None, max_new_tokens=limit, eos_token_id=list(local.end_ids) or None,
        pad_token_id=local.pad_id, num_return_sequences=1, return_dict_in_generate=False,
    )  # fmt: skip
    return config


def generate_padded(local: LocalModel, jobs: Sequence[GenerationJob]) -> list[Reply]:
    """Reply to jobs in one batch.

    Prompts of a causal model are filled up on the left, those of a sequence-to-sequence model on the right; what is
    filled up is masked and has no positions, so a job gets the reply that it would get alone, up to the rounding of
    floating-point sums.
    """
    import torch
    from transformers import LogitsProcessorList, StoppingCriteriaList

    from knowgap.lms.local.drawing import DrawTokens, EndRows, Row

    ids, mask = pad_rows([job.ids for job in jobs], local.pad_id, left=not local.is_seq2seq, device=local.device)
    prompt = 1 if local.is_seq2seq else ids.shape[1]
    rows = [Row(job) for job in jobs]
    with torch.inference_mode():
        output = local.model.generate(
            input_ids=ids,
            attention_mask=mask,
            generation_config=generation_config(local, max(job.limit for job in jobs)),
            logits_processor=LogitsProcessorList([DrawTokens(rows)]),
            stopping_criteria=StoppingCriteriaList([EndRows(local, rows, prompt)]),
        )
    written = output[:, prompt:].tolist()
    return [Reply(tokens[: row.written], row.ended, row.scores) for row, tokens in zip(rows, written, strict=True)]
