"""The ColBERT index beside stock colbert-ai and exact search; recall of gold paragraphs; MIGRES' reading step.

Both ColBERT engines encode with the same embedded checkpoint, each in a process of its own.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from statistics import fmean
from typing import Any

from engines import in_process, once
from fictional import stream_questions
from models.random_cross_encoder import write_random_cross_encoder
from real_data import NOT_THERE, real_data
from table import Table, note, percentile, ratio, seconds

from knowgap.compiling.data import load_dataset
from knowgap.compiling.data.dataset import Dataset
from knowgap.compiling.evaluation.metrics import mrr, recall
from knowgap.compiling.evaluation.statistics import mean_interval
from knowgap.programs.filtering import filter_sentences, rerank
from knowgap.programs.migres import MIGRES
from knowgap.programs.trace.recorder import TraceRecorder, recording
from knowgap.retrieval import BM25Index, ColBERTIndex, CrossEncoderReranker, Reranker, Retriever
from knowgap.retrieval.dense import DenseIndex
from knowgap.retrieval.hybrid import RRF_CONSTANT, HybridRetriever

KS = (10, 100)
QUALITIES: dict[str, Any] = {"fast": "fast", "balanced": "balanced", "exact": "exact"}
MORE_QUALITIES: dict[str, Any] = {
    "1 cell, 64 or 300 rescored": {"nprobe": 1, "n_rescored": 64, "n_rescored_per_hit": 3},
    "4 cells, 512 or 2000 rescored": {"nprobe": 4, "n_rescored": 512, "n_rescored_per_hit": 20},
    "8 cells, 2048 or 4000 rescored": {"nprobe": 8, "n_rescored": 2048, "n_rescored_per_hit": 40},
}
STOCK: dict[str, dict[str, Any]] = {"defaults": {}, "defaults, no [MASK]": {"expansion": False}}
_MORE = {"ncells": 2, "centroid_score_threshold": 0.45, "ndocs": 1024, "expansion": False}
_MOST = {"ncells": 4, "centroid_score_threshold": 0.4, "ndocs": 4096, "expansion": False}
MORE_STOCK: dict[str, dict[str, Any]] = {
    "2 cells, 1024 documents, no [MASK]": _MORE,
    "4 cells, 4096 documents, no [MASK]": _MOST,
    "2 cells, 1024 documents, no [MASK], 256 rescored": _MORE | {"rescored": 256},
    "4 cells, 4096 documents, no [MASK], 1024 rescored": _MOST | {"rescored": 1024},
}
PARTS = ("engines", "gold", "reading")


def add_arguments(group: Any) -> None:
    """Add the options of this benchmark."""
    group.add_argument("--passages", type=int, help="of the fictional encyclopedia (50,000; quick 2,000)")
    group.add_argument("--queries", type=int, help="that each engine is asked (200; quick 50)")
    group.add_argument("--keep", type=Path, help="a folder for the engines' indexes: those of an earlier run are used")
    group.add_argument("--no-stock", action="store_true", help="leave out stock colbert-ai, which needs a C++ compiler")
    group.add_argument("--retrieval-questions", type=int, help="real questions of each data set (all; quick 50)")
    group.add_argument("--encoder", help="folder or hub name of a bi-encoder whose dense index is measured, too")
    group.add_argument("--readings", type=int, help="reading steps of MIGRES (5; quick 2)")
    group.add_argument("--parts", nargs="+", choices=PARTS, default=PARTS, help="which tables (all)")


def measure(options: argparse.Namespace) -> Iterator[Table]:
    """Measure the chosen parts."""
    if "engines" in options.parts:
        with tempfile.TemporaryDirectory(prefix="knowgap-benchmark-") as folder:
            yield from _engines(options, options.keep or Path(folder))
    if "gold" in options.parts:
        yield _gold(options)
    if "reading" in options.parts:
        yield _reading(options.readings or (2 if options.quick else 5), 10 if options.quick else 50)


def _engines(options: argparse.Namespace, folder: Path) -> Iterator[Table]:
    passages = options.passages or (2000 if options.quick else 50_000)
    count = options.queries or (50 if options.quick else 200)
    questions = [example.question for example in stream_questions(max(count, passages // 312 * 100))]
    queries = questions[:: len(questions) // count][:count]
    folder = folder.absolute() / f"{passages}-passages"
    folder.mkdir(parents=True, exist_ok=True)
    note(f"retrieval: the checkpoint for {passages} passages")
    once("fit_checkpoint", folder, passages=passages)
    engines = ["ours"] if options.no_stock else ["ours", "stock"]
    builds, earlier = {}, [engine for engine in engines if (folder / f"build_{engine}-result.json").exists()]
    for engine in engines:
        note(f"retrieval: building, {engine}")
        builds[engine] = once(f"build_{engine}", folder, passages=passages)
    base = builds.get("stock", builds["ours"])
    names = {"ours": "knowgap", "stock": "stock colbert-ai"}
    yield Table(
        f"Building an index of {passages:,} passages",
        ["engine", "build", "share", "peak memory", "share", "size", "share"],
        [
            [
                names[engine],
                seconds(build["seconds"]),
                ratio(build["seconds"], base["seconds"]),
                f"{build['memory']:.0f} MiB",
                ratio(build["memory"], base["memory"]),
                f"{build['bytes'] / 2**20:.0f} MiB",
                ratio(build["bytes"], base["bytes"]),
            ]
            for engine, build in builds.items()
        ],
        [
            f"Shares are of {names[engines[-1]]}. Encoding included, fitting the checkpoint not. knowgap's size holds "
            "the passages themselves and their token vectors in 16 bits; colbert-ai's has 2 bits per dimension and no "
            "passages. Goal: at most half of stock's time."
            + (f" Built in an earlier run: {', '.join(names[engine] for engine in earlier)}." if earlier else ""),
        ],
    )
    yield _searches(options, folder, passages, queries)


def _searches(options: argparse.Namespace, folder: Path, passages: int, queries: Sequence[str]) -> Table:
    qualities, stock = QUALITIES, STOCK
    if not options.quick:
        qualities, stock = QUALITIES | MORE_QUALITIES, STOCK | MORE_STOCK
    search: dict[str, Any] = {"queries": queries, "ks": KS}
    note("retrieval: searching, ours")
    ours, name = in_process("search_ours", folder, settings=qualities, **search), "stock colbert-ai"
    searches, base = {"knowgap": ours}, ours["balanced"]
    best = {("knowgap", setting): ours["exact"][str(max(KS))]["ids"] for setting in qualities}
    if not options.no_stock:
        note("retrieval: searching, stock")
        searches[name] = in_process("search_stock", folder, settings=stock, passages=passages, **search)
        base = searches[name]["defaults"]
        for expansion in (True, False):
            exact = in_process("exact_stock", folder, k=max(KS), expansion=expansion)["ids"]
            same = [setting for setting, values in stock.items() if values.get("expansion", True) == expansion]
            best |= {(name, setting): exact for setting in same}
    columns = [f"{what} k={k}" for k in KS for what in ("p50", "share", "p99", "recall")]
    rows = []
    for engine, results in searches.items():
        for setting in results.keys() - {"memory"}:
            row = [engine, setting]
            for k in KS:
                ids, times = results[setting][str(k)]["ids"], results[setting][str(k)]["seconds"]
                median = percentile(times, 0.5)
                row += [seconds(median), ratio(median, percentile(base[str(k)]["seconds"], 0.5))]
                row += [seconds(percentile(times, 0.99)), f"{_recall(ids, best[engine, setting], k):.3f}"]
            rows.append([*row, f"{results['memory']:.0f} MiB"])
    return Table(
        f"Searching {passages:,} passages, {len(queries)} queries one by one",
        ["engine", "settings", *columns, "peak memory"],
        sorted(rows),
        [
            "Shares are of the median of "
            + ("knowgap's balanced search" if options.no_stock else "stock's defaults")
            + "; encoding the query is included; the memory is that of the process that ran all settings of an engine. "
            "Recall is of the passages of highest exact MaxSim with the same query vectors. colbert-ai fills queries "
            "up with [MASK], which this checkpoint was not trained for; knowgap leaves it out, and so do other rows. "
            "So many passages are rescored for k=10 or k=100; hits of colbert-ai with knowgap's vectors of 16 bits. "
            "Goals: recall@10 at least 0.97 at no more than 3 times stock's latency.",
        ],
    )


def _recall(hits: Sequence[Sequence[str]], best: Sequence[Sequence[str]], k: int) -> float:
    return fmean(len({*ids[:k]} & {*right[:k]}) / len(right[:k]) for ids, right in zip(hits, best, strict=True))


def _gold(options: argparse.Namespace) -> Table:
    rows = []
    for data in real_data(options, options.retrieval_questions or (50 if options.quick else None)):
        with tempfile.TemporaryDirectory(prefix="knowgap-benchmark-") as folder:
            for name, retriever in _retrievers(data, Path(folder), options.encoder).items():
                note(f"retrieval: gold paragraphs of {data.name}, {name}")
                rows.append([data.name, name, *_gold_scores(data, retriever)])
    return Table(
        "Gold paragraphs among the pooled paragraphs of all questions",
        ["data", "retriever", "questions", "recall@2 [95%]", "recall@5 [95%]", "recall@10 [95%]", "MRR [95%]", "time"],
        rows,
        [
            "ColBERT and dense search with the embedded MiniLM encoder, which was trained for neither on these data; "
            "hybrid fuses all three by reciprocal rank. Intervals are bootstrapped over questions.",
            "time: of one of these questions, asked all at once for 50 passages.",
        ]
        if rows
        else [f"All {NOT_THERE}."],
    )


def _retrievers(data: Dataset, folder: Path, encoder: str | None) -> Mapping[str, Retriever]:
    note(f"retrieval: indexes of {data.name}, {len(data.corpus)} passages")
    parts = {
        "BM25": BM25Index.build(data.corpus, folder / "bm25"),
        "dense": DenseIndex.build(data.corpus, folder / "dense"),
        "ColBERT": ColBERTIndex.build(data.corpus, folder / "colbert"),
    }
    every = list(parts.values())
    paper = {f"hybrid, constant {RRF_CONSTANT}": HybridRetriever(every, constant=RRF_CONSTANT)}
    named = {}
    if encoder:
        named[f"dense, {Path(encoder).name}"] = DenseIndex.build(data.corpus, folder / "named", encoder=encoder)
    return parts | {"hybrid": HybridRetriever(every)} | paper | named


def _gold_scores(data: Dataset, retriever: Retriever) -> list[str]:
    examples = [example for example in data.splits["dev"] if example.gold_ids]
    started = time.perf_counter()
    found = retriever.search([example.question for example in examples], 50)
    spent = seconds((time.perf_counter() - started) / len(examples))
    searches = list(zip(examples, found, strict=True))
    measures = [[recall(example, hits, k=k) for example, hits in searches] for k in (2, 5, 10)]
    measures.append([mrr(example, hits) for example, hits in searches])
    return [str(len(examples)), *(str(mean_interval(values)) for values in measures), spent]


class Counted:
    """A reranker that scores by a given function and counts its pairs."""

    def __init__(self, reranker: Reranker, score: Callable[[Sequence[tuple[str, str]]], list[float]]) -> None:
        self.name, self.default_threshold, self.scale = reranker.name, reranker.default_threshold, reranker.scale
        self.pairs, self._score = 0, score

    def score(self, pairs: Sequence[tuple[str, str]]) -> list[float]:
        """Score the pairs."""
        self.pairs += len(pairs)
        return self._score(pairs)


def _reading(steps: int, depth: int) -> Table:
    """Rerank so many passages for each of three queries, then score the sentences of the survivors."""
    from sentence_transformers import CrossEncoder

    from knowgap.retrieval.colbert.stock_runtime import quiet_transformers

    data = load_dataset()
    index = BM25Index.from_passages(data.corpus)
    questions = [example.question for example in data.splits["dev"]]
    groups = [questions[3 * n : 3 * n + 3] for n in range(steps)]
    searches = [index.search(queries, depth) for queries in groups]
    rows: dict[str, tuple[int, float]] = {}
    with tempfile.TemporaryDirectory(prefix="knowgap-benchmark-") as folder:
        write_random_cross_encoder(Path(folder))
        model = CrossEncoderReranker(folder, default_threshold=-1e9)  # random scores: all passages survive
        uncached = CrossEncoderReranker(folder)  # does not share the cache of the other
        with quiet_transformers():
            stock = CrossEncoder(folder)
        ways: dict[str, Callable[[Sequence[tuple[str, str]]], list[float]]] = {
            "knowgap": model.score,
            "knowgap, pair by pair": lambda pairs: [uncached.score([pair])[0] for pair in pairs],
            "sentence-transformers": lambda pairs: stock.predict(list(pairs), show_progress_bar=False).tolist(),
        }
        for name, score in ways.items():
            note(f"retrieval: MIGRES' reading step, {name}")
            score([("to", "warm up")])
            reranker, program = Counted(model, score), MIGRES(index)
            started = time.perf_counter()
            for queries, hits in zip(groups, searches, strict=True):
                with recording(TraceRecorder(time.perf_counter(), concurrent=True)):
                    ranked = rerank(program, reranker, queries, hits)[: program.top_k]
                    filter_sentences(program, reranker, ranked, delta=-1e9)
            rows[name] = reranker.pairs, (time.perf_counter() - started) / steps
    base = rows["knowgap, pair by pair"][1]
    return Table(
        f"MIGRES' reading step: {depth} passages for each of three queries, and the sentences of the five best",
        ["scored by", "pairs per step", "wall per step", "share", "pairs/s"],
        [
            [name, f"{pairs / steps:.0f}", seconds(wall), ratio(wall, base), f"{pairs / steps / wall:.0f}"]
            for name, (pairs, wall) in rows.items()
        ],
        [
            f"A cross-encoder of MiniLM's size (6 layers, 384 wide) with random weights; means of {steps} steps. "
            "sentence-transformers gets all pairs of a call at once, in batches of 32, its "
            "default. Which five passages are best may "
            "hang on the last digits."
        ],
    )
