"""The model card of a compiled program: its `config.json` in Markdown, for a reader."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from knowgap.compiling.evaluation.statistics import Interval, few_questions
from knowgap.lms.providers import EXTRACTIVE
from knowgap.programs.base import Program

_SPLITS = {
    "test": "test (held out)",
    "dev": "dev (choices were made on it)",
    "train": "train (demonstrations come from it)",
    "": "not said",
}


def model_card(config: dict[str, Any], program: Program) -> str:
    """The text of `card.md`, from the contents of `config.json`."""
    retriever, data, versions = config["retriever"], config["data"], config["versions"]
    facts = [
        ("Program", f"`{config['program']}`"),
        ("Language model", ", ".join(f"`{part}`" for part in (config["lm"] or "not said", *_options(config)))),
        ("Index", f"{retriever.get('name', 'none')}, digest `{_first_digits(retriever.get('digest'))}`"),
        (
            "Corpus",
            f"{retriever.get('passages', '?')} passages, digest `{_first_digits(retriever.get('corpus_digest'))}`",
        ),
        ("Reranker", config["reranker"] or "none"),
        ("Entailment model", config["entailment"] or "none"),
        *(
            (f"Sub-model `{argument}`", facts.get("name") or f"digest `{_first_digits(facts.get('digest'))}`")
            for argument, facts in config["sub_models"].items()
        ),
        *((f"From outside: {role}", _outside(each)) for role, each in config["outside"].items()),
        ("Data", f"{data.get('name', 'not said')}, fingerprint `{_first_digits(data.get('fingerprint'))}`"),
        ("Made", f"{config['created']}, at commit `{_first_digits(config['git_commit'])}`"),
        ("Versions", f"knowgap {versions.get('knowgap', '?')}, DSPy {versions.get('dspy', '?')}"),
    ]
    lines = [f"# {type(program).__name__}, compiled", "", *_table(["", ""], facts), "", "## Scores", ""]
    lines += _scores(config["evaluations"])
    lines += ["", "## Hyperparameters", ""]
    declared = program.hyperparameters()
    rows = [
        (f"`{name}`", f"`{value}`", f"`{declared[name].default}`", declared[name].help)
        for name, value in config["hyperparameters"].items()
    ]
    lines += _table(["name", "value", "default", "what it does"], rows)
    lines += ["", "## Demonstrations", ""]
    shown = [f"- `{name}`: {number}" for name, number in config["demonstrations"].items()]
    lines += shown or ["None: every prompt is its instructions alone."]
    if compared := config["compared"]:
        lines += ["", "## Programs compared", "", *_table([*compared[0]], [[*row.values()] for row in compared])]
    if config["cost"]:
        lines += ["", "## What compiling cost", "", *(f"- {name}: {value}" for name, value in config["cost"].items())]
    lines += [
        "",
        "## Use",
        "",
        "```python",
        "import dspy",
        "import knowgap",
        *([f"import {config['program'].partition(':')[0]}"] if ":" in config["program"] else []),
        "",
        f'dspy.configure(lm=knowgap.make_lm("{_lm_word(config["lm"])}"))',
        'program = knowgap.load("PATH/OF/THIS/FOLDER", retriever="PATH/OF/THE/INDEX")',
        'print(program(question="…").answer)',
        "```",
        "",
    ]
    return "\n".join(lines)


def _outside(facts: dict[str, str]) -> str:
    version = f", version {facts['version']}" if "version" in facts else ""
    return f"`{facts['name']}`{version}, digest of its file `{_first_digits(facts.get('sha256'))}`"


def _options(config: dict[str, Any]) -> list[str]:
    """The options of the language model, as they are written on the command line."""
    return [f"{name}={value}" for name, value in config["lm_settings"].items() if name != "endpoint"]


def _first_digits(digest: str | None) -> str:
    return digest[:16] if digest else "not known"


def _lm_word(name: str) -> str:
    return "extractive" if name == EXTRACTIVE else name or "openai/…"


def _scores(evaluations: dict[str, Any]) -> list[str]:
    if not evaluations:
        return ["None were kept."]
    shown = [
        name for name in ("unreadable", "cut", "uncounted") if any(each.get(name) for each in evaluations.values())
    ]
    rows: list[tuple[object, ...]] = []
    intervals: list[Interval] = []
    for label, evaluation in evaluations.items():
        split, failed = _SPLITS.get(evaluation["split"], evaluation["split"]), evaluation["failed"]
        spoilt = [evaluation.get(name, 0) for name in shown]
        for metric, score in evaluation["scores"].items():
            intervals.append(Interval.model_validate(score))
            counted = evaluation["costs"]["lm_calls"]
            calls = "?" if counted is None else f"{counted:.1f}"
            rows.append((label, split, metric, str(intervals[-1]), score["n"], failed, *spoilt, calls))
    columns = ["", "split", "metric", "mean [95% interval]", "questions", "failed", *shown, "LM calls per question"]
    few = few_questions(intervals)
    return [*_table(columns, rows), *(["", f"{few[0].upper()}{few[1:]}."] if few else [])]


def _table(header: list[str], rows: Sequence[Sequence[object]]) -> list[str]:
    cells = [[str(cell).replace("|", "\\|").replace("\n", " ") for cell in row] for row in rows]
    return [
        f"| {' | '.join(header)} |",
        f"|{'|'.join(' --- ' for _ in header)}|",
        *(f"| {' | '.join(row)} |" for row in cells),
    ]
