"""Train RA-ISF's sub-models: self-knowledge, relevance of passages, decomposition of questions.

Source: "RA-ISF: Learning to Answer and Understand from Retrieval Augmentation via Iterative Self-Feedback", section
3.2, equation 1 (cross-entropy of the label given the input), table 4 and appendix A.
"""

from __future__ import annotations

import functools
from collections import Counter, defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import dspy

from knowgap.compiling.data.dataset import Dataset
from knowgap.compiling.evaluation.metrics.answers import token_f1
from knowgap.compiling.evaluation.metrics.normalize import normalize_answer
from knowgap.compiling.evaluation.provenance import digest
from knowgap.compiling.teacher import TeacherRecords, ask_teacher
from knowgap.compiling.training.config import LanguageModelConfig, SubModelConfig, TrainingConfig
from knowgap.compiling.training.cross_encoder import (
    base_folder,
    check_window,
    cross_encoder_job,
    read_base_config,
    untrained_reranker,
)
from knowgap.compiling.training.fit import Job, TrainingPlan, plan
from knowgap.compiling.training.labelling import (
    TASKS,
    Item,
    Label,
    LabelledExample,
    Task,
    count_missing,
    label_items,
    make_labeller,
    predictor_of,
    retrieve_items,
    split_held_out,
)
from knowgap.compiling.training.language_model import conversation_row, language_model_job, plan_language_model
from knowgap.compiling.training.released import read_released_labels
from knowgap.compiling.training.trained import Trained, train
from knowgap.errors import UnknownName, UsageError
from knowgap.lms.local.loading import load_model
from knowgap.lms.providers import make_lm
from knowgap.lms.trained import load_trained
from knowgap.programs.ra_isf import RAISF
from knowgap.programs.replies.adapter import adapter_in_use
from knowgap.programs.trace.recorder import run_in_threads
from knowgap.retrieval.passage import Retriever
from knowgap.retrieval.rerankers.reranker import Reranker
from knowgap.storage.processes import main_process_first
from knowgap.storage.progress import Progress


