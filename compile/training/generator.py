"""Train RQ-RAG's generator: a causal model that learns to write transcripts.

Source: "RQ-RAG: Learning to Refine Queries for Retrieval Augmented Generation", section 2.2, equation 2, appendix B.1.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from knowgap.compiling.data.dataset import Dataset
from knowgap.compiling.evaluation.evaluator import evaluate
from knowgap.compiling.run import Run
from knowgap.compiling.training.config import GeneratorConfig
from knowgap.compiling.training.fit import Job
from knowgap.compiling.training.language_model import IGNORED, Row, language_model_job
from knowgap.compiling.training.trained import Trained, Values, held_out_questions, train
from knowgap.compiling.training.transcripts import TranscriptRecord, construct_transcripts, count_transcripts
from knowgap.errors import LanguageModelError
from knowgap.lms.local.loading import load_tokenizer
from knowgap.lms.trained import load_trained
from knowgap.lms.transcripts import (
    CONTROL_TOKENS,
    EVIDENCE,
    EVIDENCE_END,
    TranscriptStep,
    add_control_tokens,
    transcript,
    written,
)
from knowgap.programs.rq_rag import RQRAG
from knowgap.retrieval.passage import Retriever
from knowgap.signatures import STYLES
from knowgap.storage.files import json_digest
from knowgap.storage.processes import main_process_first

METRICS = ("f1", "exact_match", "upper_bound")
"""The metrics by which generators are measured."""

_GIVEN = re.compile(rf"\n{re.escape(EVIDENCE)}.*?{re.escape(EVIDENCE_END)}\n", re.DOTALL)
"""What a query found, in a transcript."""


def rq_rag(
    data: Dataset,
    retriever: Retriever,
    output: str | Path,
    *,
    base: str,
    config: GeneratorConfig | None = None,
    limit: int | None = None,
    run: Run | None = None,
) -> Trained:
    """Let a teacher write transcripts, train RQ-RAG's generator on them, and measure it on other questions.

    The transcripts are kept beside the output, in `OUTPUT-transcripts.jsonl`. A run that was killed continues with the
    same call, and transcripts that were written elsewhere are taken over. The generator is measured with the paper's
    tree (section 2.3), and without search.

    Args:
        data: the questions; transcripts are made of those of the split `train`.
        retriever: the index in which the queries are searched.
        output: the folder of the generator, which `--part generator=FOLDER` takes.
        base: a causal model to start from, by folder or hub name.
        config: the settings.
        limit: take at most this many questions of each split.
        run: the teacher as its language model, and how many transcripts it writes at a time.

    Raises:
        UsageError: there is no teacher, no question is left to measure on, or the output holds something else.
        LanguageModelError: the teacher does not answer, or the base cannot be loaded.
        MissingDependency: a package of the extra `train` is not installed.
    """
    config, run, output = config or GeneratorConfig(), run or Run(), Path(output)
    examples = data.questions("train", limit)
    held_out = held_out_questions(data, config.measured_on, limit)
    with main_process_first():
        file = output.with_name(f"{output.name}-transcripts.jsonl")
        made = construct_transcripts(examples, retriever, data.corpus, file, config, run)
    job, too_long = generator_job(made.records, output, base=base, config=config)

    def score(depth: int) -> dict[str, list[float]]:
        generator = load_trained("generator", output)
        generator.engine.load()  # refuses a model that cannot be loaded
        program = RQRAG(retriever, generator=generator, depth=depth, top_k=config.top_k)
        alone = Run(num_threads=1, seed=config.seed, progress=run.progress)
        try:
            found = evaluate(program, held_out, METRICS, run=alone)
        except LanguageModelError:  # none of its first replies can be read
            return {metric: [0.0] * len(held_out) for metric in METRICS}
        return {metric: list(found.scores(metric).values()) for metric in METRICS}

    def measure() -> Values:
        return {"trained, no search": score(0), "trained": score(config.depth)}

    counts = ", ".join(f"{count} {what}" for what, count in count_transcripts(made.records).items())
    notes = [f"transcripts of {len(made.records)} questions: {counts}; {made.calls} calls of the teacher"]
    notes += [f"{len(too_long)} transcripts are too long: left out"] if too_long else []
    return train(job, measure if held_out else None, notes=notes, progress=run.progress)


def generator_job(
    records: Sequence[TranscriptRecord], output: str | Path, *, base: str, config: GeneratorConfig
) -> tuple[Job, list[str]]:
    """The job that trains a generator on transcripts, with the control tokens added to the vocabulary of the base.

    Transcripts that were dropped are left out. With LoRA, the new embeddings of the control tokens are trained as well,
    and so is the last layer if it does not share them.

    Returns:
        The job, and the ids of the questions whose transcripts are too long, which are left out.

    Raises:
        LanguageModelError: the base cannot be loaded.
        MissingDependency: torch or Transformers is not installed.
    """
    tokenizer = _tokenizer(base)
    rows: list[Row] = []
    too_long: list[str] = []
    for record in records:
        if not record.dropped:
            row = encode_record(tokenizer, record, config.mask_evidence)
            if len(row["input_ids"]) > config.max_length:  # a transcript that is cut off has no answer
                too_long.append(record.id)
            else:
                rows.append(row)
    facts = {"kind": "rq-rag", "data": json_digest(rows)}
    return language_model_job(rows, output, base, config=config, facts=facts, prepare=_prepare), too_long


def encode_record(tokenizer: Any, record: TranscriptRecord, mask_evidence: bool = True) -> Row:
    """Encode a record's transcript; see `encode`."""
    steps = [TranscriptStep(step.action, step.query, step.found) for step in record.steps]
    answer = written("answer", record.answer)
    messages = transcript(STYLES[record.style], record.question, steps, answer, record.history)
    return encode(tokenizer, messages, mask_evidence)


