"""ColBERT checkpoints: the embedded one, made from MiniLM and the corpus; and those named by path or on the hub.

The embedded checkpoint is not trained as a ColBERT. Instead, two things are fitted to the corpus: a linear projection
of its token vectors onto their principal directions, with the strongest of these damped; and a weight for each token of
a query, higher for tokens that are rarer in the corpus. It is saved in colbert-ai's format, with the token weights in
an additional file.
"""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from knowgap.errors import CheckpointError, ValueOutOfBounds
from knowgap.retrieval.colbert.embedded import (
    EMBEDDED,
    PASSAGE_MARK,
    PASSAGE_TOKENS,
    QUERY_MARK,
    SETTINGS,
    TOKEN_WEIGHTS,
    EmbeddedModel,
    is_embedded,
)
from knowgap.retrieval.colbert.encoder import TokenEncoder, passage_length
from knowgap.retrieval.hub import is_hub_name, loading_model, local_path, not_allowed
from knowgap.retrieval.index.encoding import EncodingState
from knowgap.retrieval.index.manifest import Manifest
from knowgap.retrieval.minilm import MINILM_DIGEST, minilm_folder
from knowgap.retrieval.passage import Passage
from knowgap.retrieval.window import Window, embedded_window, tokenizer_of
from knowgap.storage.files import file_digest, write_json
from knowgap.storage.progress import Progress

WIDTH, PROJECTED, FULL_WIDTH = 384, 128, 20_000
"""Widths of the embedded checkpoint's token vectors up to `FULL_WIDTH` passages, and for more passages."""

_TOKENIZER_FILES = ("tokenizer.json", "tokenizer_config.json", "special_tokens_map.json", "vocab.txt")
_CHECKPOINT_FILES = ("*.safetensors", "*.json", "*.txt", "*.model", "artifact.metadata", TOKEN_WEIGHTS)
_TORCH_FILES = ("*.bin",)
_INSIDE = "checkpoint"  # the folder, inside an index, of the embedded checkpoint
_DAMPING = 0.25
_PASSAGES_FOR_PROJECTION = 400
_PASSAGES_FOR_WEIGHTS = 20_000
_METADATA = {
    "query_maxlen": 64,
    "doc_maxlen": PASSAGE_TOKENS,
    "mask_punctuation": True,
    "attend_to_mask_tokens": False,
    "similarity": "cosine",
    "query_token_id": QUERY_MARK,
    "doc_token_id": PASSAGE_MARK,
    "query_token": "[Q]",
    "doc_token": "[D]",
}


def prepare_checkpoint(
    checkpoint: str | Path | None,
    dim: int | None,
    passages: Sequence[Passage],
    state: EncodingState,
    progress: Progress,
) -> tuple[Path, dict[str, Any]]:
    """The folder of the checkpoint for a build, and its name and digest as a manifest records them.

    If `checkpoint` is None, the embedded checkpoint is fitted to the passages in the folder of the build. The last bits
    of its weights depend on the machine, so the manifest also records what it was fitted to. If the state of the build
    records another checkpoint, encoding starts again.
    """
    folder = state.path.parent / _INSIDE if checkpoint is None else resolve_checkpoint(checkpoint)
    if checkpoint is None and not state.checkpoint:
        progress(0, 1, "fitting the embedded checkpoint")
        write_embedded_checkpoint(passages, folder, dim=dim)
        progress(1, 1, "fitting the embedded checkpoint")
    digest = checkpoint_digest(folder)
    if state.checkpoint != digest:
        state.save(checkpoint=digest, passages=0, tokens=0, cut=0)
    if checkpoint is None:
        return folder, {"name": EMBEDDED, "digest": digest, "fitted": fitted_to(state.job["corpus"])}
    return folder, {"name": str(checkpoint), "digest": digest}


def fitted_to(corpus: str) -> list[str]:
    """The digests of what the embedded checkpoint is made from, which identify it instead of its own digest."""
    return [MINILM_DIGEST, corpus]


def embedded_width(dim: int | None, passages: int) -> int:
    """The width of the embedded checkpoint's token vectors; see `write_embedded_checkpoint`."""
    if dim is None:
        return WIDTH if passages <= FULL_WIDTH else PROJECTED
    if dim % 16 or not 16 <= dim <= WIDTH:
        raise ValueOutOfBounds(f"dim = {dim!r}: the width of a token vector is a multiple of 16 from 16 to {WIDTH}")
    return dim


