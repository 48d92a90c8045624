"""The command that writes questions from an index: questions."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated

from typer import Option

from knowgap.cli import factories
from knowgap.cli import options as o
from knowgap.cli.display import progress, remark, show_table
from knowgap.errors import UsageError


@dataclass(frozen=True)
class QuestionOptions(o.ModelOptions, o.IndexOptions):
    """An index, and the language model that writes questions on it."""

    n: Annotated[int, Option("--n", min=1, help="How many questions to write, divided equally among the kinds.")] = 60
    kinds: Annotated[str, Option("--kinds", help="Kinds of questions, separated by commas.")] = "one_hop,two_hop"
    num_threads: o.Threads = 4


@o.grouped
def questions(
    *,
    output: Annotated[
        Path, Option("--output", "-o", help="File of the questions; a page beside it shows them.")
    ] = Path("questions.jsonl"),
    options: QuestionOptions,
) -> None:
    """Have a language model (--lm) write questions with answers and gold passages from an index, and check each.

    `--data questions.jsonl` takes the output. The page beside it shows every question with its passages: strike out
    what is no good and save the rest. The same command continues a run that was stopped.
    """
    from knowgap.compiling import Run
    from knowgap.compiling.questions.writing import CANNOT_WRITE, write_questions
    from knowgap.reports.pages import write_questions_page

    if options.lm in (None, "extractive"):
        raise UsageError(f"{CANNOT_WRITE}: name a language model with --lm (openai/…, ollama_chat/…, hf/…)")
    if output.suffix != ".jsonl":
        raise UsageError(f"--output {output}: the file is JSON Lines, so name it {output.stem}.jsonl")
    kinds = [kind.strip() for kind in options.kinds.split(",") if kind.strip()]
    run = Run(lm=factories.load_lm(options), num_threads=options.num_threads)
    with factories.open_index(options) as index, progress("writing questions") as report:
        done = write_questions(index, output, n=options.n, kinds=kinds, run=replace(run, progress=report))
    page = write_questions_page(done.kept, output.with_suffix(".html"))
    rows = [[fate, *by_kind.values(), sum(by_kind.values())] for fate, by_kind in done.counts().items()]
    show_table(f"questions, after {done.calls} calls", ["", *done.wanted, "all"], rows)
    remark(f"{len(done.kept)} of {options.n} questions written to {output}; look through them: {page}")
