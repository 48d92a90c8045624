"""A ColBERT checkpoint at work: texts in, one unit vector per token out (Khattab and Zaharia 2020).

Passages are encoded in batches of one padded length, queries one at a time: the vectors of a text then do not depend
on its neighbours, and a search gives the same scores to the last digit however it was batched.
"""

from __future__ import annotations

import json
import threading
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from knowgap.errors import CheckpointError
from knowgap.retrieval.colbert.stock_runtime import colbert, quiet_transformers
from knowgap.retrieval.device import choose_device, half_precision

__all__ = ["SETTINGS", "TOKEN_WEIGHTS", "TokenEncoder", "batches_of_one_width"]

SETTINGS = "knowgap.json"
"""What a checkpoint says to knowgap beside colbert-ai's own `artifact.metadata`; absent in foreign checkpoints."""

TOKEN_WEIGHTS = "token_weights.npy"
"""Float32 [vocabulary]: by what a query vector is multiplied, given its token; absent in foreign checkpoints."""

_LONGEST_QUERY = 256
_KEPT_QUERIES = 2048
_WIDTH_STEP = 16
_TOKENS_PER_BATCH = {"cpu": 2048, "cuda": 32_768}  # on a CPU, what stays in its cache


def batches_of_one_width(lengths: Sequence[int], capacity: int) -> Iterator[tuple[list[int], int]]:
    """Divide texts into batches, each padded to one width.

    The width is the length rounded up to a multiple of 16, whatever else is in the batch: what a text is padded to,
    and with it the last digits of its vectors, does not depend on its neighbours.

    Args:
        lengths: tokens of each text.
        capacity: tokens of a batch, padding included; a longer text is a batch of its own.

    Yields:
        Positions of texts, and the width to pad them to.
    """
    by_width: dict[int, list[int]] = {}
    for i, length in enumerate(lengths):
        by_width.setdefault(-(-length // _WIDTH_STEP) * _WIDTH_STEP, []).append(i)
    for width, members in sorted(by_width.items()):
        size = max(1, capacity // width)
        for start in range(0, len(members), size):
            yield members[start : start + size], width


class TokenEncoder:
    """A ColBERT checkpoint folder, loaded.

    Args:
        folder: `config.json`, tokenizer files, `model.safetensors` with the encoder and `linear.weight`, and
            `artifact.metadata`; as colbert-ai saves them.
        device: where to compute; None chooses.

    Attributes:
        dim: width of a token vector.
        vocabulary: how many token ids there are.
        begin_token: the id of the token at the beginning of every text.

    Raises:
        CheckpointError: the folder holds no such checkpoint, or one that would run code of its own.
    """

    def __init__(self, folder: str | Path, *, device: str | None = None) -> None:
        self.folder, self.device = Path(folder), choose_device(device)
        for name in ("config.json", "artifact.metadata"):
            if not (self.folder / name).is_file():
                raise CheckpointError(f"{self.folder}: not a ColBERT checkpoint (it has no {name})")
        if "auto_map" in json.loads((self.folder / "config.json").read_text(encoding="utf-8")):
            raise CheckpointError(f"{self.folder}: its config.json asks to run code from the checkpoint; refused")
        settings = self.folder / SETTINGS
        self.settings: dict[str, Any] = json.loads(settings.read_text(encoding="utf-8")) if settings.is_file() else {}
        weights = self.folder / TOKEN_WEIGHTS
        self._token_weights = np.load(weights, allow_pickle=False) if weights.is_file() else None
        self._load()
        self._lock = threading.Lock()
        self._queries: OrderedDict[str, npt.NDArray[np.float32]] = OrderedDict()

    def _load(self) -> None:
        colbert()
        from colbert.infra.config import ColBERTConfig
        from colbert.modeling.colbert import ColBERT

        from knowgap.retrieval.colbert.packed_weights import pack_linear_layers

        path = str(self.folder.resolve())
        try:
            with quiet_transformers():
                # Named after its own folder, colbert-ai never looks for the base model on the network.
                self._model: Any = ColBERT(path, ColBERTConfig(checkpoint=path, model_name=path))
        except (OSError, RuntimeError, ValueError, KeyError, AssertionError) as error:
            raise CheckpointError(f"{self.folder}: the checkpoint cannot be loaded ({error})") from error
        similarity = self._model.colbert_config.similarity
        if similarity != "cosine":
            raise CheckpointError(f"{self.folder}: trained for the similarity {similarity!r}, not for cosines")
        self._model.to(self.device).float().eval()
        pack_linear_layers(self._model)
        self._model.use_gpu = False  # no half-precision, no CUDA extensions inside the model: see `half_precision`
        self._config = self._model.colbert_config
        self._tokenizer: Any = self._model.raw_tokenizer
        ids = self._tokenizer.convert_tokens_to_ids
        self._query_mark, self._passage_mark = ids(self._config.query_token_id), ids(self._config.doc_token_id)
        if not self._config.mask_punctuation:
            self._model.skiplist = {}
        self.dim: int = self._config.dim
        self.vocabulary: int = len(self._tokenizer)
        self.begin_token: int = self._tokenizer.cls_token_id

    def token_ids(self, texts: Sequence[str]) -> list[list[int]]:
        """Token ids of passages, truncated, with the marks of their beginning and end."""
        if not texts:
            return []
        encoded = self._tokenizer(list(texts), truncation=True, max_length=self._config.doc_maxlen - 1)["input_ids"]
        return [[ids[0], self._passage_mark, *ids[1:]] for ids in encoded]

    def encode_passages(self, texts: Sequence[str]) -> tuple[npt.NDArray[np.float16], npt.NDArray[np.int32]]:
        """Encode passages, punctuation left out where the checkpoint says so.

        Returns:
            Unit vectors [tokens, dim], one passage after another, and the number of tokens of each passage [texts].
        """
        import torch

        rows = self.token_ids(texts)
        capacity = _TOKENS_PER_BATCH.get(self.device.split(":")[0], _TOKENS_PER_BATCH["cuda"])
        encoded: list[npt.NDArray[np.float16]] = [np.empty((0, self.dim), np.float16)] * len(rows)
        for batch, width in batches_of_one_width([len(row) for row in rows], capacity):
            ids = torch.full((len(batch), width), self._tokenizer.pad_token_id, dtype=torch.long)
            attention = torch.zeros_like(ids)
            for row, i in enumerate(batch):
                ids[row, : len(rows[i])] = torch.tensor(rows[i])
                attention[row, : len(rows[i])] = 1
            with self._lock, torch.inference_mode(), half_precision(self.device):
                vectors, mask = self._model.doc(ids, attention, keep_dims="return_mask")
                vectors, mask = vectors.half().cpu().numpy(), mask.squeeze(-1).cpu().numpy()
            for row, i in enumerate(batch):
                encoded[i] = vectors[row][mask[row]]
        lengths = np.array([len(vectors) for vectors in encoded], dtype=np.int32)
        return np.concatenate([np.empty((0, self.dim), np.float16), *encoded]), lengths

    def encode_query(self, query: str) -> npt.NDArray[np.float32]:
        """Encode a query; the latest 2,048 are remembered.

        Returns:
            [tokens, dim], at most 256 tokens: unit vectors, multiplied by the weights of their tokens where the
            checkpoint has such weights. A query shorter than the checkpoint's `query_maxlen` is filled up with
            [MASK], unless the checkpoint says that it was not trained for that.
        """
        with self._lock:
            if query in self._queries:
                self._queries.move_to_end(query)
                return self._queries[query]
            vectors = self._encode_query(query)
            self._queries[query] = vectors
            if len(self._queries) > _KEPT_QUERIES:
                self._queries.popitem(last=False)
            return vectors

    def _encode_query(self, query: str) -> npt.NDArray[np.float32]:
        import torch

        ids = self._tokenizer(query, truncation=True, max_length=_LONGEST_QUERY - 1)["input_ids"]
        ids = [ids[0], self._query_mark, *ids[1:]]
        attention = [1] * len(ids)
        if self.settings.get("query_expansion", True):
            missing = max(0, self._config.query_maxlen - len(ids))
            ids += [self._tokenizer.mask_token_id] * missing
            attention += [int(self._config.attend_to_mask_tokens)] * missing
        with torch.inference_mode():
            vectors = self._model.query(torch.tensor([ids]), torch.tensor([attention]))[0]
        vectors = vectors.float().cpu().numpy()
        if self._token_weights is not None:
            vectors = vectors * self._token_weights[ids][:, None]
        vectors.setflags(write=False)
        return vectors
