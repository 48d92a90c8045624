"""Made-up token vectors: clustering them in bounded memory, and searching them beside exact MaxSim and LanceDB.

Each vector is that of a word, plus a part of its passage's topic and some noise; word frequencies follow Zipf's law.
LanceDB's table is on disk, or on an object store on this machine.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
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
from knowgap.retrieval.index.sizing import PassageSize, estimate_sizes
from knowgap.retrieval.index.snapshot import Snapshot

DIM, K = 128, 10
_TOKENS, _WORDS, _TOPICS, _AT_ONCE = 64, 30_000, 3000, 2000
_LANCE, _STORE = (Path(__file__).with_name(f"{name}.py") for name in ("lance_vectors", "object_store"))
_FOLDER = "made-up"
_VECTORS_A_LIST = 4096  # of LanceDB


def measure_vectors(options: argparse.Namespace, passages: int) -> Iterator[Table]:
    """One table about building, and one about searching."""
    count, lance_python, kind = options.vector_queries, options.lance_python, options.lance_index
    with tempfile.TemporaryDirectory(prefix="knowgap-benchmark-") as name:
        folder = options.vector_folder.absolute() / f"{passages}-passages" if options.vector_folder else Path(name)
        if not (folder / "queries.npz").exists():
            (folder / _FOLDER).mkdir(parents=True, exist_ok=True)
            note(f"vectors: making up {passages:,} passages")
            write_vectors(folder, passages, count)
        note("vectors: clustering")
        built = once("build_clusters", folder, __file__)
        tokens = built["tokens"]
        [expected] = [
            row.build_memory / 2**20
            for row in estimate_sizes(PassageSize(passages, tokens / passages, 1, 1, DIM, narrows=False), passages)
            if "16 bits" in row.engine
        ]
        peak = f"{built['anonymous']:.0f} MiB"
        rows = [
            ["knowgap", seconds(built["seconds"]), peak, f"{expected:.0f} MiB", f"{built['bytes'] / 2**20:.0f} MiB"]
        ]
        if lance_python:
            note("vectors: LanceDB, building")
            lance = _build_lance(folder, options, tokens)
            spent = f"{seconds(lance['seconds'])}, of which writing {seconds(lance['written'])}"
            rows.append(
                [f"LanceDB, {kind}", spent, f"{lance['anonymous']:.0f} MiB", "–", f"{lance['bytes'] / 2**20:.0f} MiB"]
            )
        yield Table(
            f"Indexing {passages:,} passages of {tokens:,} made-up token vectors, {DIM} wide",
            ["engine", "build", "memory", "dry run says", "disk"],
            rows,
            ["Encoding is not in it; the vectors are kept in 16 bits."],
        )
        if count:
            yield _searches(folder, count, lance_python, _lists(options, tokens))


def measure_store(options: argparse.Namespace, passages: int) -> Iterator[Table]:
    """One table about a table of LanceDB that is built and searched on an object store."""
    count, lance_python = options.vector_queries, options.lance_python
    with tempfile.TemporaryDirectory(prefix="knowgap-benchmark-") as name, _object_store(lance_python) as store:
        folder = Path(name)
        (folder / _FOLDER).mkdir()
        note(f"store: making up {passages:,} passages")
        write_vectors(folder, passages, count)
        built = in_process("build_clusters", folder, __file__)
        exact = in_process("search_clusters", folder, __file__, quality="exact", count=count)["ids"]
        note("store: LanceDB, building")
        before = _counts(store)
        lance = _build_lance(folder, options, built["tokens"], store)
        rows = [["build", "", f"{lance['seconds']:.1f} s", "", "", *_asked(before, store, 1)]]
        for setting, (nprobes, refine) in _ways(_lists(options, built["tokens"])).items():
            way = {"nprobes": nprobes, "refine": refine, "k": K, "store": store}
            asked = {"task": "search_lance", "script": str(_LANCE), "python": lance_python, "options": way}
            before = _counts(store)
            [_, p50, _, recall, _, both, _] = _ask(folder, asked, count, exact)
            rows.append([setting, count, p50, recall, both, *_asked(before, store, 3 * count)])
    yield Table(
        f"LanceDB, {options.lance_index}, on an object store: {passages:,} passages of {built['tokens']:,} vectors",
        ["setting", "queries", "time or p50", f"recall@{K}", "two processes", "requests", "read"],
        rows,
        [
            "Requests and MB read are of the build, or of one query, with its share of opening the table in three "
            "processes. moto reads the whole object for every part that is asked for: times are its own."
        ],
    )


@contextmanager
def _object_store(python: str) -> Iterator[str]:
    with subprocess.Popen([python, str(_STORE)], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout
        try:
            yield process.stdout.readline().strip()
        finally:
            process.kill()


def _counts(store: str) -> Any:
    with urllib.request.urlopen(f"{store}/counts") as reply:
        return np.array(json.load(reply))


def _asked(before: Any, store: str, share: int) -> list[str]:
    requests, read = (_counts(store) - before) / share
    return [f"{requests:.0f}", f"{read / 1e6:.1f} MB"]


def _build_lance(folder: Path, options: argparse.Namespace, tokens: int, store: str | None = None) -> dict[str, Any]:
    more = {"dim": DIM, "kind": options.lance_index, "lists": _lists(options, tokens), "store": store}
    return once("build_lance", folder, str(_LANCE), options.lance_python, **more)


def _lists(options: argparse.Namespace, tokens: int) -> int:
    return options.lance_lists or max(1, tokens // _VECTORS_A_LIST)


def _ways(lists: int) -> dict[str, tuple[int, int]]:
    """Ways to search LanceDB: how many lists are read, 0 for all vectors, and how many times K are rescored."""
    few, more = (max(1, lists // share) for share in (40, 10))
    return {"flat": (0, 1)} | {f"{n} of {lists} lists, {m} × rescored": (n, m) for n, m in ((few, 10), (more, 50))}


def _searches(folder: Path, count: int, lance_python: str | None, lists: int) -> Table:
    exact: list[list[int]] = []
    rows = []
    for quality in ("exact", "balanced", "fast"):
        asked = {"task": "search_clusters", "script": __file__, "options": {"quality": quality}}
        rows.append(["knowgap", quality, *_ask(folder, asked, count, exact)])
    for name, (nprobes, refine) in _ways(lists).items() if lance_python else ():
        options = {"nprobes": nprobes, "refine": refine, "k": K}
        asked = {"task": "search_lance", "script": str(_LANCE), "python": lance_python, "options": options}
        rows.append(["LanceDB", name, *_ask(folder, asked, -(-count // 5) if "flat" in name else count, exact)])
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
        for name in (_FOLDER, "lance", "queries.npz"):
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
