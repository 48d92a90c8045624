"""What each engine finds: gold paragraphs, and codes among prose; and what search and change cost in large indexes."""

from __future__ import annotations

import argparse
import random
import tempfile
import time
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from statistics import fmean
from typing import Any

import numpy as np
import psutil
from fictional import stream_passages, stream_questions
from table import FILES, Table, note, real_file, seconds

from knowgap.compiling.data import build_index, load_dataset
from knowgap.compiling.evaluation.metrics.retrieval import mrr, recall
from knowgap.compiling.evaluation.statistics import mean_interval
from knowgap.retrieval import EmbeddedReranker, Manifest, Passage, PassageStore, rank_hits
from knowgap.retrieval.colbert import fit_checkpoint
from knowgap.retrieval.index.manifest import Segment
from knowgap.retrieval.index.snapshot import Snapshot
from knowgap.retrieval.index.vectors import Vectors, fixed_point, maxsim, nearest
from knowgap.retrieval.passage import Hit
from knowgap.storage.manifest import seal

ENGINES = ("bm25", "dense", "colbert", "hybrid")
PARTS = ("gold", "codes", "size", "changes")
K = 10
_RETRIEVED = 50
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
    with tempfile.TemporaryDirectory(prefix="knowgap-benchmark-") as name:
        folder = Path(name)
        if "gold" in options.parts:
            yield _gold(options, folder)
        if "codes" in options.parts:
            yield _codes(folder)
        if "size" in options.parts or "changes" in options.parts:
            yield from _large(options, folder)


def _gold(options: argparse.Namespace, folder: Path) -> Table:
    """What the engines find of gold paragraphs, and the embedded reranker among what ColBERT finds."""
    limit = options.retrieval_questions or (50 if options.quick else None)
    engines: dict[str, dict[str, Any]] = {name: {"engine": name} for name in ENGINES}
    if options.encoder:
        engines[f"dense, {Path(options.encoder).name}"] = {"engine": "dense", "encoder": options.encoder}
    rows = []
    for data_name, pattern in FILES.items():
        if (file := real_file(options, pattern)) is None:
            continue
        data = load_dataset(file, split_as="dev", limit=limit)
        examples = [example for example in data.splits["dev"] if example.gold_ids]
        questions = [example.question for example in examples]
        for name, settings in engines.items():
            note(f"retrieval: gold paragraphs of {data_name}, {name}")
            index = build_index(data.corpus, folder / data_name / name, **settings)
            started = time.process_time()
            found = index.search(questions, _RETRIEVED)
            rows.append([data_name, name, *_found(examples, found, started)])
            if name == "colbert":
                found = map(partial(_reranked, EmbeddedReranker()), questions, found)
                rows.append([data_name, "colbert, reranked", *_found(examples, found, started)])
    said = (
        "With the embedded encoder, which was trained for neither token vectors nor these data, and the embedded "
        f"reranker. Intervals are bootstrapped over questions. CPU: of a question, asked for {_RETRIEVED} passages."
    )
    columns = ["data", "engine", "questions", "recall@2 [95%]", "recall@5 [95%]", "recall@10 [95%]", "MRR [95%]", "CPU"]
    return Table("Gold paragraphs among the pooled paragraphs of all questions", columns, rows, [said])


def _found(examples: Sequence[Any], found: Iterable[Sequence[Hit]], started: float) -> list[Any]:
    """How many questions there are, the measures of what was found, and the processor time of a question."""
    pairs = list(zip(examples, found, strict=True))
    spent = (time.process_time() - started) / len(examples)
    measures = [[recall(example, hits, k=k) for example, hits in pairs] for k in (2, 5, 10)]
    measures.append([mrr(example, hits) for example, hits in pairs])
    return [len(examples), *map(mean_interval, measures), seconds(spent)]


def _reranked(reranker: EmbeddedReranker, question: str, hits: Sequence[Hit]) -> list[Hit]:
    scores = reranker.score([(question, str(hit.passage)) for hit in hits])
    return rank_hits([(hit.passage, score) for hit, score in zip(hits, scores, strict=True)], len(hits))