def encode(tokenizer: Any, messages: Sequence[Mapping[str, str]], mask_evidence: bool = True) -> Row:
    """Encode a transcript: `input_ids`, and `labels`, which are `IGNORED` for tokens that are left out of the loss.

    The loss is on the control tokens of actions, the queries, the answer and their ends (equation 2), and never on the
    prompt. With `mask_evidence=False`, it is on the retrieved passages too, as in the released training by default.
    """
    text = tokenizer.apply_chat_template(messages, tokenize=False, continue_final_message=True)
    begin = len(text) - len(messages[-1]["content"])
    given = [(0, begin), *(found.span() for found in _GIVEN.finditer(text, begin) if mask_evidence)]
    encoded = tokenizer(text, add_special_tokens=False, return_offsets_mapping=True, verbose=False)
    ids, places = encoded["input_ids"], encoded["offset_mapping"]
    learnt = [not any(first <= place < end for first, end in given) for place, _ in places]
    return {"input_ids": ids, "labels": [id if own else IGNORED for id, own in zip(ids, learnt, strict=True)]}


def _tokenizer(base: str) -> Any:
    """The tokenizer of a base, with the control tokens that it lacks."""
    tokenizer = load_tokenizer(base)
    add_control_tokens(tokenizer)
    return tokenizer


def _prepare(model: Any, tokenizer: Any) -> dict[str, Any]:
    """Add the control tokens to a model; return the settings of LoRA by which their embeddings are trained."""
    add_control_tokens(tokenizer, model)
    names = {part: name.rpartition(".")[2] for name, part in model.named_modules()}
    given, read = model.get_input_embeddings(), model.get_output_embeddings()
    settings: dict[str, Any] = {
        "trainable_token_indices": {names[given]: tokenizer.convert_tokens_to_ids(list(CONTROL_TOKENS))}
    }
    if read is not None and read.weight is not given.weight:
        settings["modules_to_save"] = [names[read]]
    return settings
