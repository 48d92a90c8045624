"""The trained sub-models of RA-ISF, loaded from their folders."""

from __future__ import annotations

import re
import threading
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar, cast

from typing_extensions import Self

from knowgap.lms.ra_isf.card import SEPARATOR, SubModelCard, Task, folder_digest, read_card
from knowgap.lms.ra_isf.cross_encoder import CrossEncoderReader
from knowgap.lms.ra_isf.language_model import LabelReader

__all__ = [
    "DecompositionModel",
    "RelevanceModel",
    "SelfKnowledgeModel",
    "SubModel",
    "join_questions",
    "load_sub_model",
]


class SubModel:
    """A trained model, which is loaded when it is first asked. Copies are the same object.

    Args:
        folder: as `knowgap train ra-isf` writes it.
        device: where to compute; None takes a GPU if there is one.
        card: how it is asked; None reads it from the folder. With a card, any model can be asked, trained or not.

    Raises:
        CheckpointError: the folder holds no such sub-model.
    """

    task: ClassVar[Task]

    def __init__(self, folder: str | Path, *, device: str | None = None, card: SubModelCard | None = None) -> None:
        self.folder = Path(folder)
        self.name = str(folder)
        self.card = card or read_card(folder, self.task)
        self.threshold = self.card.threshold
        self._device = device
        self._loading = threading.Lock()

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        return load_sub_model, (self.task, self.folder, self.card)  # another process loads it from its folder

    @cached_property
    def digest(self) -> str:
        """SHA-256 of the folder's files."""
        return folder_digest(self.folder)

    @property
    def _reader(self) -> Any:
        with self._loading:
            return self._load

    @cached_property
    def _load(self) -> Any:
        reader = CrossEncoderReader if self.card.kind == "cross_encoder" else LabelReader
        return reader(self.name, self.card, self._device)


class SelfKnowledgeModel(SubModel):
    """Judges whether the language model knows the answer to a question (section 3.3, M_know)."""

    task: ClassVar[Task] = "know"

    def knows(self, questions: Sequence[str]) -> list[float]:
        """The probability, 0 to 1, that the answer to each question is known."""
        return self._reader.probabilities([(question, "") for question in questions])


class RelevanceModel(SubModel):
    """Judges whether a passage is relevant to a question (section 3.3, M_rel)."""

    task: ClassVar[Task] = "relevant"

    def relevant(self, pairs: Sequence[tuple[str, str]]) -> list[float]:
        """The probability, 0 to 1, that the passage is relevant, for each (question, passage)."""
        return self._reader.probabilities(list(pairs))


class DecompositionModel(SubModel):
    """Breaks questions into sub-questions (section 3.3, M_decom), decoding greedily (section 4.5)."""

    task: ClassVar[Task] = "decompose"

    def decompose(self, questions: Sequence[str]) -> list[list[str]]:
        """The sub-questions of each question; one that needs an earlier answer says `#1`, `#2`, and so on."""
        return [split_questions(text) for text in self._reader.generate(list(questions))]


def join_questions(questions: Sequence[str]) -> str:
    """Sub-questions as the text that a model writes."""
    return f" {SEPARATOR} ".join(" ".join(question.replace(SEPARATOR, "/").split()) for question in questions)


def split_questions(text: str) -> list[str]:
    """The sub-questions in a text that a model wrote; tokenizers may have put spaces into `#1`."""
    pieces = [" ".join(piece.split()) for piece in text.split(SEPARATOR)]
    return [re.sub(r"#\s+(?=\d)", "#", piece) for piece in pieces if piece]


_CLASSES: dict[Task, type[SubModel]] = {
    "know": SelfKnowledgeModel,
    "relevant": RelevanceModel,
    "decompose": DecompositionModel,
}


def load_sub_model(task: str, folder: str | Path, card: SubModelCard | None = None) -> SubModel:
    """Load a sub-model.

    Args:
        task: the argument of `RAISF` that takes it: `know`, `relevant` or `decompose`.
        folder: as `knowgap train ra-isf` writes it.
        card: how it is asked; None reads it from the folder.

    Raises:
        CheckpointError: the folder holds no such sub-model.
    """
    return _CLASSES[cast("Task", task)](folder, card=card)
