"""DSPy's chat format, with what stays the same from call to call written once."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import dspy
from dspy.adapters.utils import format_field_value

__all__ = ["CachingChatAdapter"]


class CachingChatAdapter(dspy.ChatAdapter):
    """The same messages as `dspy.ChatAdapter`'s, in less time.

    DSPy describes the fields of a signature anew for every call, JSON schemas included, and takes every text through a
    validator. With many calls at once, that decides how many of them one process can keep going.
    """

    def format_system_message(self, signature: type[dspy.Signature]) -> str:
        """The description of a signature: remembered, since it does not change."""
        described: Any = signature  # a class, which type checkers do not take for hashable
        return _described(described, signature.instructions)

    def format_user_message_content(
        self,
        signature: type[dspy.Signature],
        inputs: dict[str, Any],
        prefix: str = "",
        suffix: str = "",
        main_request: bool = False,
    ) -> str:
        """The inputs of a call, text as it is."""
        parts = [prefix]
        for name, field in signature.input_fields.items():
            if name in inputs:
                value = inputs[name]
                written = value if type(value) is str else format_field_value(field_info=field, value=value)
                parts.append(f"[[ ## {name} ## ]]\n{written}")
        if main_request:
            parts.append(self.user_message_output_requirements(signature))
        parts.append(suffix)
        return "\n\n".join(parts).strip()


@lru_cache(maxsize=1024)
def _described(signature: type[dspy.Signature], _instructions: str) -> str:
    return dspy.ChatAdapter().format_system_message(signature)
