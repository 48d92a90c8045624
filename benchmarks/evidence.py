"""What becomes of gold evidence in each method, under a reader that knows but acts from its prompt alone.

`found`: gold passages that some search of the question returned. `shown`: gold passages that stood before the reader.
`answered`: questions answered exactly. What is lost here is lost by the method's flow.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from statistics import fmean
from typing import Any

import dspy
from models.knowing_reader import KnowingReader, read_gold_questions
from table import Table, data_folder, note

from knowgap.compile.data import load_dataset
from knowgap.compile.evaluation.metrics import exact_match
from knowgap.programs import get_program
from knowgap.retrieval import ColBERTIndex

__all__ = ["add_arguments", "measure"]

FILES = {
    "HotpotQA": ("hotpotqa/*dev*.json", "multi_hop"),
    "2WikiMultihopQA": ("2wikimultihopqa/*dev*.json", "multi_hop"),
}
PROGRAMS = ("rag", "ircot", "migres", "adaptive_note", "ra_isf", "rq_rag", "blend_filter")


def add_arguments(group: Any) -> None:
    """Add the options of this benchmark."""
    group.add_argument("--evidence-questions", type=int, help="questions of each data set at most")
    group.add_argument("--evidence-programs", default=",".join(PROGRAMS), help="programs, joined by commas")


def measure(options: argparse.Namespace) -> Iterator[Table]:
    """One table for each data set."""
    folder = data_folder(options)
    limit = options.evidence_questions or (20 if options.quick else None)
    for name, (pattern, preset) in FILES.items():
        path = next(iter(sorted(folder.glob(pattern))), None) if folder else None
        if path is None:
            note(f"{name} is left out: name a folder of real data with --data or KNOWGAP_TEST_DATA")
            continue
        yield _table(name, path, preset, options.evidence_programs.split(","), limit)


def _table(name: str, path: Path, preset: str, programs: Sequence[str], limit: int | None) -> Table:
    data = load_dataset(path, split_as="dev", limit=limit)
    examples = data.splits["dev"]
    gold = read_gold_questions(path)
    titles = {passage.id: passage.title for passage in data.corpus}
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        index = ColBERTIndex.build(data.corpus, Path(folder) / "index")
        for program in programs:
            kind = get_program(program)
            arms = {"ours": kind(index)}
            if preset in kind.presets:
                arms["paper"] = kind.from_preset(preset, index)
            for arm, built in arms.items():
                rows.append([program, arm, *_measured(built, examples, gold, titles)])
                note(" ".join(map(str, rows[-1])))
    return Table(
        f"{name}: {len(examples)} questions over {len(data.corpus)} pooled paragraphs",
        ["program", "settings", "found", "shown", "shown of found", "answered", "calls"],
        rows,
        ["found, shown: share of gold passages, mean over questions. answered: exact match, in percent."],
    )


def _measured(program: Any, examples: Sequence[dspy.Example], gold: Sequence[Any], titles: dict[str, str]) -> list[str]:
    reader = KnowingReader(gold)
    lm = dspy.LM("knowgap/knowing", engine=reader, cache=False, num_retries=0)

    def ask(example: dspy.Example) -> tuple[float, float, float, float, int]:
        with dspy.context(lm=lm):
            prediction = program(question=example.question)
        wanted = {titles.get(i, i) for i in example.gold_ids}
        hits = {
            titles.get(i, i)
            for step in prediction.trace.steps
            if step.kind == "retrieved"
            for h in step.hits
            for i in h
        }
        found, shown = wanted & hits, wanted & reader.shown[example.question]
        share = len(shown & found) / len(found) if found else 1.0
        return (
            len(found) / len(wanted),
            len(shown) / len(wanted),
            share,
            exact_match(example, prediction),
            prediction.trace.cost.lm_calls,
        )

    with ThreadPoolExecutor(2) as pool:
        results = list(pool.map(ask, examples))
    found, shown, share, answered, calls = (fmean(column) for column in zip(*results, strict=True))
    return [f"{found:.3f}", f"{shown:.3f}", f"{share:.3f}", f"{100 * answered:.1f}", f"{calls:.1f}"]
