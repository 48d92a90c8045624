"""Train RA-ISF's sub-models: self-knowledge, relevance of passages, decomposition of questions.

Source: "RA-ISF: Learning to Answer and Understand from Retrieval Augmentation via Iterative Self-Feedback", section
3.2, equation 1 (cross-entropy of the label given the input), table 4 and appendix A.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import dspy
from pydantic import BaseModel

from knowgap.compiling.data.dataset import Dataset
from knowgap.compiling.evaluation.metrics import f1
from knowgap.compiling.evaluation.metrics.normalize import normalize_answer
from knowgap.compiling.evaluation.provenance import digest
from knowgap.compiling.evaluation.statistics import Interval, mean_interval
from knowgap.compiling.training import labellers
from knowgap.compiling.training.config import SubModelConfig, TrainingConfig
from knowgap.compiling.training.cross_encoder import base_folder, cross_encoder_job
from knowgap.compiling.training.fit import Job, TrainingPlan, TrainingResult, fit, is_main_process, plan, process_count
from knowgap.compiling.training.labelling import (
    Item,
    LabelledExample,
    Labeller,
    Labelling,
    count_missing,
    label_items,
    split_held_out,
)
from knowgap.compiling.training.language_model import Row, language_model_job, prompt_and_reply
from knowgap.errors import CheckpointError, UnknownName, UsageError, shorten
from knowgap.lms.local.loading import load_model
from knowgap.lms.ra_isf.card import TASKS, Kind, SubModelCard, Task
from knowgap.lms.ra_isf.sub_models import (
    DecompositionModel,
    RelevanceModel,
    SelfKnowledgeModel,
    SubModel,
    fit_prompt,
    join_questions,
    load_sub_model,
    target_ids,
)
from knowgap.programs.ra_isf import RAISF
from knowgap.retrieval.passage import Retriever
from knowgap.storage.progress import Progress


@dataclass(frozen=True)
class TrainedSubModel:
    """A trained sub-model, and how it and others agree with its labels on questions that were held out.

    Attributes:
        training: what the training did.
        labelling: the labels, and how many calls of the teacher they took.
        held_out: how many examples were held out.
        majority: the agreement of what needs no model; None in the processes that do not measure.
        before: the agreement of the model before the training.
        after: the agreement of the trained model.
    """

    training: TrainingResult
    labelling: Labelling
    held_out: int
    majority: Agreement | None = None
    before: Agreement | None = None
    after: Agreement | None = None


def ra_isf(
    data: Dataset,
    output: str | Path,
    *,
    base: str,
    teacher: dspy.BaseLM | None = None,
    retriever: Retriever | None = None,
    tasks: Sequence[Task] = TASKS,
    config: SubModelConfig | None = None,
    split: str = "train",
    limit: int | None = None,
    num_threads: int = 4,
    dry_run: bool = False,
    progress: Progress | None = None,
) -> dict[Task, TrainedSubModel] | dict[Task, TrainingPlan]:
    """Label examples of RA-ISF's sub-models, train them, and measure how they agree with labels held out.

    Writes the models into `output/know`, `output/relevant` and `output/decompose`, and the labels of each beside it. A
    run that was killed continues with the same call.

    Args:
        data: the questions.
        output: the folder of the models.
        base: the model to start from, by folder or hub name: a T5 or a causal model; for know and relevant also an
            encoder, such as `embedded`, the embedded reader's.
        teacher: the language model that labels; may be None where no label comes from one.
        retriever: finds the passages whose relevance is labelled; needed for `relevant`.
        tasks: which of the three to train.
        config: the settings.
        split: the split whose questions are labelled.
        limit: take so many questions at most.
        num_threads: examples labelled at once.
        dry_run: label and train nothing, and return what both would take.
        progress: is called with (units done, units in all, what is done).

    Raises:
        UsageError: a model that is needed is missing, or the output holds something else.
        UnknownName: there is no such sub-model.
        CheckpointError: the base cannot be loaded.
        LanguageModelError: the teacher does not answer.
    """
    config, examples = config or SubModelConfig(), data.questions(split, limit)
    program = RAISF(style="yes_no" if all(e.answer in ("yes", "no") for e in examples) else "short")
    program.configure(chained=config.chained)
    cards: dict[Task, tuple[SubModelCard, SubModelConfig]] = {}
    for task in check_tasks(tasks):
        card = base_card(task, base, config)
        own = config
        if card.kind == "cross_encoder" and "learning_rate" not in config.model_fields_set:
            own = config.model_copy(update={"learning_rate": 1e-4})
        cards[task] = card, own
    done: dict[Task, Any] = {}
    for task, (card, own) in cards.items():
        labeller, file = _labeller(task, own, teacher, program), Path(output) / f"{task}.jsonl"
        items = [Item(example) for example in examples]
        if task == "relevant":
            if retriever is None:
                raise UsageError("the examples of relevant are passages that an index finds: give a retriever")
            items = labellers.retrieve_items(examples, retriever, own.top_k, data.corpus)
        if dry_run:
            done[task] = _plan(task, card, base, items, labeller, file, own)
            continue
        if process_count() > 1 and count_missing(items, file):
            raise UsageError(f"{task}: examples have no label yet; label them in one process first")
        labelling = label_items(items, labeller, file, num_threads=num_threads, progress=progress)
        learnt, held_out = split_held_out(labelling.examples, own.held_out, own.seed)
        if not held_out:
            raise UsageError(f"{task}: no example is left to evaluate the model on; label more questions")
        result = fit(sub_model_job(card, base, learnt, Path(output) / task, own), progress)
        if not is_main_process():
            done[task] = TrainedSubModel(result, labelling, len(held_out))
            continue
        done[task] = TrainedSubModel(
            result,
            labelling,
            len(held_out),
            majority=majority_agreement(task, learnt, held_out),
            before=measure_agreement(load_sub_model(task, base_folder(base), card), held_out),
            after=measure_agreement(load_sub_model(task, result.folder), held_out),
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


def asks_teacher(task: Task, config: SubModelConfig) -> bool:
    """Whether a language model labels the examples of a sub-model."""
    return task == "know" or (config.relevant_from if task == "relevant" else config.decompose_from) == "teacher"


def _labeller(task: Task, config: SubModelConfig, teacher: dspy.BaseLM | None, program: RAISF) -> Labeller:
    if not asks_teacher(task, config):
        return (
            labellers.gold_passages() if task == "relevant" else labellers.worded_sub_questions(chained=config.chained)
        )
    if teacher is None:
        raise UsageError(f"a language model labels the examples of {task}: give a teacher")
    if task == "know":
        judged = config.know_from == "teacher"
        return (labellers.says_that_it_knows if judged else labellers.answers_rightly)(teacher, program)
    return (labellers.judges_relevance if task == "relevant" else labellers.decomposes)(teacher, program)


def _plan(
    task: Task,
    card: SubModelCard,
    base: str,
    items: Sequence[Item],
    labeller: Labeller,
    file: Path,
    config: SubModelConfig,
) -> TrainingPlan:
    """What labelling and training take; labels that are not there yet are taken to be as long as the questions."""
    stand_ins = []
    for number, item in enumerate(items[: 4 * config.batch_size]):
        question, passage = item.example.question, "" if item.passage is None else str(item.passage)
        label = [question] * 2 if task == "decompose" else number % 2 == 0
        stand_ins.append(LabelledExample(question=question, passage=passage, label=label))
    return plan(
        sub_model_job(card, base, stand_ins * 2, file.with_suffix(""), config),
        examples=round((1 - config.held_out) * len(items)),
        teacher_calls=labeller.calls * count_missing(items, file),
    )


def base_card(task: Task, base: str, config: TrainingConfig) -> SubModelCard:
    """What becomes of a model that is trained for a sub-module.

    A model that generates text is trained to say labels or sub-questions; any other becomes a cross-encoder.

    Raises:
        CheckpointError: there is no such model.
        UsageError: it cannot decompose, or reads fewer tokens than the settings say.
    """
    from transformers import AutoConfig

    try:
        found = AutoConfig.from_pretrained(base_folder(base))
    except (OSError, ValueError) as error:
        raise CheckpointError(f"{base}: cannot be loaded ({shorten(error, 200)})") from error
    architecture = next(iter(found.architectures or [""]))
    kind: Kind = "cross_encoder"
    if found.is_encoder_decoder:
        kind = "seq2seq"
    elif architecture.endswith(("ForCausalLM", "LMHeadModel")):
        kind = "causal"
    if kind == "cross_encoder" and task == "decompose":
        raise UsageError(f"{base}: writes no text; a decomposition model starts from a T5 or a causal model")
    window = getattr(found.get_text_config(), "max_position_embeddings", None)
    if window is not None and config.max_length > window:
        raise UsageError(f"max_length = {config.max_length}: {base} reads at most {window} tokens")
    return SubModelCard.make(
        task, kind, base=Path(base).name if Path(base).is_dir() else base, max_tokens=config.max_length
    )


def sub_model_job(
    card: SubModelCard, base: str, examples: Sequence[LabelledExample], output: str | Path, config: TrainingConfig
) -> Job:
    """The training of a sub-model, whose folder `load_sub_model` reads.

    Args:
        card: the card that `base_card` makes.
        base: the model to start from: a folder, a hub name, or `embedded`, the embedded reader's encoder.
        examples: what it learns from.
        output: the folder of the trained model.
        config: the settings.

    Raises:
        UsageError: there is only one label, or too little room for the questions.
    """
    if card.task != "decompose" and len({bool(example.label) for example in examples}) < 2:
        raise UsageError(f"all {len(examples)} examples of {card.task} have the same label: there is nothing to learn")
    data = digest([[e.question, e.passage, e.label] for e in examples])
    facts = {"sub_model": card.task, "kind": card.kind, "base": card.base, "prompt": card.prompt, "data": data}
    if card.kind == "cross_encoder":
        pairs = [(example.question, example.passage, float(example.label is True)) for example in examples]
        return cross_encoder_job(pairs, output, base=base, config=config, facts=facts, write_more=card.write)
    tokenizer = load_model(base_folder(base), dtype="float32").tokenizer
    instruction = len(tokenizer(card.prompt.format(question="", passage=""))["input_ids"])
    if 2 * instruction > card.max_tokens:
        raise UsageError(
            f"max_length = {card.max_tokens}: the instruction alone takes {instruction} tokens of {card.base}; "
            f"questions would be cut off: set at least {2 * instruction}"
        )

    def load() -> tuple[Any, Any]:
        local = load_model(base_folder(base), dtype="float32")
        return local.model, local.tokenizer

    rows = [encode_example(tokenizer, card, example) for example in examples]
    return language_model_job(rows, output, load, config=config, facts=facts, write_more=card.write)


def encode_example(tokenizer: Any, card: SubModelCard, example: LabelledExample) -> Row:
    """The token ids of prompt and target, as a causal or a sequence-to-sequence model learns from them."""
    text = fit_prompt(tokenizer, card, example.question, example.passage)
    prompt = tokenizer(text, truncation=True, max_length=card.max_tokens)["input_ids"]
    if isinstance(example.label, list):
        said = join_questions(example.label)
    else:
        said = (card.labels or ("", ""))[int(example.label)]
    target = [*target_ids(tokenizer, card, said)[: card.max_tokens], tokenizer.eos_token_id]
    return prompt_and_reply(prompt, target, seq2seq=card.kind == "seq2seq")


class Agreement(BaseModel, extra="forbid"):
    """Agreement with the labels of the teacher, a mean over questions.

    Attributes:
        task: the sub-model.
        same: share of examples with the teacher's label; of decompositions, with the teacher's sub-questions, all of
            them and in order, apart from case and punctuation.
        similar: of decompositions, the F1 of the words of all sub-questions.
    """

    task: Task
    same: Interval
    similar: Interval | None = None

    def rows(self) -> list[tuple[str, Interval]]:
        """What was measured, in words, and its value."""
        if self.similar is None:
            return [("same label as the teacher", self.same)]
        return [
            ("same sub-questions as the teacher", self.same),
            ("F1 of the words of the sub-questions", self.similar),
        ]


def measure_agreement(model: SubModel, examples: Sequence[LabelledExample]) -> Agreement:
    """The agreement of a model with the labels of examples, at least one."""
    if isinstance(model, DecompositionModel):
        questions = [example.question for example in examples]
        return _compare(model.task, examples, model.decompose(questions))
    if isinstance(model, RelevanceModel):
        probabilities = model.relevant([(example.question, example.passage) for example in examples])
    else:
        assert isinstance(model, SelfKnowledgeModel)
        probabilities = model.knows([example.question for example in examples])
    return _compare(model.task, examples, [probability >= model.threshold for probability in probabilities])


def majority_agreement(task: Task, train: Sequence[LabelledExample], examples: Sequence[LabelledExample]) -> Agreement:
    """The agreement of what needs no model: always the most frequent label, or the question itself as sub-question."""
    if task == "decompose":
        return _compare(task, examples, [[example.question] for example in examples])
    [(label, _)] = Counter(str(example.label) for example in train).most_common(1)
    return _compare(task, examples, [label == "True"] * len(examples))


def _compare(task: Task, examples: Sequence[LabelledExample], said: Sequence[bool | list[str]]) -> Agreement:
    same: dict[str, list[float]] = {}
    similar: dict[str, list[float]] = {}
    for example, answer in zip(examples, said, strict=True):
        if isinstance(example.label, list) and isinstance(answer, list):
            one, other = list(map(normalize_answer, answer)), list(map(normalize_answer, example.label))
            same.setdefault(example.question, []).append(float(one == other))
            reference = dspy.Example(answer=" ".join(example.label))
            similar.setdefault(example.question, []).append(f1(reference, dspy.Prediction(answer=" ".join(answer))))
        else:
            same.setdefault(example.question, []).append(float(answer == example.label))
    means = [
        None if not scores else mean_interval([sum(each) / len(each) for each in scores.values()])
        for scores in (same, similar)
    ]
    assert means[0] is not None
    return Agreement(task=task, same=means[0], similar=means[1])
