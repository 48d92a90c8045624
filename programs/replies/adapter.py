"""DSPy's formats with fewer computations per call, and replies read as models write them."""

from __future__ import annotations

from contextlib import suppress
from functools import lru_cache
from typing import Any, ClassVar

import dspy
from dspy.adapters.utils import format_field_value
from dspy.adapters.xml_adapter import XMLAdapter
from dspy.utils.exceptions import AdapterParseError

from knowgap.programs.replies.fields import Form, read_fields
from knowgap.programs.replies.marks import without_marks


class _Lenient:
    """Reads replies with `read_fields`, and shows inputs without field marks, which a passage could forge an answer by.

    Mixed into an adapter class, since a subclass of one wraps its methods.
    """

    form: ClassVar[Form] = "chat"
    parses_itself: ClassVar[bool] = False

    def format_user_message_content(
        self, signature: type[dspy.Signature], inputs: dict[str, Any], *args: Any, **kwargs: Any
    ) -> str:
        """Write the inputs of a call, with their field marks made harmless."""
        inputs = {name: without_marks(value, signature) for name, value in inputs.items()}
        parent: Any = super()
        return parent.format_user_message_content(signature, inputs, *args, **kwargs)

    def parse(self, signature: type[dspy.Signature], completion: str) -> dict[str, Any]:
        """Read the output fields of a reply.

        Raises:
            AdapterParseError: a field without a default cannot be read.
        """
        if self.parses_itself:
            with suppress(AdapterParseError):
                return super().parse(signature, completion)  # pyright: ignore[reportAttributeAccessIssue]
        fields = read_fields(signature, completion, self.form)
        if fields is None:
            what: Any = signature  # DSPy annotates the class as an instance
            raise AdapterParseError(type(self).__name__, what, completion, "no complete set of fields was found")
        return fields

    def _make_json_adapter_fallback(self) -> Any:
        return lenient(super()._make_json_adapter_fallback())  # pyright: ignore[reportAttributeAccessIssue]


class CachingChatAdapter(_Lenient, dspy.ChatAdapter):
    """Writes the same messages as `dspy.ChatAdapter` in less time.

    DSPy describes the fields of a signature, JSON schemas included, and validates every text anew for every call. With
    many calls at once, that limits how many of them one process can keep going.
    """

    def format_system_message(self, signature: type[dspy.Signature]) -> str:
        """Describe a signature; cached, since the description does not change."""
        hashable: Any = signature  # type checkers do not know that the class is hashable
        return _describe(hashable, signature.instructions)

    def format_user_message_content(
        self,
        signature: type[dspy.Signature],
        inputs: dict[str, Any],
        prefix: str = "",
        suffix: str = "",
        main_request: bool = False,
    ) -> str:
        """Write the inputs of a call; text stays as it is."""
        parts = [prefix]
        for name, field in signature.input_fields.items():
            if name in inputs:
                value = without_marks(inputs[name], signature)
                written = value if type(value) is str else format_field_value(field_info=field, value=value)
                parts.append(f"[[ ## {name} ## ]]\n{written}")
        if main_request:
            parts.append(self.user_message_output_requirements(signature))
        parts.append(suffix)
        return "\n\n".join(parts).strip()


@lru_cache(maxsize=1024)
def _describe(signature: type[dspy.Signature], _instructions: str) -> str:
    return dspy.ChatAdapter().format_system_message(signature)


_DEFAULT = CachingChatAdapter()


def adapter_in_use() -> Any:
    """The adapter in DSPy's settings, or else its chat format; both read replies as models write them."""
    return _DEFAULT if dspy.settings.adapter is None else lenient(dspy.settings.adapter)


def lenient(adapter: Any) -> Any:
    """A copy of a chat, JSON or XML adapter that writes the same prompts and reads more replies.

    Where the adapter has a `parse` of its own, that one reads first. An adapter of another kind, such as DSPy's
    two-step adapter, is returned as it is.
    """
    if isinstance(adapter, _Lenient) or not isinstance(adapter, dspy.ChatAdapter):
        return adapter
    cls = _lenient_class(type(adapter))
    twin = cls.__new__(cls)
    vars(twin).update(vars(adapter))
    return twin


@lru_cache(maxsize=64)
def _lenient_class(cls: type[dspy.ChatAdapter]) -> type[dspy.ChatAdapter]:
    form = "xml" if issubclass(cls, XMLAdapter) else "json" if issubclass(cls, dspy.JSONAdapter) else "chat"
    parses_itself = not cls.parse.__module__.startswith("dspy.")
    made: Any = type(cls.__name__, (_Lenient, cls), {"form": form, "parses_itself": parses_itself})
    return made
