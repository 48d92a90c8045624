"""What each engine finds: gold paragraphs, and codes among prose; and what search costs in large indexes."""

from __future__ import annotations

import argparse
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
from fictional.articles import write_articles
from fictional.questions import ask_questions
from fictional.world import WORLDS_PER_SEED, World
from table import FILES, Table, note, real_file, seconds

from knowgap.compiling.data import build_index, load_dataset
from knowgap.compiling.evaluation.metrics.retrieval import mrr, recall
from knowgap.compiling.evaluation.statistics import mean_interval
from knowgap.retrieval import Reranker, make_reranker, rank_hits
from knowgap.retrieval.colbert import fit_checkpoint
from knowgap.retrieval.index.vectors import Vectors, fixed_point, maxsim, nearest
from knowgap.retrieval.passage import Hit

ENGINES = ("bm25", "dense", "colbert", "hybrid")
K = 10
_RETRIEVED = 50
_NOISE = 0.35  # of the length of a vector
_CODES = (("album", "catalogue"), ("model", "kit"))
_ASKED = "The display keeps showing {} since this morning, and the operator cannot restart it: whom do we call?"


def _gold(options: argparse.Namespace, folder: Path) -> Table:
    """What the engines find of gold paragraphs, and the embedded reranker; or the default engine, and given models."""
    limit = options.count or (50 if options.quick else None)
    given = bool(options.encoder or options.reranker)
    engines: dict[str, dict[str, Any]] = {name: {"engine": name} for name in (("hybrid",) if given else ENGINES)}
    if options.encoder:
        engines[f"dense, {Path(options.encoder).name}"] = {"engine": "dense", "encoder": options.encoder}
    rerankers = (
        {"hybrid": make_reranker(options.reranker)} if options.reranker else {"colbert": make_reranker("embedded")}
    )
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
            if name in rerankers:
                found = map(partial(_reranked, rerankers[name]), questions, found)
                label = Path(options.reranker).name if name == "hybrid" else "reranked"
                rows.append([data_name, f"{name}, {label}", *_found(examples, found, started)])
    said = f"Intervals are bootstrapped over questions. CPU: of a question, asked for {_RETRIEVED} passages."
    columns = ["data", "engine", "questions", "recall@2 [95%]", "recall@5 [95%]", "recall@10 [95%]", "MRR [95%]", "CPU"]
    return Table("Gold paragraphs among the pooled paragraphs of all questions", columns, rows, [said])


def _found(examples: Sequence[Any], found: Iterable[Sequence[Hit]], started: float) -> list[Any]:
    """How many questions there are, the measures of what was found, and the processor time of a question."""
    pairs = list(zip(examples, found, strict=True))
    spent = (time.process_time() - started) / len(examples)
    measures = [[recall(example, hits, k=k) for example, hits in pairs] for k in (2, 5, 10)]
    measures.append([mrr(example, hits) for example, hits in pairs])
    return [len(examples), *map(mean_interval, measures), seconds(spent)]


def _reranked(reranker: Reranker, question: str, hits: Sequence[Hit]) -> list[Hit]:
    scores = reranker.score([(question, str(hit.passage)) for hit in hits])
    return rank_hits([(hit.passage, score) for hit, score in zip(hits, scores, strict=True)], len(hits))


def _codes(options: argparse.Namespace, folder: Path) -> Table:
    """Questions about the codes of the sample's encyclopedia: numbers that differ in a digit, each in one passage."""
    worlds = [World(number) for number in range(1 if options.quick else WORLDS_PER_SEED)]
    passages = [passage for world in worlds for passage in write_articles(world)]
    things = ((entity, relation) for world in worlds for kind, relation in _CODES for entity in world.entities[kind])
    codes = {entity[relation]: entity.title for entity, relation in things if entity.facts[relation].in_own_article}
    rows = []
    for name in ENGINES:
        note(f"retrieval: codes, {name}")
        index = build_index(passages, folder / f"codes-{name}", engine=name)
        found = zip(index.search([_ASKED.format(code) for code in codes], 5), codes.values(), strict=True)
        right = [[hit.passage.id == title for hit in hits] for hits, title in found]
        rows.append([name, len(codes), sum(each[0] for each in right), sum(map(any, right))])
    columns = ["engine", "codes", "right passage first", "among five"]
    return Table(f"Codes that one of {len(passages)} passages has", columns, rows, [_ASKED.format("…")])


