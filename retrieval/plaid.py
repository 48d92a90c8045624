"""Compressed late interaction: indexes of colbert-ai (PLAID, Santhanam et al. 2022), built and opened.

colbert-ai clusters and compresses the vectors and unpacks them again. Its search compiles C++ extensions at its first
use, so the candidates are found here: a passage is worth, for each token of the query, the best score of a centroid
near that token that one of its own tokens belongs to; the best passages are unpacked and scored by exact MaxSim.
"""

from __future__ import annotations

import io
import json
import pickle
import shutil
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
from typing_extensions import Self

from knowgap.errors import CheckpointError, IndexDamaged, IndexForeign, UsageError, ValueOutOfBounds, shorten
from knowgap.retrieval.colbert.encoder import TokenEncoder
from knowgap.retrieval.colbert.stock_runtime import colbert
from knowgap.retrieval.index.base import Index
from knowgap.retrieval.index.build import IndexBuild
from knowgap.retrieval.index.manifest import CHECKPOINT, FIRST_SEGMENT, Manifest
from knowgap.retrieval.index.passage_store import PassageStore, scored_hits
from knowgap.retrieval.passage import Hit, Passage
from knowgap.retrieval.passage_lines import Lines
from knowgap.storage.progress import Progress

_PROBED, _SCORED, _PER_HIT = 4, 1024, 4
"""How many centroids are looked up for a query token; how many passages are scored by MaxSim, at least and per hit."""
_FEWEST = 32  # passages, below which there is nothing to cluster


class _NarrowEncoder(TokenEncoder):
    width = 128


class PlaidIndex(Index):
    """A compressed index, which cannot be changed. Made by `build`, `open` or `foreign`.

    Its encoder is as for `ColBERTIndex`; the embedded checkpoint is 128 wide.
    """

    engine: ClassVar[str] = "plaid"
    encoders: ClassVar[Any] = _NarrowEncoder

    def __init__(self, path: Path, manifest: Manifest | None, encoder: Any = None, passages: Any = None) -> None:
        super().__init__(path, manifest or Manifest("plaid", ()), encoder)
        folder = path / "plaid" if manifest else path
        self.name, self._passages = f"plaid {path.name}", passages or PassageStore(path / FIRST_SEGMENT)
        _colbert()
        from colbert.indexing.codecs.residual import ResidualCodec

        try:
            chunks = range(json.loads((folder / "metadata.json").read_bytes())["num_chunks"])
            with redirect_stdout(io.StringIO()):
                self._codec: Any = ResidualCodec.load(str(folder))
            self._codes = np.concatenate([_tensor(folder / f"{n}.codes.pt") for n in chunks])
            self._residuals = np.concatenate([_tensor(folder / f"{n}.residuals.pt") for n in chunks])
            lengths = [json.loads((folder / f"doclens.{n}.json").read_bytes()) for n in chunks]
            self._lengths = np.concatenate(lengths).astype(np.int64)
            self._members, sizes = (each.numpy() for each in _load(folder / "ivf.pid.pt"))
        except (OSError, ValueError, RuntimeError, KeyError, TypeError, EOFError, pickle.UnpicklingError) as error:
            raise IndexDamaged(f"{folder} is not a colbert-ai index, or is damaged ({shorten(error, 120)})") from error
        self._starts = np.concatenate([[0], np.cumsum(self._lengths)])
        self._cells = np.concatenate([[0], np.cumsum(sizes, dtype=np.int64)])
        if not self._starts[-1] == len(self._codes) == len(self._residuals):
            raise IndexDamaged(f"{folder}: the files of its vectors do not belong together")
        if len(self._passages) != len(self._lengths):
            told = f"has {len(self._lengths)} passages, but its collection has {len(self._passages)}"
            raise IndexForeign(f"{folder}: {told}")

    @classmethod
    def build(
        cls,
        passages: Iterable[Passage],
        path: str | Path,
        *,
        encoder: str | Path | None = None,
        nbits: int = 2,
        overwrite: bool = False,
        progress: Progress | None = None,
    ) -> Self:
        """Encode at least 32 passages and have colbert-ai compress them, or continue an interrupted call.

        `nbits` are the bits per dimension of a stored vector: 1, 2 or 4. Other arguments and errors are those of
        `ColBERTIndex.build`. The folder of colbert-ai is `plaid/` in that of the index.

        Raises:
            ValueOutOfBounds: nbits is not such a number.
            UsageError: there are fewer passages, or another index is at the path.
        """
        if nbits not in (1, 2, 4):
            raise ValueOutOfBounds(f"nbits = {nbits!r}: 1, 2 or 4")
        settings = {"nbits": nbits}
        cls._build(passages, path, settings, _write, encoder=encoder, overwrite=overwrite, progress=progress)
        return cls.open(path, encoder=encoder)

    @classmethod
    def foreign(cls, folder: Path) -> Self:
        """Open the folder that colbert-ai's indexer wrote.

        The passages are read from a `*.tsv` (number, text, perhaps title) or `*.jsonl` in it, else from the collection
        of the build. The checkpoint is `checkpoint/` in it, else that of the build.

        Raises:
            IndexForeign: the passages are missing, or their number differs from that in the index.
            IndexDamaged: a file cannot be read.
            CheckpointError: the checkpoint is missing.
        """
        try:
            config = json.loads((folder / "metadata.json").read_bytes())["config"]
            own, named = folder / CHECKPOINT, str(config["checkpoint"])
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise IndexDamaged(f"{folder}: metadata.json cannot be read ({type(error).__name__})") from error
        try:
            encoder = TokenEncoder.load(own if own.is_dir() else named, named_by=folder)
        except CheckpointError as error:
            raise CheckpointError(f"{error}; or put the checkpoint's folder there as {own}") from error
        collection = config.get("collection")
        recorded = Path(str(collection.get("provenance") if isinstance(collection, dict) else collection))
        beside = [*folder.glob("*.tsv"), *folder.glob("*.jsonl")]
        index = cls(folder, None, passages=Lines(folder if beside or not recorded.is_file() else recorded))
        index._encoder = encoder
        return index

    @property
    def digest(self) -> str | None:
        """The digest of settings, passages and checkpoint; None for a folder of colbert-ai alone."""
        return self.manifest.digest if self.manifest.segments else None

    def __len__(self) -> int:
        return len(self._lengths)

    def _find(self, queries: Sequence[str], k: int, ids: Collection[str] | None) -> Iterator[list[Hit]]:
        for query in queries:
            vectors = self.encoder.encode_query(query)
            if ids is None:
                chosen = self._candidates(vectors, max(_SCORED, _PER_HIT * k))
            else:
                found = {position for name in ids if (position := self._passages.position(name)) is not None}
                chosen = np.array(sorted(found), dtype=np.int64)
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
        import torch

        if not len(chosen):
            return np.zeros(0, dtype=np.float32)
        lengths = self._lengths[chosen]
        ends = np.cumsum(lengths)
        rows = np.arange(ends[-1]) + np.repeat(self._starts[chosen] - (ends - lengths), lengths)
        packed = type(self._codec).Embeddings(
            torch.from_numpy(self._codes[rows]), torch.from_numpy(self._residuals[rows])
        )
        vectors = self._codec.decompress(packed).float().numpy()
        return np.maximum.reduceat(vectors @ query.T, ends - lengths, axis=0).sum(axis=1)


