"""Finding models in a folder of this machine, or on the Hugging Face hub under a name that the user has given.

A folder is never looked up on the hub, and no code that comes with a model is run. A name that is read from a file,
such as the checkpoint of an index, is looked up only if the user has allowed it; see `is_allowed`.
"""

from __future__ import annotations

import json
import os
import pickle
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from knowgap.errors import CheckpointError, shorten
from knowgap.retrieval.colbert.stock_runtime import quiet_transformers

_TIMEOUT = 2.0  # seconds

_OWN_MODULES = ("sentence_transformers.", "pylate.models.Dense.")  # those that sentence-transformers has

CHECKPOINTS = {
    "answerdotai/answerai-colbert-small-v1": "English, 33 million parameters, 96 numbers a token; Apache 2.0",
    "colbert-ir/colbertv2.0": "English, 110 million parameters, 128 numbers a token; MIT",
    "lightonai/GTE-ModernColBERT-v1": "English, 149 million parameters, 128 numbers a token; Apache 2.0",
}
"""ColBERT checkpoints on the hub that are trained for retrieval and that `ColBERTIndex` takes, the smallest first."""


def local_path(name: str | Path) -> Path | None:
    """The absolute path of a model's folder; None if there is no such folder."""
    path = Path(os.path.expanduser(name))
    return path.resolve() if path.exists() else None


def model_source(name: str | Path) -> tuple[str, dict[str, Any]]:
    """The source and the arguments with which Transformers or sentence-transformers load a model that the user named.

    Returns:
        The absolute path of the folder, or the name; and the arguments for `from_pretrained`. They forbid running the
        model's code. They also forbid using the network if the model is a folder or the hub does not answer; a model
        with a hub name then has to be in the hub's cache.

    Raises:
        CheckpointError: there is no such folder, and the name is not a valid hub name.
    """
    path = local_path(name)
    if path is None and not is_hub_name(str(name)):
        raise CheckpointError(f"{name}: no such folder, and not a hub name like org/model")
    local = path is not None or not _hub_answers()  # otherwise an unreachable hub is retried for minutes
    return str(path or name), {"local_files_only": local, "trust_remote_code": False}


def is_hub_name(name: str) -> bool:
    """Whether a string is a valid hub name."""
    from huggingface_hub.errors import HFValidationError
    from huggingface_hub.utils import validate_repo_id

    try:
        validate_repo_id(name)
    except HFValidationError:
        return False
    return True


def _hub_answers() -> bool:
    """Whether the front page of the Hugging Face hub, or of the mirror in HF_ENDPOINT, answers with any status.

    False under HF_HUB_OFFLINE=1.
    """
    import httpx
    from huggingface_hub import constants

    if constants.HF_HUB_OFFLINE:
        return False
    try:
        httpx.head(constants.ENDPOINT, timeout=_TIMEOUT, follow_redirects=True)
    except (httpx.HTTPError, httpx.InvalidURL):
        return False
    return True


def is_allowed(name: str, allow_hub: Collection[str]) -> bool:
    """Whether the user has allowed a hub name; `allow_hub` may be a single name."""
    return name in ([allow_hub] if isinstance(allow_hub, str) else allow_hub)


def not_allowed(name: str, place: str | Path) -> CheckpointError:
    """The error for a model on the hub that the file or folder `place` names and the user has not allowed."""
    name = shorten(name, 100)
    return CheckpointError(
        f"{place} names the model {name!r}, which is not a folder on this machine: set KNOWGAP_ALLOW_HUB={name} to "
        "fetch it from the Hugging Face hub (in Python, the argument allow_hub)"
    )


@contextmanager
def loading_model(model: str | Path) -> Iterator[tuple[str, dict[str, Any]]]:
    """Load a model of Transformers or sentence-transformers without its progress bars and reports.

    Yields what `model_source` returns for the folder or hub name that the user has given.

    Raises:
        CheckpointError: it cannot be loaded, for whatever reason.
    """
    source, arguments = model_source(model)
    with quiet_transformers():
        try:
            yield source, arguments
        except CheckpointError:
            raise
        except Exception as error:  # a damaged or foreign folder leads to errors of any type
            reason = why_not_loaded(error, source)
            message = f"{model}: cannot be loaded ({reason}); give a model folder, or a hub name like org/model"
            raise CheckpointError(message) from error


def why_not_loaded(error: Exception, source: str) -> str:
    """One line that says why loading the model from `source`, a folder or hub name, raised `error`."""
    if isinstance(error, pickle.UnpicklingError):
        return "its weights are damaged, or a pickle that could run code; use safetensors files instead"
    adapter = Path(source) / "adapter_config.json"
    if adapter.is_file():
        try:
            base = str(json.loads(adapter.read_text(encoding="utf-8"))["base_model_name_or_path"])
        except (OSError, ValueError, KeyError, TypeError) as damage:
            return f"{adapter.name} is damaged: {shorten(damage, 100)}"
        if not local_path(base):
            return f"an adapter of the model {shorten(base, 100)!r}, which is not on this machine; merge the two"
    return shorten(next(iter(str(error).strip().splitlines()), type(error).__name__), 300)


def refuse_code(folder: Path) -> None:
    """Raise `CheckpointError` if a JSON file in a folder is unreadable, or asks to run code that is not installed."""
    for file in sorted(folder.glob("*.json")):
        try:
            settings = json.loads(file.read_text(encoding="utf-8"))
        except (OSError, ValueError) as error:
            raise CheckpointError(f"{file}: cannot be read ({shorten(error, 100)})") from error
        modules = settings if file.name == "modules.json" and isinstance(settings, list) else []
        kinds = [str(module.get("type")) for module in modules if isinstance(module, dict)]
        foreign = [kind for kind in kinds if not kind.startswith(_OWN_MODULES)]
        if foreign or (isinstance(settings, dict) and "auto_map" in settings):
            raise CheckpointError(f"{folder}: its {file.name} asks to run code from the checkpoint; refused")
