"""Download of the pages of a website into a folder, for an index of documents.

Only the named host is contacted, with one request at a time. `robots.txt` is obeyed, and the number and sizes of the
pages are limited. No code of a page is run.
"""

from __future__ import annotations

import html
import re
import time
import zlib
from collections import Counter, deque
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path, PurePosixPath
from typing import Any
from urllib.parse import unquote, urldefrag, urljoin, urlsplit
from urllib.robotparser import RobotFileParser

import httpx

from knowgap.errors import DataError
from knowgap.retrieval.documents.reading import KINDS
from knowgap.storage.files import write_file
from knowgap.storage.progress import Progress, no_progress

PAGES = 500
"""The most pages that are read."""

LARGEST_PAGE = 32 * 2**20
"""The size in bytes above which a page is left out; reading stops when all pages together have eight times as many."""

_AGENT = "knowgap"
_TIMEOUT = 20.0  # seconds
_REDIRECTS = 5
_LONGEST_DELAY = 10.0  # seconds between requests that robots.txt may ask for
_SUFFIXES = {
    "text/html": ".html",
    "application/xhtml+xml": ".html",
    "text/plain": ".txt",
    "text/markdown": ".md",
    "application/pdf": ".pdf",
    "application/vnd.openxmlformats-officedocument.wordprocessingml.document": ".docx",
    "application/vnd.openxmlformats-officedocument.presentationml.presentation": ".pptx",
    "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet": ".xlsx",
}
_UNSAFE = re.compile(r'[\x00-\x1f\x7f<>:"\\|?*]')


@dataclass
class Site:
    """The result of reading a website.

    Attributes:
        pages: the files that were written or had not changed, by address.
        problems: addresses that could not be read, each with the reason.
        left_out: how many addresses were not read, by reason: the limits, `robots.txt`, another host or their kind.
    """

    pages: dict[str, Path] = field(default_factory=dict)
    problems: dict[str, str] = field(default_factory=dict)
    left_out: Counter[str] = field(default_factory=Counter)


class _Unread(Exception):
    """An address that is left out, with the reason."""


def read_site(address: str, folder: Path, progress: Progress | None = None) -> Site:
    """Write the pages of a website as files into a folder; one that has not changed is not written again.

    Args:
        address: a sitemap, whose pages on the same host are read; an address that ends with `/`, which is read with the
            pages beneath it that can be reached by links; or one page.
        folder: gets the files, as `HOST/path/of/page.html`. The files of pages that are gone are removed from it,
            unless a page could not be read or a limit was reached.
        progress: called after each page.

    Raises:
        DataError: the address cannot be read.
    """
    with httpx.Client(timeout=_TIMEOUT, headers={"User-Agent": _AGENT}) as client:
        return _Reader(client, address, folder).read(progress or no_progress)