def _codes(folder: Path) -> Table:
    """Questions about codes, in two collections of them and among passages of the encyclopedia."""
    catalogue, bulletins = _catalogue(), _bulletins()
    rows = []
    for title, passages, asked, wording in (
        ("rows of an error catalogue", catalogue, catalogue, "What does {} mean?"),
        ("security bulletins", bulletins, bulletins, "Which product does {} affect?"),
        ("both, among prose", [*catalogue, *bulletins, *stream_passages(1000)], catalogue, _LONG),
    ):
        codes = [word.strip("|.,") for passage in asked for word in passage.text.split() if "-" in word]
        codes = codes[:: len(codes) // _ASKED][:_ASKED]
        for name in ENGINES:
            note(f"retrieval: codes, {title}, {name}")
            index = build_index(passages, folder / f"codes-{len(rows)}", engine=name)
            found = zip(codes, index.search([wording.format(code) for code in codes], 5), strict=True)
            right = [[f"{code} " in hit.passage.text for hit in hits] for code, hits in found]
            rows.append([title, len(passages), name, len(codes), sum(each[0] for each in right), sum(map(any, right))])
    columns = ["collection", "passages", "engine", "questions", "right passage first", "among five"]
    return Table("Codes that few passages have", columns, rows, [f"Of the third collection: “{_LONG}”"])


def _catalogue() -> list[Passage]:
    """A table of codes, ten rows in a passage."""
    things = ("pump", "valve", "sensor", "fan", "heater")
    form = "| ERR-{} | {} fault {} in zone {} | contact group G{:02d} |"
    lines = [form.format(7000 + n, things[n % 5], n, n % 17, n % 23) for n in range(_CODES)]
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
    index: Any = build_index(stream_passages(_COPIED), folder / "encoded", encoder=folder / "checkpoint")
    if "changes" in options.parts:
        yield _changes(index)
    if "size" not in options.parts:
        return
    questions = [example.question for example in stream_questions(_COPIED // 312 * 100)]
    queries = [index.encoder.encode_query(question) for question in questions[:: len(questions) // count][:count]]
    rows = []
    for size in sizes:
        note(f"retrieval: {size:,} passages")
        _copy(index.path, folder / f"{size}", size)
        with ProcessPoolExecutor(1, get_context("spawn")) as pool:
            times, exact, memory = pool.submit(_search_copies, folder / f"{size}", size, queries).result()
        p50, p95 = (seconds(spent) for spent in np.quantile(times, (0.5, 0.95)))
        disk = sum(path.stat().st_size for path in (folder / f"{size}").rglob("*")) / 2**20
        rows.append([f"{size:,}", p50, p95, f"{exact:.3f}", f"{memory:.0f} MiB", f"{disk:.0f} MiB"])
    said = (
        f"{_COPIED:,} passages of the fictional encyclopedia, encoded in 128 dimensions, repeated with noise; {count} "
        f"queries, one after the other, encoded beforehand. Recall is of the {K} passages of highest MaxSim among all. "
        "Memory: of the process, mapped files included."
    )
    columns = ["passages", "p50", "p95", f"recall@{K}", "memory", "disk"]
    yield Table("Late interaction in large indexes", columns, rows, [said])


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


def _search_copies(folder: Path, size: int, queries: Sequence[Any]) -> tuple[list[float], float, float]:
    """Search a copied index in a process of its own: seconds of each query, mean recall, and memory in MiB."""
    snapshot, every, times, found = Snapshot(folder, Manifest.parse(folder)), np.arange(size), [], []
    nearest(snapshot.vectors, queries[0], K, every)
    for query in queries:
        started = time.perf_counter()
        positions, scores = nearest(snapshot.vectors, query, K, every)
        times.append(time.perf_counter() - started)
        found.append({*positions[np.argsort(-scores)[:K]].tolist()})
    memory = psutil.Process().memory_info().rss / 2**20
    exact = (np.argsort(-maxsim(snapshot.vectors, query, every, np.float32), kind="stable")[:K] for query in queries)
    return times, fmean(len(own & {*best.tolist()}) / K for own, best in zip(found, exact, strict=True)), memory


def _changes(index: Any) -> Table:
    """Processor time of changes to an index of the default engine."""
    index.search(["Who?"], 1)
    times: dict[str, list[float]] = {"add": [], "delete": []}
    for number in range(20):
        passage = Passage(f"new {number}", "A new passage", f"It says that number {number} was added. " * 8)
        for what, act, changed in (("add", index.add, passage), ("delete", index.delete, passage.id)):
            started = time.process_time()
            act([changed])
            times[what].append(time.process_time() - started)
    rows = [[what, *map(seconds, np.quantile(own, (0.5, 0.95)))] for what, own in times.items()]
    return Table(f"One passage, in a hybrid index of {len(index):,}", ["change", "CPU, p50", "p95"], rows)
