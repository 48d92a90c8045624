"""Programs, metrics, loaders, retrievers and models from outside the package.

They are named in two ways:

- `module:Name` is `Name` in an importable module. Where the thing is called to get what is wanted, `module:Name:TEXT`
  calls it with that text.
- A plain name, where knowgap has none of that name, is looked up among the entry points of installed packages, in the
  groups of `GROUPS`. They are read only then, and when names are listed.

A module is imported when it is first named. The command line also imports from the folder in which it was started.
"""

from __future__ import annotations

import hashlib
import importlib
import inspect
import re
import sys
import traceback
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from difflib import get_close_matches
from importlib.metadata import EntryPoint, PackageNotFoundError, entry_points, version
from pathlib import Path
from types import ModuleType
from typing import Any

from typing_extensions import get_protocol_members

from knowgap.errors import KnowgapError, UnknownName, UsageError, shorten

__all__ = [
    "GROUPS",
    "blaming",
    "find",
    "import_from",
    "is_reference",
    "list_installed",
    "make",
    "offered_as",
    "outside_facts",
    "reference_of",
    "source_of",
    "split_argument",
]

GROUPS = {
    "program": "knowgap.programs",
    "metric": "knowgap.metrics",
    "layout": "knowgap.layouts",
    "retriever": "knowgap.retrievers",
    "reranker": "knowgap.rerankers",
    "entailment model": "knowgap.entailment_models",
}
"""The group of entry points in which packages offer things of a kind."""

_NAME = r"[^\W\d]\w*(?:\.[^\W\d]\w*)*"
_REFERENCE = re.compile(rf"({_NAME}:{_NAME})(?::(.+))?", re.DOTALL)
_INSTALLED = {"site-packages", "dist-packages"}
_folders: list[str] = []


def import_from(folder: str | Path) -> None:
    """Import named modules from a folder, too: it goes to the front of `sys.path` when a module is first named."""
    _folders[:] = [str(folder)]


def is_reference(name: Any) -> bool:
    """Whether a name has the form `module:Name` or `module:Name:TEXT`."""
    return isinstance(name, str) and _REFERENCE.fullmatch(name) is not None


def split_argument(name: str) -> tuple[str, str | None]:
    """`module:Name:TEXT` as `module:Name` and the text, which is None if there is none."""
    match = _REFERENCE.fullmatch(name)
    return (match[1], match[2]) if match else (name, None)


def find(kind: str, name: str, known: Iterable[str] = ()) -> Any:
    """What a name from outside stands for; modules are imported.

    Args:
        kind: a key of `GROUPS`.
        name: `module:Name`, or the name of an entry point.
        known: knowgap's own names of the kind, for the message.

    Raises:
        UnknownName: no package offers that name.
        UsageError: it cannot be imported, its module does not have it, or two packages offer it.
    """
    if is_reference(name):
        return _attribute(f"{kind} {name}", *name.split(":"))
    if ":" in str(name):
        raise UsageError(f"{kind} {name}: write it as module:Name, such as mine:Name")
    points = _installed(kind)
    if name not in points:
        raise UnknownName.among(kind, name, [*known, *points])
    first, *others = points[name]
    if others:
        offers = " and ".join(f"{_package(point)} ({point.value})" for point in points[name])
        raise UsageError(f"{kind} {name}: {offers} both offer it; write module:Name")
    what = f"{kind} {name}, which the package {_package(first)} offers as {first.value}"
    if not first.attr:
        raise UsageError(f"{what}: its entry point has no name behind the module")
    return _attribute(what, first.module, first.attr)


def make(kind: str, name: str | Path, protocol: type) -> Any:
    """What a name from outside stands for, or what calling that makes, if it is of a protocol.

    Args:
        kind: a key of `GROUPS`.
        name: `module:Name`, `module:Name:TEXT`, or the name of an entry point.
        protocol: what is wanted.

    Returns:
        None for the path of something that exists, and for a plain name that no package offers.

    Raises:
        UsageError: it cannot be imported or made, or what is made lacks something.
    """
    full = str(name)
    if Path(full).exists() or not (is_reference(full) or full in _installed(kind)):
        return None
    reference, text = split_argument(full)
    found, what = find(kind, reference), f"{kind} {name}"
    made = isinstance(found, protocol) and not isinstance(found, type)
    if made and text is None:
        return found
    if made or not callable(found):
        raise UsageError(f"{what}: {reference} is {type(found).__name__}: it takes no text, and makes no {kind}")
    given = () if text is None else (text,)
    with blaming(f"{what}, calling {reference}({', '.join(map(repr, given))})"):
        found = found(*given)
    if missing := sorted(member for member in get_protocol_members(protocol) if not hasattr(found, member)):
        raise UsageError(f"{what}: is {type(found).__name__}, and has no {' and no '.join(missing)}")
    return found


def list_installed(kind: str, known: Iterable[str], describe: Callable[[Any], str]) -> dict[str, str]:
    """What installed packages offer, by name, each with a line about it; one that cannot be imported says why.

    Warns:
        UserWarning: a package offers a name that is knowgap's own, which stays.
    """
    own, lines = frozenset(known), {}
    for name, points in sorted(_installed(kind).items()):
        if name in own:
            offers = ", ".join(f"{_package(point)} ({point.value})" for point in points)
            warnings.warn(
                f"the {kind} {name} is knowgap's own, and not that of {offers}: write module:Name", stacklevel=2
            )
            continue
        try:
            lines[name] = describe(find(kind, name)) or f"of the package {_package(points[0])}"
        except KnowgapError as error:
            lines[name] = f"cannot be used: {error}"
    return lines


