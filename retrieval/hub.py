"""Where models come from: a folder of this machine, or the Hugging Face hub under a name that the user has given.

A folder is never looked up on the hub, and no code that comes with a model is run. A name that stands in somebody's
folder, such as the checkpoint of an index, is looked up only if the user has allowed it; see `check_allowed`.
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

CHECKPOINTS = {
    "answerdotai/answerai-colbert-small-v1": "English, 33 million parameters, 96 numbers a token; Apache 2.0",
    "colbert-ir/colbertv2.0": "English, 110 million parameters, 128 numbers a token; MIT",
    "lightonai/GTE-ModernColBERT-v1": "English, 149 million parameters, 128 numbers a token; Apache 2.0",
}
"""ColBERT checkpoints on the hub that are trained for retrieval and that `ColBERTIndex` takes, the smallest first."""


def local_path(name: str | Path) -> Path | None:
    """The absolute path of a model's folder; None if there is no such folder, and the name can be one of the hub."""
    path = Path(os.path.expanduser(name))
    return path.resolve() if path.exists() else None


def model_source(name: str | Path) -> tuple[str, dict[str, Any]]:
    """Where Transformers and sentence-transformers load a model that the user has named, and with which arguments.

    Args:
        name: a folder, or a name on the hub.

    Returns:
        The absolute path of the folder, or the name; and arguments of `from_pretrained`: a folder is read without the
        network, and so is a name where no hub answers, which then has to be in the hub's cache; no code of a model is
        run.

    Raises:
        CheckpointError: there is no such folder, and the name cannot be one of the hub.
    """
    path = local_path(name)
    if path is None and not is_hub_name(str(name)):
        raise CheckpointError(f"{name}: no such folder, and not a hub name like org/model")
    local = path is not None or _hub_status() is None  # without it, a hub that is not there is asked for minutes
    return str(path or name), {"local_files_only": local, "trust_remote_code": False}


def is_hub_name(name: str) -> bool:
    """Whether a text has the form of a name on the hub."""
    from huggingface_hub.errors import HFValidationError
    from huggingface_hub.utils import validate_repo_id

    try:
        validate_repo_id(name)
    except HFValidationError:
        return False
    return True


def hub_reachable() -> bool:
    """Whether the Hugging Face hub, or the mirror in HF_ENDPOINT, answers; never asked under HF_HUB_OFFLINE=1."""
    status = _hub_status()
    return status is not None and status < 400


def _hub_status() -> int | None:
    """The HTTP status of the hub's front page; None if nothing answers, or nothing may be asked."""
    import httpx
    from huggingface_hub import constants

    if constants.HF_HUB_OFFLINE:
        return None
    try:
        return httpx.head(constants.ENDPOINT, timeout=_TIMEOUT, follow_redirects=True).status_code
    except (httpx.HTTPError, httpx.InvalidURL):
        return None


def better_checkpoint(options: str) -> str:
    """What is better than the embedded checkpoint, in a line; empty where the hub does not answer.

    `options` is how a command names it, with `NAME` for its name.
    """
    if not hub_reachable():
        return ""
    how = options.replace("NAME", next(iter(CHECKPOINTS)))
    return (
        "encoded with the embedded checkpoint, which is not trained for retrieval; one that is usually finds more: "
        f"{how} (others: `knowgap ls checkpoints`)"
    )


def check_allowed(name: str, place: str | Path, allow_hub: Collection[str]) -> None:
    """Refuse a model on the hub that a file or folder, the `place`, names, unless the user has allowed it.

    Raises:
        CheckpointError: it is on the hub, and was not allowed.
    """
    if local_path(name) is None and is_hub_name(name) and not is_allowed(name, allow_hub):
        raise not_allowed(name, place)


def is_allowed(name: str, allow_hub: Collection[str]) -> bool:
    """Whether the user has allowed a name on the hub; a text stands for one name."""
    return name in ([allow_hub] if isinstance(allow_hub, str) else allow_hub)


def not_allowed(name: str, place: str | Path) -> CheckpointError:
    """The error for a model that a file or folder names, which the user has not allowed to be fetched."""
    name = shorten(name, 100)
    return CheckpointError(
        f"{place} names the model {name!r}, which is no folder of this machine: --allow-hub {name} lets it be fetched "
        "from the Hugging Face hub (in Python, the argument allow_hub)"
    )


@contextmanager
def loading_model(model: str | Path) -> Iterator[tuple[str, dict[str, Any]]]:
    """Load a model of Transformers or sentence-transformers without its progress bars and reports.

    Args:
        model: a folder or hub name that the user has given.

    Yields:
        What `model_source` returns.

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
    """Why the model in a folder or with a hub name cannot be loaded, in one line; loading it has raised `error`."""
    if isinstance(error, pickle.UnpicklingError):
        return "its weights are damaged, or a pickle that could run code; safetensors files cannot"
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
    """Raise `CheckpointError` if a file of settings in a folder asks to run code that comes with the model."""
    for file in sorted(folder.glob("*.json")):
        try:
            settings = json.loads(file.read_text(encoding="utf-8"))
        except (OSError, ValueError) as error:
            raise CheckpointError(f"{file}: cannot be read ({shorten(error, 100)})") from error
        if isinstance(settings, dict) and "auto_map" in settings:
            raise CheckpointError(f"{folder}: its {file.name} asks to run code from the checkpoint; refused")
