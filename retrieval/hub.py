"""Models in a folder of this machine, or on the Hugging Face hub under a name that the user has given.

A folder is never looked up on the hub, and no code that comes with a model is run. A name that is read from a file,
such as the checkpoint of an index, is looked up only if the user has allowed it. The functions at the end say with
which device, precision and threads models compute.
"""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import lru_cache
from pathlib import Path
from typing import Any

from knowgap.errors import CheckpointError, shorten
from knowgap.storage.files import file_digest, json_digest

_LOADING, _LIMITING = threading.RLock(), threading.Lock()
_limits = list[Any]()  # that of the process, once for each block that it holds in
_FILES = ("*.safetensors", "*.json", "*.jinja", "*.txt", "*.model", "artifact.metadata", "*.npy")
_TORCH_FILES = ("*.bin",)

CHECKPOINTS = {
    "answerdotai/answerai-colbert-small-v1": "English, 33 million parameters, 96 numbers a token; Apache 2.0",
    "colbert-ir/colbertv2.0": "English, 110 million parameters, 128 numbers a token; MIT",
    "lightonai/GTE-ModernColBERT-v1": "English, 149 million parameters, 128 numbers a token; Apache 2.0",
}
"""ColBERT checkpoints on the hub that are trained for retrieval and that `ColBERTIndex` takes, the smallest first."""


def model_folder(name: str | Path, *, named_by: Path | None = None) -> Path:
    """The absolute path of a model's folder, given by its path or hub name; one on the hub is downloaded once.

    If an index names the model, `named_by`, the network is used only if the environment variable KNOWGAP_ALLOW_HUB has
    the name among others.

    Raises:
        CheckpointError: there is no such folder, and no such model that can be downloaded from the hub.
    """
    path = Path(os.path.expanduser(name))
    if path.exists():
        return path.resolve()
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import HFValidationError

    text = str(name)
    offline = named_by is not None and text not in os.environ.get("KNOWGAP_ALLOW_HUB", "").split()
    try:
        folder = Path(snapshot_download(text, allow_patterns=list(_FILES), local_files_only=offline))
        if not offline and not any(folder.rglob("*.safetensors")):  # older models have torch weights only
            folder = Path(snapshot_download(text, allow_patterns=[*_FILES, *_TORCH_FILES]))
        return folder
    except (HFValidationError, OSError) as error:
        problem = f"{text}: no such folder, and cannot be fetched from the hub ({shorten(error, 300)})"
        if offline:
            name = shorten(text, 100)
            problem = (
                f"{named_by} names the model {name!r}, which is not a folder on this machine: set "
                f"KNOWGAP_ALLOW_HUB={name} to fetch it from the Hugging Face hub"
            )
        raise CheckpointError(problem) from error


def model_digest(folder: str | Path) -> str:
    """The SHA-256 of the names and contents of a model's files."""
    folder = Path(folder)
    paths = {path for pattern in (*_FILES, *_TORCH_FILES) for path in folder.rglob(pattern)}
    names = sorted(path.relative_to(folder).as_posix() for path in paths)
    return json_digest([(name, file_digest(folder / name)) for name in names])


@contextmanager
def quiet_transformers() -> Iterator[None]:
    """Load a model without progress bars and load reports; one thread at a time."""
    from transformers.utils import logging as transformers_logging

    with _LOADING:
        loggers = [logging.getLogger(name) for name in ("transformers", "sentence_transformers")]
        bars, levels = transformers_logging.is_progress_bar_enabled(), [logger.level for logger in loggers]
        transformers_logging.disable_progress_bar()
        for logger in loggers:
            logger.setLevel(logging.ERROR)
        try:
            yield
        finally:
            for logger, level in zip(loggers, levels, strict=True):
                logger.setLevel(level)
            if bars:
                transformers_logging.enable_progress_bar()


@contextmanager
def loading_model(model: str | Path) -> Iterator[tuple[str, dict[str, Any]]]:
    """Load a model of Transformers or sentence-transformers without its progress bars and reports.

    Yields:
        Its folder, and the arguments for `from_pretrained`, which forbid using the network and running its code.

    Raises:
        CheckpointError: it cannot be loaded, for whatever reason.
    """
    folder = model_folder(model)
    with quiet_transformers():
        try:
            yield str(folder), {"local_files_only": True, "trust_remote_code": False}
        except CheckpointError:
            raise
        except Exception as error:  # a damaged or foreign folder leads to errors of any type
            raise CheckpointError(f"{model}: cannot be loaded ({shorten(error, 300)})") from error


def check_trained(model: str | Path, network: type, report: dict[str, Any]) -> None:
    """Refuse a model without some of the weights of its network, which Transformers fills at random.

    The network is a class of Transformers, and the report what its `from_pretrained` says about loading.

    Raises:
        CheckpointError: weights are missing, or have another shape.
    """
    missing = sorted(map(str, (*report["missing_keys"], *report["mismatched_keys"])))
    if missing:
        raise CheckpointError(
            f"{model}: its checkpoint lacks {len(missing)} of the weights of {network.__name__} ({missing[0]}, …), so "
            "they would be random; give a model that was trained for this use"
        )


@contextmanager
def one_thread() -> Iterator[None]:
    """Multiply matrices of NumPy in one thread in the block; the last of blocks that overlap restores the setting.

    The matrices of a search are small, and searches of several threads run at once; threads of one product would wait
    for each other, on a busy machine ten times as long as the product takes.
    """
    with _LIMITING:
        _limits.append(_limits[0] if _limits else _blas().limit(limits=1, user_api="blas"))
    try:
        yield
    finally:
        with _LIMITING:
            limit = _limits.pop()
            if not _limits:
                limit.restore_original_limits()


@lru_cache(maxsize=1)
def _blas() -> Any:
    from threadpoolctl import ThreadpoolController

    return ThreadpoolController()


def choose_device() -> str:
    """The device as torch names it: a CUDA GPU if there is one that CUDA_VISIBLE_DEVICES allows, otherwise the CPU."""
    import torch

    return "cuda" if torch.cuda.is_available() else "cpu"


def bfloat16_on(device: str) -> bool:
    """Whether a device computes in bfloat16, as language models may."""
    import torch

    if device.startswith("cuda"):
        return torch.cuda.is_bf16_supported()
    return device == "cpu" and torch.ops.mkldnn._is_mkldnn_bf16_supported()


def half_precision(device: str) -> AbstractContextManager[Any]:
    """A context in which torch computes with 16 bits on a GPU, and as usual elsewhere.

    A CPU computes in single precision also where it has bfloat16: the vectors of processors with and without it would
    differ ten thousand times as much as those of two processors in single precision, enough to change ranks.
    """
    import torch

    return torch.autocast("cuda", torch.float16) if device.startswith("cuda") else nullcontext()