def load_recorded_encoder(
    path: Path, manifest: Manifest, checkpoint: str | Path | None, device: str | None
) -> TokenEncoder:
    """Load the checkpoint that encoded an index.

    If `checkpoint` is None, it is the one inside the index or the one that the manifest names.

    Raises:
        CheckpointError: it is absent, or not the one that encoded the passages; or the manifest names one on the hub
            that was never downloaded.
    """
    name, digest = manifest.checkpoint["name"], manifest.checkpoint["digest"]
    if checkpoint is None and name == EMBEDDED:
        checkpoint = (path / _INSIDE).absolute()
    folder = resolve_checkpoint(checkpoint) if checkpoint else resolve_checkpoint(name, named_by=path)
    if checkpoint_digest(folder) != digest:
        raise CheckpointError(
            f"{folder}: not the checkpoint that encoded {path} ({name}); give that one, or build the index again"
        )
    return TokenEncoder(folder, device=device)


def write_embedded_checkpoint(passages: Sequence[Passage], folder: str | Path, *, dim: int | None = None) -> None:
    """Fit the embedded checkpoint to an evenly spaced sample of a corpus, and write it to a folder, which is created.

    `dim` is the width of a token vector: a multiple of 16 up to 384. None takes 384, which retrieves best, for up to
    20,000 passages, and 128, as in a trained ColBERT, for more.

    Raises:
        CheckpointError: the MiniLM encoder is absent or altered.
        ValueOutOfBounds: dim is not such a number.
    """
    dim, folder = embedded_width(dim, len(passages)), Path(folder)
    _write(folder, np.eye(WIDTH, dtype=np.float32))
    model = EmbeddedModel(folder, "cpu")
    vectors = model.passages([str(passage) for passage in _spread(passages, _PASSAGES_FOR_PROJECTION)])
    _write(folder, fit_projection(np.concatenate(vectors), dim))
    sample = _spread(passages, _PASSAGES_FOR_WEIGHTS)
    weights = fit_token_weights((model.token_ids([str(passage)])[0] for passage in sample), model.vocabulary)
    weights[model.begin_token] = 1.0  # it represents the whole query, and is in every passage
    np.save(folder / TOKEN_WEIGHTS, weights)
    write_json(folder / SETTINGS, {"encoder": EMBEDDED})


def _spread(passages: Sequence[Passage], limit: int) -> list[Passage]:
    step = max(1, len(passages) // limit)
    return [passages[i] for i in range(0, len(passages), step)][:limit]


def fit_projection(vectors: npt.NDArray[np.floating], dim: int) -> npt.NDArray[np.float32]:
    """The principal directions of token vectors about the origin, each scaled by its eigenvalue to the power -1/4.

    The vectors are [tokens, width], and `dim` directions are kept. The power -1/2 would whiten the vectors. The power
    -1/4 keeps the few directions that all tokens share from dominating every cosine, without amplifying the noise of
    the weak directions.

    Returns:
        The matrix of a linear layer without bias, [dim, width]. If all directions are kept, it is the symmetric one,
        which turns the projection back to the axes of the vectors: the last digits of the vectors hardly change it,
        whereas they decide which are the principal directions of nearly equal strength.
    """
    vectors = np.asarray(vectors, dtype=np.float64)
    values, directions = np.linalg.eigh(vectors.T @ vectors / max(len(vectors), 1))
    values, directions = values[::-1][:dim], directions[:, ::-1][:, :dim]
    # The sign of an eigenvector is arbitrary; it is fixed so that a corpus always gives the same checkpoint.
    directions = directions * np.sign(directions[np.abs(directions).argmax(axis=0), np.arange(dim)])
    scale = (np.maximum(values, 1e-6 * values[0]) / values[0]) ** -_DAMPING
    scaled = directions * scale
    return (scaled @ directions.T if dim == len(directions) else scaled.T).astype(np.float32)


def fit_token_weights(texts: Iterable[Sequence[int]], vocabulary: int) -> npt.NDArray[np.float32]:
    """Inverse document frequencies (Robertson's, as in BM25) of token ids, the highest scaled to 1. [vocabulary]."""
    frequency, count = np.zeros(vocabulary, dtype=np.int64), 0
    for ids in texts:
        frequency[np.unique(ids)] += 1
        count += 1
    weights = np.log1p((count - frequency + 0.5) / (frequency + 0.5))
    return (weights / weights.max()).astype(np.float32)


def _write(folder: Path, projection: npt.NDArray[np.float32]) -> None:
    """Write the MiniLM encoder and a projection [dim, 384] as a checkpoint folder in colbert-ai's format."""
    from safetensors.numpy import load_file, save_file

    source = minilm_folder()
    folder.mkdir(parents=True, exist_ok=True)
    for name in _TOKENIZER_FILES:
        shutil.copyfile(source / name, folder / name)
    config = json.loads((source / "config.json").read_text(encoding="utf-8"))
    config = {key: value for key, value in config.items() if key not in ("_name_or_path", "transformers_version")}
    write_json(folder / "config.json", config | {"architectures": ["HF_ColBERT"]})
    encoder = load_file(source / "model.safetensors")
    tensors = {f"bert.{name}": tensor for name, tensor in encoder.items() if name != "embeddings.position_ids"}
    tensors["linear.weight"] = np.ascontiguousarray(projection)
    save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})
    write_json(folder / "artifact.metadata", _METADATA | {"dim": len(projection), "checkpoint": EMBEDDED})


