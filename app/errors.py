"""Every error that knowgap raises on purpose.

::

    KnowgapError
    ├── UsageError                  the caller can correct it
    │   ├── ValueOutOfBounds        a hyperparameter or option outside its declared range
    │   ├── UnknownName             a program, data set, metric or preset that does not exist
    │   └── EmptyQuestion           nothing was asked
    ├── DataError                   a record or file that cannot be read; names file, line and field
    ├── IndexFolderError            an index folder that cannot be used
    │   ├── IndexMissing            nothing is there
    │   ├── IndexDamaged            something is there, but incomplete
    │   └── IndexForeign            made by another engine, checkpoint or format version
    ├── CheckpointError             an encoder or reranker checkpoint that is absent or altered
    ├── ArtifactError               a compiled program that cannot be loaded
    ├── StudyError                  a study that cannot be opened or continued
    ├── MissingDependency           an optional package is not installed
    └── LanguageModelError          the language model cannot be used
        ├── LanguageModelUnreachable    no answer from its endpoint
        └── SignatureNotServed          the embedded reader does not know the signature it was asked

A message names the offending value, where it came from, and what to do. On each of them, the command line prints one
line and exits with code 2.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from difflib import get_close_matches


class KnowgapError(Exception):
    """Root of the tree: catch it to catch everything that knowgap raises on purpose.

    User names and passwords are removed from URLs in its text.

    >>> import knowgap
    >>> try:
    ...     knowgap.get_program("migrs")
    ... except knowgap.KnowgapError as error:
    ...     print("did you mean" in str(error))
    True
    """

    def __str__(self) -> str:
        return without_credentials(super().__str__())


def without_credentials(text: str) -> str:
    """Remove user names and passwords of hosts from a text: `http://user:password@host`, `user:password@host`."""
    return re.sub(r"(?:(?<=://)[^/\s@]*|[^\s/@:'\"]+:[^\s/@]+)@(?=[\w\[])", "", text)


def shorten(text: object, width: int = 150) -> str:
    """Put a text on one line of at most `width` characters; a longer one is cut between words if possible, with "…"."""
    line = " ".join(str(text).split())
    if len(line) <= width:
        return line
    return (line[:width].rpartition(" ")[0] or line[: width - 1]) + "…"


def is_address(text: str) -> bool:
    """Whether a text is meant as the address of a web server; one slash is enough, since a path drops the other."""
    return re.match(r"https?:/", text, re.IGNORECASE) is not None


class UsageError(KnowgapError):
    """Something the caller can correct: an option, an argument, a combination."""


class ValueOutOfBounds(UsageError, ValueError):
    """A value outside its declared range; the message gives name, value and bounds."""


class UnknownName(UsageError, LookupError):
    """A name that is not in its registry; the message lists close matches."""

    @classmethod
    def among(cls, kind: str, name: str, known: Iterable[str], note: str = "") -> UnknownName:
        """Build the error for `name`, a `kind`, with the nearest of the `known` names, and a `note` at the end."""
        names = sorted(known)
        hint = "".join(f"did you mean {close!r}? " for close in get_close_matches(str(name), names, n=1))
        return cls(f"unknown {kind} {name!r}: {hint}known are {', '.join(names) or 'none'}{note}")


class EmptyQuestion(UsageError, ValueError):
    """The question is blank."""


class DataError(KnowgapError, ValueError):
    """A data file or record that cannot be read.

    Args:
        problem: what is wrong, and what would be right.
        path: the file.
        line: number of the line (JSON Lines) or of the record (JSON array), from 1.
        field: the field of the record.
    """

    def __init__(self, problem: str, *, path: object = None, line: int | None = None, field: str | None = None):
        self.problem, self.field = problem, field
        place = ":".join(str(part) for part in (path, line) if part is not None)
        named = " ".join(part for part in (place, field and f"({field})") if part)
        super().__init__(f"{named}: {problem}" if named else problem)


class IndexFolderError(KnowgapError):
    """An index folder that cannot be used."""


class IndexMissing(IndexFolderError):
    """No index at that path."""


class IndexDamaged(IndexFolderError):
    """An index that is incomplete: truncated, altered or half-built."""


class IndexForeign(IndexFolderError):
    """An index of another engine, checkpoint or format version."""


class CheckpointError(KnowgapError):
    """A model checkpoint that is absent, of the wrong kind, or altered."""


class ArtifactError(KnowgapError):
    """A compiled program that cannot be loaded as asked."""


class StudyError(KnowgapError):
    """A study that cannot be opened, continued or concluded."""


class MissingDependency(KnowgapError, ImportError):
    """An optional package is not installed; the message says how to get it."""


class LanguageModelError(KnowgapError):
    """The language model cannot be used as asked."""


class LanguageModelUnreachable(LanguageModelError):
    """The endpoint of the language model does not answer."""


class SignatureNotServed(LanguageModelError):
    """The embedded reader does not know the signature it was asked."""
