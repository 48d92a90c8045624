"""The part of a report that shows a study: its trials, its front, what mattered, what changed and what it cost."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any
from xml.etree.ElementTree import Element

from knowgap.compile.study.summary import StudyFacts
from knowgap.compile.study.trials import TrialResult, front
from knowgap.errors import UnknownName
from knowgap.programs import get_program
from knowgap.reports.charts import Point, scatter
from knowgap.reports.html import Child, bars, disclosure, el, note, p_value, section, table

__all__ = ["number", "study_sections"]

_MOST_SLICES = 24


def study_sections(study: StudyFacts, questions: Sequence[str] = ()) -> list[Element]:
    """The sections about a study.

    Args:
        study: the study.
        questions: ids of the dev questions in the order of the trials' scores, where they are known.
    """
    if study.chosen is None:
        return [
            section("Trials", "trials", note("No trial is complete yet: there is nothing to show.", kind="warning"))
        ]
    found = [
        _trials(study),
        _changes(study, study.chosen),
        _front(study),
        _importances(study),
        _slices(study),
        _calls(study),
        _dev_questions(study, study.chosen, questions),
    ]
    return [part for part in found if part is not None]


def number(value: Any) -> str:
    """A hyperparameter's value in words."""
    return f"{value:.4g}" if isinstance(value, float) else "none" if value is None else str(value)


def _kind(study: StudyFacts, trial: TrialResult) -> str:
    if study.chosen is not None and trial.number == study.chosen.number:
        return "chosen"
    if not trial.complete:
        return "pruned"
    return "paper" if study.paper is not None and trial.number == study.paper.number else "complete"


def _said(study: StudyFacts, trial: TrialResult) -> str:
    asked = "" if trial.complete else f" over {len(trial.scores)} of {study.size} questions, then stopped"
    return (
        f"trial {trial.number} ({trial.label}): {study.metric} {trial.score:.3f}{asked}; "
        f"{trial.costs[study.cost]:.3g} {study.cost} per question"
    )


def _trials(study: StudyFacts) -> Element:
    best: list[tuple[float, float]] = []
    for position, trial in enumerate(study.trials):
        if trial.complete and (not best or trial.score > best[-1][1]):
            best.append((position, trial.score))
    points = [
        Point(position, trial.score, _kind(study, trial), _said(study, trial))
        for position, trial in enumerate(study.trials)
    ]
    pruned = sum(not trial.complete for trial in study.trials)
    again = sum(trial.same_as is not None for trial in study.trials)
    counted = f"{len(study.trials)} trials: {len(study.trials) - pruned} complete, {pruned} stopped early"
    if again:
        counted += f"; {again} tried what an earlier one had tried, and took its result over"
    if study.unfinished:
        counted += f"; besides, {study.unfinished} were cut off, gave way or still run"
    return section(
        "Score over trials",
        "trials",
        note(f"Dev split, {study.size} questions. {counted}."),
        scatter(
            points,
            caption="Score of every trial, in the order in which they began (dev split)",
            x_name="trial",
            y_name=f"dev {study.metric}",
            line=best,
            line_name="best so far",
            whole=True,
        ),
        disclosure("All trials as a table", _trial_table(study)),
    )


def _trial_table(study: StudyFacts) -> Element:
    first = study.trials[0].values
    rows: list[Sequence[Child]] = []
    for trial in study.trials:
        different = [f"{k} = {number(v)}" for k, v in trial.values.items() if v != first.get(k)]
        different += [f"demonstrations of {p}: {_shown(study, p, n)}" for p, n in trial.demonstrations.items() if n]
        state = "complete" if trial.complete else f"stopped after {len(trial.scores)}"
        if trial.same_as is not None:
            state += f", as trial {trial.same_as}"
        kind = "chosen" if _kind(study, trial) == "chosen" else ""
        rows.append(
            [
                el("span", f"{trial.number} {trial.label}", el("b", " chosen") if kind else None),
                f"{trial.score:.3f}",
                f"{trial.costs[study.cost]:.3g}",
                trial.spent.calls,
                trial.failed,
                state,
                ", ".join(different) or "—",
            ]
        )
    columns = ["trial", f"dev {study.metric}", f"{study.cost} per question", "LM calls made", "failed", "state", ""]
    columns[-1] = f"differs from trial {study.trials[0].number} in"
    return table(columns, rows, caption="Trials (dev split)", numeric=(1, 2, 3, 4))


