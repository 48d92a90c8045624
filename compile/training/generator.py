"""Train RQ-RAG's generator: a causal model that learns to write transcripts.

Source: "RQ-RAG: Learning to Refine Queries for Retrieval Augmented Generation", section 2.2, equation 2, appendix B.1.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import dspy

from knowgap.compiling.data.dataset import Dataset
from knowgap.compiling.evaluation.evaluator import evaluate
from knowgap.compiling.evaluation.results import Evaluation
from knowgap.compiling.training.config import GeneratorConfig
from knowgap.compiling.training.cross_encoder import base_facts
from knowgap.compiling.training.fit import Job, TrainingPlan, TrainingResult, fit, is_main_process, plan
from knowgap.compiling.training.language_model import IGNORED, Row, language_model_job
from knowgap.compiling.training.ranking import held_out_questions
from knowgap.compiling.training.transcripts import (
    Construction,
    TranscriptRecord,
    construct_transcripts,
    draft_transcripts,
    teacher_calls,
)
from knowgap.errors import LanguageModelError, shorten
from knowgap.lms.rq_rag.generator import TranscriptGenerator
from knowgap.lms.rq_rag.layout import CONTROL_TOKENS, TranscriptLayout, add_control_tokens
from knowgap.programs.rq_rag import RQRAG
from knowgap.retrieval.passage import Retriever
from knowgap.signatures import STYLES
from knowgap.storage.files import json_digest
from knowgap.storage.progress import Progress

METRICS = ("f1", "exact_match", "upper_bound")
"""What generators are measured by."""

_DRAFTED = 64  # transcripts that are drafted for a plan


@dataclass(frozen=True)
class TrainedGenerator:
    """A trained generator.

    Attributes:
        training: what the training did.
        transcripts: the transcripts that it learnt from.
        too_long: ids of the questions whose transcripts were left out, since they are too long.
        scores: on questions that are not trained on, the scores of the generator before the training, of the trained
            one without search, and of the trained one; empty where nothing was measured.
    """

    training: TrainingResult
    transcripts: Construction
    too_long: list[str]
    scores: dict[str, Evaluation]


def rq_rag(
    data: Dataset,
    retriever: Retriever,
    output: str | Path,
    *,
    base: str,
    teacher: dspy.BaseLM,
    config: GeneratorConfig | None = None,
    limit: int | None = None,
    num_threads: int = 4,
    dry_run: bool = False,
    progress: Progress | None = None,
) -> TrainedGenerator | TrainingPlan:
    """Let a teacher write transcripts, train RQ-RAG's generator on them, and measure it on other questions.

    The transcripts are kept beside the output, in `OUTPUT-transcripts.jsonl`. A run that was killed continues with the
    same call.

    Args:
        data: the questions; transcripts are made of those of the split `train`.
        retriever: what the queries are searched in.
        output: the folder of the generator, which `TranscriptGenerator` and `--part generator=FOLDER` take.
        base: a causal model to start from, by folder or hub name.
        teacher: the language model that writes the transcripts.
        config: the settings.
        limit: take so many questions of each split at most.
        num_threads: questions that the teacher is asked at once.
        dry_run: ask and train nothing, and return what both would take. Transcripts are taken to be as long as those
            of the known answers.
        progress: is called with (units done, units in all, what is done).

    Raises:
        UsageError: no question is left to measure on, or the output holds something else.
        LanguageModelError: the teacher does not answer, or the base cannot be loaded.
        MissingDependency: a package of the extra `train` is not installed.
    """
    config, output = config or GeneratorConfig(), Path(output)
    examples = data.questions("train", limit)
    held_out = held_out_questions(data, config.measured_on, limit) if config.measured_on != "none" else []
    if dry_run:
        drafts = draft_transcripts(examples[:_DRAFTED], retriever, config)
        job, _ = generator_job(drafts, output, base=base, config=config)
        return plan(job, examples=len(examples), teacher_calls=teacher_calls(examples, config))
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
    job, too_long = generator_job(made.kept, output, base=base, config=config)
    result = fit(job, progress)
    if not held_out or not is_main_process():
        return TrainedGenerator(result, made, too_long, {})
    scores = {}
    with TemporaryDirectory() as untrained:
        save_untrained(base, untrained, config.seed)
        for name, folder, depth in (
            ("untrained", Path(untrained), config.depth),
            ("trained, no search", output, 0),
            ("trained", output, config.depth),
        ):
            generator = TranscriptGenerator(folder, max_new_tokens=64)
            program = RQRAG(retriever, generator=generator, depth=depth, top_k=config.top_k)
            scores[name] = evaluate(
                program, held_out, METRICS, lm=generator.lm, num_threads=1, seed=config.seed, progress=progress
            )
            generator.close()
    return TrainedGenerator(result, made, too_long, scores)


def generator_job(
    records: Sequence[TranscriptRecord], output: str | Path, *, base: str, config: GeneratorConfig
) -> tuple[Job, list[str]]:
    """The training of a generator on transcripts, with the control tokens added to the vocabulary of the base.

    With LoRA, the embeddings of the control tokens, which are new, are trained as well; so is the last layer where it
    does not share them.

    Args:
        records: transcripts; those that were dropped are left out.
        output: the folder of the generator.
        base: a causal model, by folder or hub name.
        config: the settings.

    Returns:
        The job, and the ids of the questions whose transcripts are too long, which are left out.

    Raises:
        LanguageModelError: the base cannot be loaded.
        MissingDependency: torch or Transformers is not installed.
    """
    layout = TranscriptLayout(_load(base)[1])
    rows: list[Row] = []
    too_long: list[str] = []
    for record in records:
        if not record.dropped:
            row = encode_record(layout, record, config.mask_evidence)
            if len(row["input_ids"]) > config.max_length:  # a transcript that is cut off has no answer
                too_long.append(record.id)
            else:
                rows.append(row)
    facts = {"kind": "rq-rag", **base_facts(base), "data": json_digest(rows)}
    return language_model_job(
        rows, output, lambda: _load_to_train(base), config=config, facts=facts, lora_settings=_new_tokens
    ), too_long


def save_untrained(base: str, folder: str | Path, seed: int = 0) -> None:
    """Write a generator as it is before the training: the base with new control tokens."""
    from transformers import set_seed

    set_seed(seed)
    for part in _load(base):
        part.save_pretrained(str(folder))


def encode_record(layout: TranscriptLayout, record: TranscriptRecord, mask_evidence: bool = True) -> Row:
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


def _load(base: str) -> tuple[Any, Any]:
    """A base and its tokenizer, both with the control tokens."""
    from transformers import AutoModelForCausalLM, AutoTokenizer

    try:
        tokenizer: Any = AutoTokenizer.from_pretrained(base)
        model: Any = AutoModelForCausalLM.from_pretrained(base, dtype="float32")
    except (OSError, ValueError) as error:
        raise LanguageModelError(f"the base model {base!r} cannot be loaded: {shorten(error, 200)}") from error
    add_control_tokens(tokenizer, model)
    return model, tokenizer


def _load_to_train(base: str) -> tuple[Any, Any]:
    import torch

    model, tokenizer = _load(base)
    if torch.cuda.is_available():  # memory of a GPU is short where transcripts are long
        model.gradient_checkpointing_enable()
    return model, tokenizer


def _new_tokens(model: Any, tokenizer: Any) -> dict[str, Any]:
    """Settings of LoRA that let the control tokens be learnt."""
    names = {part: name.rpartition(".")[2] for name, part in model.named_modules()}
    given, read = model.get_input_embeddings(), model.get_output_embeddings()
    settings: dict[str, Any] = {
        "trainable_token_indices": {names[given]: tokenizer.convert_tokens_to_ids(list(CONTROL_TOKENS))}
    }
    if read is not None and read.weight is not given.weight:
        settings["modules_to_save"] = [names[read]]
    return settings
