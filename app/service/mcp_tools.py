"""A program as tools of MCP clients: `ask` and `search`, over standard input and output."""

from __future__ import annotations

import asyncio
from typing import Annotated, Any

import dspy
from pydantic import Field

from knowgap.errors import MissingDependency, UsageError
from knowgap.programs.base import Program
from knowgap.programs.sources import AnswerSource
from knowgap.retrieval.documents.sources import DocumentFilter, places_of
from knowgap.retrieval.passage import Retriever
from knowgap.retrieval.searching import only_documents, search_all
from knowgap.service.answering import Answering, last_of
from knowgap.service.requests import Problem
from knowgap.service.searching import Day, Patterns
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

_Files = Annotated[Patterns, Field(description="Only these files, folders and patterns of files; all if it is empty.")]
_Since = Annotated[Day, Field(description="Only documents changed on this day or later, as 2026-01-31.")]


def run_tools(program: Program, lm: dspy.BaseLM) -> None:
    """Serve the tools until the client closes standard input."""
    anyio.run(_run, make_server(program, lm))


async def _run(server: MCPServer[Any]) -> None:
    """Run a server over standard input and output; unlike its own `run`, reply to lines that are not messages."""
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


class _Server(MCPServer[Any]):
    """A server that refuses arguments that its tools do not have; its base class ignores them."""

    async def call_tool(self, name: str, arguments: dict[str, Any], context: Any = None) -> Any:
        known = {tool.name: list(tool.input_schema["properties"]) for tool in await self.list_tools()}
        if unknown := sorted(arguments.keys() - known.get(name, arguments)):
            raise ToolError(f"{name} has no argument {unknown[0]!r}; known are {', '.join(known[name])}")
        return await super().call_tool(name, arguments, context)


def make_server(program: Program, lm: dspy.BaseLM) -> MCPServer[Any]:
    """Make the server with its tools. A program that retrieves nothing has no `search`."""
    server = _Server("knowgap", version=__version__, log_level="ERROR")
    answering = Answering(program, lm)

    @server.tool()
    async def ask(
        question: Annotated[str, Field(description="A question in natural language.")],
        files: _Files = (),
        since: _Since = None,
    ) -> dict[str, Any]:
        """Answer a question from the indexed documents.

        `cited_answer` is the answer with `[1]` behind each statement that a source supports; `sources` has their files,
        pages and sentences. A statement without a number is supported by none. If `supported` is false, the
        documents do not say it: `missing` is what they lack, `guess` is only a guess, and `nearest` are no sources.
        """
        try:
            wanted = DocumentFilter(files, since)
            return dict(await last_of(answering.answer(question, asyncio.Event().wait, documents=wanted)))
        except Problem as problem:
            raise ToolError(problem.message) from problem

    retriever = program.retriever
    if retriever is not None:

        @server.tool()
        async def search(
            query: Annotated[str, Field(description="What to look for.", max_length=32_768)],
            k: Annotated[int, Field(description="How many passages.", ge=1, le=100)] = 5,
            files: _Files = (),
            since: _Since = None,
        ) -> dict[str, Any]:
            """Find the passages of the indexed documents that fit a query best."""
            try:
                hits = await asyncio.to_thread(_search, retriever, query, k, DocumentFilter(files, since))
            except UsageError as error:
                raise ToolError(str(error)) from error
            return {"query": query, "hits": hits}

    return server


def _search(retriever: Retriever, query: str, k: int, wanted: DocumentFilter) -> list[dict[str, Any]]:
    """The hits, JSON-ready, with the file of each passage and its position there, if the index has recorded them."""
    with only_documents(retriever, wanted):
        [hits] = search_all(retriever, [query], k)
    places = places_of(retriever, [hit.passage.id for hit in hits])
    records = []
    for hit in hits:
        source = AnswerSource(hit.rank, hit.passage, place=places.get(hit.passage.id)).to_dict()
        place = {name: source[name] for name in ("file", "position") if name in source}
        records.append({"rank": hit.rank, "score": hit.score, **hit.passage.to_dict(), **place})
    return records
