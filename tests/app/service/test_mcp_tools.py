"""The tools of an MCP client: in memory, and over the command's standard input and output."""

import os
import sys

import anyio
from mcp.client import Client
from mcp.client.stdio import StdioServerParameters

from knowgap.programs.baselines.rag import RAG, Direct
from knowgap.service.mcp_tools import make_server
from tests.app.service.conftest import ISK, OneRiver, answering


def call(server, tool, **arguments):
    async def run():
        async with Client(server) as client:
            tools = [each.name for each in (await client.list_tools()).tools]
            return tools, await client.call_tool(tool, arguments)

    return anyio.run(run)


def test_ask_and_search():
    server = make_server(RAG(OneRiver()), answering())
    tools, result = call(server, "ask", question="Which river flows through Tarn?")
    assert tools == ["ask", "search"]
    assert result.structured_content["answer"] == "the Isk"
    assert result.structured_content["passages"] == [ISK.to_dict()]
    _, result = call(server, "search", query="river", k=3)
    assert result.structured_content["hits"] == [{"rank": 1, "score": 1.0, **ISK.to_dict()}]
    _, result = call(server, "ask", question=" ")
    assert result.is_error
    assert "the question is empty" in result.content[0].text
    assert call(make_server(Direct(), answering()), "ask", question="Why?")[0] == ["ask"]


def test_the_command_speaks_over_standard_input_and_output():
    arguments = ["-m", "knowgap", "mcp", "--program", "rag"]

    async def run():
        async with Client(
            StdioServerParameters(command=sys.executable, args=arguments, env={**os.environ, "KNOWGAP_ENGINE": "bm25"})
        ) as client:
            return await client.call_tool("search", {"query": "river", "k": 2})

    assert len(anyio.run(run).structured_content["hits"]) == 2
