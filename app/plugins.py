"""Plugins: programs, metrics, retrievers and models from outside the package.

`module:Name` is `Name` in a module that can be imported; the command line also finds modules of the current folder. If
it is a callable that makes the plugin, `module:Name:TEXT` calls it with that text. An exception that a plugin's own
code raises is passed on.
"""

from __future__ import annotations

import hashlib
import importlib
import inspect
import re
import sys
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from typing_extensions import get_protocol_members

from knowgap.errors import UnknownName, UsageError

_REFERENCE = re.compile(r"([^\W\d][\w.]*:[^\W\d][\w.]*)(?::(.+))?", re.DOTALL)


def is_reference(name: Any) -> bool:
    """Whether a name has the form `module:Name` or `module:Name:TEXT`."""
    return isinstance(name, str) and _REFERENCE.fullmatch(name) is not None


def split_argument(name: str) -> tuple[str, str | None]:
    """`module:Name:TEXT` as `module:Name` and the text, which is None if there is none."""
    match = _REFERENCE.fullmatch(name)
    return (match[1], match[2]) if match else (name, None)


def find(kind: str, name: str, known: Iterable[str] = ()) -> Any:
    """Import what `module:Name` names, a `kind` of plugin; `known` are knowgap's own names of that kind.

    Raises:
        UnknownName: the name has another form, or the module does not have it.
        UsageError: there is no such module.
    """
    if not is_reference(name):
        raise UnknownName.among(kind, name, known)
    module, _, path = name.partition(":")
    try:
        found: Any = importlib.import_module(module)
    except ModuleNotFoundError as error:
        if error.name is None or not f"{module}.".startswith(f"{error.name}."):
            raise
        raise UsageError(f"{kind} {name}: there is no module {error.name} in this folder or on Python's path") from None
    for part in path.split("."):
        if not hasattr(found, part):
            raise UnknownName.among(f"name in {module}", part, filter(str.isidentifier, dir(found)))
        found = getattr(found, part)
    return found


def make(kind: str, name: str | Path, protocol: type) -> Any:
    """Import what `module:Name` names, and call it if it makes the object that is wanted.

    Returns:
        The object; None for an existing path, and for a name of another form.

    Raises:
        UsageError: the plugin cannot be found, or the object is not of the protocol.
    """
    if Path(name).exists() or not is_reference(str(name)):
        return None
    reference, text = split_argument(str(name))
    found = find(kind, reference)
    if text is not None:
        found = found(text)
    elif isinstance(found, type) or not isinstance(found, protocol):
        found = found()
    if not isinstance(found, protocol):
        missing = sorted(member for member in get_protocol_members(protocol) if not hasattr(found, member))
        raise UsageError(f"{kind} {name} is of type {type(found).__name__}, which has no {' and no '.join(missing)}")
    return found


def reference_of(thing: Any) -> str:
    """The `reference` of an object, or else the `module:Name` of a class or function, or of the object's class."""
    named = thing if hasattr(thing, "__qualname__") else type(thing)
    own = getattr(thing, "reference", "")  # of a program that is made from a `dspy.Module`
    return own if is_reference(own) else f"{named.__module__ or 'builtins'}:{named.__qualname__}"


def outside_facts(things: Mapping[str, Any]) -> dict[str, dict[str, str]]:
    """The `module:Name` of each plugin, by role, and the digest of its file, or of its functions in a notebook."""
    facts: dict[str, dict[str, str]] = {}
    for role, thing in things.items():
        while reference_of(thing).startswith("knowgap.") and getattr(thing, "__dict__", {}).get("wrapped") is not None:
            thing = thing.wrapped  # what a cache wraps
        thing = inspect.unwrap(thing) if callable(thing) else thing
        module = reference_of(thing).partition(":")[0]
        if thing is None or module.partition(".")[0] in ("knowgap", "builtins"):
            continue
        facts[role] = {"name": reference_of(thing)}
        with suppress(OSError):
            file = getattr(sys.modules.get(module), "__file__", None)
            code = Path(file).read_bytes() if file else _functions_of(thing)
            facts[role]["sha256"] = hashlib.sha256(code).hexdigest()
    return facts


def _functions_of(thing: Any) -> bytes:
    """The source of a function, or of a class's functions, as a notebook remembers it."""
    known = getattr(thing, "code", thing)  # of a program that is made from a module
    owner = known if hasattr(known, "__qualname__") else type(known)
    return "".join(map(inspect.getsource, filter(inspect.isfunction, (owner, *vars(owner).values())))).encode()
