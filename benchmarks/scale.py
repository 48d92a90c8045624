"""Large indexes: time, memory and disk over made-up passages, each engine in a process of its own.

The word frequencies of the passages follow Zipf's law. Memory is the peak of what a process cannot give back
(anonymous memory): pages of mapped files, which the system can take back, are not counted.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import vectors
from engines import Anonymous, in_process, run_task, size_of, timed
from real_data import NOT_THERE, real_data
from table import Table, note, percentile, ratio, seconds

from knowgap.retrieval import BM25Index, Passage
from knowgap.retrieval.bm25 import Analyzer
from knowgap.retrieval.index.passage_store import PassageStore, scored_hits

PARTS = ("words", "vectors")
_WORDS, _VOCABULARY, _PORTION = 100, 2_000_000, 1000


def add_arguments(group: Any) -> None:
    """Add the options of this benchmark."""
    group.add_argument("--scale-parts", nargs="+", choices=PARTS, default=PARTS, help="which tables (all)")
    group.add_argument("--scale-passages", type=int, nargs="+", help="sizes (200,000 1,000,000; quick 5,000)")
    group.add_argument(
        "--word-engines", nargs="+", choices=_BUILD, default=["knowgap"], help="bm25s, tantivy: if installed"
    )
    group.add_argument("--vector-passages", type=int, nargs="+", help="sizes (20,000 200,000; quick 2,000)")
    group.add_argument("--vector-queries", type=int, default=50, help="that each engine is asked (50); 0 builds only")
    group.add_argument("--vector-folder", type=Path, help="keeps vectors and indexes: those of an earlier run are used")


def measure(options: argparse.Namespace) -> Iterator[Table]:
    """Measure the chosen parts."""
    if "words" in options.scale_parts:
        for passages in options.scale_passages or ([5000] if options.quick else [200_000, 1_000_000]):
            yield _words(options.word_engines, passages)
        yield _gold(options)
    if "vectors" in options.scale_parts:
        for passages in options.vector_passages or ([2000] if options.quick else [20_000, 200_000]):
            yield from vectors.measure_vectors(options, passages)


def made_up(count: int) -> Iterator[Passage]:
    """Passages of a hundred words, which are the same at every call."""
    for portion in range(-(-count // _PORTION)):
        rng = np.random.default_rng([9, portion])
        ranks = np.exp(rng.random((_PORTION, _WORDS)) * np.log(_VOCABULARY)).astype(np.int64).tolist()
        for number, row in enumerate(ranks[: count - portion * _PORTION], start=portion * _PORTION):
            text = " ".join([f"w{rank:x}" for rank in row])
            yield Passage(f"p{number}", text[: text.index(" ")], text)


def made_up_queries(count: int) -> list[str]:
    """Queries of three to eight words that stand in a passage; the hundred most frequent words are in none of them."""
    rng = np.random.default_rng(3)
    queries = []
    for passage in made_up(count):
        rare = [word for word in passage.text.split() if len(word) > 3 or int(word[1:], 16) > 100]
        queries.append(" ".join(rng.choice(rare, int(rng.integers(3, 9)), replace=False).tolist()))
    return queries


def _words(engines: Sequence[str], passages: int) -> Table:
    queries, rows = made_up_queries(200), []
    with tempfile.TemporaryDirectory(prefix="knowgap-benchmark-") as name:
        folder, results = Path(name), {}
        for engine in engines:
            note(f"scale: words, {engine}, {passages:,} passages")
            build = in_process("build_words", folder, __file__, engine=engine, passages=passages)
            search = in_process("search_words", folder, __file__, engine=engine, queries=queries)
            results[engine] = build, search
    name = "bm25s" if "bm25s" in results else engines[-1]
    base = results[name]
    for engine, (build, search) in results.items():
        times, base_times = search["seconds"], base[1]["seconds"]
        pairs = [(ours, theirs) for ours, theirs in zip(search["ids"], base[1]["ids"], strict=True) if theirs]
        same = np.mean([len({*ours} & {*theirs}) / len(theirs) for ours, theirs in pairs])
        rows.append(
            [
                engine,
                seconds(build["seconds"]),
                ratio(build["seconds"], base[0]["seconds"]),
                f"{build['anonymous']:.0f} MiB",
                ratio(build["anonymous"], base[0]["anonymous"]),
                f"{build['bytes'] / 2**20:.0f} MiB",
                f"{1000 * percentile(times, 0.5):.1f} ms",
                ratio(percentile(times, 0.5), percentile(base_times, 0.5)),
                f"{1000 * percentile(times, 0.95):.1f} ms",
                f"{search['anonymous']:.0f} MiB",
                f"{same:.3f}",
            ]
        )
    columns = ["engine", "build", "share", "memory", "share", "disk"]
    columns += ["query, p50", "share", "p95", "memory", "same 10"]
    remark = f"Shares are of {name}, and so is the share of its ten best passages that are among the ten best. "
    return Table(f"BM25 over {passages:,} passages of {_WORDS} words", columns, rows, [remark])


def _gold(options: argparse.Namespace) -> Table:
    rows = []
    for data in real_data(options, 50 if options.quick else None):
        examples = [example for example in data.splits["dev"] if example.gold_ids]
        for engine in options.word_engines:
            note(f"scale: gold paragraphs of {data.name}, {engine}")
            with tempfile.TemporaryDirectory(prefix="knowgap-benchmark-") as name:
                _BUILD[engine](iter(data.corpus), Path(name) / engine)
                search = _OPEN[engine](Path(name) / engine)
                found = [(set(example.gold_ids), search(example.question)) for example in examples]
            recalls = [np.mean([len(gold & {*ids[:k]}) / len(gold) for gold, ids in found]) for k in (2, 5, 10)]
            rows.append([data.name, engine, len(examples), *(f"{value:.3f}" for value in recalls)])
    title = "Gold paragraphs among the pooled paragraphs of all questions, by BM25"
    columns = ["data", "engine", "questions", "recall@2", "recall@5", "recall@10"]
    return Table(title, columns, rows, [] if rows else [f"All {NOT_THERE}."])


def build_words(folder: Path, *, engine: str, passages: int) -> dict[str, Any]:
    """Build a BM25 index of made-up passages; the passages themselves are stored in the same way for all engines."""
    started = time.perf_counter()
    with Anonymous() as memory:
        _BUILD[engine](made_up(passages), folder / engine)
    spent = time.perf_counter() - started
    return {"seconds": spent, "bytes": size_of(folder / engine), "anonymous": memory.peak}


def search_words(folder: Path, *, engine: str, queries: Sequence[str]) -> dict[str, Any]:
    """Search it, ten passages for each query."""
    with Anonymous() as memory:
        search = _OPEN[engine](folder / engine)
        for query in queries[:20]:
            search(query)
        result = timed(search, queries)
    return result | {"anonymous": memory.peak}


def _build_bm25s(passages: Iterator[Passage], folder: Path) -> None:
    import bm25s

    folder.mkdir()
    store, _ = PassageStore.build(passages, folder)
    analyze, vocabulary, documents = Analyzer("english"), dict[str, int](), []
    for passage in store:
        stems = analyze(passage.title) * 2 + analyze(passage.text)
        documents.append([vocabulary.setdefault(stem, len(vocabulary)) for stem in stems or [""]])
    index = bm25s.BM25(k1=0.9, b=0.4, method="lucene")
    index.index((documents, vocabulary), create_empty_token=False, show_progress=False)
    index.save(str(folder / "bm25"), show_progress=False)


def _open_bm25s(folder: Path) -> Callable[[str], list[str]]:
    import bm25s

    index, store, analyze = bm25s.BM25.load(str(folder / "bm25"), mmap=True), PassageStore(folder), Analyzer("english")

    def search(query: str) -> list[str]:
        terms = [index.vocab_dict[stem] for stem in analyze.query(query) if stem in index.vocab_dict]
        if not terms:
            return []
        scores = np.asarray(index.get_scores_from_ids(terms), dtype=np.float64)
        positions = np.flatnonzero(scores > 0)
        return [hit.passage.id for hit in scored_hits(store, positions, scores[positions], 10)]

    return search


def _build_tantivy(passages: Iterator[Passage], folder: Path) -> None:
    import tantivy  # pyright: ignore[reportMissingImports]

    (folder / "tantivy").mkdir(parents=True)
    store, _ = PassageStore.build(passages, folder)
    writer = tantivy.Index(_schema(), path=str(folder / "tantivy")).writer(heap_size=256 << 20)
    analyze = Analyzer("english")
    for position, passage in enumerate(store):
        words = " ".join(analyze(passage.title) * 2 + analyze(passage.text))
        writer.add_document(tantivy.Document(position=position, words=words))
    writer.commit()
    writer.wait_merging_threads()


def _open_tantivy(folder: Path) -> Callable[[str], list[str]]:
    import tantivy  # pyright: ignore[reportMissingImports]

    schema, store, analyze = _schema(), PassageStore(folder), Analyzer("english")
    searcher = tantivy.Index.open(str(folder / "tantivy")).searcher()

    def search(query: str) -> list[str]:
        terms = [tantivy.Query.term_query(schema, "words", stem) for stem in analyze.query(query)]
        asked = tantivy.Query.boolean_query([(tantivy.Occur.Should, term) for term in terms])
        hits = searcher.search(asked, 10).hits
        return [store[searcher.doc(address)["position"][0]].id for _, address in hits]

    return search


def _schema() -> Any:
    import tantivy  # pyright: ignore[reportMissingImports]

    builder = tantivy.SchemaBuilder()
    builder.add_unsigned_field("position", stored=True)
    builder.add_text_field("words", tokenizer_name="whitespace", index_option="freq")
    return builder.build()


def _open_ours(folder: Path) -> Callable[[str], list[str]]:
    index = BM25Index.open(folder)
    return lambda query: [hit.passage.id for hit in index.search([query], 10)[0]]


_BUILD: dict[str, Callable[[Iterator[Passage], Path], Any]] = {
    "knowgap": BM25Index.build,
    "bm25s": _build_bm25s,
    "tantivy": _build_tantivy,
}
_OPEN = {"knowgap": _open_ours, "bm25s": _open_bm25s, "tantivy": _open_tantivy}


if __name__ == "__main__":
    run_task(build_words, search_words)
