"""Searches within some documents of an index."""

import httpx
import pytest
from support import scripted_lm

import knowgap
from knowgap.errors import UsageError
from knowgap.programs.baselines.rag import RAG
from knowgap.retrieval.documents.sources import is_named
from knowgap.retrieval.searching import only_documents, search_all
from knowgap.service import Server


@pytest.fixture(scope="module")
def index(tmp_path_factory):
    folder = tmp_path_factory.mktemp("documents")
    for name in ("old/tarn.md", "old/isk.txt", "new/tarn.md"):
        path = folder / "docs" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"The river of Tarn, says {name}.\n", encoding="utf-8")
    return knowgap.build_index(folder / "docs", folder / "index", engine="bm25")


def files(hits):
    return sorted(hit.passage.id.partition("#")[0] for hit in hits)


@pytest.mark.parametrize(
    ("wanted", "found"),
    [
        ((), ["new/tarn.md", "old/isk.txt", "old/tarn.md"]),
        (("old",), ["old/isk.txt", "old/tarn.md"]),
        (("old/",), ["old/isk.txt", "old/tarn.md"]),
        (("./old/isk.txt",), ["old/isk.txt"]),
        (("*.md",), ["new/tarn.md", "old/tarn.md"]),
        (("new/tarn.md", "*.txt"), ["new/tarn.md", "old/isk.txt"]),
    ],
)
def test_only_the_wanted_documents_are_searched(index, wanted, found):
    with only_documents(index, wanted):
        [hits] = search_all(index, ["river of Tarn"], 10)
    assert files(hits) == found
    [hits] = search_all(index, ["river of Tarn"], 10)
    assert len(hits) == 3


def test_a_path_names_its_file_even_if_it_reads_as_a_pattern():
    assert is_named("june/report [final].pdf", ["june/report [final].pdf"])
    assert not is_named("june/report [draft].pdf", ["june/report [final].pdf"])


def test_what_cannot_be_searched_so_is_said(index, tmp_path):
    with pytest.raises(UsageError, match="is none or other"), only_documents(index, ["none", "other"]):
        pass
    plain = knowgap.build_index([knowgap.Passage("a", "A", "A text.")], tmp_path / "plain", engine="bm25")
    with pytest.raises(UsageError, match="no document of the index is a"), only_documents(plain, ["a"]):
        pass


@pytest.mark.parametrize("stream", [False, True])
def test_a_service_answers_from_some_documents(index, stream):
    lm, _ = scripted_lm(lambda *_: {"answer": "the Isk"})
    asked = {"question": "Which river of Tarn?", "files": ["old"]}
    with Server(RAG(index), lm, port=0) as server, httpx.Client(base_url=server.url) as client:
        told = client.post("/v1/ask", json={**asked, "stream": stream}).text
        assert ("old/isk.txt" in told, "new/tarn.md" in told) == (True, False)
        assert "new/tarn.md" in client.post("/v1/ask", json={**asked, "files": []}).text
        found = client.post("/search", json={"query": "river", "files": ["new"]}).json()["topk"]
        assert [record["pid"].partition("#")[0] for record in found] == ["new/tarn.md"]
        assert client.post("/v1/ask", json={**asked, "files": ["none"]}).status_code == 400
        chat = {"model": server.name, "messages": [{"role": "user", "content": "Which river of Tarn?"}]}
        told = client.post("/v1/chat/completions", json={**chat, "stream": stream, "files": ["old"]}).text
        assert ("old/isk.txt" in told, "new/tarn.md" in told) == (True, False)
