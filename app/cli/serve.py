"""Commands that put a program to work: serve, mcp."""

from __future__ import annotations

import os
import signal
import sys
from contextlib import suppress
from typing import Annotated

from typer import Option

from knowgap.cli import options as o
from knowgap.cli.ask import AskOptions, opened
from knowgap.cli.display import remark
from knowgap.cli.given import grouped
from knowgap.cli.running.stopping import leave_ctrl_c_to_the_server

__all__ = ["COMMANDS", "mcp", "serve"]

KEY_VARIABLE = "KNOWGAP_SERVE_KEY"


@grouped
def serve(
    *,
    options: AskOptions,
    host: o.Host = "127.0.0.1",
    port: Annotated[int, Option("--port", min=0, max=65535, help="Port; 0 takes a free one.")] = 8894,
    max_questions: Annotated[
        int,
        Option(
            "--max-questions", min=1, help="How many questions are answered at the same time; further ones get 429."
        ),
    ] = 32,
    timeout: Annotated[float, Option("--timeout", min=1, help="Seconds within which a question is answered.")] = 300.0,
    grace: Annotated[float, Option("--grace", min=0, help="Seconds that questions in progress get at the end.")] = 60.0,
) -> None:
    """Serve a program over HTTP: a page to ask on, a JSON API, and OpenAI's chat completions, until it is interrupted.

    Clients send the key in KNOWGAP_SERVE_KEY, where it is set, as `Authorization: Bearer KEY`.
    """
    from knowgap.service.server import ProgramServer

    with opened(options) as (program, lm):
        leave_ctrl_c_to_the_server()
        signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))  # what uvicorn hands the signal on to, at the end
        key = os.environ.get(KEY_VARIABLE) or None
        limits = {"max_questions": max_questions, "deadline": timeout, "grace": grace}
        server = ProgramServer(program, lm, host=host, port=port, key=key, **limits)
        if key is None and host not in ("127.0.0.1", "localhost", "::1"):
            remark(f"warning: whoever reaches {host} can ask; set {KEY_VARIABLE} to ask for a key")
        with suppress(KeyboardInterrupt):
            remark(f"serving {server.name} at {server.url}; stop it with Ctrl-C")
            server.serve_forever()


@grouped
def mcp(*, options: AskOptions) -> None:
    """Offer the tools `ask` and `search` to an MCP client, over standard input and output."""
    from knowgap.service.mcp_tools import run_tools

    with opened(options) as (program, lm):
        run_tools(program, lm)


COMMANDS = {"serve": serve, "mcp": mcp}
