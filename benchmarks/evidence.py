"""What becomes of gold evidence in each method, under a reader that knows it but acts from its prompt alone.

`found`: gold passages that some search of the question returned. `shown`: those that a prompt of the reader held.
`used`: those that the prompt held when the reader answered, themselves or as something taken from them. `answered`:
questions answered exactly. What is lost here is lost by the method's flow. A program has its paper's settings for the
data set's family of tasks, if the paper names some.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import dspy
from models.knowing_reader import Fact, GoldQuestion, HesitantReader, KnowingReader, normal
from table import FILES, Table, note, real_file

from knowgap.compiling import evaluate
from knowgap.compiling.data import load_dataset
from knowgap.compiling.data.dataset import Dataset
from knowgap.compiling.run import Run
from knowgap.programs import get_program
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
    """A table for each data set and reader."""
    limit = options.evidence_questions or (20 if options.quick else None)
    for name in options.evidence_data:
        if (path := real_file(options, FILES[name])) is None:
            continue
        data, gold = load_dataset(path, split_as="dev", limit=limit), _gold_questions(path)
        with tempfile.TemporaryDirectory() as folder:
            index = ColBERTIndex.build(data.corpus, Path(folder) / "index")
            for reader in options.evidence_readers:
                rows = []
                for program in options.evidence_programs:
                    engine = READERS[reader](gold)
                    rows.append([program, *_figures(program, index, TASKS.get(name, "multi_hop"), data, engine)])
                    note(" ".join(rows[-1]))
                size = f"{len(data.splits['dev'])} questions over {len(data.corpus)} paragraphs"
                columns = ["program", "found", "shown", "used", "answered", "calls", "tokens", "calls / right"]
                said = (
                    "found, shown, used: share of gold passages, mean over questions. answered: exact match, percent."
                )
                yield Table(f"{name}, {reader} reader: {size}", columns, rows, [said])


def _figures(name: str, index: ColBERTIndex, task: str, data: Dataset, engine: KnowingReader) -> list[str]:
    """Ask a program, and show what became of the evidence and what it cost."""
    kind = get_program(name)
    preset = next((each for each in (task, "multi_hop") if each in kind.presets), None)
    program = kind.from_preset(preset, index) if preset else kind(index)
    lm = dspy.LM("knowgap/reader", engine=engine, cache=False, num_retries=0)
    with dspy.context(disable_history=True):
        evaluation = evaluate(program, data.splits["dev"], "exact_match", run=Run(lm=lm, num_threads=2))
    shares = [f"{evaluation.mean(name):.3f}" for name in ("found", "shown", "used")]
    costs = {name: cost or 0.0 for name, cost in evaluation.costs().items()}
    right, calls = evaluation.mean("exact_match"), costs["lm_calls"]
    return [*shares, f"{100 * right:.1f}", f"{calls:.1f}", f"{costs['tokens']:.0f}", f"{calls / max(right, 1e-9):.1f}"]


def _gold_questions(path: Path) -> list[GoldQuestion]:
    """Questions of a file in the layout of HotpotQA or 2WikiMultihopQA, with their supporting sentences."""
    questions = []
    for record in json.loads(path.read_text(encoding="utf-8")):
        paragraphs = dict(reversed(record["context"]))
        objects = {(normal(subject), normal(text)): text for subject, _, text in record.get("evidences") or ()}
        facts: dict[Fact, None] = {}
        for title, number in record["supporting_facts"]:
            for sentence in paragraphs.get(title, ())[number : number + 1]:
                said = [
                    o for (subject, low), o in objects.items() if subject == normal(title) and low in normal(sentence)
                ]
                facts[Fact(title, sentence.strip(), next(iter(said), ""))] = None
        questions.append(GoldQuestion(record["question"], record["answer"], tuple(facts)))
    return questions