def ra_isf(
    data: Dataset,
    output: str | Path,
    *,
    base: str,
    teacher: dspy.BaseLM | None = None,
    retriever: Retriever | None = None,
    labels: str | Path | None = None,
    tasks: Sequence[Task] = TASKS,
    config: SubModelConfig | None = None,
    split: str = "train",
    limit: int | None = None,
    num_threads: int = 4,
    labels_only: bool = False,
    dry_run: bool = False,
    gpus: tuple[int, float] | None = None,
    progress: Progress | None = None,
) -> dict[Task, Trained] | dict[Task, TrainingPlan]:
    """Label examples for RA-ISF's sub-models, train the models, and measure how they agree with held-out labels.

    The models are written to `output/know`, `output/relevant` and `output/decompose`, and the labels of each beside it.
    A run that was killed continues with the same call. Among the scores, `majority` is a baseline without a model:
    always the most frequent label, or the question itself as the only sub-question.

    Args:
        data: the questions.
        output: the folder of the models.
        base: the model to start from, by folder or hub name: a T5 or a causal model, which learns to answer the prompts
            of RA-ISF; for relevant also an encoder, such as `embedded`, the embedded reader's.
        teacher: the language model that labels; may be None if no label comes from one.
        retriever: finds the passages whose relevance is labelled; needed for `relevant`.
        labels: a file of labels in the layout of the authors' training sets, for the one sub-model of `tasks`, instead
            of those of a teacher or of the data.
        tasks: which of the three to train.
        config: the settings.
        split: the split whose questions are labelled.
        limit: take at most this many questions.
        num_threads: how many examples are labelled at a time.
        labels_only: label, train nothing, and return what the training will take.
        dry_run: label and train nothing, and return what both would take. An example of a language model is assumed to
            be as long as `max_length`.
        gpus: with `dry_run` or `labels_only`, how many GPUs would train, and the GB of each; those of this machine by
            default.
        progress: called with the units done, all units, and what is done.

    Raises:
        UsageError: a model that is needed is missing, or the output holds something else.
        UnknownName: there is no such sub-model.
        CheckpointError: the base cannot be loaded.
        LanguageModelError: the teacher does not answer.
    """
    config, examples = config or SubModelConfig(), data.questions(split, limit)
    program = RAISF(style="yes_no" if all(e.answer in ("yes", "no") for e in examples) else "short")
    scores: dict[Task, bool] = {task: is_cross_encoder(task, base, config) for task in check_tasks(tasks)}
    if labels is not None and len(scores) != 1:
        raise UsageError(f"{labels} holds labels of one sub-model: name that one (tasks=, --sub-model)")
    released = None if labels is None else read_released_labels(labels, next(iter(scores)))
    done: dict[Task, Any] = {}
    for task, cross_encoder in scores.items():
        own, file = config, Path(output) / f"{task}.jsonl"
        if cross_encoder and "learning_rate" not in config.model_fields_set:
            own = config.model_copy(update={"learning_rate": 1e-4})
        source = "data" if released is not None else getattr(own, f"{task}_from")
        labeller = make_labeller(task, source, teacher, program)
        items = [Item(example) for example in examples]
        if task == "relevant" and released is None:
            if retriever is None:
                raise UsageError("the sub-model relevant learns from passages that an index finds: give a retriever")
            items = retrieve_items(examples, retriever, own.top_k)
        made = TeacherRecords(released or [], 0, len(released or []))
        if dry_run and released is None:
            learnt, held_out = _drafts(task, items[: 4 * own.batch_size]), []
            count, calls = round((1 - own.held_out) * len(items)), labeller.calls * count_missing(items, file)
        else:
            if released is None:
                with main_process_first():
                    made = label_items(items, labeller, file, num_threads=num_threads, progress=progress)
            learnt, held_out = split_held_out(made.records, own.held_out, own.seed)
            if not held_out:
                raise UsageError(f"{task}: no example is left to evaluate the model on; label more questions")
            count, calls = len(learnt), 0
        if (labels_only or dry_run) and not cross_encoder:
            done[task] = plan_language_model(
                base, own, examples=count, tokens=own.max_length, teacher_calls=calls, gpus=gpus
            )
            continue
        predictor = predictor_of(program, task)
        job = sub_model_job(task, predictor, base, learnt, file.with_suffix(""), own)
        if labels_only or dry_run:
            done[task] = plan(job, examples=count, teacher_calls=calls)
            continue
        done[task] = train(
            job,
            lambda job=job, task=task, predictor=predictor, learnt=learnt, held_out=held_out: {
                "majority": majority_agreement(task, learnt, held_out),
                "untrained": measure_agreement(untrained(base, config.seed), predictor, held_out),
                "trained": measure_agreement(load_trained(task, job.output), predictor, held_out),
            },
            notes=[
                f"{task}: {len(learnt)} labels to learn and {len(held_out)} held out; "
                f"{made.calls} calls of the teacher, {made.kept} labels from before"
            ],
            progress=progress,
        )
    return done


def check_tasks(names: Sequence[str]) -> list[Task]:
    """The sub-models of these names, in the order of `TASKS`.

    Raises:
        UnknownName: there is no such sub-model.
    """
    for name in names:
        if name not in TASKS:
            raise UnknownName.among("sub-model", name, TASKS)
    return [task for task in TASKS if task in names]


def _drafts(task: Task, items: Sequence[Item]) -> list[LabelledExample]:
    """Examples about as long as those that a teacher will label, to measure with."""
    drafts = []
    for number, item in enumerate([*items, *items]):
        question = item.example.question
        label = [question] * 2 if task == "decompose" else number % 2 == 0
        drafts.append(LabelledExample(question=question, passage=str(item.passage or ""), label=label))
    return drafts


def is_cross_encoder(task: Task, base: str, config: TrainingConfig) -> bool:
    """Whether a base becomes a cross-encoder; one that writes text is trained to answer the prompts of RA-ISF.

    Raises:
        CheckpointError: there is no such model.
        UsageError: it writes no text, and is to be trained for another task than `relevant`; or it reads fewer tokens
            than the settings say.
    """
    found = read_base_config(base_folder(base))
    writes = _writes(found)
    if not writes and task != "relevant":
        raise UsageError(f"{base} cannot write text: the sub-model {task} must start from a T5 or a causal model")
    if not writes:
        check_window(found, base, min(config.max_length, _LONGEST_PAIR))
    return not writes


def _writes(base_config: Any) -> bool:
    """Whether a model of this configuration generates text."""
    architecture = next(iter(base_config.architectures or [""]))
    return base_config.is_encoder_decoder or architecture.endswith(("ForCausalLM", "LMHeadModel"))


_LONGEST_PAIR = 512
"""The most tokens of a question with a passage that a cross-encoder reads."""