def _shown(study: StudyFacts, predictor: str, chosen: int) -> int:
    return len(study.pool.sets[predictor][chosen]) if predictor in study.pool.sets else 0


def _changes(study: StudyFacts, chosen: TrialResult) -> Element:
    paper, start = study.paper, study.labelled("current")
    told = _help(study.program)
    columns = ["", *(["the paper's"] if paper else []), *(["at the start"] if start else []), "chosen", "what it does"]
    before = [trial for trial in (paper, start) if trial is not None]

    def row(name: str, values: Sequence[str], what: str) -> tuple[bool, list[Child]]:
        changed = len({*values}) > 1
        return changed, [name, *values[:-1], el("b", values[-1]) if changed else values[-1], what]

    rows = [
        row(name, [number(trial.values.get(name)) for trial in [*before, chosen]], told.get(name, ""))
        for name in chosen.values
    ]
    rows += [
        row(
            f"demonstrations of {name}",
            [str(_shown(study, name, trial.demonstrations.get(name, 0))) for trial in [*before, chosen]],
            "worked examples in the prompt",
        )
        for name in study.pool.sets
    ]
    changed = [cells for differs, cells in rows if differs]
    same = [cells for differs, cells in rows if not differs]
    said = f"Trial {chosen.number} ({chosen.label}) was chosen."
    if not changed:
        said += " It changes nothing: no trial did better than the settings at the start."
    return section(
        "What changed",
        "changes",
        note(said),
        table(columns, changed, caption="Settings that differ") if changed else None,
        disclosure(f"{len(same)} settings that stayed", table(columns, same, caption="Settings that stayed"))
        if same
        else None,
    )


def _help(program: str) -> Mapping[str, str]:
    try:
        return {name: declared.help for name, declared in get_program(program).hyperparameters().items()}
    except UnknownName:
        return {}  # a program of the user's own: its class is not at hand


def _front(study: StudyFacts) -> Element:
    complete = [trial for trial in study.trials if trial.complete]
    best = front(study.trials, study.cost)
    line = [(trial.costs[study.cost], trial.score) for trial in best]
    rows = [[f"{trial.number} {trial.label}", f"{trial.score:.3f}", f"{trial.costs[study.cost]:.3g}"] for trial in best]
    both = "Both were objectives of this study." if study.pareto else "The score alone was the objective of this study."
    return section(
        "Score against cost",
        "front",
        note(f"Complete trials, dev split. {both} No other trial beats those on the line in score and cost at once."),
        scatter(
            [Point(t.costs[study.cost], t.score, _kind(study, t), _said(study, t)) for t in complete],
            caption=f"Score and {study.cost} of every complete trial (dev split)",
            x_name=f"{study.cost} per question",
            y_name=f"dev {study.metric}",
            line=line,
            line_name="the front: best score at that cost or less",
        ),
        disclosure(
            "The front as a table",
            table(
                ["trial", f"dev {study.metric}", f"{study.cost} per question"],
                rows,
                caption="Front, cheapest first (dev split)",
                numeric=(1, 2),
            ),
        ),
    )


def _importances(study: StudyFacts) -> Element:
    rows = [(name, weight, f"{weight:.3f}") for name, weight in study.importances.items()]
    explained = (
        "Share of each parameter in what separates the better trials from the others (Optuna's PED-ANOVA, complete "
        "trials). With few trials it is a hint, not a finding."
    )
    return section(
        "What decides the score",
        "importances",
        note(explained) if rows else note("Not known: fewer than two complete trials, or none that differ."),
        bars(rows, caption="Hyperparameter importances (dev split)") if rows else None,
    )


