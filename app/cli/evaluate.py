"""The command that asks programs the questions of a data set and scores their answers: eval."""

from __future__ import annotations

import functools
import json
import operator
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from typer import Option

from knowgap.cli import factories
from knowgap.cli import options as o
from knowgap.cli.display import out, progress, remark, show_table

if TYPE_CHECKING:
    import dspy

    from knowgap.compiling import Estimate, Evaluation, Evaluations
    from knowgap.compiling.data import Dataset
    from knowgap.programs.base import Program
    from knowgap.retrieval.passage import Retriever

_DEFAULT_METRICS = ("f1", "exact_match")


@dataclass(frozen=True)
class EvaluateOptions(o.JobOptions):
    """Programs, and what it takes to score them on a split."""

    split: Annotated[str, Option("--split", help="Split: train, dev or test.")] = "test"
    whole: Annotated[bool, Option("--whole", help="Take all questions of a file as that split, undivided.")] = False


@o.grouped
def evaluate(*, options: EvaluateOptions, as_json: o.Json = False) -> None:
    """Score programs on a split: means with 95% intervals, costs, and what became of the gold passages.

    Several programs are asked the same questions, and each is tested against the first, question by question. With an
    output folder, the same command continues a run that was stopped.
    """
    checked = factories.check_programs(options)
    split = options.split if options.whole else None
    with open_job(options, [options.split], checked.values(), split_as=split) as job:
        made = {label: each.make(job.retriever, job.lm) for label, each in checked.items()}
        programs = {label or program.name: program for label, program in made.items()}
        if options.dry_run:
            estimates = {label: job.estimate(each, options.split) for label, each in programs.items()}
            show_estimates(estimates, job.lm, as_json)
            return
        results = job.evaluate(programs, options.split, output=options.output_dir)
    _show(results, options, as_json)


def _show(results: Evaluations, options: EvaluateOptions, as_json: bool) -> None:
    from knowgap.reports.tables import types_of

    base, *others = results.values()
    if as_json:
        summaries = {
            label: {**result.summary(), "provenance": result.provenance.model_dump(mode="json")}
            for label, result in results.items()
        }
        out.print_json(json.dumps(summaries if others else summaries.popitem()[1]))
        return
    facts: Any = base.provenance
    asked = f"{len(base.records)} questions"
    if options.whole:
        asked = f"the first {asked}, undivided" if options.limit else f"all {asked}"
    else:
        asked = f"{facts.split} split, {asked}"
    show_scores(f"{facts.dataset}, {asked}, {facts.lm}", results)
    if not others and (types := types_of(results)):
        show_table(types.title, types.columns, types.rows, caption=types.caption)
    for record in base.failures[:3] if not others else ():
        remark(f"failed: {record.id}: {record.failure}")


@dataclass(frozen=True)
class Job:
    """A data set with its index, a language model and metrics: what it takes to score programs."""

    options: o.JobOptions
    dataset: Dataset
    metrics: list[str]
    lm: dspy.LM
    retriever: Retriever | None

    def evaluate(self, programs: Mapping[str, Program], split: str, output: Path | None = None) -> Evaluations:
        """Evaluate programs on a split, with a progress bar; the output folder is a source for reports."""
        from knowgap.compiling import Run, evaluate
        from knowgap.compiling.evaluation.evaluator import file_name
        from knowgap.reports.sources import write_comparison

        if output is not None and len(programs) > 1:
            write_comparison(output, {label: file_name(label) for label in programs})
        with progress(f"{self.dataset.name}/{split}") as report:
            results = evaluate(
                programs,
                self.dataset,
                self.metrics,
                split=split,
                limit=self.options.limit,
                run=Run(lm=self.lm, num_threads=self.options.num_threads, seed=self.options.seed, progress=report),
                output=output,
                traces=output is not None,
            )
        if output is not None:
            for label, result in results.items():
                remark(f"written to {result.save(output / f'{file_name(label)}.json')}")
        return results

    def estimate(self, program: Program, split: str) -> Estimate:
        """Estimate what `evaluate` would cost: three of the questions are asked."""
        from knowgap.compiling import Run, estimate

        examples, options = self.dataset.questions(split, self.options.limit), self.options
        run = Run(lm=self.lm, num_threads=options.num_threads)
        return estimate(program, examples, self.metrics, run=run, prices=options.prices)


@contextmanager
def open_job(
    options: o.JobOptions,
    splits: Iterable[str],
    checked: Iterable[factories.CheckedProgram],
    *,
    split_as: str | None = None,
) -> Iterator[Job]:
    """Load what the options and the programs need, and check the metrics and that the splits have questions.

    No language model is loaded if generators answer and no metric asks one. `split_as` is the name of the one split
    that all questions form.
    """
    from knowgap.compiling.evaluation.metrics import asks_lm, get_metric

    checked, metrics = list(checked), list(options.metric or _DEFAULT_METRICS)
    for name in metrics:
        get_metric(name)
    dataset = factories.load_data(options, split_as)
    for split in splits:
        dataset.questions(split, options.limit)
    generated = all(each.generator is not None for each in checked) and not any(map(asks_lm, metrics))
    artifact = checked[0].artifact if len(checked) == 1 else None
    lm = factories.load_lm(options, artifact, generator=checked[0].generator if generated else None)
    retrieves = any(each.retrieves for each in checked)
    with factories.open_index(options, dataset) if retrieves else nullcontext() as retriever:
        yield Job(options, dataset, metrics, lm, retriever)


def show_estimates(
    estimates: Mapping[str, Estimate], lm: dspy.LM, as_json: bool = False, *, of: str = "program"
) -> None:
    """Show what runs would cost, by label and in total; `of` is the heading of the labels."""
    if as_json:
        out.print_json(json.dumps({label: estimate.model_dump() for label, estimate in estimates.items()}))
        return
    if len(estimates) > 1:
        estimates = {**estimates, "all": functools.reduce(operator.add, estimates.values())}
    rows = []
    for label, e in estimates.items():
        money = "unknown" if e.money is None else f"{e.money:,.2f}" if e.money >= 0.1 else f"{e.money:.2g}"
        counts = (e.questions, e.calls, e.prompt_tokens, e.completion_tokens)
        rows.append([label, *(f"{count:,}" for count in counts), money])
    asked = max(estimate.asked for estimate in estimates.values())
    caption = f"about, if no answer comes from a cache: {asked} questions were asked"
    columns = [of, "questions", "LM calls", "tokens in", "tokens out", "US dollars"]
    if any(estimate.money is None for estimate in estimates.values()):
        caption += "; --prices IN,OUT says what tokens cost"
    show_table(f"what it would cost with {lm.model}", columns, rows, caption=caption)


def show_scores(title: str, results: Mapping[str, Evaluation]) -> None:
    """Show evaluations: scores with intervals and costs, the fates of the gold passages, and comparisons."""
    from knowgap.reports.tables import score_tables

    for table in score_tables(title, results):
        show_table(table.title, table.columns, table.rows, caption=table.caption)
