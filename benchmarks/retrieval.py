"""What each engine finds: gold paragraphs, and codes among prose; and what search and change cost in large indexes."""

from __future__ import annotations

import argparse
import random
import tempfile
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from statistics import fmean
from typing import Any

import numpy as np
import psutil
from fictional import stream_passages, stream_questions
from real_data import NOT_THERE, real_data
from table import Table, note, seconds

from knowgap.compiling.evaluation.metrics.retrieval import mrr, recall
from knowgap.compiling.evaluation.statistics import mean_interval
from knowgap.retrieval import BM25Index, ColBERTIndex, DenseIndex, HybridIndex, Manifest, Passage, PassageStore
from knowgap.retrieval.colbert.fitting import fit_checkpoint
from knowgap.retrieval.index.manifest import Segment
from knowgap.retrieval.index.snapshot import Snapshot
from knowgap.retrieval.index.vectors import Vectors, fixed_point, maxsim, nearest
from knowgap.storage.manifest import seal

ENGINES: dict[str, Any] = {"bm25": BM25Index, "dense": DenseIndex, "colbert": ColBERTIndex, "hybrid": HybridIndex}
PARTS = ("gold", "codes", "size", "changes")
K = 10
_NOISE = 0.35  # of the length of a vector
_COPIED, _CODES, _ASKED = 5000, 300, 30
_LONG = (
    "Since this morning the display of the packaging line keeps showing {} and the operator cannot restart it: what "
    "should we do about it, and whom do we call?"
)


def add_arguments(group: Any) -> None:
    """Add the options of this benchmark."""
    group.add_argument("--parts", nargs="+", choices=PARTS, default=PARTS, help="which tables (all)")
    group.add_argument("--retrieval-questions", type=int, help="real questions of each data set (all; quick 50)")
    group.add_argument("--encoder", help="folder or hub name of a bi-encoder whose dense index is measured, too")
    group.add_argument("--passages", type=int, nargs="+", help="sizes of large indexes (50,000 200,000; quick 5,000)")
    group.add_argument("--queries", type=int, help="that a large index is asked (100; quick 20)")


def measure(options: argparse.Namespace) -> Iterator[Table]:
    """Measure the chosen parts."""
    if "gold" in options.parts:
        yield _gold(options)
    if "codes" in options.parts:
        yield _codes()
    if "size" in options.parts or "changes" in options.parts:
        with tempfile.TemporaryDirectory(prefix="knowgap-benchmark-") as folder:
            yield from _large(options, Path(folder))


def _gold(options: argparse.Namespace) -> Table:
    rows = []
    for data in real_data(options, options.retrieval_questions or (50 if options.quick else None)):
        examples = [example for example in data.splits["dev"] if example.gold_ids]
        with tempfile.TemporaryDirectory(prefix="knowgap-benchmark-") as folder:
            named = {f"dense, {Path(options.encoder).name}": DenseIndex} if options.encoder else {}
            for name, kind in (ENGINES | named).items():
                note(f"retrieval: gold paragraphs of {data.name}, {name}")
                more = {"encoder": options.encoder} if name in named else {}
                index = kind.build(data.corpus, Path(folder) / name, **more)
                started = time.process_time()
                found = index.search([example.question for example in examples], 50)
                spent = (time.process_time() - started) / len(examples)
                pairs = list(zip(examples, found, strict=True))
                measures = [[recall(example, hits, k=k) for example, hits in pairs] for k in (2, 5, 10)]
                measures.append([mrr(example, hits) for example, hits in pairs])
                rows.append(
                    [data.name, name, len(examples), *(str(mean_interval(m)) for m in measures), seconds(spent)]
                )
    return Table(
        "Gold paragraphs among the pooled paragraphs of all questions",
        ["data", "engine", "questions", "recall@2 [95%]", "recall@5 [95%]", "recall@10 [95%]", "MRR [95%]", "CPU"],
        rows,
        [
            "With the embedded MiniLM encoder, which was trained for neither token vectors nor these data. Intervals "
            "are bootstrapped over questions. CPU: of a question, asked for 50 passages."
        ]
        if rows
        else [f"All {NOT_THERE}."],
    )


