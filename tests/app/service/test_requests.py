"""Tests which requests the guard of the service lets through."""

from __future__ import annotations

import pytest
from starlette.responses import PlainTextResponse
from starlette.testclient import TestClient

from knowgap.service.requests import Guard


def status(headers: dict[str, str], key: str | None = None) -> int:
    """Ask a guarded application, and return the status of its response."""
    client = TestClient(Guard(PlainTextResponse("in"), key))
    return client.get("/v1/models", headers=headers).status_code


@pytest.mark.parametrize("host", ["[::1]", "[::1]:8000", "LOCALHOST", "LocalHost:8000", "127.0.0.1", "127.0.0.1:80"])
def test_a_server_on_loopback_answers_to_every_spelling_of_its_names(host):
    assert status({"Host": host}) == 200


@pytest.mark.parametrize("host", ["evil.example", "evil.example:localhost", "localhost.evil.example", "[::1].evil", ""])
def test_a_server_on_loopback_refuses_other_names(host):
    assert status({"Host": host}) == 403


@pytest.mark.parametrize(
    ("sent", "expected"),
    [("Bearer sesame", 200), ("bearer sesame", 200), ("sesame", 401), ("Basic sesame", 401), ("Bearer", 401)],
)
def test_a_key_counts_only_behind_bearer(sent, expected):
    assert status({"Authorization": sent}, "sesame") == expected
