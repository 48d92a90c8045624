"""Compressed late interaction: indexes of colbert-ai (PLAID, Santhanam et al. 2022), built and opened.

colbert-ai clusters and compresses the vectors and unpacks them again. Its search compiles C++ extensions at its first
use, so the candidates are found here: a passage is worth, for each token of the query, the best score of a centroid
near that token that one of its own tokens belongs to; the best passages are unpacked and scored by exact MaxSim.
"""

from __future__ import annotations

import importlib
import io
import json
import multiprocessing
import os
import pickle
import shutil
from collections.abc import Iterator, Sequence
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Any, ClassVar

import faiss
import numpy as np
import numpy.typing as npt
import torch

from knowgap.errors import IndexDamaged, IndexForeign, UsageError, shorten
from knowgap.retrieval.colbert import TokenEncoder
from knowgap.retrieval.index.base import Build, Index
from knowgap.retrieval.index.manifest import CHECKPOINT, FIRST_SEGMENT, MANIFEST, Manifest
from knowgap.retrieval.index.passage_store import PassageStore, scored_hits
from knowgap.retrieval.passage import Hit
from knowgap.retrieval.passage_lines import Lines
from knowgap.storage.progress import Progress

_PROBED, _SCORED, _PER_HIT = 4, 1024, 4
"""How many centroids are looked up for a query token; how many passages are scored by MaxSim, at least and per hit."""
_FEWEST = 32  # passages, below which there is nothing to cluster
_BITS = 2  # per dimension of a stored vector
_FOLDER = "plaid"  # in that of the index


def _stock(module: str) -> Any:
    """A module of colbert-ai, whose import wants a `git` program and changes how the whole process starts others."""
    start_method = multiprocessing.get_start_method(allow_none=True)
    os.environ.setdefault("GIT_PYTHON_REFRESH", "quiet")
    try:
        return importlib.import_module(module)
    finally:
        multiprocessing.set_start_method(start_method, force=True)


_stock("colbert.infra.config.settings").RunSettings.total_visible_gpus = 0  # for a GPU it would compile extensions


class _NarrowEncoder(TokenEncoder):
    width = 128


