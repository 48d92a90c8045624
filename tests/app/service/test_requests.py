"""Tests which requests the guard of the service lets through."""

from __future__ import annotations

import asyncio

import pytest
from starlette.responses import PlainTextResponse
from starlette.testclient import TestClient
from starlette.types import Message, Receive, Scope, Send

from knowgap.service.requests import Guard


def status(headers: dict[str, str], key: str | None = None) -> int:
    """Ask a guarded application, and return the status of its response."""
    client = TestClient(Guard(PlainTextResponse("in"), key, only_loopback=key is None, most=6))
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


@pytest.mark.parametrize(("key", "places"), [(None, {"/v1/ask": 4, "/healthz": 6}), ("sesame", {"/": 2, "/v1/ask": 4})])
def test_places_are_kept_for_healthz_and_for_clients_with_the_key(key: str | None, places: dict[str, int]):
    """Of six requests under way, four may be of clients with the key, or of all where there is none."""
    taken: list[str] = []
    statuses: list[int] = []

    async def hold(scope: Scope, receive: Receive, send: Send) -> None:
        taken.append(scope["path"])
        await asyncio.Event().wait()

    async def never() -> Message:
        return {"type": "http.disconnect"}

    async def note(message: Message) -> None:
        statuses.append(message.get("status", 0))

    async def fill() -> None:
        guard = Guard(hold, key, only_loopback=False, most=6)
        headers = [(b"authorization", b"Bearer sesame")]
        asked: list[asyncio.Task[None]] = []
        for path, most in places.items():
            sent = headers if path.startswith("/v1") else []
            scope = {"type": "http", "path": path, "headers": sent}
            asked += [asyncio.create_task(guard(scope, never, note)) for _ in range(most + 1)]
            await asyncio.sleep(0.01)
            assert len(taken) == most
        for task in asked:
            task.cancel()
        await asyncio.gather(*asked, return_exceptions=True)

    asyncio.run(fill())
    assert set(statuses) == {503, 0}  # of those without a place, and of those that the end of the server found waiting


def test_a_request_whose_length_is_said_twice_is_refused():
    sent = {"Host": "localhost", "Content-Length": "6", "Transfer-Encoding": "chunked"}
    client = TestClient(Guard(PlainTextResponse("in"), None, only_loopback=True, most=6))
    response = client.post("/v1/ask", headers=sent)
    assert (response.status_code, response.headers["connection"]) == (400, "close")
