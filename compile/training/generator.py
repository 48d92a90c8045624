"""Train RQ-RAG's generator: a causal model that learns to write transcripts.

Source: "RQ-RAG: Learning to Refine Queries for Retrieval Augmented Generation", section 2.2, equation 2, appendix B.1.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import dspy

from knowgap.compiling.data.dataset import Dataset
from knowgap.compiling.evaluation.evaluator import evaluate
from knowgap.compiling.run import Run
from knowgap.compiling.teacher import TeacherRecords
from knowgap.compiling.training.config import GeneratorConfig
from knowgap.compiling.training.fit import Job, TrainingPlan
from knowgap.compiling.training.language_model import (
    IGNORED,
    Row,
    language_model_job,
    plan_language_model,
)
from knowgap.compiling.training.ranking import held_out_questions
from knowgap.compiling.training.released import read_released_transcripts
from knowgap.compiling.training.trained import Trained, Values, train
from knowgap.compiling.training.transcripts import (
    TranscriptRecord,
    construct_transcripts,
    count_transcripts,
    draft_transcripts,
    teacher_calls,
)
from knowgap.errors import UsageError
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
from knowgap.retrieval.hub import local_path
from knowgap.retrieval.passage import Retriever
from knowgap.signatures import STYLES
from knowgap.storage.files import json_digest
from knowgap.storage.processes import main_process_first
from knowgap.storage.progress import Progress

METRICS = ("f1", "exact_match", "upper_bound")
"""The metrics by which generators are measured."""

_DRAFTED = 64  # transcripts that are drafted for a plan


def rq_rag(
    data: Dataset,
    retriever: Retriever,
    output: str | Path,
    *,
    base: str,
    teacher: dspy.BaseLM | None = None,
    transcripts: str | Path | None = None,
    config: GeneratorConfig | None = None,
    limit: int | None = None,
    num_threads: int = 4,
    labels_only: bool = False,
    dry_run: bool = False,
    gpus: tuple[int, float] | None = None,
    progress: Progress | None = None,
) -> Trained | TrainingPlan:
    """Let a teacher write transcripts, train RQ-RAG's generator on them, and measure it on other questions.

    The transcripts are kept beside the output, in `OUTPUT-transcripts.jsonl`. A run that was killed continues with the
    same call.

    Args:
        data: the questions; transcripts are made of those of the split `train`.
        retriever: the index in which the queries are searched.
        output: the folder of the generator, which `--part generator=FOLDER` takes.
        base: a causal model to start from, by folder or hub name.
        teacher: the language model that writes the transcripts; may be None if `transcripts` is given.
        transcripts: a file of transcripts in the layout of the authors' training set, instead of those of a teacher.
        config: the settings.
        limit: take at most this many questions of each split.
        num_threads: how many transcripts the teacher writes at a time.
        labels_only: let the teacher write the transcripts, train nothing, and return what the training will take.
        dry_run: ask and train nothing, and return what both would take. Transcripts are assumed to be as long as those
            of the known answers or, if the base has no tokenizer yet, as long as `max_length`.
        gpus: with `dry_run` or `labels_only`, how many GPUs would train, and the GB of each; those of this machine by
            default.
        progress: called with the units done, all units, and what is done.

    Raises:
        UsageError: no question is left to measure on, or the output holds something else.
        LanguageModelError: the teacher does not answer, or the base cannot be loaded.
        MissingDependency: a package of the extra `train` is not installed.
    """
    config, output = config or GeneratorConfig(), Path(output)
    examples = data.questions("train", limit)
    held_out = held_out_questions(data, config.measured_on, limit)
    if transcripts is None and teacher is None:
        raise UsageError("training needs transcripts: give a teacher that writes them, or a file of transcripts")
    released = [] if transcripts is None else read_released_transcripts(transcripts)

    def plan(records: Sequence[TranscriptRecord], count: int, calls: int = 0) -> TrainingPlan:
        tokens = _mean_length(records, base, config)
        return plan_language_model(
            base, config, examples=count, tokens=tokens, teacher_calls=calls, gpus=gpus, trains_head=True
        )

    if dry_run and transcripts is None:
        drafts = draft_transcripts(examples[:_DRAFTED], retriever, config)
        return plan(drafts, len(examples), teacher_calls(examples, config))
    made = TeacherRecords(released, 0, len(released))
    with main_process_first():
        if teacher is not None and transcripts is None:
            made = construct_transcripts(
                examples,
                retriever,
                teacher,
                output.with_name(f"{output.name}-transcripts.jsonl"),
                config=config,
                passages={passage.id: passage for passage in data.corpus},
                num_threads=num_threads,
                progress=progress,
            )
    if labels_only or dry_run:
        kept = [record for record in made.records if not record.dropped]
        return plan(kept, len(kept))
    job, too_long = generator_job(made.records, output, base=base, config=config)

    def score(folder: Path, depth: int) -> dict[str, list[float]]:
        program = RQRAG(retriever, generator=load_trained("generator", folder), depth=depth, top_k=config.top_k)
        run = Run(num_threads=1, seed=config.seed, progress=progress)
        found = evaluate(program, held_out, METRICS, run=run)
        readable = [1 - record.cost.unreadable / max(1, record.cost.lm_calls) for record in found.records]
        return {**{metric: list(found.scores(metric).values()) for metric in METRICS}, "readable": readable}

    def measure() -> Values:
        return {"trained, no search": score(output, 0), "trained": score(output, config.depth)}

    counts = ", ".join(f"{count} {what}" for what, count in count_transcripts(made.records).items())
    notes = [f"transcripts of {len(made.records)} questions: {counts}; {made.calls} calls of the teacher"]
    notes += [f"{len(too_long)} transcripts are too long: left out"] if too_long else []
    return train(job, measure if held_out else None, notes=notes, progress=progress)


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


_GIVEN = re.compile(rf"\n{re.escape(EVIDENCE)}.*?{re.escape(EVIDENCE_END)}\n", re.DOTALL)
"""What a query found, in a transcript."""


def _tokenizer(base: str) -> Any:
    """The tokenizer of a base, with the control tokens that it lacks."""
    tokenizer = load_tokenizer(base)
    add_control_tokens(tokenizer)
    return tokenizer


def _mean_length(drafts: Sequence[TranscriptRecord], base: str, config: GeneratorConfig) -> float:
    if (folder := local_path(base)) is not None and not any(folder.glob("tokenizer*")):
        return config.max_length
    tokenizer = _tokenizer(base)
    lengths = [len(encode_record(tokenizer, draft)["input_ids"]) for draft in drafts]
    return sum(min(length, config.max_length) for length in lengths) / max(1, len(lengths))


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