class PlaidIndex(Index):
    """A compressed index of at least 32 passages, which cannot be changed.

    Its encoder is as for `ColBERTIndex`; the embedded checkpoint is 128 wide. `open` also takes the folder that
    colbert-ai's indexer wrote. Its passages are read from a `*.tsv` (number, text, perhaps title) or `*.jsonl` in it,
    else from the collection of the build; its checkpoint is `checkpoint/` in it, else that of the build.

    Raises:
        IndexForeign: passages are missing, or their number differs from that in the index.
        IndexDamaged: a file cannot be read.
        CheckpointError: the checkpoint of such a folder is missing.
    """

    engine: ClassVar[str] = "plaid"
    encoders: ClassVar[str] = "knowgap.retrieval.plaid:_NarrowEncoder"

    def __init__(self, path: Path, encoder: Any = None) -> None:
        super().__init__(path, encoder)
        own = (path / MANIFEST).exists()
        if own:
            self.manifest = Manifest.read(path, engine=self.engine)
        folder = path / _FOLDER if own else path
        try:
            metadata = json.loads((folder / "metadata.json").read_bytes())
            config, chunks = metadata["config"], range(metadata["num_chunks"])
            with redirect_stdout(io.StringIO()):
                self._codec = _stock("colbert.indexing.codecs.residual").ResidualCodec.load(str(folder))
            self._codes, self._residuals = (
                torch.cat([_load(folder / f"{n}.{kind}.pt") for n in chunks]) for kind in ("codes", "residuals")
            )
            lengths = [json.loads((folder / f"doclens.{n}.json").read_bytes()) for n in chunks]
            self._lengths = np.concatenate(lengths).astype(np.int64)
            self._members, sizes = (each.numpy() for each in _load(folder / "ivf.pid.pt"))
        except (OSError, ValueError, RuntimeError, LookupError, TypeError, EOFError, pickle.UnpicklingError) as error:
            raise IndexDamaged(f"{folder} is not a colbert-ai index, or is damaged ({shorten(error, 120)})") from error
        self._starts = np.concatenate([[0], np.cumsum(self._lengths)])
        self._cells = np.concatenate([[0], np.cumsum(sizes, dtype=np.int64)])
        self._passages: Any = PassageStore(path / FIRST_SEGMENT) if own else self._open_foreign(config)
        if len(self._passages) != len(self._lengths):
            raise IndexForeign(f"{folder}: {len(self._lengths)} passages; its collection has {len(self._passages)}")

    def _open_foreign(self, config: Any) -> Lines:
        """Load the encoder of a folder of colbert-ai, and open its passages."""
        own, collection = self.path / CHECKPOINT, config["collection"]
        self._encoder = TokenEncoder.load(own if own.is_dir() else str(config["checkpoint"]), named_by=self.path)
        recorded = Path(str(collection.get("provenance") if isinstance(collection, dict) else collection))
        beside = [*self.path.glob("*.tsv"), *self.path.glob("*.jsonl")]
        return Lines(self.path if beside or not recorded.is_file() else recorded)

    @classmethod
    def _write(cls, build: Build) -> None:
        """Have colbert-ai sample, cluster and compress what the encoder encodes; chunks that are there are kept."""
        if len(build.store) < _FEWEST:
            raise UsageError(f"plaid clusters at least {_FEWEST} passages, not {len(build.store)}: take colbert")
        build.begin()
        folder = build.folder / _FOLDER
        written = sorted(folder.glob("*.metadata.json"), key=lambda path: path.stat().st_mtime)
        if not (folder / "avg_residual.pt").exists():
            shutil.rmtree(folder, ignore_errors=True)
        elif written:
            written[-1].unlink()  # the last chunk may have been cut off
        folder.mkdir(exist_ok=True)
        config = _stock("colbert.infra").ColBERTConfig(
            index_path=str(folder), dim=build.encoder.dim, nbits=_BITS, resume=True, checkpoint=CHECKPOINT
        )
        with redirect_stdout(io.StringIO()), redirect_stderr(io.StringIO()):
            _Indexer(config, build.store, build.encoder, build.report).run([])

    def __len__(self) -> int:
        return len(self._lengths)

    def _find(self, queries: Sequence[str], k: int) -> Iterator[list[Hit]]:
        for query in queries:
            vectors = self.encoder.encode_query(query)
            chosen = self._candidates(vectors, max(_SCORED, _PER_HIT * k))
            yield scored_hits(self._passages, chosen, self._scores(vectors, chosen), k)

    def _candidates(self, query: npt.NDArray[np.float32], count: int) -> npt.NDArray[np.int64]:
        """The passages of the centroids nearest to the query's tokens, [query tokens, dim]; at most `count`."""
        worth = query @ self._codec.centroids.numpy().T
        total = np.zeros(len(self), dtype=np.float32)
        for scores in worth:
            best = np.zeros(len(self), dtype=np.float32)
            for cell in np.argsort(scores)[-_PROBED:]:  # ascending, so that a better one overwrites
                best[self._members[self._cells[cell] : self._cells[cell + 1]]] = scores[cell]
            total += best
        best = np.argpartition(-total, count)[:count] if count < len(total) else np.arange(len(total))
        return np.sort(best[total[best] > 0])

    def _scores(self, query: npt.NDArray[np.float32], chosen: npt.NDArray[np.int64]) -> npt.NDArray[np.float32]:
        """The MaxSim of the query with each chosen passage, whose vectors are unpacked."""
        if not len(chosen):
            return np.zeros(0, dtype=np.float32)
        lengths = self._lengths[chosen]
        ends = np.cumsum(lengths)
        rows = torch.from_numpy(np.arange(ends[-1]) + np.repeat(self._starts[chosen] - (ends - lengths), lengths))
        packed = type(self._codec).Embeddings(self._codes[rows], self._residuals[rows])
        vectors = self._codec.decompress(packed).float().numpy()
        return np.maximum.reduceat(vectors @ query.T, ends - lengths, axis=0).sum(axis=1)


def _load(path: Path) -> Any:
    return torch.load(path, map_location="cpu", weights_only=True)  # a pickle without code


class _Indexer(_stock("colbert.indexing.collection_indexer").CollectionIndexer):
    """Has colbert-ai sample, cluster and compress what our encoder makes of the passages, without a GPU."""

    def __init__(  # the parent's would load the checkpoint by itself
        self, config: Any, store: PassageStore, encoder: TokenEncoder, report: Progress
    ) -> None:
        self.verbose, self.rank, self.nranks, self.use_gpu = 0, 0, 1, False
        self.config, self.saver = config, _stock("colbert.indexing.index_saver").IndexSaver(config)
        self.encoder, self._encoder, self._report = self, encoder, report
        self.collection = _stock("colbert.data").Collection(data=[str(passage) for passage in store])
        self._encoded: Any = None

    def encode_passages(self, texts: list[str]) -> Any:
        """Vectors [tokens, dim] of all texts, and the number of tokens of each."""
        count = len(self.collection)
        if len(texts) < count or self._encoded is None:  # of a small collection, the sample is the only chunk
            self._report(0, count, "encoding passages")
            vectors, lengths = self._encoder.encode_passages(texts)
            self._encoded = torch.from_numpy(vectors.astype(np.float32)), lengths.tolist()
        return self._encoded

    def _train_kmeans(self, sample: Any, shared_lists: Any) -> Any:  # the parent's wants a GPU where there is one
        kmeans = faiss.Kmeans(self.config.dim, self.num_partitions, niter=self.config.kmeans_niters, seed=123)
        kmeans.train(sample.float().numpy())
        return torch.nn.functional.normalize(torch.from_numpy(kmeans.centroids), dim=-1)
