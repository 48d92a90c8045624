"""The description of a trained sub-model: `sub_model.json` in its folder, beside the model's own files."""

from __future__ import annotations

from pathlib import Path
from typing import Literal, get_args

from pydantic import BaseModel, ValidationError

from knowgap.errors import CheckpointError, shorten

Task = Literal["know", "relevant", "decompose"]
Kind = Literal["seq2seq", "causal", "cross_encoder"]
CARD_FILE = "sub_model.json"
SEPARATOR = "|"
"""Separates the sub-questions that a decomposition model writes, since tokenizers drop line breaks."""

TASKS: tuple[Task, ...] = get_args(Task)
"""The arguments of `RAISF` that take a sub-model."""

PROMPTS: dict[Task, str] = {
    "know": "Judge whether the answer to the question is known without looking it up. Question: {question} Verdict:",
    "relevant": "Judge whether the passage helps to answer the question. Question: {question} Passage: {passage} "
    "Verdict:",
    "decompose": "Break the question into simpler questions. Question: {question} Simpler questions:",
}
_LABELS: dict[Task, tuple[str, str]] = {"know": ("unknown", "known"), "relevant": ("irrelevant", "relevant")}


class SubModelCard(BaseModel, extra="forbid", frozen=True):
    """How a sub-model is prompted and read.

    Attributes:
        task: the argument of `RAISF` that takes the model.
        kind: a sequence-to-sequence or causal language model, or for the two judgements a cross-encoder.
        prompt: the prompt of a language model, with `{question}` and `{passage}`; a cross-encoder reads only these two.
        labels: what a language model says for no and for yes; none for a decomposition.
        threshold: the probability from which yes counts.
        max_tokens: the most tokens of the input; a longer passage is cut. At most as many are generated.
        base: the model that it was trained from.
    """

    task: Task
    kind: Kind
    prompt: str
    labels: tuple[str, str] | None = None
    threshold: float = 0.5
    max_tokens: int = 512
    base: str = ""

    @classmethod
    def make(cls, task: Task, kind: Kind, *, base: str = "", max_tokens: int = 512) -> SubModelCard:
        """The card of a model that is trained here."""
        labels = _LABELS.get(task)
        return cls(task=task, kind=kind, prompt=PROMPTS[task], labels=labels, base=base, max_tokens=max_tokens)

    def write(self, folder: Path) -> None:
        """Write the card into the model's folder."""
        (folder / CARD_FILE).write_text(self.model_dump_json(indent=1) + "\n", encoding="utf-8")


def read_card(folder: str | Path, task: Task) -> SubModelCard:
    """Read the card of a sub-model.

    Raises:
        CheckpointError: there is none, it cannot be read, or it belongs to another sub-module.
    """
    path = Path(folder) / CARD_FILE
    try:
        card = SubModelCard.model_validate_json(path.read_bytes())
    except OSError:
        reason = f"not a sub-model of RA-ISF, since it has no {CARD_FILE}; `knowgap train ra-isf` makes one"
        raise CheckpointError(f"{folder}: {reason}") from None
    except ValidationError as error:
        raise CheckpointError(f"{path} is damaged: {shorten(error)}") from None
    if card.task != task:
        raise CheckpointError(f"{folder} is the sub-model {card.task!r} of RA-ISF, not {task!r}")
    return card
