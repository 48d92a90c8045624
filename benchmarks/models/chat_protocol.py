"""What the servers of chat completions share: connections of HTTP/1.1, and the body of a reply."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable
from typing import Any


def completion(model: str, message: dict[str, Any], read: int, written: int, **choice: Any) -> dict[str, Any]:
    """The body of a chat completion.

    Args:
        model: its name.
        message: its fields, beside the role.
        read: tokens of the prompt.
        written: tokens of the reply.
        **choice: further fields of the only choice.
    """
    usage = {"prompt_tokens": read, "completion_tokens": written, "total_tokens": read + written}
    made = {"index": 0, "finish_reason": "stop", "message": {"role": "assistant", **message}, **choice}
    return {"id": "1", "object": "chat.completion", "created": 0, "model": model, "choices": [made], "usage": usage}


async def serve_connection(
    reader: asyncio.StreamReader,
    writer: asyncio.StreamWriter,
    answer: Callable[[str, bytes, asyncio.StreamWriter], Awaitable[bool]],
) -> None:
    """Serve one connection, one request after another; `answer` replies to a head and body, and says if it goes on."""
    try:
        while True:
            head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
            length = re.search(r"(?im)^content-length: *(\d+)", head)
            body = await reader.readexactly(int(length[1])) if length else b""
            if not await answer(head, body, writer):
                break
    except (asyncio.IncompleteReadError, ConnectionError, asyncio.CancelledError):
        pass  # the client or the server has closed
    finally:
        writer.close()
