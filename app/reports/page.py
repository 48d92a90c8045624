"""A study or evaluations as one HTML page that opens anywhere: no network, no library, nothing beside it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any
from xml.etree.ElementTree import Element

from knowgap.compile.evaluation.results import Evaluation
from knowgap.compile.study.summary import StudyFacts
from knowgap.reports.evaluations import Group, evaluation_sections, grouped, split_badge
from knowgap.reports.html import Child, el, facts, note, p_value, page, section, table, tile
from knowgap.reports.sources import Findings, Source, find
from knowgap.reports.study import study_sections
from knowgap.retrieval.index.files import write_file

__all__ = ["render_report", "write_report"]

_NO_TEST = (
    "No test score: nothing here was evaluated on a held-out test split. Every figure below is from questions on "
    "which choices were made, and flatters."
)


def render_report(
    source: Source,
    *,
    evaluations: dict[str, Evaluation] | None = None,
    study_name: str | None = None,
    base: str | None = None,
    cost: str = "",
    title: str | None = None,
) -> str:
    """The report as HTML.

    Args:
        source: what `tune` or `evaluate` returned, evaluations by label, a study's file or database URL, a folder that
            `knowgap compile`, `tune`, `eval` or `compare` wrote, an evaluation's JSON file or a file of answers.
        evaluations: more evaluations, by label, such as those before and after a study.
        study_name: which study, where the storage keeps several.
        base: label of the evaluation that the others are compared with; one with "before" in its label, or the first,
            where absent.
        cost: what counts as cost in a study, by the names of `knowgap.compile.evaluation.results.COSTS`.
        title: of the page.

    Raises:
        UsageError: there is nothing to report at that place.
        StudyError: the study cannot be read, or there are several.
        DataError: a file of answers is damaged.
        UnknownName: no evaluation is called `base`, or no cost `cost`.
    """
    found = find(source, study_name=study_name, cost=cost)
    every = {**found.evaluations, **(evaluations or {})}
    groups = grouped(every, base=base, dev_digest=found.study.dev_digest if found.study else "")
    tested = any(group.split == "test" for group in groups) or bool(_summaries(found, "test"))
    compiled = found.study is not None or found.artifact is not None
    lead: list[Child] = [
        _facts(found, groups),
        note(_NO_TEST, kind="warning") if compiled and not tested else None,
        _tiles(found, groups),
    ]
    sections = [_before_after(found, groups)] if compiled else []
    if found.study is not None:
        sections += study_sections(found.study, found.questions)
    for group in groups:
        sections += evaluation_sections(group, found.unfinished)
    sections.append(_provenance(found, {name: e for group in groups for name, e in group.evaluations.items()}))
    return page(title or _title(found, every), lead, sections)


def write_report(source: Source, path: str | Path, **options: Any) -> Path:
    """Write the report to a file, which is complete or not there.

    Args:
        source: as for `render_report`.
        path: the file.
        **options: as for `render_report`.

    Returns:
        The file.
    """
    return write_file(path, render_report(source, **options))


def _title(found: Findings, evaluations: dict[str, Evaluation]) -> str:
    if found.study is not None:
        return f"{found.study.program}: study {found.study.name}"
    if found.artifact is not None:
        return f"{found.artifact['program']}, compiled"
    names = list(dict.fromkeys(e.provenance.program or label for label, e in evaluations.items()))
    return f"Evaluation of {', '.join(names[:6])}" + (" and others" if len(names) > 6 else "")


def _facts(found: Findings, groups: Sequence[Group]) -> Element:
    study, artifact = found.study, found.artifact or {}
    first = next((e.provenance for group in groups for e in group.evaluations.values()), None)
    data = getattr(first, "dataset", "") or artifact.get("data", {}).get("name", "")
    return facts(
        [
            ("From", found.place),
            ("Program", study.program if study else artifact.get("program", "")),
            ("Language model", study.lm if study else artifact.get("lm") or (first.lm if first else "")),
            ("Data", str(data)),
            ("Optimized", f"{study.metric} on {study.size} dev questions" if study else ""),
        ]
    )


def _tiles(found: Findings, groups: Sequence[Group]) -> Element | None:
    tiles: list[Element] = []
    for group in groups:
        if group.split != "test" or len(group.evaluations) != 2:
            continue
        before, after = group.evaluations.values()
        gain = group.against_base(list(group.evaluations)[1])
        value = f"{before.mean(group.metric):.3f} → {after.mean(group.metric):.3f}"
        said = (
            f"{gain.difference:+.3f} [{gain.low:+.3f}, {gain.high:+.3f}], paired p: {p_value(gain.p_value)}"
            if gain
            else ""
        )
        tiles.append(tile(f"Test {group.metric}, before → after", value, said, " ", split_badge("test")))
    study = found.study
    if study is not None and study.chosen is not None:
        start = study.paper or study.labelled("current")
        value = f"{start.score:.3f} → {study.chosen.score:.3f}" if start else f"{study.chosen.score:.3f}"
        name = f"Dev {study.metric}, {start.label} → chosen" if start else f"Dev {study.metric} of the chosen trial"
        tiles.append(tile(name, value, split_badge("dev")))
        spent, without = study.spent.calls, study.calls_without_pruning
        saved = f"of {without:,} without sharing and pruning ({spent / without:.0%})" if without else ""
        tiles.append(tile("LM calls spent", f"{spent:,}", saved))
        complete = sum(trial.complete for trial in study.trials)
        tiles.append(
            tile("Trials", len(study.trials), f"{complete} complete, {len(study.trials) - complete} stopped early")
        )
    return el("div", *tiles, class_="tiles") if tiles else None


def _summaries(found: Findings, split: str) -> dict[str, dict[str, Any]]:
    """The scores on a split that a compiled program carries with it; none that a study's trials were compared on."""
    seen = found.study.dev_digest if found.study else None
    kept = (found.artifact or {}).get("evaluations", {})
    return {
        label: summary
        for label, summary in kept.items()
        if summary.get("split") == split and not (split == "test" and summary.get("data") == seen)
    }


