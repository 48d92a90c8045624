"""DSPy's chat format with fewer computations per call."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import dspy
from dspy.adapters.utils import format_field_value

__all__ = ["CachingChatAdapter"]


class CachingChatAdapter(dspy.ChatAdapter):
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
                value = inputs[name]
                written = value if type(value) is str else format_field_value(field_info=field, value=value)
                parts.append(f"[[ ## {name} ## ]]\n{written}")
        if main_request:
            parts.append(self.user_message_output_requirements(signature))
        parts.append(suffix)
        return "\n\n".join(parts).strip()


@lru_cache(maxsize=1024)
def _describe(signature: type[dspy.Signature], _instructions: str) -> str:
    return dspy.ChatAdapter().format_system_message(signature)
