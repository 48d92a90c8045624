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
    retriever, data, versions, lm = config["retriever"], config["data"], config["versions"], config["lm"]
    settings = [f"{name}={value}" for name, value in config["lm_settings"].items() if name != "endpoint"]
    passages, corpus = retriever.get("passages", "?"), _first_digits(retriever.get("corpus_digest"))
    facts = [
        ("Program", f"`{config['program']}`"),
        ("Language model", ", ".join(f"`{part}`" for part in (lm or "not said", *settings))),
        ("Index", f"{retriever.get('name', 'none')}, digest {_first_digits(retriever.get('digest'))}"),
        ("Corpus", f"{passages} passages, digest {corpus}"),
        ("Reranker", config["reranker"] or "none"),
        ("Entailment model", config["entailment"] or "none"),
        *(
            (f"Sub-model `{argument}`", facts.get("name") or f"digest {_first_digits(facts.get('digest'))}")
            for argument, facts in config["sub_models"].items()
        ),
        *((f"From outside: {role}", _outside(each)) for role, each in config["outside"].items()),
        ("Data", f"{data.get('name', 'not said')}, fingerprint {_first_digits(data.get('fingerprint'))}"),
        ("Made", config["created"]),
        ("Versions", f"knowgap {versions.get('knowgap', '?')}, DSPy {versions.get('dspy', '?')}"),
    ]
    declared = program.hyperparameters()
    rows = [
        (f"`{name}`", f"`{value}`", f"`{declared[name].default}`", declared[name].help)
        for name, value in config["hyperparameters"].items()
    ]
    shown = [f"- `{name}`: {number}" for name, number in config["demonstrations"].items()]
    word = "extractive" if lm == EXTRACTIVE else lm or "openai/…"
    module, _, outside = config["program"].partition(":")
    sections = {
        "Scores": _scores(config["evaluations"]),
        "Hyperparameters": _table(["name", "value", "default", "what it does"], rows),
        "Demonstrations": shown or ["None: every prompt is its instructions alone."],
        "What compiling cost": [f"- {name}: {value}" for name, value in config["cost"].items()],
        "Use": [
            "```python",
            "import dspy",
            "import knowgap",
            *([f"import {module}"] if outside else []),
            "",
            f'dspy.configure(lm=knowgap.make_lm("{word}"))',
            'program = knowgap.load("PATH/OF/THIS/FOLDER", retriever="PATH/OF/THE/INDEX")',
            'print(program(question="…").answer)',
            "```",
        ],
    }
    lines = [f"# {program.kind.__name__}, compiled", "", *_table(["", ""], facts)]
    for title, content in sections.items():
        lines += ["", f"## {title}", "", *content] if content else []
    return "\n".join([*lines, ""])


def _outside(facts: dict[str, str]) -> str:
    version = f", version {facts['version']}" if "version" in facts else ""
    return f"`{facts['name']}`{version}, digest of its file {_first_digits(facts.get('sha256'))}"


def _first_digits(digest: str | None) -> str:
    return f"`{digest[:16]}`" if digest else "not known"


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