def resolve_checkpoint(name: str | Path, *, named_by: Path | None = None) -> Path:
    """The folder of a checkpoint, given by its path or hub name; one on the hub is downloaded at its first use.

    If an index names the checkpoint, `named_by`, the network is not used, and one on the hub must have been downloaded
    before.

    Raises:
        CheckpointError: it is neither a folder nor a checkpoint that can be downloaded from the hub.
    """
    if folder := local_path(name):
        return folder
    text, offline = str(name), named_by is not None
    if text.count("/") != 1 or not is_hub_name(text):
        raise CheckpointError(f"{text}: no such checkpoint folder, and not a hub name such as colbert-ir/colbertv2.0")
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import HfHubHTTPError, HFValidationError, LocalEntryNotFoundError

    try:
        folder = Path(snapshot_download(text, allow_patterns=list(_CHECKPOINT_FILES), local_files_only=offline))
        if not offline and not any(folder.rglob("*.safetensors")):  # older models have torch weights only
            folder = Path(snapshot_download(text, allow_patterns=[*_CHECKPOINT_FILES, *_TORCH_FILES]))
        return folder
    except (HfHubHTTPError, HFValidationError, LocalEntryNotFoundError, OSError) as error:
        if named_by is not None:
            raise not_allowed(text, named_by) from error
        reason = next(iter(str(error).strip().splitlines()), type(error).__name__)
        raise CheckpointError(
            f"{text}: not a folder, and cannot be fetched from the hub ({reason}); give the path of a "
            "downloaded checkpoint"
        ) from error


def checkpoint_window(checkpoint: str | Path | None) -> Window:
    """The window of a ColBERT checkpoint by folder or hub name: `doc_maxlen` tokens, including [CLS], [D] and [SEP].

    If `checkpoint` is None, it is the window of the embedded MiniLM encoder.

    Raises:
        CheckpointError: there is no such checkpoint.
    """
    if checkpoint is None:
        return embedded_window()
    folder = resolve_checkpoint(checkpoint)
    size = PASSAGE_TOKENS if is_embedded(folder) else passage_length(folder)
    if (folder / "tokenizer.json").is_file():
        return Window(tokenizer_of(folder), size, 3)
    with loading_model(folder) as (source, arguments):
        from transformers import AutoTokenizer

        return Window(tokenizer_of(AutoTokenizer.from_pretrained(source, **arguments)), size, 3)


def checkpoint_digest(folder: str | Path) -> str:
    """The SHA-256 of the names and contents of a checkpoint's files."""
    folder = Path(folder)
    paths = {path for pattern in (*_CHECKPOINT_FILES, *_TORCH_FILES) for path in folder.rglob(pattern)}
    names = sorted(path.relative_to(folder).as_posix() for path in paths)
    entries: list[Any] = [(name, file_digest(folder / name)) for name in names]
    return hashlib.sha256(json.dumps(entries).encode()).hexdigest()
