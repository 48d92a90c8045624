"""Reading a folder of documents: its files, their passages, and the files that cannot be read."""

from __future__ import annotations

import hashlib
import os
import re
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import NamedTuple

from knowgap.errors import DataError
from knowgap.retrieval.documents.conversion import Converter
from knowgap.retrieval.documents.sources import FileRecord, Source, passage_digest
from knowgap.retrieval.documents.splitting import Splitter
from knowgap.retrieval.documents.text import NotNow, Unreadable
from knowgap.retrieval.passage import Passage
from knowgap.storage.manifest import STAMPS
from knowgap.storage.progress import Progress, no_progress

_KINDS = {
    **dict.fromkeys(("", ".txt", ".text", ".rst"), "text"),
    **dict.fromkeys((".md", ".markdown"), "Markdown"),
    **dict.fromkeys((".html", ".htm", ".xhtml"), "HTML"),
    ".pdf": "PDF",
    ".docx": "Word",
    ".pptx": "PowerPoint",
    ".xlsx": "Excel",
    ".csv": "CSV",
}
_LARGEST_FILE = 256 * 2**20  # bytes
_COMMANDS = re.compile(r"[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")
"""Control characters, characters that reverse the direction of text, and surrogates."""


class Update(NamedTuple):
    """How many files are new, changed or gone, and how many passages were added or replaced, and removed."""

    files: int
    added: int
    removed: int


@dataclass
class Reading:
    """The results so far, and the limits, of reading a folder or file.

    Args:
        left_out: how many files were not read, by reason.
        problems: files that could not be read, each with the reason.
        notes: files that were read, each with a note about how.
        documents: how many documents were read: files, or records of JSON Lines and TSV.
        update: the changes to an index that existed already; None if it was built.
        until: the time, of `time.monotonic`, after which no file is read, except the first; None for no limit.
        remaining: how many files were left for another call because of `until`.
    """

    left_out: Counter[str] = field(default_factory=Counter)
    problems: dict[str, str] = field(default_factory=dict)
    notes: dict[str, str] = field(default_factory=dict)
    documents: int = 0
    update: Update | None = None
    until: float | None = None
    remaining: int = 0

    def told(self) -> list[str]:
        """A line for each reason to leave files out, for each file that could not be read, and for each note."""
        lines = [f"left out: {count:,} {reason}" for reason, count in sorted(self.left_out.items()) if count]
        lines += [f"{name}: {problem}; left out" for name, problem in self.problems.items()]
        return [*lines, *(f"{name}: {note}" for name, note in self.notes.items())]


def shown_name(name: str) -> str:
    """A file name as it is shown and used in ids, with control characters escaped."""
    return _COMMANDS.sub(lambda found: found[0].encode("unicode_escape").decode(), name)


def kind_of(path: Path) -> str | None:
    """The kind of a file by its name; None if it is unknown."""
    return _KINDS.get(path.suffix.lower())


def find_files(root: str | Path, reading: Reading | None = None) -> dict[str, Path]:
    """The documents in a folder and its subfolders, by their names relative to it (see `shown_name`), in their order.

    Hidden files and folders, symbolic links (which may lead out of the folder, or in circles), other files that are not
    regular, files of unknown kinds, and folders that are indexes are left out and counted in `reading`.

    Raises:
        DataError: it is not a folder.
    """
    root, paths, reading = Path(root), list[Path](), reading or Reading()
    if not root.is_dir():
        raise DataError("there is no such folder of documents", path=root)
    left_out = reading.left_out
    for folder, folders, names in os.walk(root, onerror=lambda _: left_out.update(["folders that cannot be read"])):
        reasons = {name: _reason_to_leave_out(Path(folder, name)) for name in (*folders, *names)}
        left_out.update(filter(None, reasons.values()))
        folders[:] = [name for name in folders if reasons[name] is None]
        paths += [Path(folder, name) for name in names if reasons[name] is None]
    paths.sort(key=lambda path: os.fsencode(path.relative_to(root)))
    return {shown_name(path.relative_to(root).as_posix()): path for path in paths}