class _Reader:
    def __init__(self, client: httpx.Client, address: str, folder: Path) -> None:
        self.client, self.folder, self.site = client, folder, Site()
        self.start = urldefrag(address)[0]
        if not urlsplit(self.start).path:
            self.start += "/"
        self.host = urlsplit(self.start).netloc.lower()
        self.beneath = _place(self.start) if self.start.endswith("/") else None
        self.seen, self.size = {self.start}, 0
        self.robots: RobotFileParser | None = None

    def read(self, progress: Progress) -> Site:
        """Read the address and the pages that it leads to, until none is left or a limit is reached."""
        self.robots, waiting = self._robots(), deque([self.start])
        delay = min(float(self.robots.crawl_delay(_AGENT) or 0), _LONGEST_DELAY)
        while waiting:
            address = waiting.popleft()
            if len(self.site.pages) >= PAGES or self.size >= 8 * LARGEST_PAGE:
                self.site.left_out[f"beyond the first {len(self.site.pages)} pages"] += 1
                continue
            try:
                found = self._read_page(address)
            except _Unread as reason:
                if address == self.start:
                    raise DataError(f"cannot be read: it is a page {reason}", path=address) from None
                self.site.left_out[str(reason)] += 1
                continue
            except (httpx.HTTPError, httpx.InvalidURL, OSError, zlib.error) as error:
                reason = str(error) or type(error).__name__
                if address == self.start:
                    raise DataError(f"cannot be read ({reason}); check address and network", path=address) from error
                self.site.problems[address] = reason
                continue
            for each in found:
                if each not in self.seen:
                    self.seen.add(each)
                    waiting.append(each)
            progress(len(self.site.pages), min(len(self.seen), PAGES), "reading pages")
            time.sleep(delay)
        self._remove_others()
        return self.site

    def _robots(self) -> RobotFileParser:
        """The rules of `robots.txt`: everything is allowed if there is none, nothing if the server refuses or fails."""
        robots: Any = RobotFileParser()  # its two switches are not in the types of the standard library
        try:
            with self._opened(urljoin(self.start, "/robots.txt")) as response:
                lines = self._content(response).decode("utf-8", "replace").splitlines()
        except httpx.HTTPStatusError as error:
            status, lines = error.response.status_code, list[str]()
            robots.allow_all = 400 <= status < 500 and status not in (401, 403)
            robots.disallow_all = not robots.allow_all
        except _Unread:
            lines = []
        except httpx.HTTPError as error:
            raise DataError(
                f"cannot be read ({error or type(error).__name__}); check address and network", path=self.start
            ) from error
        robots.parse(lines)
        return robots

    def _read_page(self, address: str) -> list[str]:
        """Write a page to its file; return the addresses that it adds to those to be read."""
        with self._opened(address) as response:
            content = self._content(response)
            reached = str(response.url)
            self.seen.add(reached)
            kind = response.headers.get("content-type", "").partition(";")[0].lower().strip()
        self.size += len(content)
        if address.endswith(".gz"):
            content = zlib.decompressobj(31).decompress(content, LARGEST_PAGE)
        if re.search(rb"<(urlset|sitemapindex)[\s>]", content[:4096]):
            return self._of_this_host(_locations(content), reached)
        suffix = PurePosixPath(urlsplit(reached).path).suffix.lower()
        suffix = _SUFFIXES.get(kind, suffix if suffix in KINDS and kind in ("", "application/octet-stream") else "")
        if not suffix:
            raise _Unread(f"of the unknown kind {kind or 'without a name'}")
        path = self.folder / self._file_name(reached, suffix)
        if not path.is_file() or path.read_bytes() != content:
            write_file(path, content, durable=False)
        self.site.pages[address] = path
        if self.beneath is None or suffix != ".html":
            return []
        return [each for each in self._of_this_host(_links(content), reached) if _place(each).startswith(self.beneath)]

    @contextmanager
    def _opened(self, address: str) -> Iterator[httpx.Response]:
        """The response of a server, after redirections within the host."""
        for _ in range(_REDIRECTS + 1):
            if self.robots is not None and not self.robots.can_fetch(_AGENT, address):
                raise _Unread("that robots.txt forbids")
            with self.client.stream("GET", address) as response:
                if not response.has_redirect_location:
                    response.raise_for_status()
                    yield response
                    return
                address = urldefrag(urljoin(address, response.headers["location"]))[0]
            if urlsplit(address).netloc.lower() != self.host:
                raise _Unread("of another host")
        raise _Unread("with too many redirections")

    def _content(self, response: httpx.Response) -> bytes:
        content = bytearray()
        for part in response.iter_bytes():
            content += part
            if len(content) > LARGEST_PAGE:
                raise _Unread(f"larger than {LARGEST_PAGE >> 20} MiB")
        return bytes(content)

    def _of_this_host(self, references: list[str], base: str) -> list[str]:
        found = [urldefrag(urljoin(base, each))[0] for each in references]
        return [a for a in found if urlsplit(a).scheme in ("http", "https") and urlsplit(a).netloc.lower() == self.host]

    def _file_name(self, address: str, suffix: str) -> str:
        """The file name `HOST/path` for an address, with the suffix of its kind and without unsafe characters."""
        parts = urlsplit(address)
        names = [_UNSAFE.sub("_", name) for name in unquote(parts.path).split("/") if name not in ("", ".", "..")]
        if not names or parts.path.endswith("/"):
            names.append("index")
        if parts.query:
            names[-1] = f"{names[-1]}-{sha256(parts.query.encode()).hexdigest()[:8]}"
        if KINDS.get(PurePosixPath(names[-1]).suffix.lower()) != KINDS[suffix]:
            names[-1] += suffix
        return "/".join(re.sub(r"^\.", "_", name)[-120:] for name in (_UNSAFE.sub("_", self.host), *names))

    def _remove_others(self) -> None:
        """Remove the files of pages that are gone, unless a page could not be read or a limit was reached."""
        kept = {*self.site.pages.values()}
        if self.site.problems or "beyond" in " ".join(self.site.left_out):
            return
        for path in self.folder.rglob("*"):
            if path.is_file() and path not in kept:
                path.unlink()


def _place(address: str) -> str:
    """Host and path of an address; a site may redirect http to https, and the case of a host does not count."""
    parts = urlsplit(address)
    return parts.netloc.lower() + parts.path


def _locations(sitemap: bytes) -> list[str]:
    found = re.findall(
        r"<loc>\s*(?:<!\[CDATA\[)?(.*?)(?:\]\]>)?\s*</loc>", sitemap.decode("utf-8", "replace"), re.DOTALL
    )
    return [html.unescape(each.strip()) for each in found]


def _links(page: bytes) -> list[str]:
    from bs4 import BeautifulSoup

    links = BeautifulSoup(page, "html.parser").find_all("a", href=True)
    return [str(link["href"]) for link in links if "nofollow" not in (link.get("rel") or [])]
