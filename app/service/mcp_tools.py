"""A program as tools of MCP clients: `ask` and `search`, over standard input and output."""

from __future__ import annotations

import asyncio
from typing import Annotated, Any

import dspy
from pydantic import Field

from knowgap.errors import MissingDependency
from knowgap.programs.base import Program
from knowgap.service.answering import Answering
from knowgap.service.requests import Problem
from knowgap.version import __version__

try:
    from mcp.server import MCPServer
    from mcp.server.mcpserver.exceptions import ToolError
except ImportError as error:
    raise MissingDependency(f"{error.name} is not installed; `pip install 'knowgap[mcp,serve]'`") from error


def run_tools(program: Program, lm: dspy.BaseLM) -> None:
    """Serve the tools until the client closes standard input."""
    make_server(program, lm).run("stdio")


def make_server(program: Program, lm: dspy.BaseLM) -> MCPServer[Any]:
    """Make the server with its tools. A program that retrieves nothing has no `search`."""
    server: MCPServer[Any] = MCPServer("knowgap", version=__version__, log_level="ERROR")
    answering = Answering(program, lm)

    @server.tool()
    async def ask(question: Annotated[str, Field(description="A question in natural language.")]) -> dict[str, Any]:
        """Answer a question from the indexed documents; says which passages support which statement."""
        answer: dict[str, Any] = {}
        try:
            async for item in answering.answer(question, asyncio.Event().wait):
                answer = item
        except Problem as problem:
            raise ToolError(problem.message) from problem
        return dict(answer)

    retriever = program.retriever
    if retriever is not None:

        @server.tool()
        async def search(
            query: Annotated[str, Field(description="What to look for.", max_length=32_768)],
            k: Annotated[int, Field(description="How many passages.", ge=1, le=100)] = 5,
        ) -> dict[str, Any]:
            """Find the passages of the indexed documents that fit a query best."""
            [hits] = await asyncio.to_thread(retriever.search, [query], k)
            records = [{"rank": hit.rank, "score": hit.score, **hit.passage.to_dict()} for hit in hits]
            return {"query": query, "hits": records}

    return server