def _reason_to_leave_out(path: Path) -> str | None:
    if path.is_symlink():
        return "symbolic links"
    if path.name.startswith("."):
        return "hidden"
    if path.is_dir():
        return "indexes" if (path / STAMPS).is_file() else None
    if not path.is_file():
        return "not regular files"
    if kind_of(path) is None:
        return f"{shown_name(path.suffix.lower()[:12])} (not a kind that is read)"
    return "with no ending such as .txt, and no text" if not path.suffix and _is_binary(path) else None


def _is_binary(path: Path) -> bool:
    with suppress(OSError), path.open("rb") as file:
        return b"\0" in file.read(4096)
    return False


def _read_bytes(path: Path) -> bytes:
    """The content of a file; raises `Unreadable`."""
    try:
        size = path.stat().st_size
        if size > _LARGEST_FILE:
            raise Unreadable(f"has {size / 2**20:,.0f} MiB, and at most {_LARGEST_FILE >> 20} are read")
        return path.read_bytes()
    except OSError as error:
        raise Unreadable(f"cannot be read ({error.strerror or error})") from error


class ReadFile(NamedTuple):
    """A file: its name relative to the folder, its record, and its passages with their places.

    The passages are None if the file could not be read, or was not read because it has not changed.
    """

    name: str
    record: FileRecord
    placed: Iterable[tuple[Passage, Source]] | None = None


def read_documents(
    files: Mapping[str, Path],
    splitter: Splitter,
    reading: Reading,
    known: Mapping[str, FileRecord] | None = None,
    progress: Progress = no_progress,
) -> Iterator[ReadFile]:
    """Read the files of a folder, and keep `reading` up to date.

    Files are read in their order, or the smallest first if `reading.until` limits the time. A file whose
    digest is the same as in `known` is not converted again; its problem and its note are reported again. A file with
    the same titles and texts as one before it is a copy, and has no passages of its own. `progress` is called before
    each file that is converted. A file that `reading.until` leaves for another call keeps its record in `known`.
    """
    known, originals = known or {}, dict[str, str]()
    if reading.until is not None:  # the smallest come first, so that many files can be searched soon
        files = dict(sorted(files.items(), key=lambda file: os.path.getsize(file[1])))
    with Converter(splitter) as converter:
        for number, (name, path) in enumerate(files.items()):
            before, digest, placed = known.get(name, FileRecord(None)), None, None
            try:
                content = _read_bytes(path)
                digest = hashlib.sha256(content).hexdigest()
                # The copy of a file that has gone or changed since has to be converted, to have passages of its own.
                if before.digest == digest and (not before.same or before.content in originals):
                    record = before
                elif reading.until is not None and reading.documents and time.monotonic() > reading.until:
                    reading.remaining += 1
                    if name in known:
                        yield ReadFile(name, before)
                    continue
                else:
                    progress(number, len(files), f"reading {name}")
                    placed, note = converter.convert(name, kind_of(path) or "", content)
                    texts = "".join(passage_digest(passage) for passage, _ in placed)
                    record = FileRecord(digest, content=hashlib.sha256(texts.encode()).hexdigest(), note=note)
            except Unreadable as problem:
                # A record without a digest is tried again, since a permission, library or time may be missing only now.
                lasting = None if isinstance(problem, NotNow) else digest
                record = FileRecord(lasting, str(problem), "" if before.same else before.content)
            if record.problem:
                reading.problems[name] = record.problem
            if record.note:
                reading.notes[name] = record.note
            first = originals.setdefault(record.content, name) if record.content else name
            same = first if first != name else ""
            if same:
                reading.left_out["copies of other files"] += 1
            reading.documents += placed is not None and not same
            yield ReadFile(name, replace(record, same=same), () if same else placed)
