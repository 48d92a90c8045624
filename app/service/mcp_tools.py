"""A program as tools of MCP clients: `ask` and `search`, over standard input and output."""

from __future__ import annotations

import asyncio
from typing import Annotated, Any

import dspy
from pydantic import Field

from knowgap.errors import MissingDependency
from knowgap.programs.base import Program
from knowgap.programs.sources import AnswerSource
from knowgap.retrieval.documents.sources import places_of
from knowgap.retrieval.passage import Retriever
from knowgap.service.answering import Answering, last_of
from knowgap.service.requests import Problem
from knowgap.version import __version__

try:
    import anyio
    from mcp.server import MCPServer
    from mcp.server.mcpserver.exceptions import ToolError
    from mcp.server.stdio import stdio_server
    from mcp.shared.message import SessionMessage
    from mcp.types import PARSE_ERROR, ErrorData, JSONRPCError
except ImportError as error:
    raise MissingDependency(f"{error.name} is not installed; `pip install 'knowgap[mcp,serve]'`") from error


def run_tools(program: Program, lm: dspy.BaseLM) -> None:
    """Serve the tools until the client closes standard input."""
    anyio.run(_run, make_server(program, lm))


async def _run(server: MCPServer[Any]) -> None:
    """Run a server over standard input and output; unlike its own `run`, reply to lines that are no message."""
    async with stdio_server() as (incoming, outgoing), anyio.create_task_group() as tasks:
        send, receive = anyio.create_memory_object_stream[Any](0)

        async def pass_on() -> None:
            async with send:
                async for message in incoming:
                    if isinstance(message, Exception):
                        told = ErrorData(code=PARSE_ERROR, message="this line is no message of JSON-RPC")
                        await outgoing.send(SessionMessage(JSONRPCError(jsonrpc="2.0", id=None, error=told)))
                    else:
                        await send.send(message)

        tasks.start_soon(pass_on)
        inner = server._lowlevel_server  # pyright: ignore[reportPrivateUsage]  # no public way to give it streams
        await inner.run(receive, outgoing, inner.create_initialization_options())


def make_server(program: Program, lm: dspy.BaseLM) -> MCPServer[Any]:
    """Make the server with its tools. A program that retrieves nothing has no `search`."""
    server: MCPServer[Any] = MCPServer("knowgap", version=__version__, log_level="ERROR")
    answering = Answering(program, lm)

    @server.tool()
    async def ask(question: Annotated[str, Field(description="A question in natural language.")]) -> dict[str, Any]:
        """Answer a question from the indexed documents.

        `cited_answer` is the answer with `[1]` behind each statement that a source supports; `sources` has their files,
        pages and sentences. A statement without a number is supported by none.
        """
        try:
            return dict(await last_of(answering.answer(question, asyncio.Event().wait)))
        except Problem as problem:
            raise ToolError(problem.message) from problem

    retriever = program.retriever
    if retriever is not None:

        @server.tool()
        async def search(
            query: Annotated[str, Field(description="What to look for.", max_length=32_768)],
            k: Annotated[int, Field(description="How many passages.", ge=1, le=100)] = 5,
        ) -> dict[str, Any]:
            """Find the passages of the indexed documents that fit a query best."""
            return {"query": query, "hits": await asyncio.to_thread(_search, retriever, query, k)}

    return server


def _search(retriever: Retriever, query: str, k: int) -> list[dict[str, Any]]:
    """The hits, JSON-ready, with the file of each passage and its position there, where the index has recorded them."""
    [hits] = retriever.search([query], k)
    places = places_of(retriever, [hit.passage.id for hit in hits])
    records = []
    for hit in hits:
        source = AnswerSource(hit.rank, hit.passage, place=places.get(hit.passage.id)).to_dict()
        place = {name: source[name] for name in ("file", "position") if name in source}
        records.append({"rank": hit.rank, "score": hit.score, **hit.passage.to_dict(), **place})
    return records
