"""The command that asks programs the questions of a data set and scores their answers: eval."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from knowgap.cli import factories
from knowgap.cli import options as o
from knowgap.cli.display import out, progress, remark, show_table
from knowgap.errors import UsageError

if TYPE_CHECKING:
    import dspy

    from knowgap.compiling import Estimate, Evaluation
    from knowgap.compiling.data import Dataset
    from knowgap.programs.base import Program
    from knowgap.retrieval.passage import Retriever

_DEFAULT_METRICS = ("f1", "exact_match")


@dataclass(frozen=True)
class EvaluateOptions(o.SplitOptions, o.JobOptions, o.ProgramsOptions):
    """Programs, and what it takes to score them on a split."""

    measure: o.Measure = False


@o.grouped
def evaluate(*, options: EvaluateOptions, as_json: o.Json = False) -> None:
    """Score programs on a split: means with 95% intervals, costs, and what became of the gold passages.

    Several programs are asked the same questions, and each is tested against the first, question by question.
    """
    results = _evaluate_all(factories.named_programs(options), options, as_json)
    if options.dry_run:
        return
    if as_json:
        summaries = {label: _summarize(result) for label, result in results.items()}
        out.print_json(json.dumps(summaries if len(summaries) > 1 else next(iter(summaries.values()))))
        return
    base = next(iter(results.values()))
    show_scores(_title(base), results)
    if len(results) > 1:
        show_comparisons(results, base.metrics[0])
        return
    _show_types(base)
    for record in base.failures[:3]:
        remark(f"failed: {record.id}: {record.error}")


def _evaluate_all(
    chosen: Mapping[str, o.ProgramOptions], options: EvaluateOptions, as_json: bool
) -> dict[str, Evaluation]:
    """Score programs by label; with an output folder, write answers, traces and scores there.

    All programs are checked and made before the first is asked. An empty label stands for the program's name. A dry run
    shows what it would cost instead.
    """
    if options.measure and not options.dry_run:
        raise UsageError("--measure: goes with --dry-run")
    checked = {name: factories.check_program(program) for name, program in chosen.items()}
    results: dict[str, Evaluation] = {}
    with open_job(options, [options.split], checked.values()) as job:
        made = {name: each.make(job.retriever, job.lm) for name, each in checked.items()}
        programs = {name or program.name: program for name, program in made.items()}
        if options.dry_run:
            estimates = {label: job.estimate(each, options.split, options.measure) for label, each in programs.items()}
            show_estimates(estimates, job.lm, as_json)
            return {}
        ending = f"{job.dataset.name}-{options.split}"
        if options.output_dir is not None and len(programs) > 1:
            from knowgap.reports.sources import write_comparison

            write_comparison(options.output_dir, {label: f"{_file_name(label)}-{ending}" for label in programs})
        for label, program in programs.items():
            if options.output_dir is None:
                results[label] = job.evaluate(program, options.split, label)
                continue
            output = options.output_dir / f"{_file_name(label)}-{ending}.jsonl"
            results[label] = job.evaluate(program, options.split, label, output=output, traces=True)
            results[label].save(output.with_suffix(".json"))
            remark(f"written to {output.with_suffix('.json')}")
    return results


def _file_name(label: str) -> str:
    """What the files of a program or an artifact folder are called."""
    return re.sub("[/:]", "-", label.strip("./"))


@dataclass(frozen=True)
class Job:
    """A data set with its index, a language model and metrics: what it takes to score programs."""

    options: o.JobOptions
    dataset: Dataset
    metrics: list[str]
    lm: dspy.LM
    retriever: Retriever | None

    def evaluate(self, program: Program, split: str, label: str, **options: Any) -> Evaluation:
        """Evaluate a program on a split, with its label in a progress bar; `options` are those of `evaluate`."""
        from knowgap.compiling import evaluate

        with progress(f"{label} on {self.dataset.name}/{split}") as report:
            return evaluate(
                program,
                self.dataset,
                self.metrics,
                split=split,
                limit=self.options.limit,
                lm=self.lm,
                num_threads=self.options.num_threads,
                seed=self.options.seed,
                progress=report,
                **options,
            )

    def estimate(self, program: Program, split: str, measure: bool = False) -> Estimate:
        """Estimate what `evaluate` would cost; `measure` asks three of the questions first."""
        from knowgap.compiling.evaluation.estimate import estimate

        return estimate(
            program,
            self.dataset.questions(split, self.options.limit),
            self.metrics,
            lm=self.lm,
            prices=self.options.prices,
            measure=measure,
        )


@contextmanager
def open_job(
    options: o.JobOptions, splits: Iterable[str], checked: Iterable[factories.CheckedProgram]
) -> Iterator[Job]:
    """Load what the options and the programs need, check the metrics, and that the splits have questions.

    The index is closed at the end.

    A dry run does not ask the language model whether it answers. None is needed where generators answer and no metric
    judges.
    """
    from knowgap.compiling.evaluation.metrics import JUDGING_CALLS, get_metric

    checked = list(checked)

    metrics = list(options.metric or _DEFAULT_METRICS)
    for name in metrics:
        get_metric(name)
    dataset = factories.load_data(options)
    for split in splits:
        dataset.questions(split, options.limit)
    artifact = options.artifact if isinstance(options, o.ProgramOptions) else None
    generated = all(each.generator is not None for each in checked) and not JUDGING_CALLS.keys() & {*metrics}
    lm = factories.load_lm(
        options.lm,
        options.api_base,
        options.lm_option,
        artifact,
        asks=not options.dry_run or (isinstance(options, EvaluateOptions) and options.measure),
        generator=checked[0].generator if generated else None,
    )
    retrieves = any(each.retrieves for each in checked)
    with factories.open_index(options, dataset) if retrieves else nullcontext() as retriever:
        yield Job(options, dataset, metrics, lm, retriever)


def show_estimates(
    estimates: Mapping[str, Estimate],
    lm: dspy.LM,
    as_json: bool = False,
    *,
    of: str = "program",
    caption: str = "at most, if no answer comes from a cache",
) -> None:
    """Show what runs would cost, by label, and all of them together; `of` says what the labels are."""
    if as_json:
        out.print_json(json.dumps({label: estimate.model_dump() for label, estimate in estimates.items()}))
        return
    units = ("calls", "prompt_tokens", "completion_tokens", "money")
    rows = [[label, e.questions, *(getattr(e, unit) for unit in units)] for label, e in estimates.items()]
    if len(rows) > 1:
        totals = [[row[place] for row in rows] for place in range(1, 6)]
        rows.append(["all", *(None if None in column else sum(column) for column in totals)])
    for row in rows:
        row[1:5] = [f"{number:,}" for number in row[1:5]]
        row[5] = "unknown" if row[5] is None else f"{row[5]:,.2f}" if row[5] >= 0.1 else f"{row[5]:.2g}"
    columns = [of, "questions", "LM calls", "tokens in", "tokens out", "US dollars"]
    if any(estimate.money is None for estimate in estimates.values()):
        caption += "; --prices IN,OUT says what tokens cost"
    show_table(f"what it would cost with {lm.model}", columns, rows, caption=caption)


def _summarize(result: Evaluation) -> dict[str, Any]:
    return {**result.summary(), "provenance": result.provenance.model_dump(mode="json")}


def _title(result: Evaluation) -> str:
    provenance: Any = result.provenance
    return f"{provenance.dataset}, {provenance.split} split, {len(result.records)} questions, {provenance.lm}"


def show_scores(title: str, results: Mapping[str, Evaluation]) -> None:
    """Show evaluations: scores with intervals and costs; what was found and shown of the gold evidence; its fates."""
    from knowgap.compiling.evaluation.statistics import few_questions

    metrics = _in_order(result.metrics for result in results.values())
    spoilt = {label: result.spoilt() for label, result in results.items()}
    shown = [name for name in ("unreadable", "cut", "uncounted") if any(counts[name] for counts in spoilt.values())]
    rows = []
    for label, result in results.items():
        costs = result.costs()
        rows.append(
            [
                label,
                *_means(result, metrics),
                *(format_cost(costs[key], 1) for key in ("lm_calls", "iterations", "passages")),
                format_cost(costs["tokens"], 0),
                str(len(result.failures)),
                *(str(spoilt[label][name]) for name in shown),
            ]
        )
    columns = ["program", *metrics, "LM calls", "iterations", "passages", "tokens", "failed", *shown]
    scores = [result.interval(metric) for result in results.values() for metric in metrics if result.defines(metric)]
    show_table(title, columns, rows, caption=few_questions(scores))
    _show_evidence(results)


def format_cost(mean: float | None, digits: int) -> str:
    """Format a mean cost; "?" if it is not known."""
    return "?" if mean is None else f"{mean:.{digits}f}"


def _show_types(result: Evaluation) -> None:
    """Show the main score by type of question, if there are several."""
    from knowgap.compiling.evaluation.statistics import few_questions

    kinds = result.by_type()
    if len(kinds) > 1:
        rows = [[kind or "(none)", interval.n, str(interval)] for kind, interval in kinds.items()]
        columns = ["type", "questions", result.metrics[0]]
        show_table("by type of question", columns, rows, caption=few_questions(kinds.values()))


def _show_evidence(results: Mapping[str, Evaluation]) -> None:
    """Show what was found and shown of the gold passages, and what became of them, if the questions have any."""
    measures = sorted(_in_order(result.evidence_metrics for result in results.values()), key=lambda n: "@" not in n)
    fates = {label: counts for label, result in results.items() if (counts := result.evidence())}
    if not fates:
        return
    rows = [[label, *_means(result, measures)] for label, result in results.items()]
    show_table("gold passages: found by a search, shown to the model", ["program", *measures], rows)
    total, single = sum(next(iter(fates.values())).values()), len(fates) == 1
    columns = ["gold passages", "share"] if single else [*fates]
    rows = []
    for name in next(iter(fates.values())):
        cells = [(str(counts[name]), f"{counts[name] / total:.1%}") for counts in fates.values()]
        if any(counts[name] for counts in fates.values()):
            rows.append([name, *(cells[0] if single else (f"{count} ({share})" for count, share in cells))])
    left_out = max((result.provenance.model_extra or {}).get("unindexed_gold", 0) for result in results.values())
    caption = f"{total} gold passages in all"
    if left_out:
        asked = len(next(iter(results.values())).records)
        caption += f"; left out: {left_out} of {asked} questions, whose gold passages are not all in the index"
    show_table("where the evidence went", ["fate", *columns], rows, caption=caption)


def _in_order(names: Iterable[Iterable[str]]) -> list[str]:
    """Each name once, in order of first appearance."""
    return list(dict.fromkeys(name for several in names for name in several))


def _means(result: Evaluation, metrics: Sequence[str]) -> list[str]:
    """Means with intervals; empty for a metric that is not defined."""
    return [str(result.interval(metric)) if result.defines(metric) else "" for metric in metrics]


def show_comparisons(results: Mapping[str, Evaluation], metric: str) -> None:
    """Show every evaluation against the first: difference with interval, wins and losses, p-value."""
    from knowgap.compiling import compare
    from knowgap.compiling.evaluation.statistics import undecidable
    from knowgap.reports.rendering import format_gain, format_p

    (base_label, base), *others = results.items()
    rows, comparisons = [], []
    for label, result in others:
        c = compare(base, result, metric)
        comparisons.append(c)
        rows.append([label, format_gain(c), c.wins, c.losses, c.ties, format_p(c.p_value)])
    if rows:
        columns = ["program", f"{metric} [95% interval]", "wins", "losses", "ties", "p (paired)"]
        show_table(f"question by question against {base_label}", columns, rows, caption=undecidable(comparisons))


COMMANDS = {"eval": evaluate}
