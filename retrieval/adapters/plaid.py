"""Search of indexes of colbert-ai (PLAID) without converting them."""

from __future__ import annotations

import json
import pickle
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np

from knowgap.errors import CheckpointError, IndexDamaged, IndexForeign, shorten
from knowgap.retrieval.adapters.documents import Adapter, Found
from knowgap.retrieval.adapters.folders import Lines, only_file

_PROBED, _SCORED, _PER_HIT = 4, 1024, 4
"""How many clusters each query token probes; how many passages are scored by MaxSim, at least and per hit."""


class PlaidIndex(Adapter):
    """An index that colbert-ai built, searched by knowgap's own code, which compiles no extensions.

    Args:
        folder: the folder that colbert-ai's indexer wrote. The passages are read from a `*.tsv` in it (number, text,
            perhaps title), otherwise from the collection of the build if that still exists, otherwise from a `*.jsonl`
            in it. The checkpoint is `checkpoint/` in it, otherwise that of the build.

    Raises:
        IndexForeign: the passages are missing, or their number differs from that in the index.
        IndexDamaged: a file cannot be read.
        CheckpointError: the checkpoint is missing.
    """

    def __init__(self, folder: str | Path) -> None:
        self._folder = Path(folder)
        self.name = f"plaid {self._folder.name}"
        try:
            self._load()
        except (AttributeError, KeyError, TypeError) as error:
            raise IndexDamaged(f"{folder} is not a colbert-ai index ({shorten(repr(error), 80)})") from error

    def _load(self) -> None:
        from knowgap.retrieval.colbert.checkpoint import resolve_checkpoint
        from knowgap.retrieval.colbert.encoder import TokenEncoder
        from knowgap.retrieval.colbert.inverted_lists import CentroidIndex
        from knowgap.retrieval.colbert.maxsim import TokenVectors
        from knowgap.retrieval.colbert.residual_codec import ResidualVectors, residual_codec

        metadata = self._json("metadata.json")
        config, parts = metadata["config"], range(int(metadata["num_chunks"]))
        own = self._folder / "checkpoint"
        try:
            checkpoint = resolve_checkpoint(own if own.is_dir() else config["checkpoint"], named_by=self._folder)
        except CheckpointError as error:
            raise CheckpointError(f"{error}; or put the checkpoint's folder there as {own}") from error
        centroids = self._tensor("centroids.pt").float().numpy()
        cuts, values = (each.float().numpy() for each in self._tensor("buckets.pt"))
        codes = np.concatenate([self._tensor(f"{part}.codes.pt").numpy() for part in parts])
        residuals = np.concatenate([self._tensor(f"{part}.residuals.pt").numpy() for part in parts])
        lengths = np.concatenate([self._json(f"doclens.{part}.json") for part in parts]).astype(np.int64)
        cells, sizes = (each.numpy() for each in self._tensor("ivf.pid.pt"))
        if not (len(codes) == len(residuals) == lengths.sum() and len(sizes) == len(centroids)):
            raise IndexDamaged(f"{self._folder}: the files of its vectors do not belong together")
        self._passages = Lines(self._collection(config.get("collection")))
        if len(self._passages) != len(lengths):
            numbers = f"has {len(lengths)} passages, but the collection has {len(self._passages)}"
            raise IndexForeign(f"{self._folder}: {numbers}")
        codec = residual_codec(centroids, int(config["nbits"]), cuts, values)
        self._vectors = TokenVectors(ResidualVectors(codes, residuals, codec), lengths)
        starts = np.concatenate([[0], np.cumsum(sizes, dtype=np.int64)])
        self._centroids = CentroidIndex(centroids, cells, starts, codes, self._vectors.starts)
        self._encoder = TokenEncoder(checkpoint)

    def _ask(self, queries: list[str], k: int) -> Iterable[Found]:
        for query in queries:
            vectors = self._encoder.encode_query(query)
            near = self._centroids.candidates(vectors, _PROBED, max(_SCORED, _PER_HIT * k))
            scores = self._vectors.rescore(vectors, near)
            best = np.argsort(-scores, kind="stable")[:k]
            yield [(self._passages.passage(int(near[n])), float(scores[n])) for n in best]

    def _collection(self, recorded: Any) -> Path:
        path = Path(str(recorded.get("provenance") if isinstance(recorded, dict) else recorded))
        if not path.is_file() or any(self._folder.glob("*.tsv")):
            path = only_file(self._folder, ("*.tsv", "*.jsonl"), "file of passages")
        return path

    def _json(self, name: str) -> Any:
        try:
            return json.loads((self._folder / name).read_bytes())
        except (OSError, ValueError) as error:
            raise IndexDamaged(f"{self._folder}: {name} cannot be read ({shorten(error)})") from error

    def _tensor(self, name: str) -> Any:
        import torch

        try:
            return torch.load(self._folder / name, map_location="cpu", weights_only=True)  # a pickle without code
        except (OSError, ValueError, RuntimeError, EOFError, pickle.UnpicklingError) as error:
            raise IndexDamaged(f"{self._folder}: {name} cannot be read ({shorten(error, 120)})") from error
