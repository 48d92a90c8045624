"""Plugins: programs, metrics, retrievers and models from outside the package.

`module:Name` is `Name` in an importable module. If it is a callable that makes the plugin, `module:Name:TEXT` calls it
with that text. A plain name that knowgap does not have is looked up among the entry points of installed packages, in
the groups of `GROUPS`. An exception that a plugin's own code raises is passed on with its traceback.
"""

from __future__ import annotations

import hashlib
import importlib
import inspect
import re
import sys
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from importlib.metadata import EntryPoint, PackageNotFoundError, entry_points, version
from pathlib import Path
from typing import Any

from typing_extensions import get_protocol_members

from knowgap.errors import UnknownName, UsageError

GROUPS = {
    "program": "knowgap.programs",
    "metric": "knowgap.metrics",
    "retriever": "knowgap.retrievers",
    "reranker": "knowgap.rerankers",
    "entailment model": "knowgap.entailment_models",
}
"""The group of entry points for each kind of plugin."""

_NAME = r"[^\W\d]\w*(?:\.[^\W\d]\w*)*"
_REFERENCE = re.compile(rf"({_NAME}:{_NAME})(?::(.+))?", re.DOTALL)
_folders: list[str] = []


def import_from(folder: str | Path) -> None:
    """Import plugins from a folder as well; it is put at the front of `sys.path` when a plugin is first looked up."""
    _folders[:] = [str(folder)]


def is_reference(name: Any) -> bool:
    """Whether a name has the form `module:Name` or `module:Name:TEXT`."""
    return isinstance(name, str) and _REFERENCE.fullmatch(name) is not None


def split_argument(name: str) -> tuple[str, str | None]:
    """`module:Name:TEXT` as `module:Name` and the text, which is None if there is none."""
    match = _REFERENCE.fullmatch(name)
    return (match[1], match[2]) if match else (name, None)


def find(kind: str, name: str, known: Iterable[str] = ()) -> Any:
    """Import the plugin with a name.

    Args:
        kind: a key of `GROUPS`.
        name: `module:Name`, or the name of an entry point.
        known: knowgap's own names of the kind, for the message.

    Raises:
        UnknownName: no package offers that name.
        UsageError: there is no such module, it does not have the name, or two packages offer the name.
    """
    points = _installed(kind)
    if not is_reference(name) and name not in points:
        raise UnknownName.among(kind, name, [*known, *points])
    references = [name] if is_reference(name) else [point.value for point in points[name]]
    if len(references) > 1:
        raise UsageError(f"{kind} {name} is ambiguous: it may be {' or '.join(references)}; name one of these instead")
    module, _, path = references[0].partition(":")
    sys.path[:0] = [folder for folder in _folders if folder not in sys.path]
    try:
        found: Any = importlib.import_module(module)
    except ModuleNotFoundError as error:
        if error.name is None or not f"{module}.".startswith(f"{error.name}."):
            raise
        raise UsageError(f"{kind} {name}: there is no module {error.name} in this folder or on Python's path") from None
    file = getattr(found, "__file__", "built in")
    for part in path.split("."):
        if not hasattr(found, part):
            raise UnknownName.among(f"name in {module} ({file})", part, filter(str.isidentifier, dir(found)))
        found = getattr(found, part)
    return found


def make(kind: str, name: str | Path, protocol: type) -> Any:
    """Import the plugin with a name, and call it if it makes the object that is wanted.

    Returns:
        The object; None for an existing path, and for a plain name that no package offers.

    Raises:
        UsageError: the plugin cannot be found, or the object is not of the protocol.
    """
    if Path(name).exists() or not (is_reference(str(name)) or str(name) in _installed(kind)):
        return None
    reference, text = split_argument(str(name))
    found = find(kind, reference)
    if text is not None:
        found = found(text)
    elif isinstance(found, type) or (callable(found) and not isinstance(found, protocol)):
        found = found()
    if not isinstance(found, protocol):
        missing = sorted(member for member in get_protocol_members(protocol) if not hasattr(found, member))
        raise UsageError(f"{kind} {name} is of type {type(found).__name__}, which has no {' and no '.join(missing)}")
    return found


def list_installed(kind: str, known: Iterable[str], describe: Callable[[Any], str]) -> dict[str, str]:
    """The plugins of installed packages that are not `known`, each with a line about it, or why it cannot be used."""
    lines: dict[str, str] = {}
    for name in sorted(_installed(kind).keys() - set(known)):
        try:
            lines[name] = describe(find(kind, name))
        except Exception as error:
            lines[name] = f"cannot be used: {type(error).__name__}: {error}"
    return lines


def offered_as(kind: str, reference: str) -> str:
    """The name of the entry point for `module:Name` in an installed package; empty if there is none."""
    offers = (point for points in _installed(kind).values() for point in points)
    return next((point.name for point in offers if point.value == reference), "")


def reference_of(thing: Any) -> str:
    """The `reference` of an object, or else the `module:Name` of a class or function, or of the object's class."""
    own = getattr(thing, "reference", None)
    if isinstance(own, str) and is_reference(own):  # of a program that is made from a `dspy.Module`
        return own
    named = thing if hasattr(thing, "__qualname__") else type(thing)
    return f"{named.__module__ or 'builtins'}:{named.__qualname__}"


def source_of(thing: Any) -> Path | None:
    """The file of the module in which a thing, or the class of an object, is defined."""
    file = getattr(sys.modules.get(reference_of(thing).partition(":")[0]), "__file__", None)
    return Path(file) if file else None


def outside_facts(things: Mapping[str, Any]) -> dict[str, dict[str, str]]:
    """The `module:Name`, the digest of the file, or of the code in a notebook, and the version of each plugin by role.

    The version is that of the installed package with the name of the module, if there is one.
    """
    facts: dict[str, dict[str, str]] = {}
    for role, thing in things.items():
        while _package_of(thing) == "knowgap" and getattr(thing, "__dict__", {}).get("wrapped") is not None:
            thing = thing.wrapped  # what a cache wraps
        thing = inspect.unwrap(thing) if callable(thing) else thing
        package = _package_of(thing)
        if thing is None or package in ("", "knowgap", "builtins"):
            continue
        facts[role] = {"name": reference_of(thing)}
        with suppress(OSError):
            facts[role]["sha256"] = hashlib.sha256(_code_of(thing)).hexdigest()
        with suppress(PackageNotFoundError):
            facts[role]["version"] = version(package)
    return facts


def _code_of(thing: Any) -> bytes:
    """The file in which a thing is defined, or what a notebook remembers of its functions."""
    file, known = source_of(thing), getattr(thing, "code", thing)  # `code`: of a program that is made from a module
    if file is not None:
        return file.read_bytes()
    owner = known if hasattr(known, "__qualname__") else type(known)
    functions = [owner] if inspect.isfunction(owner) else filter(inspect.isfunction, vars(owner).values())
    return "".join(map(inspect.getsource, functions)).encode()


def _package_of(thing: Any) -> str:
    return re.split("[.:]", reference_of(thing), maxsplit=1)[0]


def _installed(kind: str) -> dict[str, list[EntryPoint]]:
    """The entry points of a kind by name."""
    found: dict[str, list[EntryPoint]] = {}
    for point in entry_points(group=GROUPS[kind]):
        found.setdefault(point.name, []).append(point)
    return found
