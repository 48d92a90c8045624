"""A teacher of RA-ISF's sub-models that knows the gold evidence of its questions, and remembers half of the world."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Any

import dspy

from knowgap.compiling.training.labelling import refer_to_answers
from knowgap.lms.embedded.inputs import Prompt
from knowgap.retrieval.passage import Passage
from models.prompt_engine import PromptEngine

_FORGOTTEN = re.compile(r"date|inception|population|length|place|located|location|city|mouth|headquarters")


class GoldTeacher(PromptEngine):
    """A DSPy engine that answers the prompts of RA-ISF's sub-modules.

    Without passages it answers rightly unless a fact of the question is a date, a number, a city or another place: of
    these it remembers none. A passage is relevant if it is gold. It decomposes as the data set does.

    Args:
        examples: questions with `gold_ids`, `evidences` and `decomposition`.
        corpus: their passages.
    """

    def __init__(self, examples: Sequence[dspy.Example], corpus: Iterable[Passage]) -> None:
        self._examples = {example.question: example for example in examples}
        self._texts = {str(passage): passage.id for passage in corpus}

    def outputs(self, prompt: Prompt) -> dict[str, Any]:
        """The outputs that the prompt asks for."""
        inputs = prompt.inputs
        example = self._examples[str(inputs["question"])]
        remembers = not any(_FORGOTTEN.search(relation) for _, relation, _ in example.evidences)
        known = {
            "knows": remembers,
            "answer": example.answer if remembers else "unknown",
            "relevant": self._texts.get(str(inputs.get("passage", ""))) in example.gold_ids,
            "questions": refer_to_answers(example),
        }
        return {name: known[name] for name in prompt.outputs}
