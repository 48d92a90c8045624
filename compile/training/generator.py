"""Train RQ-RAG's generator: a causal model that learns to write transcripts.

Source: "RQ-RAG: Learning to Refine Queries for Retrieval Augmented Generation", section 2.2, equation 2, appendix B.1.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import dspy

from knowgap.compiling.run import Run
from knowgap.compiling.training.config import GeneratorConfig
from knowgap.compiling.training.fit import Job, TrainingResult, fit
from knowgap.compiling.training.language_model import IGNORED, Conversation, Row, language_model_job
from knowgap.compiling.training.transcripts import TranscriptRecord, construct_transcripts, count_transcripts
from knowgap.lms.local import LocalModel
from knowgap.lms.transcripts import (
    CONTROL_TOKENS,
    EVIDENCE,
    EVIDENCE_END,
    TranscriptStep,
    add_control_tokens,
    transcript,
    written,
)
from knowgap.retrieval.passage import Passage, Retriever
from knowgap.signatures import STYLES
from knowgap.storage.processes import main_process_first

_GIVEN = re.compile(rf"\n{re.escape(EVIDENCE)}.*?{re.escape(EVIDENCE_END)}\n", re.DOTALL)
"""What a query found, in a transcript."""


def train_rq_rag(
    examples: Sequence[dspy.Example],
    retriever: Retriever,
    corpus: Iterable[Passage],
    output: Path,
    base: str,
    config: GeneratorConfig,
    run: Run,
) -> list[TrainingResult]:
    """Let a teacher write transcripts, and train RQ-RAG's generator on them; see `train`."""
    file = output.with_name(f"{output.name}-transcripts.jsonl")
    with main_process_first():
        made = construct_transcripts(examples, retriever, corpus, file, config, run)
    done = fit(generator_job(made.records, output, base=base, config=config), run.progress)
    too_long = sum(not record.dropped for record in made.records) - done.examples
    counts = [f"{count} {what}" for what, count in count_transcripts(made.records).items()]
    counts += [f"{too_long} too long: left out"] if too_long else []
    note = f"transcripts of {len(made.records)} questions: {', '.join(counts)}; {made.calls} calls of the teacher"
    return [replace(done, notes=(note,))]


def generator_job(
    records: Sequence[TranscriptRecord], output: str | Path, *, base: str, config: GeneratorConfig
) -> Job:
    """The job that trains a generator on transcripts, with the control tokens added to the vocabulary of the base.

    Transcripts that were dropped are left out. With LoRA, the new embeddings of the control tokens are trained as well,
    and so is the last layer if it does not share them.
    """
    conversations = [as_transcript(record) for record in records if not record.dropped]
    return language_model_job(
        conversations,
        output,
        base,
        config=config,
        facts={"kind": "rq-rag"},
        encode=lambda local, conversation: encode(local.tokenizer, conversation),
        prepare=_add_control_tokens,
    )


def as_transcript(record: TranscriptRecord) -> list[dict[str, str]]:
    """The messages of a record's transcript."""
    steps = [TranscriptStep(record.action, step.query, step.found) for step in record.steps]
    return transcript(STYLES[record.style], record.question, steps, written("answer", record.answer))


def encode(tokenizer: Any, messages: Conversation) -> Row:
    """Encode a transcript.

    The loss is on the control tokens of actions, the queries, the answer and their ends (equation 2), and neither on
    the prompt nor on the retrieved passages.
    """
    text = tokenizer.apply_chat_template(messages, tokenize=False, continue_final_message=True)
    begin = len(text) - len(messages[-1]["content"])
    given = [(0, begin), *(found.span() for found in _GIVEN.finditer(text, begin))]
    encoded = tokenizer(text, add_special_tokens=False, return_offsets_mapping=True, verbose=False)
    ids, places = encoded["input_ids"], encoded["offset_mapping"]
    learnt = [not any(first <= place < end for first, end in given) for place, _ in places]
    return {"input_ids": ids, "labels": [id if own else IGNORED for id, own in zip(ids, learnt, strict=True)]}


def _add_control_tokens(local: LocalModel) -> dict[str, Any]:
    """Add the control tokens to a model; return the settings of LoRA by which their embeddings are trained."""
    model, tokenizer = local.model, local.tokenizer
    add_control_tokens(tokenizer, model)
    names = {part: name.rpartition(".")[2] for name, part in model.named_modules()}
    given, read = model.get_input_embeddings(), model.get_output_embeddings()
    settings: dict[str, Any] = {
        "trainable_token_indices": {names[given]: tokenizer.convert_tokens_to_ids(list(CONTROL_TOKENS))}
    }
    if read is not None and read.weight is not given.weight:
        settings["modules_to_save"] = [names[read]]
    return settings
