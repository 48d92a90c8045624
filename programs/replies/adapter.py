"""DSPy's chat and JSON adapters, made to read replies leniently and to keep inputs from forging fields."""

from __future__ import annotations

import json
import textwrap
from typing import Any, ClassVar, get_args, get_origin

import dspy
from dspy.adapters.utils import translate_field_type
from dspy.utils.exceptions import AdapterParseError
from pydantic import BaseModel
from pydantic.fields import FieldInfo

from knowgap.lms.transcripts import TranscriptAdapter
from knowgap.programs.replies.fields import read_fields
from knowgap.programs.replies.forms import without_marks
from knowgap.programs.replies.text import warn_once


class _Lenient:
    """The common part of the adapters: a mixin that precedes DSPy's adapter of the same format."""

    form: ClassVar[str]

    def parse(self, signature: type[dspy.Signature], completion: str) -> dict[str, Any]:
        """Read the output fields of a reply.

        Raises:
            AdapterParseError: a field without a default cannot be read.
        """
        fields = read_fields(signature, completion)
        if fields is None:
            what: Any = signature  # DSPy annotates the class as an instance
            raise AdapterParseError(type(self).__name__, what, completion, "no complete set of fields was found")
        return fields

    def format_user_message_content(
        self, signature: type[dspy.Signature], inputs: dict[str, Any], *args: Any, **kwargs: Any
    ) -> str:
        """Write the inputs of a call, with their field marks made harmless."""
        inputs = {name: without_marks(value, signature) for name, value in inputs.items()}
        written: Any = super()
        return written.format_user_message_content(signature, inputs, *args, **kwargs)


class LenientJSONAdapter(_Lenient, dspy.JSONAdapter):
    """A `dspy.JSONAdapter` that reads more replies."""

    form = "json"


class LenientChatAdapter(_Lenient, dspy.ChatAdapter):
    """A `dspy.ChatAdapter` that reads more replies, and writes shorter messages.

    The fields and their markers are the same. The form of a reply is shown once, with an example for a list instead of
    a JSON schema.
    """

    form = "chat"

    def _make_json_adapter_fallback(self) -> LenientJSONAdapter:
        return LenientJSONAdapter()  # which DSPy asks for JSON if a reply cannot be read

    def format_system_message(self, signature: type[dspy.Signature]) -> str:
        """Describe a signature: its fields, the form of a reply, and the task."""
        form = [f"[[ ## {name} ## ]]\n{_example(name, field)}" for name, field in signature.output_fields.items()]
        form = "\n\n".join([*form, "[[ ## completed ## ]]"])
        task = textwrap.dedent(signature.instructions).strip()
        fields = self.format_field_description(signature)
        return f"{fields}\n\nWrite every reply in this form:\n\n{form}\n\nYour task:\n{task}"

    def user_message_output_requirements(self, signature: type[dspy.Signature]) -> str:
        """Name the output fields at the end of a prompt, in the order in which they are written."""
        marks = [f"`[[ ## {name} ## ]]`" for name in (*signature.output_fields, "completed")]
        return f"Respond with {', then '.join(marks)}."


def _example(name: str, field: FieldInfo) -> str:
    """The placeholder for a value where the form of a reply is shown."""
    kind: Any = field.annotation
    if kind in (int, float):
        bounds = [f"{getattr(mark, side):g}" for side in ("ge", "le") for mark in field.metadata if hasattr(mark, side)]
        number = "a whole number" if kind is int else "a number"
        return f"({number} from {' to '.join(bounds)})" if len(bounds) == 2 else f"({number})"
    if get_origin(kind) is not list or (item := _item(get_args(kind)[0])) is None:
        return translate_field_type(name, field).replace("        # note: the value you produce must", " must")
    return json.dumps([item, item] if item == "…" else [1, 2] if item == 1 else [item], ensure_ascii=False)


def _item(kind: Any) -> Any:
    """An item of a list as JSON: a model with its fields in their order; None for a type that needs a schema."""
    if kind in (str, int):
        return "…" if kind is str else 1
    fields = kind.model_fields if isinstance(kind, type) and issubclass(kind, BaseModel) else {}
    if any(field.annotation not in (str, list[int]) for field in fields.values()):
        return None
    said = {name: f"({field.description})" if field.description else "…" for name, field in fields.items()}
    return {name: said[name] if field.annotation is str else [1, 2] for name, field in fields.items()} or None


_DEFAULT = LenientChatAdapter()
_FORMATS: dict[type, type[Any]] = {dspy.ChatAdapter: LenientChatAdapter, dspy.JSONAdapter: LenientJSONAdapter}


def adapter_in_use() -> Any:
    """The lenient version of the adapter in DSPy's settings, or of the chat adapter if none is set."""
    return _DEFAULT if dspy.settings.adapter is None else lenient(dspy.settings.adapter)


def lenient(adapter: Any) -> Any:
    """A copy of DSPy's chat or JSON adapter that reads more replies; any other, with a warning, as it is."""
    if type(adapter) not in _FORMATS:
        if not isinstance(adapter, (_Lenient, TranscriptAdapter)):
            warn_once(
                f"{type(adapter).__name__} reads replies in its own way, without knowgap's repairs, and field marks in "
                "passages stay as they are: use dspy.ChatAdapter or dspy.JSONAdapter for both"
            )
        return adapter
    twin: Any = _FORMATS[type(adapter)]()
    vars(twin).update(vars(adapter))
    return twin
