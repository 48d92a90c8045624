"""The card of a compiled program: what its `config.json` says, for a reader."""

from __future__ import annotations

from typing import Any

from knowgap.lms.providers import EXTRACTIVE
from knowgap.programs.base import Program

__all__ = ["model_card"]

_SPLITS = {
    "test": "test (held out)",
    "dev": "dev (choices were made on it)",
    "train": "train (demonstrations come from it)",
    "": "not said",
}


def model_card(config: dict[str, Any], program: Program) -> str:
    """The card in Markdown."""
    retriever = config["retriever"]
    data = config["data"]
    made = config["versions"]
    facts = [
        ("Program", f"`{config['program']}`"),
        ("Language model", f"`{config['lm'] or 'not said'}`"),
        ("Index", f"{retriever.get('name', 'none')}, digest `{_start(retriever.get('digest'))}`"),
        ("Corpus", f"{retriever.get('passages', '?')} passages, digest `{_start(retriever.get('corpus_digest'))}`"),
        ("Reranker", config["reranker"] or "none"),
        ("Entailment model", config["entailment"] or "none"),
        ("Data", f"{data.get('name', 'not said')}, fingerprint `{_start(data.get('fingerprint'))}`"),
        ("Made", f"{config['created']}, at commit `{_start(config['git_commit'])}`"),
        ("Versions", f"knowgap {made.get('knowgap', '?')}, DSPy {made.get('dspy', '?')}"),
    ]
    lines = [f"# {type(program).__name__}, compiled", "", *_table(["", ""], facts), "", "## Scores", ""]
    lines += _scores(config["evaluations"])
    lines += ["", "## Hyperparameters", ""]
    declared = program.hyperparameters()
    rows = [
        (f"`{name}`", f"`{value}`", f"`{declared[name].default}`", declared[name].help)
        for name, value in config["hyperparameters"].items()
    ]
    lines += _table(["name", "value", "the paper's", "what it does"], rows)
    lines += ["", "## Demonstrations", ""]
    shown = [f"- `{name}`: {number}" for name, number in config["demonstrations"].items()]
    lines += shown or ["None: every prompt is its instructions alone."]
    if config["cost"]:
        lines += ["", "## What compiling cost", "", *(f"- {name}: {value}" for name, value in config["cost"].items())]
    lines += [
        "",
        "## Use",
        "",
        "```python",
        "import dspy",
        "import knowgap",
        "",
        f'dspy.configure(lm=knowgap.make_lm("{_lm_word(config["lm"])}"))',
        'program = knowgap.load("PATH/OF/THIS/FOLDER", retriever="PATH/OF/THE/INDEX")',
        'print(program(question="…").answer)',
        "```",
        "",
    ]
    return "\n".join(lines)


def _start(digest: str | None) -> str:
    return digest[:16] if digest else "not known"


def _lm_word(name: str) -> str:
    return "extractive" if name == EXTRACTIVE else name or "openai/…"


def _scores(evaluations: dict[str, Any]) -> list[str]:
    if not evaluations:
        return ["None were kept."]
    rows = []
    for label, found in evaluations.items():
        costs = found["costs"]
        for metric, score in found["scores"].items():
            interval = f"{score['mean']:.3f} [{score['low']:.3f}, {score['high']:.3f}]"
            split = _SPLITS.get(found["split"], found["split"])
            rows.append((label, split, metric, interval, score["n"], found["failed"], f"{costs['lm_calls']:.1f}"))
    heads = ["", "split", "metric", "mean [95% interval]", "questions", "failed", "LM calls per question"]
    return _table(heads, rows)


def _table(heads: list[str], rows: Any) -> list[str]:
    cells = [[str(cell).replace("|", "\\|").replace("\n", " ") for cell in row] for row in rows]
    return [
        f"| {' | '.join(heads)} |",
        f"|{'|'.join(' --- ' for _ in heads)}|",
        *(f"| {' | '.join(row)} |" for row in cells),
    ]
