"""Imports colbert-ai without its side effects.

Importing colbert 0.2.22 needs a `git` program, makes "spawn" the start method of the whole process, and changes the
environment; its model classes fail with transformers 5; loading a model compiles C++ that encoding never calls. This
module, and no other, corrects all of that.
"""

from __future__ import annotations

import logging
import multiprocessing
import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import lru_cache
from types import ModuleType
from typing import Any

_LOADING = threading.RLock()


@contextmanager
def quiet_transformers() -> Iterator[None]:
    """Load a model without progress bars and load reports; one thread at a time."""
    from transformers.utils import logging as transformers_logging

    with _LOADING:
        bars, level = transformers_logging.is_progress_bar_enabled(), transformers_logging.get_verbosity()
        sentence_transformers = logging.getLogger("sentence_transformers")
        sentence_level = sentence_transformers.level
        sentence_transformers.setLevel(logging.ERROR)
        transformers_logging.disable_progress_bar()
        transformers_logging.set_verbosity(logging.ERROR)
        try:
            yield
        finally:
            sentence_transformers.setLevel(sentence_level)
            transformers_logging.set_verbosity(level)
            if bars:
                transformers_logging.enable_progress_bar()


def _for_transformers_5(class_factory: Callable[[str], type]) -> Callable[[str], type]:
    """Wrap colbert's factory of model classes so that two attributes have the types that transformers 5 expects."""

    def corrected(name_or_path: str) -> type:
        model: Any = class_factory(name_or_path)
        model._keys_to_ignore_on_load_unexpected = set(model._keys_to_ignore_on_load_unexpected)
        model.all_tied_weights_keys = {}
        return model

    return corrected


@lru_cache(maxsize=1)
def colbert() -> ModuleType:
    """The `colbert` package, imported and corrected once."""
    with _LOADING:
        kept = {name: os.environ.get(name) for name in ("TOKENIZERS_PARALLELISM", "GIT_PYTHON_REFRESH")}
        start_method = multiprocessing.get_start_method(allow_none=True)
        os.environ["GIT_PYTHON_REFRESH"] = "quiet"
        # Nothing is compiled, so the warning about a CUDA toolkit without a GPU does not apply.
        logging.getLogger("torch.utils.cpp_extension").setLevel(logging.ERROR)
        try:
            import colbert
            from colbert.modeling import base_colbert, hf_colbert
            from colbert.modeling.colbert import ColBERT
            from colbert.modeling.tokenization import doc_tokenization, query_tokenization
        finally:
            multiprocessing.set_start_method(start_method, force=True)
            for name, value in kept.items():
                if value is None:
                    os.environ.pop(name, None)
                else:
                    os.environ[name] = value
        factory = _for_transformers_5(hf_colbert.class_factory)
        base: Any = base_colbert
        base.DEVICE = "cpu"  # otherwise every model goes to the first GPU
        modules: list[Any] = [hf_colbert, base, doc_tokenization, query_tokenization]
        for module in modules:
            module.class_factory = factory
        ColBERT.loaded_extensions = True  # pyright: ignore[reportAttributeAccessIssue]  # or it compiles C++
        return colbert
