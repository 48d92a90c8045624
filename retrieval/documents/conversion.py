"""Conversion of files of each kind to text. Files are not trusted: no code in them is run, and nothing is fetched."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from dataclasses import replace

from knowgap.retrieval.documents.encodings import BOMS, decode
from knowgap.retrieval.documents.markdown import read_markdown, underlined_headings
from knowgap.retrieval.documents.office import checked_office, read_slides, read_word
from knowgap.retrieval.documents.pdf import read_pdf
from knowgap.retrieval.documents.sheets import read_sheets, read_table
from knowgap.retrieval.documents.text import NotNow, Text, Unreadable
from knowgap.retrieval.documents.web_pages import read_html

MEMORY = 6 * 2**30
"""The address space in bytes of a process that converts files; the libraries only reserve most of it."""

_TEXT = 64_000_000  # characters


def convert(kind: str, content: bytes) -> Text:
    """Convert the content of a file to text; the kinds are those of `_CONVERTERS`.

    Raises:
        Unreadable: the file is damaged, encrypted, too long or not of its kind.
        NotNow: a package for this kind is not installed.
        MemoryError: it needs more memory than there is.
    """
    try:
        made = _CONVERTERS[kind](content)
    except (Unreadable, MemoryError):
        raise
    except RecursionError as error:
        raise Unreadable("is nested too deeply") from error
    except ImportError as error:
        raise NotNow(f"is a {kind} file, which needs `pip install 'knowgap[documents]'` ({error})") from error
    except Exception as error:  # libraries raise errors of any type for a damaged file
        reason = " ".join(str(error).split())[:200]
        raise Unreadable(f"is damaged ({type(error).__name__}{': ' if reason else ''}{reason})") from error
    if len(made.text) > _TEXT:
        raise Unreadable(f"holds more than {_TEXT:,} characters")
    return made


def _read_with(read: Callable[[str], Text]) -> Callable[[bytes], Text]:
    def convert(content: bytes) -> Text:
        text, notes = decode(content)
        made = read(text)
        return replace(made, note="; ".join(filter(None, [*notes, made.note])))

    return convert


def _read_page(content: bytes) -> Text:
    """Convert a web page in the encoding that it declares; without a usable one, as `decode` does."""
    from bs4.dammit import EncodingDetector

    marked = any(content.startswith(mark) for mark in BOMS)
    if declared := None if marked else EncodingDetector.find_declared_encoding(content, is_html=True):
        with contextlib.suppress(LookupError, UnicodeError):
            content = content.decode(declared).encode()
    return _read_with(read_html)(content)


_CONVERTERS: dict[str, Callable[[bytes], Text]] = {
    "text": _read_with(lambda text: Text(text, headings=underlined_headings(text))),
    "Markdown": _read_with(read_markdown),
    "HTML": _read_page,
    "PDF": lambda content: read_pdf(content, _TEXT),
    "Word": read_word,
    "PowerPoint": read_slides,
    "Excel": lambda content: read_sheets(checked_office(content)),
    "CSV": _read_with(read_table),
}
