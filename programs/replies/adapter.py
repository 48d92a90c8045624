"""DSPy's three formats, which here read replies as models write them and show no input that could forge a field."""

from __future__ import annotations

import functools
import logging
import re
from typing import Any, ClassVar

import dspy
from dspy.adapters.utils import format_field_value
from dspy.clients.call_context import adapter_fallback_scope
from dspy.utils.exceptions import AdapterParseError

from knowgap.programs.replies.fields import Form, read_fields
from knowgap.programs.replies.outputs import map_texts

_LOG = logging.getLogger("knowgap")
_MARKER = re.compile(r"\[(?=\[[ \t]*#)")


class _Lenient:
    """What the three formats have in common; mixed in before DSPy's adapter of the format."""

    form: ClassVar[Form]
    falls_back: bool
    """Whether JSON is asked for where a reply cannot be read."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._fall_back_here()

    def _fall_back_here(self) -> None:
        """Let `__call__` ask for JSON instead of DSPy's adapter, which would read the reply in its own way."""
        adapter: Any = self
        self.falls_back, adapter.use_json_adapter_fallback = adapter.use_json_adapter_fallback, False

    def __call__(self, *args: Any, **kwargs: Any) -> list[dict[str, Any]]:
        """Ask; if the reply cannot be read, ask once more for JSON.

        Raises:
            AdapterParseError: the last reply cannot be read.
        """
        adapter: Any = super()
        with adapter_fallback_scope() as progress:
            try:
                return adapter.__call__(*args, **kwargs)
            except AdapterParseError:
                if progress.emitted or not self.falls_back or self.form == "json":
                    raise
                options = ("use_native_function_calling", "parallel_tool_calls")
                return _JSON(**{name: getattr(self, name) for name in options})(*args, **kwargs)

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
        fields = read_fields(signature, completion, self.form)
        if fields is None:
            what: Any = signature  # DSPy annotates the class as an instance
            raise AdapterParseError(type(self).__name__, what, completion, "no complete set of fields was found")
        return fields


class _JSON(_Lenient, dspy.JSONAdapter):
    form = "json"


class _XML(_Lenient, dspy.XMLAdapter):
    form = "xml"


class CachingChatAdapter(_Lenient, dspy.ChatAdapter):
    """Writes the same messages as `dspy.ChatAdapter` in less time.

    DSPy describes the fields of a signature, JSON schemas included, and validates every text for every call. With many
    calls at once, that limits how many of them one process can keep going.
    """

    form = "chat"

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


@functools.lru_cache(maxsize=1024)
def _describe(signature: type[dspy.Signature], _instructions: str) -> str:
    return dspy.ChatAdapter().format_system_message(signature)


_DEFAULT = CachingChatAdapter()
_FORMATS: dict[type, type[Any]] = {
    dspy.ChatAdapter: CachingChatAdapter,
    dspy.JSONAdapter: _JSON,
    dspy.XMLAdapter: _XML,
}


def adapter_in_use() -> Any:
    """The adapter in DSPy's settings, or else its chat format; DSPy's own ones read replies as models write them."""
    return _DEFAULT if dspy.settings.adapter is None else lenient(dspy.settings.adapter)


def lenient(adapter: Any) -> Any:
    """A copy of DSPy's chat, JSON or XML adapter that writes the same prompts and reads more replies.

    An adapter of another class is returned as it is, which is said once.
    """
    if type(adapter) not in _FORMATS:
        if not isinstance(adapter, _Lenient):
            _say_once(type(adapter))
        return adapter
    cls = _FORMATS[type(adapter)]
    twin: Any = object.__new__(cls)
    vars(twin).update(vars(adapter))
    twin._fall_back_here()
    return twin


@functools.cache
def _say_once(adapter: type) -> None:
    _LOG.warning(
        "%s reads replies in its own way, without knowgap's repairs, and field marks in passages stay as they are: "
        "use dspy.ChatAdapter, JSONAdapter or XMLAdapter for both",
        adapter.__name__,
    )


def without_marks(value: Any, signature: type[dspy.Signature]) -> Any:
    """Write the field marks in an input's texts as `[ [ ## answer ## ] ]` and `< answer>`, which no format reads.

    A passage that holds `[[ ## answer ## ]]` or `<answer>` could otherwise end a field of a reply that quotes it, and
    begin another.

    Args:
        value: the value of an input field: text, or lists, dictionaries and models of texts.
        signature: XML tags that have the names of its fields are marks, others stay.
    """
    hashable: Any = signature  # type checkers do not know that the class is hashable
    tag = _tag(hashable)

    def change(text: str) -> str:
        return tag.sub("< ", _MARKER.sub("[ ", text)) if "[[" in text or "<" in text else text

    return map_texts(value, change)


@functools.lru_cache(maxsize=1024)
def _tag(signature: type[dspy.Signature]) -> re.Pattern[str]:
    return re.compile(rf"<(?=/?\s*(?:{'|'.join(map(re.escape, signature.fields))})\b)", re.I)
