"""Plugins: programs, metrics, retrievers and models from outside the package.

`module:Name` is `Name` in an importable module. If it is a callable that makes the plugin, `module:Name:TEXT` calls it
with that text. An exception that a plugin's own code raises is passed on with its traceback.
"""

from __future__ import annotations

import hashlib
import importlib
import inspect
import re
import sys
from collections.abc import Iterable, Mapping
from contextlib import suppress
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from typing_extensions import get_protocol_members

from knowgap.errors import UnknownName, UsageError

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
        kind: what it should be, such as "program", for messages.
        name: `module:Name`.
        known: knowgap's own names of the kind, for the message.

    Raises:
        UnknownName: the name does not have that form.
        UsageError: there is no such module, or it does not have the name.
    """
    if not is_reference(name):
        raise UnknownName.among(kind, name, known)
    module, _, path = name.partition(":")
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
        The object; None for an existing path, and for a name that is not of the form `module:Name`.

    Raises:
        UsageError: the plugin cannot be found, or the object is not of the protocol.
    """
    if Path(name).exists() or not is_reference(str(name)):
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


def reference_of(thing: Any) -> str:
    """The `reference` of an object, or else the `module:Name` of a class or function, or of the object's class."""
    own = getattr(thing, "reference", None)
    if isinstance(own, str) and is_reference(own):  # of a program that is made from a `dspy.Module`
        return own
    named = thing if hasattr(thing, "__qualname__") else type(thing)
    return f"{named.__module__ or 'builtins'}:{named.__qualname__}"


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
    file = getattr(sys.modules.get(reference_of(thing).partition(":")[0]), "__file__", None)
    if file:
        return Path(file).read_bytes()
    known = getattr(thing, "code", thing)  # of a program that is made from a module
    owner = known if hasattr(known, "__qualname__") else type(known)
    functions = [owner] if inspect.isfunction(owner) else filter(inspect.isfunction, vars(owner).values())
    return "".join(map(inspect.getsource, functions)).encode()


def _package_of(thing: Any) -> str:
    return re.split("[.:]", reference_of(thing), maxsplit=1)[0]