def _slices(study: StudyFacts) -> Element | None:
    names = list(dict.fromkeys(name for trial in study.trials for name in study.parameters[trial.number]))
    names.sort(key=lambda name: -study.importances.get(name, 0.0))
    figures = [figure for name in names[:_MOST_SLICES] if (figure := _slice(study, name)) is not None]
    if not figures:
        return None
    more = f" The {_MOST_SLICES} most important of {len(names)} parameters." if len(names) > _MOST_SLICES else ""
    return section(
        "Score by parameter",
        "slices",
        note(f"Every mark is a trial that set the parameter; crosses were stopped early. Dev split.{more}"),
        el("div", *figures, class_="multiples"),
    )


def _slice(study: StudyFacts, name: str) -> Element | None:
    trials = [trial for trial in study.trials if name in study.parameters[trial.number]]
    values = [study.parameters[trial.number][name] for trial in trials]
    if len({str(value) for value in values}) < 2:
        return None
    kinds = [(_kind(study, trial), _said(study, trial)) for trial in trials]
    if all(isinstance(value, (int, float)) and not isinstance(value, bool) for value in values):
        places, categories = [float(value) for value in values], None
    else:
        categories = sorted({str(value) for value in values})
        places = [float(categories.index(str(value))) for value in values]
    predictor = name.removeprefix("demos.")
    points = [
        Point(x, trial.score, kind, f"{name} = {number(value)}; {said}")
        for x, trial, value, (kind, said) in zip(places, trials, values, kinds, strict=True)
    ]
    return scatter(
        points,
        caption=name if predictor == name else f"demonstration set of {predictor}",
        x_name="",
        y_name=f"dev {study.metric}",
        categories=categories,
        small=True,
        whole=all(isinstance(value, int) for value in values),
    )


def _calls(study: StudyFacts) -> Element:
    spent = study.spent
    rows = [
        ("spent", spent.calls),
        ("without sharing", study.calls_without_sharing),
        ("without sharing and pruning", study.calls_without_pruning),
    ]
    most = max(count for _, count in rows)
    shown = [(name, float(count), f"{count:,}" + _share(count, most)) for name, count in rows]
    money = f" ${spent.money:.2f} as far as prices are known." if spent.money else ""
    setup = f" Of these, {study.setup.calls:,} calls made the demonstrations." if study.setup.calls else ""
    return section(
        "What the study cost",
        "cost",
        bars(shown, caption="Calls to the language model"),
        note(
            f"{spent.prompt_tokens:,} prompt and {spent.completion_tokens:,} completion tokens were spent.",
            f"{money}{setup} Sharing uses an answer, or the whole result of a trial that tried the same, again. ",
            "Without pruning every trial would have asked every dev question: an extrapolated figure.",
        ),
    )


def _share(count: int, most: int) -> str:
    return f" ({count / most:.0%})" if 0 < count < most else ""


def _dev_questions(study: StudyFacts, chosen: TrialResult, questions: Sequence[str]) -> Element | None:
    base = study.paper or study.labelled("current")
    if base is None or base.number == chosen.number:
        return None
    gain = study.gain(base)
    said = (
        f"Trial {chosen.number} against trial {base.number} ({base.label}) on the dev questions, on which it was "
        f"chosen: {study.metric} {gain.difference:+.3f} [{gain.low:+.3f}, {gain.high:+.3f}], paired p: "
        f"{p_value(gain.p_value)}, {gain.wins} better, {gain.losses} worse, {gain.ties} equal."
    )
    parts: list[Child] = []
    for what, sign in (("won", 1), ("lost", -1)):
        changed = [
            (name, before, after)
            for name, before, after in zip(questions, base.scores, chosen.scores, strict=False)
            if (after - before) * sign > 0
        ]
        if changed:
            rows = [[name, f"{before:.2f}", f"{after:.2f}"] for name, before, after in changed]
            inner = table(["question", base.label, "chosen"], rows, caption=f"Dev questions {what}", numeric=(1, 2))
            parts.append(disclosure(f"{len(changed)} questions {what}", inner))
    if not questions:
        parts.append(note("The study keeps scores in the order in which it asked, not the questions themselves."))
    return section("Dev questions of the trials", "dev-questions", note(said), *parts)
