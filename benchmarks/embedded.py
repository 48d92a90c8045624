"""The embedded reader on development sets, on which nothing was trained: short answers to the gold paragraphs alone."""

from __future__ import annotations

import argparse
from collections.abc import Iterator

from models import Finder
from table import FILES, Table, real_file, seconds

from knowgap.compiling import evaluate
from knowgap.compiling.data import load_dataset
from knowgap.compiling.run import Run
from knowgap.lms import make_lm
from knowgap.programs import get_program


def measure(options: argparse.Namespace) -> Iterator[Table]:
    """Yield the table of what is read on each data set."""
    count, rows = options.count or (20 if options.quick else 150), []
    for name in ("HotpotQA", "2WikiMultihopQA"):
        if (path := real_file(options, FILES[name])) is None:
            continue
        data = load_dataset(path, split_as="dev", limit=count)
        known, asked = {passage.id: passage for passage in data.corpus}, data.splits["dev"]
        gold = {example.question: [known[id] for id in example.gold_ids] for example in asked}
        program = get_program("rag")(Finder(lambda query, k, gold=gold: gold[query][:k]))
        run = Run(lm=make_lm("extractive", cache=False), num_threads=1)
        found = evaluate(program, asked, ("f1", "exact_match"), run=run)
        rows.append([name, len(asked), *map(found.interval, found.metrics), seconds(found.mean("seconds"))])
    columns = ["data", "questions", "F1 [95%]", "exact match [95%]", "time of a question"]
    yield Table("Reading gold paragraphs", columns, rows, ["Intervals are bootstrapped over questions."])
