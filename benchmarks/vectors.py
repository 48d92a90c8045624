"""Made-up token vectors: clustering them in bounded memory, and searching them beside exact MaxSim.

Each vector is that of a word, plus a part of its passage's topic and some noise; word frequencies follow Zipf's law.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
from engines import Anonymous, in_process, once, run_task, size_of
from table import Table, note, percentile, seconds

from knowgap.retrieval import Passage
from knowgap.retrieval.colbert.inverted_lists import centroid_count
from knowgap.retrieval.colbert.maxsim import LENGTHS, VECTORS, TokenVectors
from knowgap.retrieval.colbert.residual_codec import cluster
from knowgap.retrieval.index.manifest import Manifest, Segment
from knowgap.retrieval.index.passage_store import PassageStore
from knowgap.retrieval.index.search_settings import QUALITIES
from knowgap.retrieval.index.snapshot import Snapshot

DIM, K = 128, 10
_TOKENS, _WORDS, _TOPICS, _AT_ONCE = 64, 30_000, 3000, 2000
_FOLDER = "made-up"


def measure_vectors(options: argparse.Namespace, passages: int) -> Iterator[Table]:
    """One table about building, and one about searching."""
    count = options.vector_queries
    with tempfile.TemporaryDirectory(prefix="knowgap-benchmark-") as name:
        folder = options.vector_folder.absolute() / f"{passages}-passages" if options.vector_folder else Path(name)
        if not (folder / "queries.npz").exists():
            (folder / _FOLDER).mkdir(parents=True, exist_ok=True)
            note(f"vectors: making up {passages:,} passages")
            write_vectors(folder, passages, count)
        note("vectors: clustering")
        built = once("build_clusters", folder, __file__)
        tokens = built["tokens"]
        peak = f"{built['anonymous']:.0f} MiB"
        rows = [["knowgap", seconds(built["seconds"]), peak, f"{built['bytes'] / 2**20:.0f} MiB"]]
        yield Table(
            f"Indexing {passages:,} passages of {tokens:,} made-up token vectors, {DIM} wide",
            ["engine", "build", "memory", "disk"],
            rows,
            ["Encoding is not in it; the vectors are kept in 16 bits."],
        )
        if count:
            yield _searches(folder, count)


def _searches(folder: Path, count: int) -> Table:
    exact: list[list[int]] = []
    rows = []
    for quality in ("exact", "balanced", "fast"):
        asked = {"task": "search_clusters", "script": __file__, "options": {"quality": quality}}
        rows.append(["knowgap", quality, *_ask(folder, asked, count, exact)])
    return Table(
        f"Searching them: {K} passages for queries of 8 vectors",
        ["engine", "setting", "queries", "p50", "p95", f"recall@{K}", "one process", "two processes", "memory"],
        rows,
        [
            f"Recall is of the {K} best by exact MaxSim. Queries encoded beforehand, one after the other in a process, "
            "after one to warm up; and queries a second of one process and of two that search the same files at once."
        ],
    )


def _ask(folder: Path, asked: dict[str, Any], count: int, exact: list[list[int]]) -> list[Any]:
    """Latency, recall and throughput of one way to search; the first is that which is exact, and fills `exact`."""
    arguments = {name: value for name, value in asked.items() if name != "options"}

    def search(number: int) -> dict[str, Any]:
        own = folder / f"process-{number}"
        own.mkdir(exist_ok=True)
        for name in (_FOLDER, "queries.npz"):
            if (folder / name).exists() and not (own / name).exists():
                (own / name).symlink_to(folder / name)
        return in_process(folder=own, count=count, **arguments, **asked["options"])

    note(f"vectors: {asked['task']} {asked['options']}")
    alone = search(1)
    with ThreadPoolExecutor(2) as threads:
        both = list(threads.map(search, (1, 2)))
    if not exact:
        exact.extend(alone["ids"])
    recall = np.mean([len({*found} & {*best}) / K for found, best in zip(alone["ids"], exact, strict=False)])
    times = alone["seconds"]
    together = sum(count / sum(one["seconds"]) for one in both)
    return [
        count,
        f"{1000 * percentile(times, 0.5):.1f} ms",
        f"{1000 * percentile(times, 0.95):.1f} ms",
        f"{recall:.3f}",
        f"{count / sum(times):.1f}/s",
        f"{together:.1f}/s",
        f"{alone['anonymous']:.0f} MiB",
    ]


def write_vectors(folder: Path, passages: int, queries: int) -> None:
    """Write token vectors, their numbers a passage, and queries made of some passages' vectors with more noise."""
    rng = np.random.default_rng(17)
    words, topics = (_unit(rng.normal(size=(size, DIM))) for size in (_WORDS, _TOPICS))
    lengths = rng.integers(_TOKENS // 2, 3 * _TOKENS // 2 + 1, size=passages)
    chosen = set(rng.choice(passages, queries, replace=False).tolist())
    asked = []
    with (folder / _FOLDER / VECTORS).open("wb") as file:
        for first in range(0, passages, _AT_ONCE):
            counts = lengths[first : first + _AT_ONCE]
            rows = words[np.exp(rng.random(counts.sum()) * np.log(_WORDS)).astype(np.int64)]
            rows = rows + np.repeat(0.6 * topics[rng.integers(0, _TOPICS, size=len(counts))], counts, axis=0)
            rows = _unit(rows + 0.4 * _unit(rng.normal(size=rows.shape)))
            file.write(rows.astype(np.float16).tobytes())
            for number, piece in enumerate(np.split(rows, np.cumsum(counts)[:-1]), start=first):
                if number in chosen:
                    drawn = piece[rng.choice(len(piece), 8, replace=False)]
                    asked.append(_unit(drawn + 0.5 * _unit(rng.normal(size=drawn.shape))).astype(np.float32))
    np.save(folder / _FOLDER / LENGTHS, lengths.astype(np.int32))
    np.savez(folder / "queries.npz", *asked)


def _unit(rows: Any) -> Any:
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)


def build_clusters(folder: Path) -> dict[str, Any]:
    """Cluster the vectors, as a build does after encoding."""
    place = folder / _FOLDER
    lengths = np.load(place / LENGTHS)
    PassageStore.build((Passage(str(number), "", "") for number in range(len(lengths))), place)
    started = time.perf_counter()
    with Anonymous() as memory:
        cluster(place, DIM, 16, True, lambda *_: None)
    spent = time.perf_counter() - started
    tokens = int(lengths.sum())
    assert centroid_count(tokens) > 1
    return {"seconds": spent, "bytes": size_of(place), "anonymous": memory.peak, "tokens": tokens}


def search_clusters(folder: Path, *, quality: str, count: int) -> dict[str, Any]:
    """Search the vectors with the settings of a quality."""
    lengths = TokenVectors.open(folder / _FOLDER, DIM).lengths
    manifest = Manifest("colbert", (Segment(_FOLDER, len(lengths), ""),), {"dim": DIM, "nbits": 16})
    saved, ids, times = np.load(folder / "queries.npz"), [], []
    with Anonymous() as memory:
        snapshot = Snapshot(folder, manifest, "cpu")
        snapshot.search([saved[saved.files[0]]], K, QUALITIES[quality], None)  # loads what the first search loads
        for name in saved.files[:count]:
            started = time.perf_counter()
            [hits] = snapshot.search([saved[name]], K, QUALITIES[quality], None)
            ids.append([int(hit.passage.id) for hit in hits])
            times.append(time.perf_counter() - started)
    return {"ids": ids, "seconds": times, "anonymous": memory.peak}


if __name__ == "__main__":
    run_task(build_clusters, search_clusters)
