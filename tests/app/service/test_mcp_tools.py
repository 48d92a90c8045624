"""The tools of an MCP client: in memory, and over the command's standard input and output."""

import os
import sys

import anyio
from mcp.client import Client
from mcp.client.stdio import StdioServerParameters
from support import scripted_lm

import knowgap
from knowgap.programs.baselines.rag import RAG, Direct
from knowgap.service.mcp_tools import make_server
from knowgap.service.searching import list_documents
from tests.app.service.conftest import ISK, OneRiver


def answering(text):
    return scripted_lm(lambda outputs, inputs: {"answer": text})[0]


def call(server, tool, **arguments):
    async def run():
        async with Client(server) as client:
            tools = [each.name for each in (await client.list_tools()).tools]
            return tools, await client.call_tool(tool, arguments)

    return anyio.run(run)


def test_ask_and_search():
    server = make_server(RAG(OneRiver()), answering("the Isk"))
    tools, result = call(server, "ask", question="Which river flows through Tarn?")
    assert tools == ["ask", "search"]
    assert result.structured_content["answer"] == "the Isk"
    assert result.structured_content["passages"] == [ISK.to_dict()]
    _, result = call(server, "search", query="river", k=3)
    assert result.structured_content["hits"] == [{"rank": 1, "score": 1.0, **ISK.to_dict()}]
    _, result = call(server, "ask", question=" ")
    assert result.is_error
    assert "the question is empty" in result.content[0].text
    assert call(make_server(Direct(), answering("x")), "ask", question="Why?")[0] == ["ask"]


def test_the_tools_search_some_files_only(tmp_path):
    folder = tmp_path / "documents"
    folder.mkdir()
    for name, river in (("east.md", "Isk"), ("west.md", "Orle")):
        (folder / name).write_text(f"# {river}\n\nThe river {river} flows through Tarn.\n", encoding="utf-8")
    index = knowgap.build_index(folder, tmp_path / "index", engine="bm25")
    assert [each["name"] for each in list_documents(index)["documents"]] == ["east.md", "west.md"]
    server = make_server(RAG(index), answering("the Orle"))
    for files, titles in (([], {"Isk", "Orle"}), (["west.md"], {"Orle"})):
        _, result = call(server, "search", query="river", files=files)
        assert {hit["title"] for hit in result.structured_content["hits"]} == titles
        _, result = call(server, "ask", question="Which river flows through Tarn?", files=files)
        assert {passage["title"] for passage in result.structured_content["passages"]} == titles
    for tool, asked in (("search", {"query": "river"}), ("ask", {"question": "Which river?"})):
        _, result = call(server, tool, **asked, files=["north.md"])
        assert result.is_error
        assert "no document of the index is" in result.content[0].text


def test_the_command_speaks_over_standard_input_and_output():
    arguments = ["-m", "knowgap", "mcp", "--program", "rag"]

    async def run():
        async with Client(
            StdioServerParameters(command=sys.executable, args=arguments, env={**os.environ, "KNOWGAP_ENGINE": "bm25"})
        ) as client:
            return await client.call_tool("search", {"query": "river", "k": 2})

    assert len(anyio.run(run).structured_content["hits"]) == 2