def sub_model_job(
    task: Task,
    predictor: dspy.Predict,
    base: str,
    examples: Sequence[LabelledExample],
    output: str | Path,
    config: LanguageModelConfig,
) -> Job:
    """The job that trains a sub-model to answer a predictor of RA-ISF; `load_trained` reads its folder.

    Raises:
        UsageError: there is only one label, `max_length` is too small, or a setting does not fit a cross-encoder.
    """
    if task != "decompose" and len({bool(example.label) for example in examples}) < 2:
        raise UsageError(f"all {len(examples)} examples of {task} have the same label: there is nothing to learn")
    conversations = [as_conversation(predictor, example) for example in examples]
    facts = {"sub_model": task, "data": digest(conversations)}
    if is_cross_encoder(task, base, config):
        if config.fsdp or config.load_in_4bit:
            raise UsageError(f"{base}: fsdp and load_in_4bit are settings of models that write text; this one scores")
        pairs = [(example.question, example.passage, float(example.label is True)) for example in examples]
        config = config.model_copy(update={"max_length": min(config.max_length, _LONGEST_PAIR)})
        return cross_encoder_job(pairs, output, base=base, config=config, facts=facts)
    local = load_model(base, "cpu", "float32")
    rows = [conversation_row(local, conversation) for conversation in conversations]
    short = [row for row in rows if len(row["input_ids"]) <= config.max_length]
    if not short:
        longest = max(len(row["input_ids"]) for row in rows)
        raise UsageError(
            f"max_length = {config.max_length}: no prompt of {task} fits; the longest takes {longest} tokens"
        )
    return language_model_job(short, output, base, config=config, facts=facts)


def as_conversation(predictor: dspy.Predict, example: LabelledExample) -> list[dict[str, str]]:
    """The prompt of a predictor, and the reply that says the label."""
    signature: Any = predictor.signature
    [field] = signature.output_fields
    data = adapter_in_use().format_finetune_data(
        signature=signature, demos=[], inputs=_inputs(predictor, example), outputs={field: example.label}
    )
    return data["messages"]


def _inputs(predictor: dspy.Predict, example: LabelledExample) -> dict[str, str]:
    signature: Any = predictor.signature
    return {name: getattr(example, name) for name in signature.input_fields}


def untrained(base: str, seed: int) -> Any:
    """What a sub-model is before its training."""
    if _writes(read_base_config(base_folder(base))):
        return make_lm(f"hf/{base}")
    model: Any = untrained_reranker(base, seed)
    model.default_threshold = 0.0
    return model


Agreement = dict[str, list[float]]
"""By metric, the agreement of every question with its labels, 0 to 1. `agreement` is the share of equal labels, or
whether the sub-questions are equal, in order, apart from case and punctuation; `f1` is the F1 of their words."""


def measure_agreement(model: Any, predictor: dspy.Predict, examples: Sequence[LabelledExample]) -> Agreement:
    """The agreement of a model with the labels of examples, at least one; an unreadable reply is a no, or no question.

    `model` is a language model, which the predictor asks, or a cross-encoder.
    """
    if isinstance(model, Reranker):
        scores = model.score([(example.question, example.passage) for example in examples])
        return _compare(examples, [score >= (model.default_threshold or 0.0) for score in scores])
    tasks = [functools.partial(ask_teacher, predictor, model, **_inputs(predictor, each)) for each in examples]
    said: list[Label] = []
    for example, output in zip(examples, run_in_threads(tasks), strict=True):
        value = None if output is None else next(iter(output.values()))
        said.append(list(value or []) if isinstance(example.label, list) else value is True)
    return _compare(examples, said)


def majority_agreement(task: Task, train: Sequence[LabelledExample], examples: Sequence[LabelledExample]) -> Agreement:
    """The agreement of a baseline: always the most frequent label, or the question itself as the only sub-question."""
    if task == "decompose":
        return _compare(examples, [[example.question] for example in examples])
    [(label, _)] = Counter(example.label is True for example in train).most_common(1)
    return _compare(examples, [label] * len(examples))


def _compare(examples: Sequence[LabelledExample], said: Sequence[Label]) -> Agreement:
    scores: dict[str, dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    for example, answer in zip(examples, said, strict=True):
        if isinstance(example.label, list) and isinstance(answer, list):
            same = [*map(normalize_answer, answer)] == [*map(normalize_answer, example.label)]
            scores["agreement"][example.question].append(float(same))
            scores["f1"][example.question].append(token_f1(" ".join(answer), " ".join(example.label)))
        else:
            scores["agreement"][example.question].append(float(answer == example.label))
    return {metric: [sum(each) / len(each) for each in by_question.values()] for metric, by_question in scores.items()}
