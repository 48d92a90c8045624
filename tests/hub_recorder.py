"""A Hugging Face hub that has nothing, and remembers what was asked of it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import httpx
import huggingface_hub
import pytest


@contextmanager
def recorded_hub(*, front_page: int = 404) -> Iterator[list[str]]:
    """Answer requests to the hub with 404, and its front page with a status; yields the URLs that were asked for."""
    asked: list[str] = []

    def answer(request: httpx.Request) -> httpx.Response:
        asked.append(str(request.url))
        status = front_page if request.url.path in ("", "/") else 404
        return httpx.Response(status, headers={"X-Error-Code": "RepoNotFound"})

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", False)
        patch.setattr("httpx.head", lambda url, **_: answer(httpx.Request("HEAD", url)))
        huggingface_hub.set_client_factory(lambda: httpx.Client(transport=httpx.MockTransport(answer)))
        try:
            yield asked
        finally:
            huggingface_hub.set_client_factory(httpx.Client)
