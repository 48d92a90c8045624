"""The part of a report that shows evaluations: scores with intervals, paired differences, types, costs, questions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from xml.etree.ElementTree import Element

from knowgap.compile.evaluation.results import Evaluation, compare
from knowgap.compile.evaluation.runner import QuestionRecord
from knowgap.compile.evaluation.statistics import Comparison
from knowgap.errors import UnknownName, UsageError
from knowgap.reports.html import Child, disclosure, el, intervals, note, p_value, section, table
from knowgap.reports.questions import question_list

__all__ = ["Group", "evaluation_sections", "grouped", "split_badge", "split_words"]

_WORDS = {
    "test": "test: held out",
    "dev": "dev: choices were made on it",
    "train": "train: demonstrations come from it",
    "": "split not said",
    "seen": "not a test score: trials were compared on these questions",
}
_ORDER = ("test", "seen", "dev", "train", "")
_COSTS = ("lm_calls", "critical_calls", "tokens", "retrievals", "passages", "knowledge_tokens", "iterations", "seconds")


@dataclass(frozen=True)
class Group:
    """Evaluations of the same questions.

    Attributes:
        split: "test", "dev", "train", another name, "" where it was not said, or "seen" for questions that are called
            test questions although a study's trials were compared on them.
        data: digest of the questions.
        evaluations: by label, the one that the others are compared with first.
        name: an anchor.
    """

    split: str
    data: str
    evaluations: dict[str, Evaluation]
    name: str

    @property
    def base(self) -> str:
        """The label of the evaluation that the others are compared with."""
        return next(iter(self.evaluations))

    @property
    def metric(self) -> str:
        """The main metric."""
        return self.evaluations[self.base].metrics[0]

    def against_base(self, label: str) -> Comparison | None:
        """An evaluation against the base; None where they cannot be compared."""
        try:
            return compare(self.evaluations[self.base], self.evaluations[label], self.metric)
        except (UsageError, UnknownName):
            return None  # an unfinished file of answers, or one with other metrics


def grouped(evaluations: dict[str, Evaluation], *, base: str | None = None, dev_digest: str = "") -> list[Group]:
    """Evaluations by split and questions, those on test questions first.

    Args:
        evaluations: by label.
        base: which one the others are compared with; one with "before" in its label, or the first, where absent.
        dev_digest: digest of the questions that a study's trials were compared on.

    Raises:
        UnknownName: no evaluation has the label `base`.
    """
    if base is not None and base not in evaluations:
        raise UnknownName.among("evaluation", base, evaluations)
    found: dict[tuple[str, str], dict[str, Evaluation]] = {}
    for label, evaluation in evaluations.items():
        origin = evaluation.provenance
        split = "seen" if origin.split == "test" and dev_digest and origin.data == dev_digest else origin.split
        found.setdefault((split, origin.data), {})[label] = evaluation
    keys = sorted(found, key=lambda key: _ORDER.index(key[0]) if key[0] in _ORDER else len(_ORDER))
    groups: list[Group] = []
    for position, (split, data) in enumerate(keys):
        members = found[split, data]
        first = base if base in members else next((label for label in members if "before" in label), None)
        ordered = dict(sorted(members.items(), key=lambda item: item[0] != first)) if first else members
        groups.append(Group(split=split, data=data, evaluations=ordered, name=f"{split or 'split'}-{position}"))
    return groups


def split_words(split: str) -> str:
    """What a score on that split is worth."""
    return _WORDS.get(split, split)


def split_badge(split: str) -> Element:
    """The same as a badge."""
    return el("span", split_words(split), class_=f"badge {split if split in ('test', 'dev', 'train') else 'unknown'}")


def evaluation_sections(group: Group, unfinished: Sequence[str] = ()) -> list[Element]:
    """The sections about evaluations of the same questions."""
    size = len(next(iter(group.evaluations.values())).records)
    where = {"test": "Test", "dev": "Dev", "train": "Train"}.get(group.split, "Scores")
    late = [label for label in group.evaluations if label in unfinished]
    scores = section(
        f"{where}: {size} questions",
        f"scores-{group.name}",
        el("p", split_badge(group.split)),
        note(f"From a file of answers, which may still lack questions: {', '.join(late)}.") if late else None,
        _scores(group),
        _forest(group),
        _differences(group),
        _types(group),
        _costs(group),
        _failures(group),
    )
    questions = section(
        f"{where}, question by question",
        f"questions-{group.name}",
        *question_list(group.evaluations, group.metric, group.name),
    )
    return [scores, questions]


def _interval(evaluation: Evaluation, metric: str) -> str:
    return str(evaluation.interval(metric)) if _has(evaluation, metric) else ""


def _has(evaluation: Evaluation, metric: str) -> bool:
    return any(record.scores.get(metric) is not None for record in evaluation.records)


def _scores(group: Group) -> Element:
    metrics = list(dict.fromkeys(name for e in group.evaluations.values() for name in e.all_metrics if _has(e, name)))
    rows: list[Sequence[Child]] = [
        [label, *(_interval(e, metric) for metric in metrics), len(e.records), len(e.failures)]
        for label, e in group.evaluations.items()
    ]
    return table(
        ["", *metrics, "questions", "failed"],
        rows,
        caption=f"Mean [95% bootstrap interval] ({split_words(group.split)}); failed questions count as 0",
        numeric=range(1, len(metrics) + 3),
    )


def _forest(group: Group) -> Element | None:
    rows = [
        (label, found.mean, found.low, found.high, str(found))
        for label, e in group.evaluations.items()
        if _has(e, group.metric)
        for found in [e.interval(group.metric)]
    ]
    return intervals(rows, caption=f"{group.metric}, mean and 95% interval") if len(rows) > 1 else None


def _differences(group: Group) -> Element | None:
    others = [label for label in group.evaluations if label != group.base]
    if not others:
        return None
    found = {label: group.against_base(label) for label in others}
    rows: list[Sequence[Child]] = []
    for label, c in found.items():
        if c is None:
            rows.append([f"{label} − {group.base}", "cannot be compared: not the same questions or metric", *[""] * 4])
        else:
            interval = f"{c.difference:+.3f} [{c.low:+.3f}, {c.high:+.3f}]"
            rows.append([f"{label} − {group.base}", interval, p_value(c.p_value), c.wins, c.losses, c.ties])
    drawn = [(label, c.difference, c.low, c.high, f"{c.difference:+.3f}") for label, c in found.items() if c]
    several = " The p-values are not corrected for several comparisons." if len(drawn) > 1 else ""
    return el(
        "div",
        el("h3", "Question by question against ", group.base),
        table(
            ["difference", f"{group.metric} [95% interval]", "p (paired permutation test)", "wins", "losses", "ties"],
            rows,
            caption=f"Paired differences ({split_words(group.split)}).{several}",
            numeric=(1, 2, 3, 4, 5),
        ),
        intervals(drawn, caption=f"Difference in {group.metric} from {group.base}", zero=True) if drawn else None,
    )


def _types(group: Group) -> Element | None:
    by_type = {label: e.by_type(group.metric) for label, e in group.evaluations.items() if _has(e, group.metric)}
    kinds = sorted({kind for found in by_type.values() for kind in found})
    if len(kinds) < 2:
        return None
    rows: list[Sequence[Child]] = []
    for kind in kinds:
        sizes = {found[kind].n for found in by_type.values() if kind in found}
        cells = [str(found[kind]) if kind in found else "" for found in by_type.values()]
        rows.append([kind or "(none)", max(sizes), *cells])
    columns = ["type", "questions", *by_type]
    caption = f"{group.metric} by type of question"
    return el("div", el("h3", "By type"), table(columns, rows, caption=caption, numeric=range(1, len(columns))))


def _costs(group: Group) -> Element:
    rows: list[Sequence[Child]] = []
    for label, evaluation in group.evaluations.items():
        costs = evaluation.costs()
        rows.append([label, *(_amount(costs[name]) for name in _COSTS)])
    return el(
        "div",
        el("h3", "Costs"),
        table(
            ["", *(name.replace("_", " ") for name in _COSTS)],
            rows,
            caption="Mean per question, over those that did not fail; calls answered from a cache count",
            numeric=range(1, len(_COSTS) + 1),
        ),
    )


def _amount(value: float) -> str:
    return f"{value:,.0f}" if value >= 1000 else f"{value:.3g}"


def _failures(group: Group) -> Element | None:
    failed: list[tuple[str, QuestionRecord]] = [
        (label, r) for label, e in group.evaluations.items() for r in e.failures
    ]
    if not failed:
        return None
    rows: list[Sequence[Child]] = [[label, record.id, record.error] for label, record in failed[:50]]
    more = f" (the first 50 of {len(failed)})" if len(failed) > 50 else ""
    inner = table(["", "question", "why"], rows, caption=f"Failed questions{more}; each counts as 0")
    return disclosure(f"{len(failed)} failures", inner)
