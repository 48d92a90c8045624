"""One engine at one task in a process of its own, so that its time and its memory are its own.

`python engines.py TASK FOLDER '{"passages": …}'` writes FOLDER/TASK-result.json; what an engine says on the way is
kept from the report.
"""

from __future__ import annotations

import json
import os
import resource
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

__all__ = ["OURS", "in_process", "once", "recorded_files"]

OURS, STOCK, CHECKPOINT, EXPERIMENT = "ours", "stock", "checkpoint", "colbert-ai"
_WRITES = {"fit_checkpoint": CHECKPOINT, "build_ours": OURS, "build_stock": EXPERIMENT}


def in_process(task: str, folder: Path, *, kill_after: float | None = None, **options: Any) -> dict[str, Any]:
    """Run a task of this module in a process of its own.

    Args:
        task: the name of one of its functions.
        folder: where it works.
        kill_after: seconds after which the process is killed, if it has not ended by then.
        **options: its arguments, as JSON has them.

    Returns:
        What the function returns, with `memory`: the most that the process held, in MiB. Nothing if it was killed.
    """
    result, log = folder / f"{task}-result.json", folder / f"{task}.log"
    # The extensions of stock colbert-ai are compiled once, and not where another environment keeps its own.
    settings = {"GIT_PYTHON_REFRESH": "quiet", "TORCH_EXTENSIONS_DIR": str(folder / "extensions")}
    paths = os.pathsep.join([*sys.path[1:], *filter(None, [os.environ.get("PYTHONPATH")])])
    with log.open("w", encoding="utf-8") as out:
        try:
            done = subprocess.run(
                [sys.executable, __file__, task, str(folder), json.dumps(options)],
                stdout=out,
                stderr=subprocess.STDOUT,
                cwd=folder,
                env={**os.environ, **settings, "PYTHONPATH": paths},
                check=False,
                timeout=kill_after,
            )
        except subprocess.TimeoutExpired:
            return {}
    if done.returncode:
        raise SystemExit(f"{task} failed:\n{log.read_text(encoding='utf-8')[-3000:]}")
    return json.loads(result.read_text(encoding="utf-8"))


def once(task: str, folder: Path, **options: Any) -> dict[str, Any]:
    """What `in_process` returns, or returned in an earlier run; what a run that was cut off left is removed first."""
    result = folder / f"{task}-result.json"
    if result.exists():
        return json.loads(result.read_text(encoding="utf-8"))
    for half in folder.glob(f"*{_WRITES[task]}*"):
        if half.is_dir():
            shutil.rmtree(half)
    return in_process(task, folder, **options)


def fit_checkpoint(folder: Path, *, passages: int) -> dict[str, Any]:
    """The embedded checkpoint, fitted to the corpus: both engines encode with it."""
    from fictional import stream_passages

    from knowgap.retrieval.colbert.checkpoint import write_embedded_checkpoint

    write_embedded_checkpoint(list(stream_passages(passages)), folder / CHECKPOINT)
    return {}


def build_ours(folder: Path, *, passages: int, short: bool = False) -> dict[str, Any]:
    """Build knowgap's index, of passages as they are or, short, of their first sentences alone."""
    from fictional import stream_passages

    from knowgap.retrieval import ColBERTIndex

    corpus = stream_passages(passages)
    if short:
        corpus = (replace(passage, title="", text=passage.text.partition(". ")[0]) for passage in corpus)
    started = time.perf_counter()
    ColBERTIndex.build(corpus, folder / OURS, checkpoint=folder / CHECKPOINT)
    return {"seconds": time.perf_counter() - started, "bytes": _size(folder / OURS)}


def build_stock(folder: Path, *, passages: int) -> dict[str, Any]:
    """Build colbert-ai's index with its own indexer, two bits per dimension as its documentation has it."""
    from fictional import stream_passages

    _stock()
    from colbert import Indexer
    from colbert.infra import ColBERTConfig, Run

    collection = [str(passage) for passage in stream_passages(passages)]
    started = time.perf_counter()
    with Run().context(_run(folder)):
        Indexer(str(folder / CHECKPOINT), ColBERTConfig(nbits=2)).index(STOCK, collection)
    return {"seconds": time.perf_counter() - started, "bytes": _size(_stock_index(folder))}


def recorded_files(folder: Path) -> dict[str, Any]:
    """Size and SHA-256 of every file of knowgap's index, as its manifest has them."""
    return json.loads((folder / OURS / "manifest.json").read_text(encoding="utf-8"))["files"]


def search_ours(
    folder: Path, *, queries: Sequence[str], ks: Sequence[int], settings: dict[str, str | dict[str, int]]
) -> dict[str, Any]:
    """Search knowgap's index; one that was opened anew for settings and k knows none of the queries yet."""
    from knowgap.retrieval import ColBERTIndex
    from knowgap.retrieval.index.search_settings import SearchSettings

    found: dict[str, Any] = {name: {} for name in settings}
    for name, quality in settings.items():
        for k in ks:
            index = ColBERTIndex.open(
                folder / OURS,
                checkpoint=folder / CHECKPOINT,
                quality=quality if isinstance(quality, str) else SearchSettings(**quality),
            )

            def search(query: str, index: ColBERTIndex = index, k: int = k) -> list[str]:
                return [hit.passage.id for hit in index.search([query], k)[0]]

            found[name][str(k)] = _timed(search, queries)
    return found


