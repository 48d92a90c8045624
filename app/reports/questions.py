"""The part of a report that shows every question: wins and losses, answers, and the traces side by side."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from xml.etree.ElementTree import Element

from knowgap.compile.evaluation.results import Evaluation
from knowgap.compile.evaluation.runner import QuestionRecord
from knowgap.programs.trace.trace import Trace
from knowgap.reports.html import Child, disclosure, el, note
from knowgap.reports.trace import cost_line, trace_list

__all__ = ["question_list"]

_MOST = 500
_FILTERS = {
    "differs": "scores differ",
    "win": "wins",
    "loss": "losses",
    "same": "no difference",
    "short": "below 1",
    "failed": "failed",
}


@dataclass(frozen=True)
class _Asked:
    """One question with a record of every evaluation that asked it, and the filters that it passes."""

    records: dict[str, QuestionRecord]
    kinds: tuple[str, ...]
    difference: float

    @property
    def first(self) -> QuestionRecord:
        return next(iter(self.records.values()))


def question_list(evaluations: Mapping[str, Evaluation], metric: str, name: str) -> list[Child]:
    """Every question, to be opened; the first evaluation is the one that wins and losses are counted from.

    Args:
        evaluations: of the same questions, by label.
        metric: whose scores are shown.
        name: sets this list's filters apart from those of another one on the page.
    """
    asked = _asked(evaluations, metric)
    counts = {kind: sum(kind in question.kinds for question in asked) for kind in _FILTERS}
    # Where there are too many, those that say least are left out: right and the same everywhere.
    ranked = sorted(range(len(asked)), key=lambda n: not {"differs", "failed", "short"} & {*asked[n].kinds})
    kept = [asked[n] for n in sorted(ranked[:_MOST])]
    traced = any(_trace(record) is not None for question in kept for record in question.records.values())
    remarks: list[Child] = []
    if len(kept) < len(asked):
        remarks.append(note(f"{len(kept)} of {len(asked)} questions are listed, those with a difference first."))
    if not traced:
        remarks.append(note("No traces were kept with these answers: the steps behind them cannot be shown."))
    if len(evaluations) == 2:
        before, after = evaluations
        remarks.append(note(f"A win is a question on which {after} scores higher than {before}; by {metric}."))
    start = "differs" if counts["differs"] else "short" if counts["short"] and len(evaluations) == 1 else "all"
    choices = [(kind, f"{words} ({counts[kind]})") for kind, words in _FILTERS.items() if counts[kind]]
    choices.append(("all", f"all ({len(kept)})"))
    radios = [
        el(
            "label",
            el("input", type="radio", name=f"show-{name}", value=kind, checked="checked" if kind == start else None),
            " ",
            words,
        )
        for kind, words in choices
    ]
    listed = [_question(question, metric, traced) for question in kept]
    return [
        *remarks,
        el("div", el("fieldset", el("legend", "Show"), *radios, class_="filter"), *listed, class_="questions"),
    ]


def _asked(evaluations: Mapping[str, Evaluation], metric: str) -> list[_Asked]:
    by_label = {label: {r.id: r for r in evaluation.records} for label, evaluation in evaluations.items()}
    ids = dict.fromkeys(name for records in by_label.values() for name in records)
    found: list[_Asked] = []
    for name in ids:
        records = {label: known[name] for label, known in by_label.items() if name in known}
        scores = [score for r in records.values() if (score := r.scores.get(metric)) is not None]
        difference = scores[-1] - scores[0] if len(scores) == 2 else 0.0
        kinds: list[str] = []
        if len(records) > 1:
            kinds.append("differs" if len({*scores}) > 1 else "same")
        if len(evaluations) == 2 and difference:
            kinds.append("win" if difference > 0 else "loss")
        if scores and min(scores) < 1:
            kinds.append("short")
        if any(record.error for record in records.values()):
            kinds.append("failed")
        found.append(_Asked(records=records, kinds=tuple(kinds), difference=difference))
    return found


def _trace(record: QuestionRecord) -> Trace | None:
    found = getattr(record, "trace", None)
    return found if isinstance(found, Trace) else None


def _score(record: QuestionRecord, metric: str) -> str:
    score = record.scores.get(metric)
    return "–" if score is None else f"{score:.2f}"


def _question(question: _Asked, metric: str, traced: bool) -> Element:
    scores = [_score(record, metric) for record in question.records.values()]
    if len(scores) == 2:
        gain = question.difference
        mark: Child = el("b", f"{gain:+.2f}" if gain else "=", class_="good" if gain > 0 else "bad" if gain else "soft")
        shown = " → ".join(scores)
    else:
        mark = el("b", scores[0]) if len(scores) == 1 else None
        shown = "" if len(scores) == 1 else " · ".join(scores)
    first = question.first
    reference = " / ".join(first.reference)
    kind = f" ({first.type})" if first.type else ""
    return disclosure(
        [mark, el("span", first.question, class_="text"), el("span", shown, class_="scores") if shown else None],
        note(f"{first.id}{kind}. Reference: ", el("b", reference)),
        el("div", *(_side(label, r, metric, traced) for label, r in question.records.items()), class_="sides"),
        class_=" ".join(["q", *question.kinds]),
    )


def _side(label: str, record: QuestionRecord, metric: str, traced: bool) -> Element:
    trace = _trace(record)
    others = {name: score for name, score in record.scores.items() if name != metric and score is not None}
    more = "".join(f", {name} {score:.2f}" for name, score in others.items())
    found = (
        f"{len({*record.passages} & {*record.gold})} of {len(record.gold)} gold passages cited" if record.gold else ""
    )
    if trace is not None:
        steps: Child = disclosure(f"trace: {len(trace.steps)} steps", trace_list(trace))
        steps.set("open", "")
    else:
        steps = note("No trace was kept.") if traced else None
    return el(
        "div",
        el("h4", label),
        el("p", "Failed: ", record.error, class_="bad")
        if record.error
        else el("p", "Answer: ", el("b", record.answer or "(empty)")),
        note(f"{metric} {_score(record, metric)}{more}" + (f"; {found}" if found else "")),
        note(cost_line(record.cost)),
        steps,
        class_="side",
    )
