"""DSPy's chat and JSON adapters, made to read replies leniently and to keep inputs from forging fields."""

from __future__ import annotations

import json
import textwrap
from typing import Any, get_args, get_origin

import dspy
from dspy.adapters.utils import translate_field_type
from dspy.utils.exceptions import AdapterParseError
from pydantic import BaseModel
from pydantic.fields import FieldInfo

from knowgap.programs.replies.fields import PLACEHOLDER, read_fields, without_marks

_EXAMPLES: dict[Any, str] = {
    str: PLACEHOLDER,
    bool: "True or False",
    list[str]: json.dumps([PLACEHOLDER] * 2, ensure_ascii=False),
    list[int]: "[1, 2]",
}
"""What stands for a value of a type where the form of a reply is shown."""


class _Lenient:
    """The common part of the adapters: a mixin that precedes DSPy's adapter of the same format."""

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


class LenientChatAdapter(_Lenient, dspy.ChatAdapter):
    """A `dspy.ChatAdapter` that reads more replies, and writes shorter messages.

    The fields and their markers are the same. The form of a reply is shown once, with an example for a list instead of
    a JSON schema.
    """

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
    """What stands for a value where the form of a reply is shown; DSPy's placeholder for a type that needs a schema.

    Small models copy DSPy's placeholder, `{answer}`, into the reply.
    """
    kind: Any = field.annotation
    if kind in _EXAMPLES:
        return _EXAMPLES[kind]
    if kind in (int, float):
        bounds = [f"{getattr(mark, side):g}" for side in ("ge", "le") for mark in field.metadata if hasattr(mark, side)]
        number = "a whole number" if kind is int else "a number"
        return f"({number} from {' to '.join(bounds)})" if len(bounds) == 2 else f"({number})"
    item: Any = get_args(kind)[0] if get_origin(kind) is list else None
    fields = item.model_fields if isinstance(item, type) and issubclass(item, BaseModel) else {}
    if fields and all(each.annotation in (str, list[int]) for each in fields.values()):
        texts = {name: f"({each.description})" if each.description else PLACEHOLDER for name, each in fields.items()}
        shown = {name: texts[name] if each.annotation is str else [1, 2] for name, each in fields.items()}
        return json.dumps([shown], ensure_ascii=False)
    return translate_field_type(name, field).replace("        # note: the value you produce must", " must")


_FORMATS: dict[type, type[Any]] = {dspy.ChatAdapter: LenientChatAdapter, dspy.JSONAdapter: LenientJSONAdapter}


def adapter_in_use() -> Any:
    """A lenient copy of DSPy's chat or JSON adapter in the settings (the chat adapter if none is set).

    Any other is returned as it is: it reads replies in its own way, and leaves field marks in inputs as they are.
    """
    adapter: Any = dspy.settings.adapter or dspy.ChatAdapter()
    if type(adapter) not in _FORMATS:
        return adapter
    twin: Any = _FORMATS[type(adapter)]()
    vars(twin).update(vars(adapter))
    return twin