def search_stock(
    folder: Path, *, queries: Sequence[str], ks: Sequence[int], settings: dict[str, dict[str, Any]], passages: int
) -> dict[str, Any]:
    """Search colbert-ai's index with its own searcher, and keep its query vectors.

    A searcher keeps the settings of its first search, so that each k gets a searcher of its own.

    Args:
        folder: where the index is.
        queries: what to ask.
        ks: how many hits to ask for.
        settings: name → settings of colbert-ai, none for its defaults for k; `expansion` false leaves out the [MASK]
            that queries are filled up with; `rescored` says how many hits are scored again with knowgap's vectors.
        passages: in the index.
    """
    import numpy as np
    from fictional import stream_passages

    vectors = _vectors(folder)
    ids = [passage.id for passage in stream_passages(passages)]
    _stock(extensions=True)
    from colbert import Searcher
    from colbert.infra import ColBERTConfig, Run

    found: dict[str, Any] = {name: {} for name in settings}
    for name, values in settings.items():
        config = {key: value for key, value in values.items() if key not in {"expansion", "rescored"}}
        encode = _with_masks if values.get("expansion", True) else _without_masks
        rescored = values.get("rescored", 0)
        for k in ks:
            with Run().context(_run(folder)):
                searcher = Searcher(
                    STOCK,
                    checkpoint=str(folder / CHECKPOINT),
                    config=ColBERTConfig(**config),
                    collection=[""] * passages,
                    verbose=0,
                )

            def search(
                query: str, searcher: Any = searcher, k: int = k, rescored: int = rescored, encode: Any = encode
            ) -> list[str]:
                asked = encode(searcher, query)
                positions = searcher.dense_search(asked, max(k, rescored))[0]
                if rescored:
                    ordered = np.sort(positions)
                    scores = vectors.scan([asked[0].numpy()], ordered)[0]
                    positions = ordered[np.argsort(-scores, kind="stable")]
                return [ids[position] for position in positions[:k]]

            found[name][str(k)] = _timed(search, queries)
            np.savez(folder / f"{encode.__name__}.npz", *(encode(searcher, query)[0].numpy() for query in queries))
    return found


def _with_masks(searcher: Any, query: str) -> Any:
    """Query vectors as colbert-ai has them, [1, 32, dim]."""
    return searcher.encode(query).float()


def _without_masks(searcher: Any, query: str) -> Any:
    """Those of the query's own tokens alone, [1, tokens, dim]."""
    tokenizer = searcher.checkpoint.query_tokenizer
    ids, attention = tokenizer.tensorize([query])
    own = ids[0] != tokenizer.mask_token_id
    return searcher.checkpoint.query(ids[:, own], attention[:, own]).float()


def exact_stock(folder: Path, *, k: int, expansion: bool) -> dict[str, Any]:
    """The `k` passages of highest exact MaxSim with the query vectors of colbert-ai, as `search_stock` kept them."""
    import numpy as np

    from knowgap.retrieval.index.passage_store import PassageStore

    kept = np.load(folder / f"{(_with_masks if expansion else _without_masks).__name__}.npz", allow_pickle=False)
    queries = [kept[name] for name in kept.files]
    store, vectors = PassageStore(folder / OURS), _vectors(folder)
    best = []
    for query in queries:
        scores = vectors.scan([query])[0]
        best.append([store.identifier(int(position)) for position in np.argsort(-scores, kind="stable")[:k]])
    return {"ids": best}


def _vectors(folder: Path) -> Any:
    """The token vectors of knowgap's index."""
    from knowgap.retrieval.colbert.maxsim import TokenVectors
    from knowgap.retrieval.index.manifest import Manifest

    return TokenVectors.open(folder / OURS, Manifest.read(folder / OURS).settings["dim"])


def _stock(*, extensions: bool = False) -> None:
    """Import colbert-ai in a state in which it runs beside transformers 5; otherwise as it is."""
    from knowgap.retrieval.colbert.stock_runtime import colbert

    colbert()
    if extensions:  # its searcher needs the C++ that knowgap keeps it from compiling
        from colbert.modeling.colbert import ColBERT

        del ColBERT.loaded_extensions


def _run(folder: Path) -> Any:
    from colbert.infra import RunConfig

    return RunConfig(nranks=1, avoid_fork_if_possible=True, root=str(folder), experiment=EXPERIMENT)


def _stock_index(folder: Path) -> Path:
    return folder / EXPERIMENT / "indexes" / STOCK


def _size(folder: Path) -> int:
    return sum(file.stat().st_size for file in folder.rglob("*") if file.is_file())


def _timed(search: Callable[[str], list[str]], queries: Sequence[str]) -> dict[str, Any]:
    """Search for each query by itself, after two others to warm up."""
    for query in ("who wrote the novel", "in which city was she born"):
        search(query)
    ids, times = [], []
    for query in queries:
        started = time.perf_counter()
        ids.append(search(query))
        times.append(time.perf_counter() - started)
    return {"ids": ids, "seconds": times}


def _main() -> None:
    task, folder, options = sys.argv[1], Path(sys.argv[2]), json.loads(sys.argv[3])
    functions = (fit_checkpoint, build_ours, build_stock, search_ours, search_stock, exact_stock)
    found = {function.__name__: function for function in functions}[task](folder, **options)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss  # in KiB, on a Mac in bytes
    found["memory"] = peak / (2**20 if sys.platform == "darwin" else 2**10)
    (folder / f"{task}-result.json").write_text(json.dumps(found), encoding="utf-8")


if __name__ == "__main__":
    _main()