def _codes() -> Table:
    """Questions about codes, in two collections of them and among passages of the encyclopedia."""
    prose = list(stream_passages(1000))
    catalogue, bulletins = _catalogue(), _bulletins()
    rows = []
    with tempfile.TemporaryDirectory(prefix="knowgap-benchmark-") as folder:
        for title, passages, questions in (
            ("rows of an error catalogue", catalogue, _questions(catalogue, "What does {} mean?")),
            ("security bulletins", bulletins, _questions(bulletins, "Which product does {} affect?")),
            ("both, among prose", catalogue + bulletins + prose, _questions(catalogue, _LONG)),
        ):
            for name, kind in ENGINES.items():
                note(f"retrieval: codes, {title}, {name}")
                index = kind.build(passages, Path(folder) / f"{len(rows)}")
                found = index.search([question for question, _ in questions], 5)
                right = [
                    [code in hit.passage.text for hit in hits] for (_, code), hits in zip(questions, found, strict=True)
                ]
                first, five = sum(each[0] for each in right), sum(map(any, right))
                rows.append([title, len(passages), name, len(questions), first, five])
    columns = ["collection", "passages", "engine", "questions", "right passage first", "among five"]
    return Table("Codes that few passages have", columns, rows, [f"Of the third collection: “{_LONG}”"])


