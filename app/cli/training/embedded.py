"""The command that trains what stands in where nothing is configured: train embedded."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

from typer import Argument, Option

from knowgap.cli import options as o
from knowgap.cli.display import out, progress, remark, show_table
from knowgap.cli.training import options as t
from knowgap.errors import UnknownName

__all__ = ["COMMANDS", "embedded"]


def embedded(
    parts: Annotated[
        list[str] | None, Argument(help="Which to train: relevance, entailment, reading. [default: all]")
    ] = None,
    *,
    data: Annotated[Path, Option("--data", help="Folder of public training sets; its files are found at any depth.")],
    output: t.Output,
    seed: o.Seed = 0,
    dry_run: Annotated[
        bool, Option("--dry-run", help="Train nothing; show the questions and passages of each set.")
    ] = False,
    as_json: o.Json = False,
) -> None:
    """Train the embedded parts on public training sets, and measure them on sets held out in turn.

    Of HotpotQA, 2WikiMultihopQA and squadshifts, it takes the training files that are there.
    """
    chosen = list(dict.fromkeys(parts or _PARTS))
    if unknown := [part for part in chosen if part not in _PARTS]:
        raise UnknownName.among("part", unknown[0], _PARTS)
    results = [_PARTS[part](data, output, seed, dry_run, as_json) for part in chosen]
    if as_json:
        out.print_json(data=dict(zip(chosen, results, strict=True)))


def _relevance(data: Path, output: Path, seed: int, dry_run: bool, as_json: bool) -> dict[str, Any]:
    from knowgap.compiling.training.embedded.ranked_questions import read_question_sets
    from knowgap.compiling.training.embedded.relevance import train_relevance

    if dry_run:
        sets = read_question_sets(data, seed)
        if not as_json:
            rows = [[own.name, len(own.questions), len(own.texts)] for own in sets]
            show_table("what relevance is trained on", ["set", "questions", "passages"], rows)
        return {own.name: {"questions": len(own.questions), "passages": len(own.texts)} for own in sets}
    with progress("training relevance") as report:
        training = train_relevance(data, output, seed=seed, progress=report)
    if not as_json:
        columns = ["held out", "questions", "late interaction", "model", "shown", "precision", "error"]
        rows = [[own.name, own.questions, *(f"{value:.3f}" for value in own[2:])] for own in training.held_out]
        show_table("gold in the best 5 of 50, and δ", columns, rows)
    remark(f"{output}: relevance, δ {training.model.delta:g}, trained on {training.pairs} pairs")
    return {"delta": training.model.delta, "held_out": [own._asdict() for own in training.held_out]}


def _entailment(data: Path, output: Path, seed: int, dry_run: bool, as_json: bool) -> dict[str, Any]:
    from knowgap.compiling.training.embedded.entailment import train_entailment
    from knowgap.compiling.training.embedded.statements import count_statements, read_statements

    if dry_run:
        counts = count_statements(read_statements(data, seed))
        if not as_json:
            rows = [[source, *own.values()] for source, own in counts.items()]
            show_table("what entailment is trained on", ["set", "true statements", "false statements"], rows)
        return counts
    with progress("training entailment") as report:
        training = train_entailment(data, output, seed=seed, progress=report)
    if not as_json:
        rows = [[own.source, own.kind, own.statements, f"{own.accuracy:.3f}"] for own in training.held_out]
        show_table("statements on the right side of 0.5", ["held out", "kind", "statements", "accuracy"], rows)
    remark(f"{output}: entailment, trained on {training.statements} statements")
    return {"held_out": [own._asdict() for own in training.held_out]}


def _reading(data: Path, output: Path, seed: int, dry_run: bool, as_json: bool) -> dict[str, Any]:
    from knowgap.compiling.training.embedded.reading import READING_CONFIG, plan_reading, train_reading

    config = replace(READING_CONFIG, seed=seed)
    if dry_run:
        plan = plan_reading(data, config)
        if not as_json:
            t.show_plan(plan, as_json=False)
        return vars(plan)
    with progress("training reading") as report:
        result, measures = train_reading(data, output / "reading", config=config, progress=report)
    if not as_json:
        rows = [[measures.questions, f"{measures.f1:.3f}", f"{measures.exact_match:.3f}"]]
        show_table("questions held out, each on the passage that answers", ["questions", "F1", "exact match"], rows)
    t.remark_on(result)
    return {"steps": result.steps, "final_loss": result.final_loss, **measures._asdict()}


_PARTS: dict[str, Callable[[Path, Path, int, bool, bool], dict[str, Any]]] = {
    "relevance": _relevance,
    "entailment": _entailment,
    "reading": _reading,
}

COMMANDS = {"embedded": embedded}