def _write(build: IndexBuild, store: PassageStore, encoder: TokenEncoder, manifest: Manifest, report: Progress) -> None:
    """Have colbert-ai sample, cluster and compress what `encoder` encodes; chunks that are there are kept."""
    if len(store) < _FEWEST:
        raise UsageError(f"plaid clusters at least {_FEWEST} passages, not {len(store)}: take colbert")
    build.resume(manifest)
    _colbert()
    from colbert.infra import ColBERTConfig

    from knowgap.retrieval.plaid_indexer import Indexer

    folder, nbits = build.folder / "plaid", manifest.settings["nbits"]
    written = sorted(folder.glob("*.metadata.json"), key=lambda path: path.stat().st_mtime)
    if not (folder / "avg_residual.pt").exists():
        shutil.rmtree(folder, ignore_errors=True)
    elif written:
        written[-1].unlink()  # the last chunk may have been cut off
    folder.mkdir(exist_ok=True)
    config = ColBERTConfig(index_path=str(folder), dim=encoder.dim, nbits=nbits, resume=True, checkpoint="checkpoint")
    with redirect_stdout(io.StringIO()), redirect_stderr(io.StringIO()):
        Indexer(config, store, encoder, report).run([])


def _colbert() -> None:
    """Import colbert-ai, and keep it off GPUs, for which it would compile extensions."""
    colbert()
    from colbert.infra.config.settings import RunSettings

    RunSettings.total_visible_gpus = 0


def _load(path: Path) -> Any:
    import torch

    return torch.load(path, map_location="cpu", weights_only=True)  # a pickle without code


def _tensor(path: Path) -> Any:
    return _load(path).numpy()