def _questions(passages: Sequence[Passage], wording: str) -> list[tuple[str, str]]:
    codes = [word.strip("|.,") for passage in passages for word in passage.text.split() if "-" in word]
    return [(wording.format(code), f"{code} ") for code in codes[:: len(codes) // _ASKED][:_ASKED]]


def _catalogue() -> list[Passage]:
    """A table of codes, ten rows in a passage."""
    things = ("pump", "valve", "sensor", "fan", "heater")
    lines = [
        f"| ERR-{7000 + n} | {things[n % 5]} fault {n} in zone {n % 17} | contact group G{n % 23:02d} |"
        for n in range(_CODES)
    ]
    return [Passage(f"row {n}", "Error catalogue", "\n".join(lines[n : n + 10])) for n in range(0, _CODES, 10)]


def _bulletins() -> list[Passage]:
    rng = random.Random(7)
    products = ("Apache httpd", "nginx", "OpenSSL", "sudo", "Exim", "Samba", "curl", "Git", "Redis", "PostgreSQL")
    flaws = (
        "lets a remote attacker run code through a crafted header",
        "leaks memory contents to an unauthenticated client",
        "makes the service crash on a malformed packet",
        "lets a logged-in user read files outside the web root",
    )
    codes = [f"CVE-{rng.randint(2015, 2025)}-{number}" for number in rng.sample(range(1000, 50_000), _CODES)]
    texts = (f"The flaw {code} in {rng.choice(products)} {rng.choice(flaws)}." for code in codes)
    return [Passage(f"bulletin {n}", "Security bulletin", text) for n, text in enumerate(texts)]


def _large(options: argparse.Namespace, folder: Path) -> Iterator[Table]:
    count = options.queries or (20 if options.quick else 100)
    sizes = options.passages or ([_COPIED] if options.quick else [50_000, 200_000])
    note(f"retrieval: {_COPIED} passages of the fictional encyclopedia")
    fit_checkpoint([*stream_passages(_COPIED)], folder / "checkpoint", dim=128)
    index = HybridIndex.build(stream_passages(_COPIED), folder / "encoded", encoder=folder / "checkpoint")
    if "changes" in options.parts:
        yield _changes(index)
    if "size" in options.parts:
        questions = [example.question for example in stream_questions(_COPIED // 312 * 100)]
        queries = [index.encoder.encode_query(question) for question in questions[:: len(questions) // count][:count]]
        rows = []
        for size in sizes:
            note(f"retrieval: {size:,} passages")
            _copy(index.path, folder / f"{size}", size)
            with ProcessPoolExecutor(1, get_context("spawn")) as pool:
                result = pool.submit(_search_copies, folder / f"{size}", size, queries).result()
            times = [f"{1000 * spent:.1f} ms" for spent in np.quantile(result["seconds"], (0.5, 0.95))]
            disk = sum(path.stat().st_size for path in (folder / f"{size}").rglob("*"))
            row = [f"{size:,}", *times, f"{result['recall']:.3f}", f"{result['memory']:.0f} MiB"]
            rows.append([*row, f"{disk / 2**20:.0f} MiB"])
        yield Table(
            "Late interaction in large indexes",
            ["passages", "p50", "p95", f"recall@{K}", "memory", "disk"],
            rows,
            [
                f"{_COPIED:,} passages of the fictional encyclopedia, encoded in 128 dimensions, repeated with noise; "
                f"{count} queries, one after the other, encoded beforehand. Recall is of the {K} passages of highest "
                "MaxSim among all. Memory: of the process, mapped files included."
            ],
        )


def _copy(encoded: Path, folder: Path, size: int) -> None:
    """Write an index of `size` passages: those that are encoded, and copies of them with noise in each vector."""
    segment = folder / "segment-0"
    segment.mkdir(parents=True)
    original, rng = Vectors.open(encoded / "segment-0", 128), np.random.default_rng(17)

    def blocks() -> Iterator[Any]:
        for first in range(0, size, 1000):
            positions = np.arange(first, min(first + 1000, size)) % len(original)
            rows, lengths = original.of(positions)
            if first >= len(original):
                noisy = rows / 32_767 + rng.standard_normal(rows.shape, dtype=np.float32) * (_NOISE / 128**0.5)
                rows = fixed_point(noisy / np.linalg.norm(noisy, axis=1, keepdims=True))
            yield rows, lengths

    _, digest = PassageStore.build((Passage(str(number), "", "") for number in range(size)), segment)
    Vectors.write(segment, blocks(), 128)
    Manifest("colbert", (Segment("segment-0", size, digest),), {"dim": 128}, files=seal(folder)).write(folder)


def _search_copies(folder: Path, size: int, queries: Sequence[Any]) -> dict[str, Any]:
    """Search a copied index in a process of its own."""
    snapshot, every, times, found = Snapshot(folder, Manifest.parse(folder)), np.arange(size), [], []
    nearest(snapshot.vectors, queries[0], K, every)
    for query in queries:
        started = time.perf_counter()
        positions, scores = nearest(snapshot.vectors, query, K, every)
        times.append(time.perf_counter() - started)
        found.append({*positions[np.argsort(-scores)[:K]].tolist()})
    memory = psutil.Process().memory_info().rss / 2**20
    recalls = []
    for query, own in zip(queries, found, strict=True):
        best = np.argsort(-maxsim(snapshot.vectors, query, every, np.float32), kind="stable")[:K]
        recalls.append(len(own & {*best.tolist()}) / K)
    return {"seconds": times, "recall": fmean(recalls), "memory": memory}


def _changes(index: HybridIndex) -> Table:
    """Processor time of changes to an index of the default engine."""
    index.search(["Who?"], 1)
    added, deleted = [], []
    for number in range(20):
        passage = Passage(f"new {number}", "A new passage", f"It says that number {number} was added. " * 8)
        for act, times in ((lambda p: index.add([p]), added), (lambda p: index.delete([p.id]), deleted)):
            started = time.process_time()
            act(passage)
            times.append(time.process_time() - started)
    rows = [[what, *map(seconds, np.quantile(t, (0.5, 0.95)))] for what, t in (("add", added), ("delete", deleted))]
    return Table(f"One passage, in a hybrid index of {len(index):,}", ["change", "CPU, p50", "p95"], rows)
