"""The model card of a compiled program: its `config.json` in Markdown, for a reader."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from knowgap.compiling.evaluation.statistics import Interval
from knowgap.programs.base import Program

_SPLITS = {"test": "test (held out)", "dev": "dev (choices were made on it)"}


def model_card(config: dict[str, Any], program: Program) -> str:
    """The text of `card.md`, from the contents of `config.json`."""
    index, data, versions = config["retriever"], config["data"], config["versions"]
    settings = [f"{name}={value}" for name, value in config["lm_settings"].items() if name != "endpoint"]
    facts = {
        "Program": f"`{config['program']}`",
        "Language model": ", ".join([config["lm"] or "not said", *settings]),
        "Index": f"{index.get('name', 'none')}, {index.get('passages', '?')} passages, {_first(index.get('digest'))}",
        **{f"Model `{n}`": each.get("name") or _first(each.get("digest")) for n, each in config["models"].items()},
        **{f"From outside: {n}": f"`{e['name']}`, {_first(e.get('sha256'))}" for n, e in config["outside"].items()},
        "Data": f"{data.get('name', 'not said')}, {_first(data.get('fingerprint'))}",
        "Made": f"{config['created']}, by knowgap {versions.get('knowgap', '?')} and DSPy {versions.get('dspy', '?')}",
    }
    module, _, outside = config["program"].partition(":")
    before = f"`import {module}`, then " if outside else ""
    declared = program.hyperparameters()
    rows = [
        (f"`{name}`", f"`{value}`", f"`{declared[name].default}`", declared[name].help)
        for name, value in config["hyperparameters"].items()
    ]
    shown = [f"- `{name}`: {number}" for name, number in config["demonstrations"].items()]
    sections = {
        "Scores": _scores(config["evaluations"]),
        "Hyperparameters": _table(["name", "value", "default", "what it does"], rows),
        "Demonstrations": shown or ["None: every prompt is its instructions alone."],
        "What compiling cost": [f"- {name}: {value}" for name, value in config["cost"].items()],
        "Use": [f'In Python: {before}`knowgap.load("PATH/OF/THIS/FOLDER", retriever="PATH/OF/THE/INDEX")`.'],
    }
    lines = [f"# {type(program).__name__}, compiled", "", *_table(["", ""], [*facts.items()])]
    for title, content in sections.items():
        lines += ["", f"## {title}", "", *content] if content else []
    return "\n".join([*lines, ""])


def _first(digest: str | None) -> str:
    """The first digits of a digest."""
    return f"digest `{digest[:16]}`" if digest else "digest not known"


def _scores(evaluations: dict[str, Any]) -> list[str]:
    rows: list[tuple[object, ...]] = []
    for label, evaluation in evaluations.items():
        split, calls = evaluation["split"], evaluation["costs"]["lm_calls"]
        counts = evaluation["failed"], evaluation.get("unreadable", 0), "?" if calls is None else f"{calls:.1f}"
        for metric, score in evaluation["scores"].items():
            interval = Interval.model_validate(score)
            rows.append((label, _SPLITS.get(split, split), metric, str(interval), score["n"], *counts))
    columns = ["", "split", "metric", "mean [95% interval]", "questions", "failed", "unreadable", "LM calls a question"]
    return _table(columns, rows) if rows else ["None."]


def _table(header: list[str], rows: Sequence[Sequence[object]]) -> list[str]:
    cells = [[str(cell).replace("|", "\\|").replace("\n", " ") for cell in row] for row in rows]
    lines = [header, [" --- " for _ in header], *cells]
    return [f"| {' | '.join(row)} |" for row in lines]
