"""A program as tools of MCP clients: `ask` and `search`, over standard input and output."""

from __future__ import annotations

import asyncio
from typing import Annotated, Any

import dspy
from pydantic import Field

from knowgap.errors import KnowgapError, MissingDependency
from knowgap.programs.base import Program
from knowgap.service.answering import Answering
from knowgap.service.requests import Problem
from knowgap.service.searching import find, record_of
from knowgap.version import __version__

try:
    from mcp.server import MCPServer
    from mcp.server.mcpserver.exceptions import ToolError
except ImportError as error:
    raise MissingDependency(f"{error.name} is not installed; `pip install 'knowgap[mcp,serve]'`") from error


def make_server(program: Program, lm: dspy.BaseLM) -> MCPServer[Any]:
    """Make the server with its tools; `run` serves them. A program that retrieves nothing has no `search`."""
    server = MCPServer[Any]("knowgap", version=__version__, log_level="ERROR")
    answering = Answering(program, lm)
    answering.warm_up()

    @server.tool()
    async def ask(question: Annotated[str, Field(description="A question in natural language.")]) -> dict[str, Any]:
        """Answer a question from the indexed documents.

        `cited_answer` is the answer with `[1]` behind each statement that a source supports; `sources` has their files,
        pages and sentences. A statement without a number is supported by none. If `supported` is false, the
        documents do not say it: `missing` is what they lack, `guess` is only a guess, and `nearest` are no sources.
        """
        try:
            return await answering.answer(question, asyncio.Event().wait)
        except Exception as error:
            raise ToolError(Problem.of(error).message) from error

    retriever = program.retriever
    if retriever is not None:

        @server.tool()
        async def search(
            query: Annotated[str, Field(description="What to look for.", max_length=32_768)],
            k: Annotated[int, Field(description="How many passages.", ge=1, le=100)] = 5,
        ) -> dict[str, Any]:
            """Find the passages of the indexed documents that fit a query best."""
            try:
                [hits] = await asyncio.to_thread(find, retriever, [query], k)
            except KnowgapError as error:
                raise ToolError(str(error)) from error
            return {"query": query, "hits": [record_of(*hit) for hit in hits]}

    return server