def _size(options: argparse.Namespace, folder: Path) -> Table:
    """What search costs and finds in large indexes of late interaction."""
    count = options.count or (20 if options.quick else 100)
    sizes = options.passages or ([5000] if options.quick else [50_000, 200_000])
    worlds = [World(number) for number in range(2 if options.quick else 16)]
    passages = [passage for world in worlds for passage in write_articles(world)]
    note(f"retrieval: {len(passages)} passages are encoded")
    fit_checkpoint(passages, folder / "checkpoint", dim=128)
    index: Any = build_index(passages, folder / "encoded", engine="colbert", encoder=folder / "checkpoint")
    questions = [example.question for world in worlds for example in ask_questions(world)]
    queries = [index.encoder.encode_query(question) for question in questions[:: len(questions) // count][:count]]
    rows = []
    for size in sizes:
        note(f"retrieval: {size:,} passages")
        _copy(index.path / "segment-0", folder / f"{size}", size)
        with ProcessPoolExecutor(1, get_context("spawn")) as pool:
            times, exact, memory = pool.submit(_search_copies, folder / f"{size}", queries).result()
        p50, p95 = (seconds(spent) for spent in np.quantile(times, (0.5, 0.95)))
        disk = sum(path.stat().st_size for path in (folder / f"{size}").rglob("*")) / 2**20
        rows.append([f"{size:,}", p50, p95, f"{exact:.3f}", f"{memory:.0f} MiB", f"{disk:.0f} MiB"])
    said = (
        f"{len(passages):,} passages of the encyclopedia, encoded in 128 dimensions, repeated with noise; {count} "
        f"queries, one after the other, encoded beforehand. Recall is of the {K} passages of highest MaxSim among all. "
        "Memory: of the process, mapped files included."
    )
    columns = ["passages", "p50", "p95", f"recall@{K}", "memory", "disk"]
    return Table("Late interaction in large indexes", columns, rows, [said])


def _copy(encoded: Path, folder: Path, size: int) -> None:
    """Write the vectors of `size` passages: those that are encoded, and copies of them with noise in each vector."""
    original, rng = Vectors.open(encoded, 128), np.random.default_rng(17)

    def blocks() -> Iterator[Any]:
        for first in range(0, size, 1000):
            positions = np.arange(first, min(first + 1000, size)) % len(original)
            rows, lengths = original.of(positions)
            if first >= len(original):
                noisy = rows / 32_767 + rng.standard_normal(rows.shape, dtype=np.float32) * (_NOISE / 128**0.5)
                rows = fixed_point(noisy / np.linalg.norm(noisy, axis=1, keepdims=True))
            yield rows, lengths

    folder.mkdir()
    Vectors.write(folder, blocks(), 128)


def _search_copies(folder: Path, queries: Sequence[Any]) -> tuple[list[float], float, float]:
    """Search copied vectors in a process of its own: seconds of each query, mean recall, and memory in MiB."""
    vectors, times, found = Vectors.open(folder, 128), list[float](), []
    every = np.arange(len(vectors))
    nearest([vectors], queries[0], K, every)
    for query in queries:
        started = time.perf_counter()
        positions, scores = nearest([vectors], query, K, every)
        times.append(time.perf_counter() - started)
        found.append({*positions[np.argsort(-scores)[:K]].tolist()})
    memory = psutil.Process().memory_info().rss / 2**20
    exact = (np.argsort(-maxsim([vectors], query, every, np.float32), kind="stable")[:K] for query in queries)
    return times, fmean(len(own & {*best.tolist()}) / K for own, best in zip(found, exact, strict=True)), memory


PARTS = {"gold": _gold, "codes": _codes, "size": _size}


def measure(options: argparse.Namespace) -> Iterator[Table]:
    """Measure the chosen parts."""
    for part in options.parts or PARTS:
        with tempfile.TemporaryDirectory(prefix="knowgap-benchmark-") as folder:
            yield PARTS[part](options, Path(folder))
