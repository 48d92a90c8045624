"""What becomes of gold evidence in each method, under a reader that knows it but acts from its prompt alone.

`found`: gold passages that some search of the question returned. `shown`: those that a prompt of the reader held.
`used`: those that the prompt held when the reader answered, themselves or as something taken from them. `answered`:
questions answered exactly. What is lost here is lost by the method's flow; the second table says where. A program has
its paper's settings for the data set's family of tasks, if the paper names some.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import dspy
from models.gold_questions import GoldQuestion, read_gold_questions
from models.knowing_reader import HesitantReader, KnowingReader
from real_data import FILES, real_file
from table import Table, note

from knowgap.compiling import Evaluation, evaluate
from knowgap.compiling.data import load_dataset
from knowgap.compiling.data.dataset import Dataset
from knowgap.compiling.evaluation.shared_cache import share_results
from knowgap.compiling.run import Run
from knowgap.programs import get_program
from knowgap.programs.base import Program
from knowgap.retrieval import ColBERTIndex

DATA = ("HotpotQA", "2WikiMultihopQA")
TASKS = {"2WikiMultihopQA": "multi_hop_deep"}
"""The family of tasks whose presets a data set is asked with, if it is not `multi_hop`."""
READERS = {"knowing": KnowingReader, "hesitant": HesitantReader}
PROGRAMS = ("knowgap", "rag", "ircot", "migres", "adaptive_note", "ra_isf", "rq_rag", "blend_filter")


def add_arguments(group: Any) -> None:
    """Add the options of this benchmark."""
    group.add_argument("--evidence-questions", type=int, help="questions of each data set at most")
    group.add_argument("--evidence-programs", nargs="+", default=PROGRAMS, help="which programs (all)")
    group.add_argument("--evidence-readers", nargs="+", choices=READERS, default=["knowing"], help="which (knowing)")
    group.add_argument("--evidence-data", nargs="+", choices=DATA, default=DATA, help="which data sets (both)")


def measure(options: argparse.Namespace) -> Iterator[Table]:
    """Two tables for each data set."""
    limit = options.evidence_questions or (20 if options.quick else None)
    for name in options.evidence_data:
        if (path := real_file(options, name, FILES[name])) is None:
            continue
        data, gold = load_dataset(path, split_as="dev", limit=limit), read_gold_questions(path)
        for reader in options.evidence_readers:
            yield from _tables(name, data, gold, options.evidence_programs, reader)


def _tables(
    named: str, data: Dataset, gold: Sequence[GoldQuestion], programs: Sequence[str], reader: str
) -> Iterator[Table]:
    evaluations: dict[str, Evaluation] = {}
    with tempfile.TemporaryDirectory() as folder:
        index = ColBERTIndex.build(data.corpus, Path(folder) / "index")
        for name in programs:
            kind, task = get_program(name), TASKS.get(named, "multi_hop")
            preset = next((each for each in (task, "multi_hop") if each in kind.presets), None)
            program = kind(index) if preset is None else kind.from_preset(preset, index)
            evaluations[name] = _evaluated(program, data, READERS[reader](gold))
            note(" ".join([name, *_figures(evaluations[name])]))
    title = f"{named}, {reader} reader: {len(data.splits['dev'])} questions over {len(data.corpus)} paragraphs"
    yield Table(
        title,
        ["program", "found", "shown", "used", "answered", "calls", "tokens", "calls / right"],
        [[name, *_figures(evaluation)] for name, evaluation in evaluations.items()],
        ["found, shown, used: share of gold passages, mean over questions. answered: exact match, in percent."],
    )
    shares = {name: evaluation.evidence() for name, evaluation in evaluations.items()}
    fates = [fate for fate in next(iter(shares.values())) if any(share[fate] for share in shares.values())]
    yield Table(
        f"Where the evidence went, {title}",
        ["program", *fates],
        [[name, *(f"{share[fate]:.1%}" for fate in fates)] for name, share in shares.items()],
        ["Shares of gold passages, means over questions."],
    )


def _evaluated(program: Program, data: Dataset, reader: KnowingReader) -> Evaluation:
    lm = dspy.LM("knowgap/reader", engine=reader, cache=False, num_retries=0)
    cached = share_results({"": program})[""]
    with dspy.context(disable_history=True):
        return evaluate(cached, data.splits["dev"], "exact_match", run=Run(lm=lm, num_threads=2))


def _figures(evaluation: Evaluation) -> list[str]:
    shares = [f"{evaluation.mean(name):.3f}" for name in ("found", "shown", "used")]
    costs = {name: cost or 0.0 for name, cost in evaluation.costs().items()}
    right, calls = evaluation.mean("exact_match"), costs["lm_calls"]
    return [*shares, f"{100 * right:.1f}", f"{calls:.1f}", f"{costs['tokens']:.0f}", f"{calls / max(right, 1e-9):.1f}"]
