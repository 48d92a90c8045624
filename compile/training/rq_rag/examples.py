"""Transcripts as token ids, and which of the tokens the model learns to write."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from knowgap.compiling.training.rq_rag.records import TranscriptRecord
from knowgap.lms.rq_rag.layout import TranscriptLayout
from knowgap.signatures import STYLES

__all__ = ["IGNORED", "TokenExamples", "encode_record", "encode_records"]

IGNORED = -100
"""The label of a token that the loss leaves out."""


class TokenExamples(NamedTuple):
    """Encoded transcripts.

    Attributes:
        examples: `input_ids` and `labels` of each.
        too_long: ids of the records that are longer than allowed, and left out.
    """

    examples: list[dict[str, list[int]]]
    too_long: list[str]


def encode_record(
    layout: TranscriptLayout, record: TranscriptRecord, mask_evidence: bool = True
) -> dict[str, list[int]]:
    """Encode a transcript: `input_ids`, and `labels`, which are `IGNORED` where the model does not write itself.

    The model writes control tokens of actions, queries, the answer and their ends (equation 2). The prompt is never
    learnt.

    Args:
        layout: of the model's tokenizer.
        record: one with a transcript.
        mask_evidence: False learns the retrieved passages as well, as the released training does by default.
    """
    ids = layout.prompt(STYLES[record.style], record.question, record.history)
    labels = [IGNORED] * len(ids)

    def add(part: list[int], learnt: bool) -> None:
        ids.extend(part)
        labels.extend(part if learnt else [IGNORED] * len(part))

    for step in record.steps:
        add(layout.written(step.action, step.query), True)
        add(layout.evidence(step.found), not mask_evidence)
    add(layout.written("answer", record.answer), True)
    return {"input_ids": ids, "labels": labels}


def encode_records(
    layout: TranscriptLayout, records: Iterable[TranscriptRecord], *, max_length: int = 4096, mask_evidence: bool = True
) -> TokenExamples:
    """Encode transcripts; those of more than `max_length` tokens are left out, since a cut one has no answer."""
    examples, too_long = [], []
    for record in records:
        example = encode_record(layout, record, mask_evidence)
        if len(example["input_ids"]) > max_length:
            too_long.append(record.id)
        else:
            examples.append(example)
    return TokenExamples(examples, too_long)
