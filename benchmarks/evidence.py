"""What becomes of gold evidence in each method, under a reader that knows it but acts from its prompt alone.

`found`: the share of gold passages that some search of the question returned. `shown`: of those that a prompt of the
reader held. `used`: of those that the prompt held when the reader answered, themselves or as something taken from them.
`answered`: the percentage of questions answered exactly. What is lost here is lost by the method's flow. A program has
its paper's settings for the data set's family of tasks, if the paper names some.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from collections.abc import Iterator
from pathlib import Path

import dspy
from models import Engine
from models.knowing_reader import Fact, GoldQuestion, HesitantReader, KnowingReader, normal
from table import FILES, Table, note, real_file

from knowgap.compiling import evaluate
from knowgap.compiling.data import load_dataset
from knowgap.compiling.data.dataset import Dataset
from knowgap.compiling.run import Run
from knowgap.programs import get_program
from knowgap.retrieval import ColBERTIndex

TASKS = {"HotpotQA": "multi_hop", "2WikiMultihopQA": "multi_hop_deep"}
"""The data sets, each with the family of tasks whose presets it is asked with where a program has these."""
READERS = {"knowing": KnowingReader, "hesitant": HesitantReader}
PROGRAMS = ("knowgap", "rag", "ircot", "migres", "adaptive_note", "ra_isf", "rq_rag", "blend_filter")


def measure(options: argparse.Namespace) -> Iterator[Table]:
    """A table for each data set and reader."""
    limit = options.count or (20 if options.quick else None)
    for name, task in TASKS.items():
        if (path := real_file(options, FILES[name])) is None:
            continue
        data, gold = load_dataset(path, split_as="dev", limit=limit), _gold_questions(path)
        with tempfile.TemporaryDirectory() as folder:
            index = ColBERTIndex.build(data.corpus, Path(folder) / "index")
            for reader in options.readers:
                rows = []
                for program in options.programs or PROGRAMS:
                    rows.append([program, *_figures(program, index, task, data, READERS[reader](gold))])
                    note(" ".join(rows[-1]))
                size = f"{len(data.splits['dev'])} questions over {len(data.corpus)} paragraphs"
                columns = ["program", "found", "shown", "used", "answered", "calls", "tokens", "calls / right"]
                yield Table(f"{name}, {reader} reader: {size}", columns, rows)


def _figures(name: str, index: ColBERTIndex, task: str, data: Dataset, reader: KnowingReader) -> list[str]:
    """Ask a program, and show what became of the evidence and what it cost."""
    kind = get_program(name)
    preset = next((each for each in (task, "multi_hop") if each in kind.presets), None)
    program = kind.from_preset(preset, index) if preset else kind(index)
    lm = dspy.LM("knowgap/reader", engine=Engine(reader.reply), cache=False, num_retries=0)
    with dspy.context(disable_history=True):
        evaluation = evaluate(program, data.splits["dev"], "exact_match", run=Run(lm=lm, num_threads=2))
    shares = [f"{evaluation.mean(name):.3f}" for name in ("found", "shown", "used")]
    right, calls, tokens = (evaluation.mean(name) for name in ("exact_match", "lm_calls", "tokens"))
    return [*shares, f"{100 * right:.1f}", f"{calls:.1f}", f"{tokens:.0f}", f"{calls / max(right, 1e-9):.1f}"]


def _gold_questions(path: Path) -> list[GoldQuestion]:
    """Questions of a file in the layout of HotpotQA or 2WikiMultihopQA, with their supporting sentences."""
    questions = []
    for record in json.loads(path.read_text(encoding="utf-8")):
        paragraphs = dict(reversed(record["context"]))
        objects = {(normal(subject), normal(text)): text for subject, _, text in record.get("evidences") or ()}
        facts: dict[Fact, None] = {}
        for title, number in record["supporting_facts"]:
            for sentence in paragraphs.get(title, ())[number : number + 1]:
                own = {low: text for (subject, low), text in objects.items() if subject == normal(title)}
                answer = next((text for low, text in own.items() if low in normal(sentence)), "")
                facts[Fact(title, sentence.strip(), answer)] = None
        questions.append(GoldQuestion(record["question"], record["answer"], tuple(facts)))
    return questions