def _before_after(found: Findings, groups: Sequence[Group]) -> Element:
    """Test first, then dev; from evaluations where they are at hand, else from what the compiled program carries."""
    rows: list[Sequence[Child]] = []
    whole = {group.split for group in groups}
    for group in groups:
        for label, e in group.evaluations.items():
            gain = group.against_base(label) if label != group.base else None
            rows.append(
                [
                    _with_split(label, group.split),
                    f"{group.metric} {e.interval(group.metric)}" if group.metric in e.all_metrics else "",
                    f"{gain.difference:+.3f} [{gain.low:+.3f}, {gain.high:+.3f}]" if gain else "",
                    p_value(gain.p_value) if gain else "",
                    f"{gain.wins} / {gain.losses} / {gain.ties}" if gain else "",
                    len(e.records),
                ]
            )
    alone = False
    for split in ("test", "dev", "train", ""):
        for label, summary in {} if split in whole else _summaries(found, split).items():
            for metric, score in list(summary["scores"].items())[:1]:
                interval = f"{metric} {score['mean']:.3f} [{score['low']:.3f}, {score['high']:.3f}]"
                rows.append([_with_split(label, split), interval, "", "", "", score["n"]])
                alone = True
    rows += _trial_rows(found.study) if found.study is not None and "dev" not in whole else []
    columns = ["", "mean [95% interval]", "difference [95% interval]", "p (paired)", "won / lost / equal"]
    remark = "Only means were kept with the compiled program, so that some rows have no paired test." if alone else ""
    return section(
        "Before and after",
        "before-after",
        table(
            [*columns, "questions"],
            rows,
            caption="Which split each figure is from stands beside it",
            numeric=(1, 2, 3, 4, 5),
        )
        if rows
        else note("Nothing was scored yet."),
        note("Differences are against the first row of the same split. ", remark),
    )


def _with_split(label: str, split: str) -> Element:
    return el("span", label, el("br"), split_badge(split))


def _trial_rows(study: StudyFacts) -> list[Sequence[Child]]:
    """The trials that mark the study's beginning and end: dev scores, which the choice was made on."""
    from knowgap.compile.evaluation.statistics import mean_interval

    start = study.paper or study.labelled("current")
    if study.chosen is None or start is None:
        return []
    rows: list[Sequence[Child]] = []
    for trial in dict.fromkeys([start.number, study.chosen.number]):
        found = start if trial == start.number else study.chosen
        gain = study.gain(start) if found is not start else None
        rows.append(
            [
                _with_split(f"trial {found.number} ({found.label if found is start else 'chosen'})", "dev"),
                f"{study.metric} {mean_interval(found.scores, study.seed)}",
                f"{gain.difference:+.3f} [{gain.low:+.3f}, {gain.high:+.3f}]" if gain else "",
                p_value(gain.p_value) if gain else "",
                f"{gain.wins} / {gain.losses} / {gain.ties}" if gain else "",
                len(found.scores),
            ]
        )
    return rows


def _provenance(found: Findings, evaluations: dict[str, Evaluation]) -> Element:
    parts: list[Child] = []
    if found.study is not None:
        study = found.study
        goal = f"{study.metric} and {study.cost}" if study.pareto else study.metric
        rows: list[tuple[str, Child]] = [
            ("Study", study.name),
            ("Objective", goal),
            ("Seed", str(study.seed)),
            ("Digest of the dev questions", study.dev_digest[:16]),
        ]
        parts += [el("h3", "The study"), facts(rows)]
    if found.artifact is not None:
        made = found.artifact
        rows = [
            ("Made", f"{made.get('created', '')}"),
            ("Commit", (made.get("git_commit") or "")[:16]),
            ("Index", f"{made['retriever'].get('name', 'none')} {(made['retriever'].get('digest') or '')[:16]}"),
            *((name, version) for name, version in made["versions"].items()),
        ]
        parts += [el("h3", "The compiled program"), facts(rows)]
    for label, evaluation in evaluations.items():
        origin = evaluation.provenance
        settings = ", ".join(f"{name} = {value}" for name, value in origin.hyperparameters.items())
        index = origin.retriever
        rows = [
            ("Program", origin.program),
            ("Split", origin.split or "not said"),
            ("Language model", origin.lm),
            ("Index", f"{index.get('name', '')} {str(index.get('digest') or '')[:16]}".strip()),
            ("Digest of the questions", origin.data[:16]),
            ("Digest of the program's state", origin.state[:16]),
            ("Commit", (origin.git_commit or "")[:16]),
            ("Seed", str(origin.seed)),
            ("Hyperparameters", settings),
            ("Versions", ", ".join(f"{name} {version}" for name, version in origin.versions.items())),
        ]
        parts.append(el("details", el("summary", label), facts(rows)))
    return section("Where it comes from", "provenance", *parts)
