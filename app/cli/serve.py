"""Commands that serve a program and its index: serve, mcp."""

from __future__ import annotations

import signal
import sys
from contextlib import nullcontext, suppress
from pathlib import Path
from typing import Annotated, Any

from typer import Argument, Option

from knowgap.cli import factories
from knowgap.cli import options as o
from knowgap.cli.ask import AskOptions, opened
from knowgap.cli.display import line_progress, remark
from knowgap.cli.stopping import EndedAtOnce
from knowgap.errors import UsageError
from knowgap.retrieval.index import NEW_INDEX


@o.grouped
def serve(
    *,
    documents: Annotated[
        Path | None,
        Argument(
            metavar="FOLDER",
            help="A folder of documents: it is indexed, and the index follows it. Else --index.",
            show_default=False,
        ),
    ] = None,
    options: AskOptions,
    engine: o.Engine = None,
    host: Annotated[
        str, Option("--host", help="Address to listen on; the default is this machine only.")
    ] = "127.0.0.1",
    port: Annotated[int, Option("--port", min=0, max=65535, help="Port; 0 takes a free one.")] = 8894,
    key: Annotated[
        str | None,
        Option(
            "--key",
            envvar="KNOWGAP_SERVE_KEY",
            help="What clients have to send, as `Authorization: Bearer KEY`; a --host that others can reach needs one.",
        ),
    ] = None,
    max_questions: Annotated[
        int, Option("--max-questions", min=1, help="Questions answered at the same time; further ones get 429.")
    ] = 32,
    timeout: Annotated[float, Option("--timeout", min=1, help="Seconds within which an answer must come.")] = 300.0,
) -> None:
    """Serve a program and its index over HTTP: a page, a JSON API, OpenAI's chat completions, and searches."""
    from knowgap.service.live_index import LiveIndex
    from knowgap.service.server import Server

    live = None
    if documents is not None:
        if options.folder:
            raise UsageError("a folder is served without --index: leave it out, or the folder")
        told = {"progress": line_progress(documents.name), "say": remark}
        live = LiveIndex(documents, factories.home() / "folders", engine=engine or NEW_INDEX, **told)
    with opened(options, live) as (program, lm):
        signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))  # uvicorn raises the signal again at its end
        if live is not None:
            live.start()
        limits: dict[str, Any] = {"max_questions": max_questions, "deadline": timeout}
        server = Server(program, lm, host=host, port=port, key=key or None, **limits)
        with suppress(KeyboardInterrupt, SystemExit), nullcontext() if live is None else factories.closing(live):
            remark(f"serving {server.name} at {server.url}; stop it with Ctrl-C")
            server.serve_forever()
    raise EndedAtOnce(0)


@o.grouped
def mcp(*, options: AskOptions) -> None:
    """Offer the tools `ask` and `search` to an MCP client, over standard input and output."""
    from knowgap.service.mcp_tools import make_server

    with opened(options) as (program, lm):
        make_server(program, lm).run()
