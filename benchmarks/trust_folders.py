"""What strangers' folders, and two commands that write one folder, can do.

Two `index` commands start at once on one folder, in rounds: on a new folder, on one whose documents have changed, and
with --overwrite. One of them has to build the whole index with the places of all its passages; the other has to do the
same after it, or to say in one line that it must wait. Nothing may be left beside the index.
"""

from __future__ import annotations

import argparse
import random
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import Any

from forked import count_words
from table import Table, note

_ENGINES: dict[str, dict[str, Any]] = {"bm25": {}, "dense": {"encoder": count_words}}
_FILES = 120


def add_arguments(group: Any) -> None:
    """Add the options of this part."""
    group.add_argument("--folders-rounds", type=int, help="rounds of two builders of one folder (50; quick 6)")
    group.add_argument("--folders-seed", type=int, default=0, help="of the moments at which builders start (0)")


def measure(options: argparse.Namespace) -> Iterator[Table]:
    """Try everything of this part.

    Args:
        options: those of the command line.
    """
    yield _two_builders(options.folders_rounds or (6 if options.quick else 50), random.Random(options.folders_seed))


def _two_builders(rounds: int, chance: random.Random) -> Table:
    """Two builders of one folder, as many times for each way."""
    rows, started = [], get_context("forkserver")
    started.set_forkserver_preload(["knowgap.compiling.data.indexing", "knowgap.retrieval.bm25"])
    pool = ProcessPoolExecutor(2, mp_context=started)
    for way in ("new", "changed", "overwrite"):
        for engine in _ENGINES:
            note(f"two builders: {way}, {engine}")
            counts, broke, how = Counter[str](), 0, Counter[str]()
            for _ in range(rounds):
                with tempfile.TemporaryDirectory() as folder:
                    outcomes = Counter(_round(pool, Path(folder), way, engine, chance.uniform(0, 0.1)))
                broken = {outcome: outcomes.pop(outcome) for outcome in list(outcomes) if outcome.startswith("broke")}
                counts += outcomes
                broke += bool(broken)
                how += Counter({outcome.replace(folder, "…")[:100]: count for outcome, count in broken.items()})
            problems = "; ".join(f"{count} × {problem}" for problem, count in how.most_common(3)) or "–"
            rows.append([way, engine, rounds, counts["built"], counts["said to wait"], broke, problems])
    pool.shutdown()
    return Table(
        "Two `index` commands on one folder",
        ["folder", "engine", "rounds", "built or found whole", "said to wait", "rounds that broke", "how, most often"],
        rows,
        ["Each round has two commands: the third and fourth figure sum to twice the rounds where nothing breaks."],
    )


def _round(pool: ProcessPoolExecutor, folder: Path, way: str, engine: str, delay: float) -> Iterator[str]:
    """The outcome of each of two builders, and what is wrong with the index after them."""
    documents, target = folder / "documents", folder / "index"
    documents.mkdir()
    for number in range(_FILES):
        (documents / f"{number}.md").write_text(f"# Town {number}\n\nIt was founded in {1000 + number}.\n")
    if way != "new":
        _build(documents, target, engine)
        for number in range(_FILES, _FILES + 20):
            (documents / f"{number}.md").write_text(f"# Town {number}\n\nIt was founded in {1000 + number}.\n")

    started = [pool.submit(_build, documents, target, engine, way == "overwrite", wait) for wait in (0.0, delay)]
    outcomes = [future.result() for future in started]
    for kind, value in outcomes:
        said = kind == "refused" and ("wait for it to finish" in value or "try again later" in value)
        lines = str(value).strip().splitlines()
        yield "built" if kind == "value" else "said to wait" if said else f"broke: {kind}: {lines[-1]}"
    if problem := _missing(target, {path.name for path in documents.iterdir()}):
        yield f"broke afterwards: {problem}"
    if all(kind != "value" for kind, _ in outcomes):
        yield "broke: none of the two built"


def _build(documents: Path, target: Path, engine: str, overwrite: bool = False, wait: float = 0) -> tuple[str, str]:
    """Build an index after so many seconds: "value", or the kind of error and its text."""
    from knowgap.compiling.data.indexing import build_index
    from knowgap.errors import KnowgapError

    time.sleep(wait)
    try:
        build_index(documents, target, engine=engine, overwrite=overwrite, **_ENGINES[engine])
    except (KnowgapError, OSError) as error:
        return "refused", str(error)
    except Exception as error:
        return "traceback", f"{type(error).__name__}: {error}"
    return "value", ""


def _missing(target: Path, files: set[str]) -> str:
    """What an index of documents lacks, or what lies beside it; empty for nothing."""
    from knowgap.errors import KnowgapError
    from knowgap.retrieval import open_index
    from knowgap.retrieval.documents.sources import sources_of
    from knowgap.retrieval.index.manifest import Manifest

    try:
        Manifest.read(target).verify(target)
        index: Any = open_index(target)
    except KnowgapError as error:
        return str(error)
    sources = sources_of(index)
    if sources is None:
        return "the places of the passages are lost"
    ids = [passage.id for passage in index]
    if len(sources.find(ids)) != len(ids) or set(sources.files()) != files or len(ids) != len(files):
        return f"{len(ids)} passages and places of {len(sources.find(ids))}, from {len(files)} files"
    beside = sorted(path.name for path in target.parent.iterdir() if path.name not in ("documents", "index"))
    return f"left beside the index: {', '.join(beside)}" if beside else ""
