"""Run one task of one ColBERT engine in its own process, so that time and memory are measured apart.

`python engines.py TASK FOLDER '{"passages": …}'` writes FOLDER/TASK-result.json. Everything that an engine prints goes
to FOLDER/TASK.log.
"""

from __future__ import annotations

import itertools
import json
import os
import resource
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

OURS, STOCK, CHECKPOINT, EXPERIMENT = "ours", "stock", "checkpoint", "colbert-ai"
_WRITES = {"fit_checkpoint": CHECKPOINT, "build_ours": OURS, "build_stock": EXPERIMENT}


def in_process(
    task: str, folder: Path, script: str = __file__, python: str = sys.executable, **options: Any
) -> dict[str, Any]:
    """Run a task of this module, or of another script that ends with `run_task`, in another process.

    Args:
        task: the name of one of its functions.
        folder: where it works.
        script: the file.
        python: an interpreter; another one than this brings its own packages.
        **options: the function's arguments; JSON values.

    Returns:
        What the function returns, and `memory`: the peak of the process in MiB.
    """
    result, log = folder / f"{task}-result.json", folder / f"{task}.log"
    # Compile the extensions of stock colbert-ai once, apart from those of other environments.
    settings = {"GIT_PYTHON_REFRESH": "quiet", "TORCH_EXTENSIONS_DIR": str(folder / "extensions")}
    if python == sys.executable:
        settings["PYTHONPATH"] = os.pathsep.join([*sys.path[1:], *filter(None, [os.environ.get("PYTHONPATH")])])
    with log.open("w", encoding="utf-8") as out:
        done = subprocess.run(
            [python, script, task, str(folder), json.dumps(options)],
            stdout=out,
            stderr=subprocess.STDOUT,
            cwd=folder,
            env={**os.environ, **settings},
            check=False,
        )
    if done.returncode:
        raise SystemExit(f"{task} failed:\n{log.read_text(encoding='utf-8')[-3000:]}")
    return json.loads(result.read_text(encoding="utf-8"))


def once(
    task: str, folder: Path, script: str = __file__, python: str = sys.executable, **options: Any
) -> dict[str, Any]:
    """Return the result of `in_process` from an earlier run, or run it, removing what an interrupted run has left."""
    result = folder / f"{task}-result.json"
    if result.exists():
        return json.loads(result.read_text(encoding="utf-8"))
    if task in _WRITES:
        for half in folder.glob(f"*{_WRITES[task]}*"):
            if half.is_dir():
                shutil.rmtree(half)
    return in_process(task, folder, script, python, **options)


def fit_checkpoint(folder: Path, *, passages: int) -> dict[str, Any]:
    """Fit the embedded checkpoint, with which both engines encode, to the corpus."""
    from fictional import stream_passages

    from knowgap.retrieval.colbert.checkpoint import write_embedded_checkpoint

    write_embedded_checkpoint(list(stream_passages(passages)), folder / CHECKPOINT)
    return {}


def build_ours(folder: Path, *, passages: int) -> dict[str, Any]:
    """Build knowgap's index."""
    from fictional import stream_passages

    from knowgap.retrieval import ColBERTIndex

    started = time.perf_counter()
    ColBERTIndex.build(stream_passages(passages), folder / OURS, checkpoint=folder / CHECKPOINT)
    return {"seconds": time.perf_counter() - started, "bytes": size_of(folder / OURS)}


def build_stock(folder: Path, *, passages: int) -> dict[str, Any]:
    """Build colbert-ai's index with its own indexer, with two bits per dimension as in its documentation."""
    from fictional import stream_passages

    _stock()
    from colbert import Indexer
    from colbert.infra import ColBERTConfig, Run

    collection = [str(passage) for passage in stream_passages(passages)]
    started = time.perf_counter()
    with Run().context(_run(folder)):
        Indexer(str(folder / CHECKPOINT), ColBERTConfig(nbits=2)).index(STOCK, collection)
    return {"seconds": time.perf_counter() - started, "bytes": size_of(_stock_index(folder))}


def search_ours(
    folder: Path, *, queries: Sequence[str], ks: Sequence[int], settings: dict[str, str | dict[str, int]]
) -> dict[str, Any]:
    """Search knowgap's index, opened anew for each setting and k, so that no query is cached."""
    from knowgap.retrieval import ColBERTIndex
    from knowgap.retrieval.index.search_settings import SearchSettings

    results: dict[str, Any] = {name: {} for name in settings}
    for name, quality in settings.items():
        for k in ks:
            index = ColBERTIndex.open(
                folder / OURS,
                checkpoint=folder / CHECKPOINT,
                quality=quality if isinstance(quality, str) else SearchSettings(**quality),
            )

            def search(query: str, index: ColBERTIndex = index, k: int = k) -> list[str]:
                return [hit.passage.id for hit in index.search([query], k)[0]]

            results[name][str(k)] = timed(search, queries)
    return results


