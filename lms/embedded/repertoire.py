"""The acts that the embedded reader can be asked for, found by the fields of a prompt."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from knowgap.errors import SignatureNotServed
from knowgap.lms.embedded.inputs import Inputs
from knowgap.lms.embedded.prompts import Prompt

__all__ = ["Repertoire"]

ActFunction = Callable[[Inputs], dict[str, Any]]


@dataclass(frozen=True)
class _Act:
    """A function, the outputs that it always gives, those that it can add, and the inputs that it needs."""

    function: ActFunction
    outputs: frozenset[str]
    extra: frozenset[str]
    needs: frozenset[str]

    def serves(self, prompt: Prompt) -> bool:
        requested = prompt.outputs.keys()
        return self.outputs <= requested <= self.outputs | self.extra and self.needs <= prompt.inputs.keys()


class Repertoire:
    """All registered acts."""

    def __init__(self) -> None:
        self._acts: list[_Act] = []

    def act(self, outputs: str, needs: str, extra: str = "reasoning") -> Callable[[ActFunction], ActFunction]:
        """Register a function as an act; each argument has field names separated by spaces.

        Args:
            outputs: the fields that a prompt must ask for.
            needs: the inputs that a prompt must have.
            extra: further fields that a prompt may ask for.
        """

        def register(function: ActFunction) -> ActFunction:
            fields = (frozenset(names.split()) for names in (outputs, extra, needs))
            self._acts.append(_Act(function, *fields))
            return function

        return register

    def perform(self, prompt: Prompt) -> dict[str, Any]:
        """Return the values of the output fields, in the order in which the prompt asks for them.

        Raises:
            SignatureNotServed: no act gives these outputs from these inputs.
        """
        if prompt.inputs.keys() == {"text"} and (values := _copy_fields(str(prompt.inputs["text"]), prompt)):
            return values
        serving = [act for act in self._acts if act.serves(prompt)]
        if not serving:
            raise SignatureNotServed(
                f"the extractive reader does not serve {', '.join(prompt.inputs)} -> {', '.join(prompt.outputs)}: "
                "use a language model for this act (--lm)"
            )
        # Of several, take the act with the most outputs, then the one that uses the most inputs.
        best = max(serving, key=lambda act: (len(act.outputs), len(act.needs)))
        values = best.function({**prompt.inputs, "": prompt})
        return {name: _convert(name, values, prompt) for name in prompt.outputs}


def _copy_fields(text: str, prompt: Prompt) -> dict[str, Any] | None:
    """The second step of DSPy's two-step adapter: copy the fields from the first step's `name: value` lines."""
    names = "|".join(prompt.outputs)
    fields = dict(re.findall(rf"^({names}): (.*?)(?=^(?:{names}): |\Z)", text, re.M | re.S))
    if fields.keys() != prompt.outputs.keys():
        return None
    return {
        name: fields[name].strip() if kind == "str" else _read_json(fields[name].strip())
        for name, kind in prompt.outputs.items()
    }


def _read_json(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return text


def _convert(name: str, values: Mapping[str, Any], prompt: Prompt) -> Any:
    """Convert a value to the type of its field."""
    value, kind = values.get(name, ""), prompt.outputs[name]
    if kind == "NoulEvidence":
        probability = float(values.get("probability", 0.9))
        return {"noul": round(probability if value in (True, "yes") else 1 - probability, 3)}
    if name == "confidence" and kind == "int":
        return max(1, min(5, round(1 + 4 * float(value))))
    if kind == "bool" and isinstance(value, str):
        return value.lower() == "yes"
    if kind in ("int", "float") and isinstance(value, str):
        digits = re.search(r"-?\d+(?:\.\d+)?", value.replace(",", ""))
        return (int if kind == "int" else float)(float(digits[0]) if digits else 0)
    if kind.startswith("list[") and isinstance(value, str):
        return [value] if value else []
    return str(value) if kind == "str" else value
