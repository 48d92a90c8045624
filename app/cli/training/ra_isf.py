"""`knowgap train ra-isf`: the sub-models of RA-ISF."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, cast

from typer import Option

from knowgap.cli import factories
from knowgap.cli import options as o
from knowgap.cli.display import out, progress, remark, show_table
from knowgap.cli.given import grouped, refuse
from knowgap.cli.training.options import Output, TrainingOptions, remark_on
from knowgap.errors import UnknownName, UsageError

if TYPE_CHECKING:
    import dspy

    from knowgap.compiling.data import Dataset
    from knowgap.compiling.evaluation.statistics import Interval
    from knowgap.compiling.training.config import TrainingConfig
    from knowgap.compiling.training.ra_isf.agreement import Agreement
    from knowgap.compiling.training.ra_isf.labelling import Item, Labeller
    from knowgap.compiling.training.trainer import TrainingResult
    from knowgap.lms.ra_isf.card import SubModelCard, Task
    from knowgap.programs.ra_isf import RAISF

__all__ = ["COMMANDS", "train_ra_isf"]

Base = Annotated[
    str,
    Option(
        "--model",
        help="Model to start from, by path or hub name: a T5 or a causal model; or, for know and relevant, an encoder, "
        "such as embedded, the embedded reader's.",
    ),
]


@dataclass(frozen=True)
class SubModelOptions(TrainingOptions, o.ModelOptions, o.DataOptions):
    """The questions, their passages, who labels them, and how a model learns from the labels."""

    sub_model: Annotated[
        list[str] | None,
        Option(
            "--sub-model", help="Train this one: know, relevant or decompose. Can be repeated. [default: all three]"
        ),
    ] = None
    split: Annotated[str, Option("--split", help="Split whose questions are labelled.")] = "train"
    know_from: Annotated[
        Literal["answers", "teacher"],
        Option(
            "--know-from",
            help="What counts as known: answers, what --lm answers rightly without passages; or what it says it knows.",
        ),
    ] = "answers"
    relevant_from: Annotated[
        Literal["teacher", "gold"],
        Option(
            "--relevant-from", help="Relevant passages: those that --lm finds so, or the gold passages of the data."
        ),
    ] = "teacher"
    decompose_from: Annotated[
        Literal["teacher", "data"],
        Option("--decompose-from", help="Sub-questions: those that --lm writes, or those of the data."),
    ] = "teacher"
    chained: Annotated[
        bool, Option("--chained/--no-chained", help="Sub-questions may refer to the answers of earlier ones as #1.")
    ] = True
    top_k: Annotated[int, Option("--top-k", min=1, help="Passages retrieved and labelled for each question.")] = 5
    held_out: Annotated[
        float,
        Option(
            "--held-out", min=0.01, max=0.9, help="Share of the questions that the models are evaluated on instead."
        ),
    ] = 0.2
    num_threads: o.Threads = 4

    def asks(self, task: Task) -> bool:
        """Whether a language model labels the examples of this sub-model."""
        return {"know": True, "relevant": self.relevant_from == "teacher"}.get(task, self.decompose_from == "teacher")


@grouped
def train_ra_isf(*, base: Base, output: Output, options: SubModelOptions, as_json: o.Json = False) -> None:
    """Train RA-ISF's sub-models: self-knowledge, relevance of passages, decomposition of questions.

    Writes OUTPUT/know, OUTPUT/relevant and OUTPUT/decompose, for --know, --relevant and --decompose of other commands,
    and the labels of each beside it (JSON Lines), which another run takes over. A run that was killed continues.
    """
    from knowgap.compiling.evaluation.statistics import few_questions
    from knowgap.compiling.training.trainer import is_main_process
    from knowgap.lms.ra_isf.card import TASKS

    for name in options.sub_model or ():
        if name not in TASKS:
            raise UnknownName.among("sub-model", name, TASKS)
    tasks = cast("list[Task]", [task for task in TASKS if task in (options.sub_model or TASKS)])
    _refuse_unused(options, tasks)
    plans = _plan(tasks, base, options)
    dataset = factories.load_data(options)
    teacher = None
    if any(map(options.asks, tasks)):
        teacher = factories.load_lm(options.lm, options.api_base, options.lm_option, asks=not options.dry_run)
    work = _Work(output, base, options, teacher, dataset)
    items = work.collect_items(tasks)
    if options.dry_run:
        _show_plans([work.plan(task, *plans[task], items[task]) for task in tasks], as_json)
        return
    results = [result for task in tasks if (result := work.train(task, *plans[task], items[task]))]
    if not is_main_process():
        return
    if as_json:
        out.print_json(json.dumps([result.to_dict() for result in results]))
        return
    rows = [
        [result.task, what, *(str(value) for value in values)]
        for result in results
        for (what, *values) in result.rows()
    ]
    intervals = [result.after.same for result in results]
    columns = ["sub-model", "agreement with the teacher", "majority", "before", "after"]
    show_table("on questions held out", columns, rows, caption=few_questions(intervals))


def _refuse_unused(options: SubModelOptions, tasks: list[Task]) -> None:
    for task, names in {
        "know": ["know_from"],
        "relevant": ["relevant_from", "top_k", "folder", "engine", "quality"],
        "decompose": ["decompose_from", "chained"],
    }.items():
        if task not in tasks:
            refuse(names, f"goes with --sub-model {task}")
    if not any(map(options.asks, tasks)):
        refuse(["lm", "api_base", "lm_option"], "no label comes from a language model")


def _plan(tasks: list[Task], base: str, options: SubModelOptions) -> dict[Task, tuple[SubModelCard, TrainingConfig]]:
    """The card of each sub-model, and the settings of its training."""
    from knowgap.compiling.training.config import TrainingConfig
    from knowgap.compiling.training.ra_isf.fitting import base_card, default_config

    plans = {}
    for task in tasks:
        kind = base_card(task, base, TrainingConfig()).kind
        config = options.config(default_config(kind))
        plans[task] = base_card(task, base, config), config
    return plans


@dataclass(frozen=True)
class _Trained:
    """A trained sub-model, and how it and others agree with the teacher on questions held out."""

    task: Task
    result: TrainingResult
    held_out: int
    majority: Agreement
    before: Agreement
    after: Agreement

    def rows(self) -> Iterator[tuple[str, Interval, Interval, Interval]]:
        """What is measured: of the majority label, before and after."""
        for row in zip(self.majority.rows(), self.before.rows(), self.after.rows(), strict=True):
            yield row[0][0], row[0][1], row[1][1], row[2][1]

    def to_dict(self) -> dict[str, Any]:
        """The figures, JSON-ready."""
        scores = {when: getattr(self, when).model_dump(mode="json") for when in ("majority", "before", "after")}
        return {"sub_model": self.task, "folder": str(self.result.folder), "held_out": self.held_out, **scores}


class _Work:
    """Collects, labels, trains and evaluates."""

    def __init__(
        self, output: Path, base: str, options: SubModelOptions, teacher: dspy.LM | None, dataset: Dataset
    ) -> None:
        self.output, self.base, self.options, self.teacher, self.dataset = output, base, options, teacher, dataset
        self.examples = dataset.questions(options.split, options.limit)
        self.style = "yes_no" if all(e.answer in ("yes", "no") for e in self.examples) else "short"

    def collect_items(self, tasks: list[Task]) -> dict[Task, list[Item]]:
        """What is labelled for each sub-model: questions, or questions with passages."""
        from knowgap.compiling.training.ra_isf.labelling import Item
        from knowgap.compiling.training.ra_isf.relevance import retrieve_items

        items: dict[Task, list[Item]] = {task: [Item(example) for example in self.examples] for task in tasks}
        if "relevant" in tasks:
            with factories.open_index(self.options, self.dataset) as retriever:
                corpus = self.dataset.corpus
                items["relevant"] = retrieve_items(self.examples, retriever, self.options.top_k, corpus)
        return items

    def labeller(self, task: Task) -> Labeller:
        """Who labels the examples of a sub-model."""
        from knowgap.compiling.training.ra_isf import decomposition, relevance, self_knowledge
        from knowgap.programs.ra_isf import RAISF

        program: RAISF = RAISF(style=self.style, chained=self.options.chained)
        if not self.options.asks(task):
            if task == "relevant":
                return relevance.gold_passages()
            return decomposition.worded_sub_questions(chained=self.options.chained)
        assert self.teacher is not None
        if task == "know":
            judged = self.options.know_from == "teacher"
            return (self_knowledge.says_that_it_knows if judged else self_knowledge.answers_rightly)(
                self.teacher, program
            )
        return (relevance.judges_relevance if task == "relevant" else decomposition.decomposes)(self.teacher, program)

    def labels(self, task: Task) -> Path:
        """The file of the labels of a sub-model."""
        return self.output / f"{task}.jsonl"

    def plan(self, task: Task, card: SubModelCard, config: TrainingConfig, items: list[Item]) -> dict[str, Any]:
        """What labelling and training a sub-model take."""
        from knowgap.compiling.training.plan import plan_training
        from knowgap.compiling.training.ra_isf.fitting import measure_sub_model_step
        from knowgap.compiling.training.ra_isf.labelling import LabelledExample, count_missing

        labeller = self.labeller(task)
        calls = labeller.calls * count_missing(items, labeller, self.labels(task))
        stand_ins = [
            LabelledExample(
                key="", question=item.example.question, passage="" if item.passage is None else str(item.passage),
                label=[item.example.question] * 2 if task == "decompose" else number % 2 == 0,
            )
            for number, item in enumerate(items[: 4 * config.batch_size])
        ]  # fmt: skip
        with progress(f"measuring a step of {task}"):
            seconds = measure_sub_model_step(card, self.base, stand_ins, config)
        trained_on = round((1 - self.options.held_out) * len(items))
        plan = plan_training(config, trained_on, seconds_per_step=seconds, teacher_calls=calls)
        return {"sub_model": task, "model": card.base, "kind": card.kind, **vars(plan)}

    def train(self, task: Task, card: SubModelCard, config: TrainingConfig, items: list[Item]) -> _Trained | None:
        """Label the examples of a sub-model, train it, and let one process measure its agreement before and after."""
        from knowgap.compiling.training.embedded.cross_encoder import base_folder
        from knowgap.compiling.training.ra_isf.agreement import majority_agreement, measure_agreement
        from knowgap.compiling.training.ra_isf.fitting import train_sub_model
        from knowgap.compiling.training.ra_isf.labelling import count_missing, label_items, split_held_out
        from knowgap.compiling.training.trainer import is_main_process, process_count
        from knowgap.lms.ra_isf.sub_models import load_sub_model

        options, labeller = self.options, self.labeller(task)
        if process_count() > 1 and count_missing(items, labeller, self.labels(task)):
            raise UsageError(f"{task}: examples have no label yet; label them in one process first")
        with progress(f"labelling for {task}") as report:
            labelling = label_items(
                items, labeller, self.labels(task), num_threads=options.num_threads, progress=report
            )
        learnt, held_out = split_held_out(labelling.examples, options.held_out, options.seed)
        remark(
            f"{task}: {len(learnt)} examples and {len(held_out)} held out, labelled by {labeller.name}; "
            f"{labelling.calls} calls of the teacher, {labelling.kept} labels from before, "
            f"{labelling.unlabelled} without a label"
        )
        if not held_out:
            raise UsageError(f"{task}: no example is left to evaluate the model on; label more questions")
        with progress(f"training {task}") as report:
            result = train_sub_model(
                card, self.base, learnt, self.output / task, config, overwrite=options.overwrite, progress=report
            )
        remark_on(result)
        if not is_main_process():
            return None
        return _Trained(
            task,
            result,
            len(held_out),
            majority=majority_agreement(task, learnt, held_out),
            before=measure_agreement(load_sub_model(task, base_folder(self.base), card), held_out),
            after=measure_agreement(load_sub_model(task, result.folder), held_out),
        )


def _show_plans(plans: list[dict[str, Any]], as_json: bool) -> None:
    if as_json:
        out.print_json(json.dumps(plans))
        return
    columns = ["sub-model", "kind", "examples", "steps", "hours", "calls of the teacher"]
    rows = [
        [
            plan["sub_model"],
            plan["kind"],
            plan["examples"],
            plan["steps"],
            f"{plan['hours']:.2g}",
            plan["teacher_calls"],
        ]
        for plan in plans
    ]
    show_table("what labelling and training take", columns, rows)


COMMANDS = {"ra-isf": train_ra_isf}
