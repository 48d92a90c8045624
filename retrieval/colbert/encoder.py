"""A ColBERT checkpoint that encodes texts into one unit vector per token (Khattab and Zaharia 2020).

Passages are encoded in batches of one padded length, and queries one at a time. The vectors of a text therefore do not
depend on the other texts, and a search gives the same scores to the last digit however it is batched.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from safetensors import SafetensorError

from knowgap.errors import CheckpointError, shorten
from knowgap.retrieval.colbert.stock_runtime import colbert
from knowgap.retrieval.device import choose_device, half_precision, padded_batches, two_at_once
from knowgap.retrieval.hub import loading_model, refuse_code
from knowgap.retrieval.lru_cache import LRUCache
from knowgap.retrieval.window import Window, tokenizer_of

SETTINGS = "knowgap.json"
"""The file with knowgap's own settings, which other tools' checkpoints do not have."""

TOKEN_WEIGHTS = "token_weights.npy"
"""The file with the weight of each token's query vector, float32 [vocabulary]; other tools' checkpoints have none."""

_MAX_QUERY_TOKENS = 256
_CACHED_QUERIES = 2048
_TOKENS_PER_BATCH = {"cpu": 2048, "cuda": 32_768}  # on a CPU, as many as fit into its cache


class TokenEncoder:
    """A loaded ColBERT checkpoint.

    Args:
        folder: a checkpoint in colbert-ai's format, with `config.json`, tokenizer files, `artifact.metadata`, and
            `model.safetensors` with the encoder and `linear.weight`; or in PyLate's format, with `modules.json`.
        device: where to compute; None takes a CUDA GPU if there is one.

    Attributes:
        dim: width of a token vector.
        vocabulary: how many token ids there are.
        begin_token: the id of the token at the beginning of every text.
        token_weights: the weights of query vectors, [vocabulary]; None unless the checkpoint has them.

    Raises:
        CheckpointError: the folder is not such a checkpoint, or it asks to run its own code.
    """

    def __init__(self, folder: str | Path, *, device: str | None = None) -> None:
        self.folder, self.device = Path(folder), choose_device(device)
        refuse_code(self.folder)
        settings = self.folder / SETTINGS
        self.settings: dict[str, Any] = json.loads(settings.read_text(encoding="utf-8")) if settings.is_file() else {}
        weights = self.folder / TOKEN_WEIGHTS
        self.token_weights = np.load(weights, allow_pickle=False) if weights.is_file() else None
        self._load()
        self._lock = threading.Lock()  # for the tokenizer
        self._window: Window | None = None
        self._queries: LRUCache[str, npt.NDArray[np.float32]] = LRUCache(_CACHED_QUERIES)

    def _load(self) -> None:
        from knowgap.retrieval.colbert.bert_model import BertColBERT
        from knowgap.retrieval.colbert.packed_weights import pack_linear_layers
        from knowgap.retrieval.colbert.pylate_model import PyLateColBERT

        by_pylate = PyLateColBERT.can_load(self.folder)
        for name in () if by_pylate else ("config.json", "artifact.metadata"):
            if not (self.folder / name).is_file():
                raise CheckpointError(f"{self.folder}: not a ColBERT checkpoint (it has no {name})")
        if by_pylate:
            self._model: Any = PyLateColBERT(self.folder)
        elif BertColBERT.can_load(self.folder):
            try:
                self._model = BertColBERT(self.folder)
            except (OSError, KeyError, ValueError, RuntimeError, SafetensorError) as error:
                raise CheckpointError(f"{self.folder}: cannot be loaded ({shorten(error)})") from error
        else:
            self._model = self._load_with_colbert_ai()
        similarity = self._model.colbert_config.similarity
        if similarity != "cosine":
            raise CheckpointError(f"{self.folder}: trained for the similarity {similarity!r}, not for cosines")
        self._model.to(self.device).float().eval()
        pack_linear_layers(self._model)
        self._model.use_gpu = False  # the model itself must use neither half precision nor CUDA extensions
        self._config = self._model.colbert_config
        self._tokenizer: Any = self._model.raw_tokenizer
        ids = self._tokenizer.convert_tokens_to_ids
        self._query_mark, self._passage_mark = ids(self._config.query_token_id), ids(self._config.doc_token_id)
        if not self._config.mask_punctuation:
            self._model.skiplist = {}
        self.dim: int = self._config.dim
        self.vocabulary: int = len(self._tokenizer)
        self.begin_token: int = self._tokenizer.cls_token_id

    def _load_with_colbert_ai(self) -> Any:
        colbert()
        from colbert.infra.config import ColBERTConfig
        from colbert.modeling.colbert import ColBERT

        with loading_model(self.folder) as (path, _):
            # With its own folder as model name, colbert-ai never looks for the base model on the network.
            return ColBERT(path, ColBERTConfig(checkpoint=path, model_name=path))

    @property
    def window(self) -> Window:
        """How much of a passage is encoded."""
        if self._window is None:
            self._window = Window(tokenizer_of(self._tokenizer), self._config.doc_maxlen, 3)
        return self._window

    def token_ids(self, texts: Sequence[str]) -> list[list[int]]:
        """Token ids of passages, truncated, with [CLS], the passage mark and [SEP]."""
        if not texts:
            return []
        with self._lock:
            tokens = self._tokenizer(list(texts), truncation=True, max_length=self._config.doc_maxlen - 1)["input_ids"]
        return [[ids[0], self._passage_mark, *ids[1:]] for ids in tokens]

    def encode_passages(self, texts: Sequence[str]) -> tuple[npt.NDArray[np.float32], npt.NDArray[np.int32]]:
        """Encode passages, without their punctuation if the checkpoint says so.

        Returns:
            Unit vectors [tokens, dim], one passage after another, and the number of tokens of each passage [texts].
        """
        import torch

        tokens = self.token_ids(texts)
        capacity = _TOKENS_PER_BATCH.get(self.device.split(":")[0], _TOKENS_PER_BATCH["cuda"])
        encoded: list[npt.NDArray[np.float32]] = [np.empty((0, self.dim), np.float32)] * len(tokens)

        def encode(
            batch: tuple[list[int], Any, Any],
        ) -> tuple[list[int], npt.NDArray[np.float32], npt.NDArray[np.bool_]]:
            numbers, ids, attention = batch
            with torch.inference_mode(), half_precision(self.device):
                vectors, mask = self._model.doc(ids, attention, keep_dims="return_mask")
                return numbers, vectors.float().cpu().numpy(), mask.squeeze(-1).cpu().numpy()

        batches = list(padded_batches(tokens, capacity, self._tokenizer.pad_token_id))
        for numbers, vectors, mask in two_at_once(encode, batches):
            for i, of_passage, kept in zip(numbers, vectors, mask, strict=True):
                encoded[i] = of_passage[kept]
        lengths = np.array([len(vectors) for vectors in encoded], dtype=np.int32)
        return np.concatenate([np.empty((0, self.dim), np.float32), *encoded]), lengths

    def encode_query(self, query: str) -> npt.NDArray[np.float32]:
        """Encode a query; the latest 2,048 are cached.

        Returns:
            Unit vectors of at most 256 tokens, [tokens, dim], multiplied by the token weights if the checkpoint has
            them. A query shorter than the checkpoint's `query_maxlen` is padded with [MASK], unless the checkpoint's
            settings turn query expansion off.
        """
        return self._queries.get([query], lambda _: [self._encode_query(query)])[0]

    def _encode_query(self, query: str) -> npt.NDArray[np.float32]:
        import torch

        with self._lock:
            ids = self._tokenizer(query, truncation=True, max_length=_MAX_QUERY_TOKENS - 1)["input_ids"]
        ids = [ids[0], self._query_mark, *ids[1:]]
        attention = [1] * len(ids)
        if self.settings.get("query_expansion", True):
            missing = max(0, self._config.query_maxlen - len(ids))
            ids += [self._tokenizer.mask_token_id] * missing
            attention += [int(self._config.attend_to_mask_tokens)] * missing
        with torch.inference_mode():
            vectors = self._model.query(torch.tensor([ids]), torch.tensor([attention]))[0]
        vectors = vectors.float().cpu().numpy()
        if self.token_weights is not None:
            vectors = vectors * self.token_weights[ids][:, None]
        vectors.setflags(write=False)
        return vectors
