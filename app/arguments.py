"""Arguments of a wrong type are refused in one line, by the annotations of the function that gets them."""

from __future__ import annotations

import functools
import inspect
import re
from collections.abc import Callable, Mapping
from dataclasses import is_dataclass
from types import UnionType
from typing import Any, NamedTuple, TypeVar, Union, cast, get_args, get_origin, get_type_hints

from knowgap.errors import UsageError, shorten

__all__ = ["checked"]

F = TypeVar("F", bound=Callable[..., Any])


class _Adapter(NamedTuple):
    """What validates an argument (pydantic's `TypeAdapter`), and its type in words."""

    types: Any
    wanted: str


def checked(function: F) -> F:
    """Let a function refuse arguments whose types are not as annotated.

    The error is a `UsageError` in one line that says which argument, what is wanted and what came. Nothing is converted
    or copied, and what an iterator yields is not looked at. One argument too many or too few is Python's
    own `TypeError`.
    """
    signature = inspect.signature(function)

    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        arguments = signature.bind(*args, **kwargs).arguments
        for name, adapter in _adapters(function).items():
            if name in arguments:
                _check(f"{function.__qualname__.removesuffix('.__init__')}: {name}", arguments[name], adapter)
        return function(*args, **kwargs)

    return cast("F", call)


@functools.cache
def _adapters(function: Callable[..., Any]) -> Mapping[str, _Adapter]:
    """What validates each annotated argument; made at the first call, since it imports pydantic."""
    import pydantic

    single = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
    names = [name for name, each in inspect.signature(function).parameters.items() if each.kind in single]
    try:
        hints = get_type_hints(function)
    except NameError:  # an annotation names what is imported for type checkers only
        return {}
    adapters = {}
    for name in (name for name in names if name in hints):
        hint = hints[name]
        config = None if _is_model(hint) else pydantic.ConfigDict(arbitrary_types_allowed=True)
        adapter = pydantic.TypeAdapter(_instances(hint), config=config)
        adapters[name] = _Adapter(adapter, _written(getattr(hint, "__bound__", None) or hint))
    return adapters


def _written(hint: Any) -> str:
    """A hint as it is written in the code, without modules; `X | None` also where Python 3.10 has `Optional[X]`."""
    if get_origin(hint) in (Union, UnionType):
        return " | ".join("None" if each is type(None) else _written(each) for each in get_args(hint))
    return re.sub(r"\b\w+\.", "", inspect.formatannotation(hint))


def _instances(hint: Any) -> Any:
    """A type of which pydantic models and dataclasses must be instances, and are not made of dictionaries."""
    from pydantic import InstanceOf

    if _is_model(hint):
        return cast("Any", InstanceOf)[hint]
    if get_origin(hint) in (Union, UnionType):
        return Union[tuple(map(_instances, get_args(hint)))]  # noqa: UP007  # it is made at run time
    return hint


def _is_model(hint: Any) -> bool:
    return inspect.isclass(hint) and (hasattr(hint, "model_fields") or is_dataclass(hint))


def _check(what: str, value: Any, adapter: _Adapter) -> None:
    from pydantic import ValidationError

    try:
        plain = value.item() if type(value).__module__ == "numpy" and value.ndim == 0 else value
        adapter.types.validate_python(plain, strict=True)
    except ValidationError as error:
        [first, *others] = error.errors(include_url=False)
        place, came = "it", value
        if not others:  # otherwise no member of a union fits
            place = "".join(f"[{position!r}]" for position in first["loc"]) or place
            came = first["input"]
        raise UsageError(
            f"{what} must be {adapter.wanted}, but {place} is {type(came).__name__}: {shorten(repr(came), 60)}"
        ) from None
