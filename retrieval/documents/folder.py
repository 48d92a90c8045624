"""The files of a folder of documents: which are read, by the kind that their names tell, and which are left out."""

from __future__ import annotations

import errno
import os
import re
import stat
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from knowgap.errors import DataError

KINDS = {
    **dict.fromkeys((".txt", ".text", ".rst"), "text"),
    **dict.fromkeys((".md", ".markdown"), "Markdown"),
    **dict.fromkeys((".html", ".htm", ".xhtml"), "HTML"),
    ".pdf": "PDF",
    ".docx": "Word",
    ".pptx": "PowerPoint",
    ".xlsx": "Excel",
}
"""The kind of a file by the end of its name, in lower case."""

LARGEST_FILE = 256 * 2**20
"""A larger file, in bytes, is not read."""

_COMMANDS = re.compile(r"[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")
"""Characters that command a terminal, reverse the direction of text, or are not Unicode."""


class Unreadable(Exception):
    """A file has no text that can be read; the message says why, in a few words."""


@dataclass
class Folder:
    """What is in a folder.

    Args:
        root: the folder.
        files: the files that are read, by name relative to it (as `shown_name`), in the order of their names.
        left_out: how many files are left out, by reason.
        problems: files and folders that cannot be read, each with the reason.
    """

    root: Path
    files: dict[str, Path] = field(default_factory=dict)
    left_out: Counter[str] = field(default_factory=Counter)
    problems: dict[str, str] = field(default_factory=dict)


def shown_name(name: str) -> str:
    """A file name as it is shown and used in ids."""
    return _COMMANDS.sub(lambda found: found[0].encode("unicode_escape").decode(), name)


def kind_of(path: Path) -> str | None:
    """The kind of a file by its name; None if it is unknown."""
    return KINDS.get(path.suffix.lower())


def open_folder(root: str | Path) -> Folder:
    """Find the files of a folder and of the folders in it.

    Hidden files and folders, symbolic links (which may lead out of the folder, or in circles), what is not a regular
    file, and files of unknown kinds are left out, and counted.
    """
    root = Path(root)
    if not root.is_dir():
        raise DataError("there is no such folder", path=root)
    found = Folder(root)
    for path in sorted(_walk(root, found), key=lambda path: os.fsencode(path.relative_to(root))):
        found.files.setdefault(shown_name(path.relative_to(root).as_posix()), path)
    return found


def _walk(root: Path, found: Folder) -> Iterator[Path]:
    def unlisted(error: OSError) -> None:
        name = os.path.relpath(os.fsdecode(error.filename or root), root)
        found.problems[shown_name(name)] = f"cannot be read ({error.strerror or error})"

    for folder, folders, names in os.walk(root, onerror=unlisted):
        links = {name for name in folders if os.path.islink(os.path.join(folder, name))}
        hidden = {name for name in folders if name.startswith(".")} - links
        found.left_out.update({"symbolic links": len(links), "hidden folders": len(hidden)})
        folders[:] = {*folders} - links - hidden
        for name in names:
            path = Path(folder, name)
            reason = _reason_to_leave_out(path)
            if reason is None:
                yield path
            else:
                found.left_out[reason] += 1


def _reason_to_leave_out(path: Path) -> str | None:
    if path.name.startswith("."):
        return "hidden"
    try:
        mode = path.lstat().st_mode
    except OSError:
        return "vanished"
    if stat.S_ISLNK(mode):
        return "symbolic links"
    if not stat.S_ISREG(mode):
        return "not regular files"
    if kind_of(path) is None:
        suffix = shown_name(path.suffix.lower())
        return f"of the unknown kind {suffix}" if 1 < len(suffix) <= 12 else "of unknown kinds"
    return None


def read_bytes(path: Path) -> bytes:
    """The content of a regular file, without following a symbolic link; raises `Unreadable`."""
    try:
        # Not to wait for a pipe, and not to follow a link, that has taken the place of the file since it was found.
        handle = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_NOFOLLOW", 0) | _BINARY)
        with os.fdopen(handle, "rb") as file:
            status = os.fstat(file.fileno())
            if not stat.S_ISREG(status.st_mode):
                raise Unreadable("is not a regular file")
            if status.st_size > LARGEST_FILE:
                raise Unreadable(f"has {status.st_size / 2**20:,.0f} MiB, and at most {LARGEST_FILE >> 20} are read")
            content = file.read(LARGEST_FILE + 1)
    except OSError as error:
        if error.errno == errno.ELOOP:
            raise Unreadable("is a symbolic link") from error
        raise Unreadable(f"cannot be read ({error.strerror or error})") from error
    if len(content) > LARGEST_FILE:
        raise Unreadable("grows while it is read")
    if not content:
        raise Unreadable("is empty")
    return content


_BINARY = getattr(os, "O_BINARY", 0)
