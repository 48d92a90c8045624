"""Finding the folder of a checkpoint, and telling one from another."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

from knowgap.errors import CheckpointError
from knowgap.retrieval.hub import is_hub_name, local_path, not_allowed
from knowgap.storage.files import file_digest

_FILES = ("*.safetensors", "*.json", "*.txt", "*.model", "artifact.metadata", "*.npy")
_TORCH_FILES = ("*.bin",)


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
        folder = Path(snapshot_download(text, allow_patterns=list(_FILES), local_files_only=offline))
        if not offline and not any(folder.rglob("*.safetensors")):  # older models have torch weights only
            folder = Path(snapshot_download(text, allow_patterns=[*_FILES, *_TORCH_FILES]))
        return folder
    except (HfHubHTTPError, HFValidationError, LocalEntryNotFoundError, OSError) as error:
        if named_by is not None:
            raise not_allowed(text, named_by) from error
        reason = next(iter(str(error).strip().splitlines()), type(error).__name__)
        raise CheckpointError(
            f"{text}: not a folder, and cannot be fetched from the hub ({reason}); give the path of a "
            "downloaded checkpoint"
        ) from error


def checkpoint_digest(folder: str | Path) -> str:
    """The SHA-256 of the names and contents of a checkpoint's files."""
    folder = Path(folder)
    paths = {path for pattern in (*_FILES, *_TORCH_FILES) for path in folder.rglob(pattern)}
    names = sorted(path.relative_to(folder).as_posix() for path in paths)
    entries: list[Any] = [(name, file_digest(folder / name)) for name in names]
    return hashlib.sha256(json.dumps(entries).encode()).hexdigest()
