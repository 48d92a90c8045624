"""A Hugging Face hub that has nothing, and remembers what was asked of it."""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import huggingface_hub
import pytest


@contextmanager
def recorded_hub() -> Iterator[list[str]]:
    """Answer requests to the hub with 404; yields the URLs that were asked for."""
    asked: list[str] = []
    theirs: Any = importlib.import_module(type(huggingface_hub.get_session()).__module__.partition(".")[0])

    def answer(request: Any) -> Any:
        asked.append(str(request.url))
        return theirs.Response(404, headers={"X-Error-Code": "RepoNotFound"})

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", False)
        huggingface_hub.set_client_factory(lambda: theirs.Client(transport=theirs.MockTransport(answer)))
        try:
            yield asked
        finally:
            huggingface_hub.set_client_factory(theirs.Client)
