"""The tables of evaluations, which commands print and pages show."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from knowgap.compiling.evaluation.metrics import EVIDENCE
from knowgap.compiling.evaluation.results import Evaluation, Evaluations
from knowgap.compiling.evaluation.statistics import Comparison

_COSTS = {"lm_calls": 1, "tokens": 0}
"""The costs beside scores, with the number of their decimals."""
_SPLITS = {"dev": "the choice was made on it", "held-out": "unseen by the study", "test": "no choice was made on it"}


@dataclass(frozen=True)
class Table:
    """A table, whose first column names the rows."""

    title: str
    columns: Sequence[str]
    rows: Sequence[Sequence[Any]]
    caption: str = ""


def score_tables(title: str, results: Evaluations, *, types: bool = False) -> Iterator[Table]:
    """Scores with intervals and costs, and what else there is of these, in this order.

    Refusals, what became of the gold passages, comparisons with the first and, if `types`, scores by type of question.
    """
    yield _scores(title, results)
    yield from _refusals(results)
    yield from _evidence(results)
    yield from _compare_with_first(results)
    yield from _types_of(results) if types else ()


def before_and_after(evaluations: Mapping[str, Evaluation]) -> Table:
    """The main metric and the calls of a program by split, as it was and as it was compiled to be.

    `evaluations` has the labels of `Compiled.evaluations`: a split, and before or after. What was not asked is absent.
    """
    rows: list[list[Any]] = []
    for split in _SPLITS:
        labels = [f"{split} {when}" for when in ("before", "after") if f"{split} {when}" in evaluations]
        if results := Evaluations((label, evaluations[label]) for label in labels):
            means = " → ".join(f"{each.mean():.3f}" for each in results.values())
            calls = [each.costs()["lm_calls"] for each in results.values()]
            told = " → ".join("–" if count is None else f"{count:.1f}" for count in calls)
            gain = "".join(map(_gain, results.comparisons().values()))
            rows.append([split, len(next(iter(results.values())).records), means, gain, told])
    columns = ["split", "questions", next(iter(evaluations.values())).metrics[0], "difference [95%]", "LM calls"]
    caption = "; ".join(f"{row[0]}: {_SPLITS[row[0]]}" for row in rows)
    return Table("before → after", columns, rows, caption)


def _scores(title: str, results: Evaluations) -> Table:
    metrics = list(dict.fromkeys(metric for result in results.values() for metric in result.metrics))
    spoilt = {label: {"failed": len(each.failures), **each.spoilt()} for label, each in results.items()}
    shown = [name for name in next(iter(spoilt.values())) if any(counts[name] for counts in spoilt.values())]
    rows = []
    for label, result in results.items():
        costs = result.costs()
        means = [str(result.interval(name)) if result.defines(name) else "" for name in metrics]
        spent = ["–" if costs[key] is None else f"{costs[key]:.{digits}f}" for key, digits in _COSTS.items()]
        rows.append([label, *means, *spent, *(spoilt[label][name] for name in shown)])
    columns = ["program", *metrics, "LM calls", "tokens", *shown]
    return Table(title, columns, rows, _asked_of_fewer(results, metrics))


def _asked_of_fewer(results: Evaluations, metrics: Sequence[str]) -> str:
    """Say which metrics are means over fewer questions than were asked; empty if none is."""
    every = next(iter(results.values()))
    counts = {metric: len(every.scores(metric)) for metric in metrics if every.defines(metric)}
    fewer = ", ".join(f"{metric} over {n}" for metric, n in counts.items() if n < len(every.records))
    return f"{fewer} of {len(every.records)} questions: the others lack what the metric needs" if fewer else ""


def _refusals(results: Evaluations) -> Iterator[Table]:
    """How often what the documents do not answer was answered, and what they answer refused."""
    rows = [
        [
            label,
            f"{said['answered']} of {said['unanswerable']}",
            f"{said['refused']} of {said['answerable']}",
            "the program's" if said["verdict"] else "none: every answer but unknown counts",
        ]
        for label, result in results.items()
        if (said := result.refusals())
    ]
    columns = ["program", "unanswerable, but answered as supported", "answerable, but refused", "verdict"]
    if rows:
        yield Table("questions that the documents do not answer", columns, rows)


def _evidence(results: Evaluations) -> Iterator[Table]:
    """The shares of gold passages that were found, shown and used, and their fates, if the questions have any."""
    fates = {label: shares for label, result in results.items() if (shares := result.evidence())}
    if not fates:
        return
    rows = [
        [label, *(f"{result.mean(name):.3f}" if result.defines(name) else "" for name in EVIDENCE)]
        for label, result in results.items()
    ]
    title = "gold passages: found by a search, shown to the model, used for the answer"
    yield Table(title, ["program", *EVIDENCE], rows, _asked_of_fewer(results, ["found"]))
    names = [name for name in next(iter(fates.values())) if any(shares[name] for shares in fates.values())]
    shares = [[name, *(f"{each[name]:.1%}" for each in fates.values())] for name in names]
    yield Table("where the evidence went", ["fate", *fates], shares, "shares of gold passages, means over questions")


def _compare_with_first(results: Evaluations) -> Iterator[Table]:
    """Every evaluation against the first, by its main metric: difference with interval, wins and losses, p-value.

    The p-values are corrected for the number of comparisons (Holm).
    """
    first, base = next(iter(results.items()))
    rows = []
    for label, test in results.comparisons().items():
        p = "< 0.001" if test.p_corrected < 0.001 else f"{test.p_corrected:.3f}"
        rows.append([label, _gain(test), test.wins, test.losses, test.ties, p])
    columns = ["program", f"{base.metrics[0]} [95% interval]", "wins", "losses", "ties", "p (paired, Holm)"]
    if rows:
        yield Table(f"question by question against {first}", columns, rows)


def _gain(test: Comparison) -> str:
    return f"{test.difference:+.3f} [{test.low:+.3f}, {test.high:+.3f}]"


def _types_of(results: Evaluations) -> Iterator[Table]:
    """The main metric by type of question, if there are several types."""
    metric = next(iter(results.values())).metrics[0]
    by_label = {label: e.by_type(metric) for label, e in results.items() if e.defines(metric)}
    kinds = sorted({kind for intervals in by_label.values() for kind in intervals})
    rows = []
    for kind in kinds:
        found = [by.get(kind) for by in by_label.values()]
        rows.append([kind or "(none)", max(each.n for each in found if each), *(str(each or "") for each in found)])
    columns = ["type", "questions", *(by_label if len(by_label) > 1 else [metric])]
    if len(kinds) > 1:
        yield Table("by type of question", columns, rows)