def offered_as(kind: str, reference: str) -> str:
    """The name under which an installed package offers what `module:Name` stands for; empty if none does."""
    offers = (point for points in _installed(kind).values() for point in points)
    return next((point.name for point in offers if f"{point.module}:{point.attr}" == reference), "")


def reference_of(thing: Any) -> str:
    """`module:Name` of a class or function, or of the class of an object."""
    named = _named(thing)
    return f"{named.__module__}:{named.__qualname__}"


def source_of(thing: Any) -> Path | None:
    """The file of the module in which a thing, or the class of an object, is defined."""
    file = getattr(sys.modules.get(_named(thing).__module__), "__file__", None)
    return Path(file) if file else None


def outside_facts(things: Mapping[str, Any]) -> dict[str, dict[str, str]]:
    """Of those things that are not knowgap's own: `module:Name`, digest of the file that defines it, and version.

    The version is that of the installed package with the name of the module, if there is one.
    """
    facts: dict[str, dict[str, str]] = {}
    for role, thing in things.items():
        while (
            _package_of(thing) == "knowgap" and (wrapped := getattr(thing, "__dict__", {}).get("wrapped")) is not None
        ):
            thing = wrapped  # behind a cache
        thing = inspect.unwrap(thing) if callable(thing) else thing
        package = _package_of(thing)
        if thing is None or package in ("", "knowgap", "builtins"):
            continue
        facts[role] = {"name": reference_of(thing)}
        with suppress(OSError, TypeError):
            facts[role]["sha256"] = hashlib.sha256((source_of(thing) or Path()).read_bytes()).hexdigest()
        with suppress(PackageNotFoundError):
            facts[role]["version"] = version(package)
    return facts


@contextmanager
def blaming(what: str, *passing: type[Exception]) -> Iterator[None]:
    """Turn an exception of code from outside into a `UsageError` of one line that says what failed, and where.

    Args:
        what: failed.
        *passing: exceptions that stay what they are, as those of knowgap do.
    """
    try:
        yield
    except (KnowgapError, *passing):
        raise
    except Exception as error:
        raise UsageError(f"{what}: {_describe(error)}") from error


def _package_of(thing: Any) -> str:
    return (_named(thing).__module__ or "").partition(".")[0]


def _named(thing: Any) -> Any:
    return thing if hasattr(thing, "__qualname__") else type(thing)


def _installed(kind: str) -> dict[str, list[EntryPoint]]:
    """The entry points of a kind by name."""
    found: dict[str, list[EntryPoint]] = {}
    for point in entry_points(group=GROUPS[kind]):
        found.setdefault(point.name, []).append(point)
    return found


def _package(point: EntryPoint) -> str:
    return point.dist.name if point.dist is not None else "?"


def _attribute(what: str, module: str, path: str) -> Any:
    """What a dotted path leads to in a module."""
    found: Any = _import(what, module)
    for name in path.split("."):
        try:
            found = getattr(found, name)
        except AttributeError:
            raise UsageError(f"{what}: {_has_none(module, found, name)}") from None
    return found


def _has_none(module: str, place: Any, name: str) -> str:
    """What is wrong with a name that a module does not have, and what it may mean."""
    file = getattr(sys.modules[module], "__file__", None)
    public = [each for each in vars(place) if not each.startswith("_")] if hasattr(place, "__dict__") else []
    close = get_close_matches(name, public, n=1)
    hidden = next((path for folder in _folders if (path := Path(folder, f"{module}.py")).is_file()), None)
    hint = f"; did you mean {close[0]}?" if close else ""
    if hidden is not None and file is not None and not hidden.samefile(file):
        hint = f"; it hides {hidden}, which needs another name"
    return f"the module {module} ({file or 'built in'}) has no {name}{hint}"


def _import(what: str, module: str) -> ModuleType:
    if module in sys.modules:
        return sys.modules[module]
    sys.path[:0] = [folder for folder in _folders if folder not in sys.path]
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        if error.name is None or not f"{module}.".startswith(f"{error.name}."):
            raise UsageError(f"{what}: {module} cannot be imported: {_describe(error)}") from error
        raise UsageError(f"{what}: there is no module {error.name}{_where(module)}") from None
    except (Exception, SystemExit) as error:
        raise UsageError(f"{what}: {module} cannot be imported: {_describe(error)}") from error


def _where(module: str) -> str:
    """What may help to find a module that is not there."""
    if module.endswith(".py"):
        return f"; write {module.removesuffix('.py')}, without .py"
    here = {path.stem for folder in _folders for path in Path(folder).glob("*.py")}
    close = get_close_matches(module.partition(".")[0], sorted(here), n=1)
    hint = f"; did you mean {close[0]}?" if close else ""
    started = f" in {_folders[0]} or" if _folders else ""
    return f"{started} on Python's path{hint or '; start in the folder that holds it, or set PYTHONPATH'}"


def _describe(error: BaseException) -> str:
    """An exception in one line, with the last line of code outside knowgap that it passed."""
    if isinstance(error, SyntaxError) and error.filename:
        return f"{type(error).__name__}: {error.msg} ({error.filename}:{error.lineno})"
    passed = [(frame.f_code.co_filename, line, frame) for frame, line in traceback.walk_tb(error.__traceback__)]
    outside = [(file, line) for file, line, frame in passed if not _is_own(frame.f_globals.get("__name__", ""))]
    own = [place for place in outside if not _INSTALLED & {*Path(place[0]).parts}] or outside
    place = f" ({own[-1][0]}:{own[-1][1]})" if own else ""
    return f"{type(error).__name__}: {shorten(error, 300)}{place}"


def _is_own(module: str) -> bool:
    return module.partition(".")[0] in ("knowgap", "importlib", "_frozen_importlib", "_frozen_importlib_external")
