"""Pages of a website as documents, from a server on this machine."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import httpx
import pytest

from knowgap.errors import DataError
from knowgap.retrieval.documents import website
from knowgap.retrieval.documents.website import read_site
from tests.retrieval.http_server import serve

HTML = "text/html; charset=utf-8"


class Server:
    """Answers with `pages`: path → (status, type or location, content); `asked` are the paths that were asked for."""

    def __init__(self) -> None:
        self.pages: dict[str, tuple[int, str, str]] = {}
        self.asked: list[str] = []
        self.url = ""

    def page(self, path: str, content: str, kind: str = HTML, status: int = 200) -> None:
        self.pages[path] = (status, kind, content)

    def answer(self, path: str, body: bytes) -> tuple[int, dict[str, str], bytes]:
        self.asked.append(path)
        status, kind, content = self.pages.get(path, (404, "text/plain", "none"))
        return status, {"Location" if 300 <= status < 400 else "Content-Type": kind}, content.encode()


@pytest.fixture
def server() -> Iterator[Server]:
    served = Server()
    with serve(served.answer) as served.url:
        yield served


def names(site, folder):
    assert all(path.is_file() for path in site.pages.values())
    return sorted(path.relative_to(folder).as_posix().partition("/")[2] for path in site.pages.values())


def test_the_pages_beneath_an_address_are_read_and_robots_are_obeyed(server, tmp_path):
    server.page("/robots.txt", "User-agent: *\nDisallow: /docs/secret\n", "text/plain")
    links = "".join(
        f'<a href="{to}">x</a>'
        for to in ("a.html", "b/", "secret/c.html", "/above.html", "http://elsewhere.example/", "a.html#part", "x.zip")
    )
    server.page("/docs/", f"<html><body>{links}</body></html>")
    server.page("/docs/a.html", "<p>A</p>")
    server.page("/docs/b/", '<a href="../d?n=1">d</a>')
    server.page("/docs/d?n=1", "plain", "text/plain")
    server.page("/docs/x.zip", "zip", "application/zip")
    server.page("/docs/secret/c.html", "secret")
    site = read_site(f"{server.url}/docs/", tmp_path)
    found = names(site, tmp_path)
    assert found[:3] == ["docs/a.html", "docs/b/index.html", "docs/d-" + found[2][7:]]
    assert found[2].endswith(".txt")
    assert found[3] == "docs/index.html"
    assert site.left_out == {"that robots.txt forbids": 1, "of the unknown kind application/zip": 1}
    assert not {"/docs/secret/c.html", "/above.html"} & {*server.asked}


def test_one_page_and_a_sitemap(server, tmp_path):
    server.page("/one.html", '<a href="/two.html">2</a>')
    server.page("/two.html", "<p>2</p>")
    assert names(read_site(f"{server.url}/one.html", tmp_path / "one"), tmp_path / "one") == ["one.html"]
    other = "<url><loc>http://elsewhere.example/x</loc></url>"
    server.page(
        "/sitemap.xml",
        f"<sitemapindex><sitemap><loc>{server.url}/pages.xml</loc></sitemap></sitemapindex>",
        "application/xml",
    )
    server.page(
        "/pages.xml",
        f"<urlset><url><loc> {server.url}/one.html </loc></url>"
        f"<url><loc>{server.url}/two.html</loc></url>{other}</urlset>",
        "application/xml",
    )
    site = read_site(f"{server.url}/sitemap.xml", tmp_path / "map")
    assert names(site, tmp_path / "map") == ["one.html", "two.html"]


def test_pages_that_are_gone_go_and_pages_that_fail_stay(server, tmp_path):
    server.page("/", '<a href="/a">a</a><a href="/b">b</a>')
    server.page("/a", "<p>A</p>")
    server.page("/b", "<p>B</p>")
    read_site(server.url, tmp_path)
    [a] = tmp_path.rglob("a.html")
    written = a.stat().st_mtime_ns
    server.page("/b", "error", status=500)
    assert "500" in read_site(server.url, tmp_path).problems[f"{server.url}/b"]
    assert [*tmp_path.rglob("b.html")]
    server.page("/", '<a href="/a">a</a>')
    read_site(server.url, tmp_path)
    assert not [*tmp_path.rglob("b.html")]
    assert a.stat().st_mtime_ns == written  # not written again


def test_bounds_in_number_and_size(server, tmp_path, monkeypatch):
    monkeypatch.setattr(website, "PAGES", 3)
    monkeypatch.setattr(website, "LARGEST_PAGE", 1000)
    server.page("/", "".join(f'<a href="/{n}">x</a>' for n in range(6)))
    for n in range(6):
        server.page(f"/{n}", "x" * (2000 if n == 0 else 10))
    site = read_site(server.url, tmp_path)
    assert len(site.pages) == 3
    assert site.left_out == {"larger than 0 MiB": 1, "beyond the first 3 pages": 3}


def test_redirections_stay_on_the_host_and_robots_are_obeyed(server, tmp_path):
    server.page("/", '<a href="/old">o</a><a href="/away">a</a><a href="/circle">c</a><a href="/detour">d</a>')
    server.page("/old", "", "/new", 302)
    server.page("/new", "<p>New</p>")
    server.page("/away", "", "http://elsewhere.example/", 301)
    server.page("/circle", "", "/circle", 302)
    server.page("/detour", "", "/private", 302)
    server.page("/private", "<p>Private</p>")
    server.page("/robots.txt", "User-agent: *\nDisallow: /private", "text/plain")
    site = read_site(server.url, tmp_path)
    assert names(site, tmp_path) == ["index.html", "new.html"]
    assert site.left_out == {"of another host": 1, "with too many redirections": 1, "that robots.txt forbids": 1}
    assert "/private" not in server.asked


def test_pages_beneath_an_address_are_read_when_the_site_turns_to_https(tmp_path, monkeypatch):
    asked = []

    def answer(request):
        asked.append(str(request.url))
        if request.url.scheme == "http":
            return httpx.Response(301, headers={"Location": str(request.url.copy_with(scheme="https"))})
        pages = {
            "/guide/": '<a href="a">a</a><a href="/guide/">home</a>',
            "/guide/a": '<p>A</p><a href="/guide/">home</a>',
        }
        content = pages.get(request.url.path)
        return httpx.Response(404) if content is None else httpx.Response(200, html=content)

    client = partial(httpx.Client, transport=httpx.MockTransport(answer))
    monkeypatch.setattr(website.httpx, "Client", client)
    site = read_site("HTTP://Docs.example/guide/", tmp_path)
    assert names(site, tmp_path) == ["guide/a.html", "guide/index.html"]
    assert asked.count("https://docs.example/guide/") == 1


@pytest.mark.parametrize(
    ("robots", "status", "reason"),
    [
        ("User-agent: knowgap\nDisallow: /", 200, "that robots.txt forbids"),
        ("", 403, "that robots.txt forbids"),
        ("", 503, "that robots.txt forbids"),
        ("User-agent: *\nDisallow:", 200, "404"),
    ],
)
def test_an_address_that_cannot_be_read_is_one_line(server, tmp_path, robots, status, reason):
    server.page("/robots.txt", robots, "text/plain", status)
    with pytest.raises(DataError, match=reason):
        read_site(f"{server.url}/nothing", tmp_path)


def test_no_network_is_one_line(tmp_path):
    with pytest.raises(DataError, match="check address and network"):
        read_site("http://127.0.0.1:9/", tmp_path)


def test_names_stay_in_the_folder(server, tmp_path):
    server.page("/", '<a href="/%2e%2e/%2e%2e/up">u</a><a href="/.hidden">h</a>')
    for path in ("/%2e%2e/%2e%2e/up", "/../../up", "/up", "/.hidden"):
        server.page(path, "<p>x</p>")
    site = read_site(server.url, tmp_path / "site")
    assert all((tmp_path / "site") in path.resolve().parents for path in site.pages.values())
    assert "_hidden.html" in names(site, tmp_path / "site")
