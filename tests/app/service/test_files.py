"""Files that visitors may open: those of the index, and no others."""

import pytest

import knowgap
from knowgap.errors import UsageError
from knowgap.programs.baselines.rag import RAG
from tests.app.service.conftest import asking


@pytest.fixture(scope="module")
def service(tmp_path_factory):
    folder = tmp_path_factory.mktemp("documents")
    (folder / "docs" / "in").mkdir(parents=True)
    (folder / "docs" / "in" / "a b.md").write_text("# Tarn\n\nThe Isk flows through Tarn.\n", encoding="utf-8")
    page = "<title>Orle</title><script>alert(1)</script><p>Ada Venn designed the Orle Bridge in 1931.</p>"
    (folder / "docs" / "orle.html").write_text(page, encoding="utf-8")
    (folder / "secret.txt").write_text("a secret", encoding="utf-8")
    index = knowgap.build_index(folder / "docs", folder / "index", engine="bm25")
    (folder / "docs" / "late.txt").write_text("came later", encoding="utf-8")
    (folder / "docs" / "link.md").symlink_to(folder / "secret.txt")
    with asking(RAG(index, style="sentence"), "The Isk flows through Tarn.", show_files=True) as client:
        yield client


def test_a_source_has_a_link_that_opens_its_file(service):
    answer = service.post("/v1/ask", json={"question": "Which river flows through Tarn?"}).json()
    assert answer["cited_answer"] == "The Isk flows through Tarn [1]."
    source = answer["sources"][0]
    assert (source["file"], source["link"]) == ("in/a b.md", "files/in/a%20b.md")
    opened = service.get(f"/{source['link']}")
    assert (opened.status_code, opened.headers["content-type"]) == (200, "text/plain; charset=utf-8")
    assert "The Isk" in opened.text
    asked = {"model": "knowgap/rag", "messages": [{"role": "user", "content": "Which river flows through Tarn?"}]}
    message = service.post("/v1/chat/completions", json=asked).json()["choices"][0]["message"]
    cited = message["annotations"][0]["url_citation"]
    assert cited["url"] == f"{str(service.base_url).rstrip('/')}/files/in/a%20b.md"
    assert (cited["title"], cited["content"]) == ("Tarn (in/a b.md)", "The Isk flows through Tarn.")


def test_documents_are_listed_with_what_was_left_out(service):
    told = service.get("/documents").json()
    assert [each["name"] for each in told["documents"]] == ["in/a b.md", "orle.html"]
    assert all(each["passages"] == 1 and not each["left_out"] for each in told["documents"])


def test_a_page_cannot_run_its_scripts(service):
    opened = service.get("/files/orle.html")
    assert opened.headers["content-security-policy"].startswith("sandbox; default-src 'none'")
    assert opened.headers["x-content-type-options"] == "nosniff"


@pytest.mark.parametrize(
    "name", ["late.txt", "link.md", "%2e%2e/secret.txt", "..%2fsecret.txt", "/etc/passwd", "in", "orle.html%00", "a%00"]
)
def test_no_other_file_is_shown(service, name):
    assert service.get(f"/files/{name}").status_code == 404


def test_an_index_without_files_has_none_to_show(tmp_path):
    index = knowgap.build_index([knowgap.Passage("a", "A", "A text.")], tmp_path / "plain", engine="bm25")
    with pytest.raises(UsageError, match="there are no files to show"), asking(RAG(index), show_files=True):
        pass


def test_an_index_of_one_document_shows_it_alone(tmp_path):
    (tmp_path / "tarn.md").write_text("# Tarn\n\nThe Isk flows through Tarn.\n", encoding="utf-8")
    (tmp_path / "secret.txt").write_text("a secret", encoding="utf-8")
    index = knowgap.build_index(tmp_path / "tarn.md", tmp_path / "index", engine="bm25")
    with asking(RAG(index), show_files=True) as client:
        assert "The Isk" in client.get("/files/tarn.md").text
        assert client.get("/files/secret.txt").status_code == 404
    (tmp_path / "tarn.md").unlink()
    with pytest.raises(UsageError, match=r"tarn\.md: what was indexed no longer"), asking(RAG(index), show_files=True):
        pass