def search_stock(
    folder: Path, *, queries: Sequence[str], ks: Sequence[int], settings: dict[str, dict[str, Any]], passages: int
) -> dict[str, Any]:
    """Search colbert-ai's index with its own searcher, and save its query vectors.

    A searcher keeps the settings of its first search, so each k gets a new searcher.

    Args:
        folder: where the index is.
        queries: what to ask.
        ks: how many hits to ask for.
        settings: colbert-ai's settings by name, empty for its defaults for k. `expansion: false` leaves out the [MASK]
            tokens that fill up queries; `rescored` is the number of hits that are rescored with knowgap's vectors.
        passages: in the index.
    """
    import numpy as np
    from fictional import stream_passages

    vectors = _vectors(folder)
    ids = [passage.id for passage in stream_passages(passages)]
    _stock(extensions=True)
    from colbert import Searcher
    from colbert.infra import ColBERTConfig, Run

    results: dict[str, Any] = {name: {} for name in settings}
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
                encoded = encode(searcher, query)
                positions = searcher.dense_search(encoded, max(k, rescored))[0]
                if rescored:
                    ordered = np.sort(positions)
                    scores = vectors.scan([encoded[0].numpy()], ordered)[0]
                    positions = ordered[np.argsort(-scores, kind="stable")]
                return [ids[position] for position in positions[:k]]

            results[name][str(k)] = timed(search, queries)
            np.savez(folder / f"{encode.__name__}.npz", *(encode(searcher, query)[0].numpy() for query in queries))
    return results


def _with_masks(searcher: Any, query: str) -> Any:
    """Encode a query as colbert-ai does: [1, 32, dim]."""
    return searcher.encode(query).float()


def _without_masks(searcher: Any, query: str) -> Any:
    """Encode only the query's own tokens: [1, tokens, dim]."""
    tokenizer = searcher.checkpoint.query_tokenizer
    ids, attention = tokenizer.tensorize([query])
    own = ids[0] != tokenizer.mask_token_id
    return searcher.checkpoint.query(ids[:, own], attention[:, own]).float()


def exact_stock(folder: Path, *, k: int, expansion: bool) -> dict[str, Any]:
    """Find the `k` passages of highest exact MaxSim with the query vectors that `search_stock` saved."""
    import numpy as np

    from knowgap.retrieval.index.passage_store import PassageStore

    saved = np.load(folder / f"{(_with_masks if expansion else _without_masks).__name__}.npz", allow_pickle=False)
    queries = [saved[name] for name in saved.files]
    store, vectors = PassageStore(folder / OURS), _vectors(folder)
    best = []
    for query in queries:
        scores = vectors.scan([query])[0]
        best.append([store.identifier(int(position)) for position in np.argsort(-scores, kind="stable")[:k]])
    return {"ids": best}


def _vectors(folder: Path) -> Any:
    """Open the token vectors of knowgap's index."""
    from knowgap.retrieval.colbert.maxsim import TokenVectors
    from knowgap.retrieval.index.manifest import Manifest

    return TokenVectors.open(folder / OURS, Manifest.read(folder / OURS).settings["dim"])


def _stock(*, extensions: bool = False) -> None:
    """Import colbert-ai with the corrections that let it run beside transformers 5."""
    from knowgap.retrieval.colbert.stock_runtime import colbert

    colbert()
    if extensions:  # its searcher needs the C++ extensions, whose compilation knowgap prevents
        from colbert.modeling.colbert import ColBERT

        del ColBERT.loaded_extensions


def _run(folder: Path) -> Any:
    from colbert.infra import RunConfig

    return RunConfig(nranks=1, avoid_fork_if_possible=True, root=str(folder), experiment=EXPERIMENT)


def _stock_index(folder: Path) -> Path:
    return folder / EXPERIMENT / "indexes" / STOCK


def size_of(folder: Path) -> int:
    """The bytes of all files in a folder."""
    return sum(file.stat().st_size for file in folder.rglob("*") if file.is_file())


def timed(search: Callable[[str], list[str]], queries: Sequence[str]) -> dict[str, Any]:
    """Time the search for each query, after two others to warm up."""
    for query in ("who wrote the novel", "in which city was she born"):
        search(query)
    ids, times = [], []
    for query in queries:
        started = time.perf_counter()
        ids.append(search(query))
        times.append(time.perf_counter() - started)
    return {"ids": ids, "seconds": times}


class Anonymous:
    """The peak of this process's anonymous memory in MiB, during a block, looked at fifty times a second.

    What is in memory of mapped files of the name `mapped` counts as well; that is looked at five times a second.
    """

    peak = 0.0

    def __init__(self, mapped: str = "") -> None:
        self._mapped = mapped

    def __enter__(self) -> Anonymous:
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._watch)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join()

    def _watch(self) -> None:
        of_files = 0
        for look in itertools.count():
            with open("/proc/self/status", encoding="ascii") as file:
                line = next(line for line in file if line.startswith("RssAnon"))
            of_files = self._of_files() if look % 10 == 0 else of_files
            self.peak = max(self.peak, (int(line.split()[1]) + of_files) / 1024)
            if self._ended.wait(0.02):
                return

    def _of_files(self) -> int:
        """KiB of the mapped files that are in memory."""
        if not self._mapped:
            return 0
        found, counts = 0, False
        with open("/proc/self/smaps", encoding="utf-8") as file:
            for line in file:
                if line.startswith(("Rss:", "Anonymous:")):
                    found += counts * int(line.split()[1]) * (1 if line.startswith("Rss:") else -1)
                elif line[0] in "0123456789abcdef":
                    counts = line.rstrip().endswith(self._mapped)
        return found


def run_task(*functions: Callable[..., dict[str, Any]]) -> None:
    """Run the function that the command line names, for `in_process`."""
    task, folder, options = sys.argv[1], Path(sys.argv[2]), json.loads(sys.argv[3])
    result = {function.__name__: function for function in functions}[task](folder, **options)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss  # KiB, on a Mac bytes
    result["memory"] = peak / (2**20 if sys.platform == "darwin" else 2**10)
    (folder / f"{task}-result.json").write_text(json.dumps(result), encoding="utf-8")


if __name__ == "__main__":
    run_task(fit_checkpoint, build_ours, build_stock, search_ours, search_stock, exact_stock)
