"""The trained sub-models of RA-ISF, loaded from their folders.

A cross-encoder judges a question and a passage with one logit, that of yes; a causal or sequence-to-sequence model
judges by the probability of its labels, or writes sub-questions.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar, cast

from knowgap.errors import CheckpointError
from knowgap.lms.local.engine import HFEngine
from knowgap.lms.ra_isf.card import SEPARATOR, SubModelCard, Task, read_card
from knowgap.retrieval.passage import NeverCopied
from knowgap.storage.files import folder_digest

_PAIRS_PER_BATCH = 32
_MOST_WRITTEN = 256  # tokens of all sub-questions together


class SubModel(NeverCopied):
    """A trained model, which is loaded at its first use; a copy is the same object.

    Args:
        folder: as `knowgap train ra-isf` writes it.
        card: how to prompt it; None reads the card from the folder. With a given card, the model need not be trained.

    Raises:
        CheckpointError: the folder holds no such sub-model.
    """

    task: ClassVar[Task]

    def __init__(self, folder: str | Path, card: SubModelCard | None = None) -> None:
        self.folder = Path(folder)
        self.name = str(folder)
        self.card = card or read_card(folder, self.task)
        self.threshold = self.card.threshold
        self._trained = card is None
        self._loading = threading.Lock()

    def __reduce__(self) -> tuple[Any, ...]:
        return load_sub_model, (self.task, self.folder)  # another process loads it from its folder

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
        if self.card.kind == "cross_encoder":
            return CrossEncoderReader(self.name, self.card, trained=self._trained)
        return LabelReader(self.name, self.card)


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
    """Load the sub-model for a task: `know`, `relevant` or `decompose`; the rest is as for `SubModel`."""
    return _CLASSES[cast("Task", task)](folder, card)


class CrossEncoderReader:
    """A model for sequence classification with one label, such as sentence-transformers trains. Thread-safe.

    With `trained=False`, weights that the model lacks are drawn at random, the same each time.

    Raises:
        CheckpointError: it cannot be loaded, or lacks weights.
    """

    def __init__(self, folder: str | Path, card: SubModelCard, *, trained: bool) -> None:
        import torch

        from knowgap.retrieval.rerankers.cross_encoder import load_cross_encoder

        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(0)
            self._encoder = load_cross_encoder(folder, device=None, labels=1, trained=trained)
        self._encoder.max_seq_length = card.max_tokens
        self._lock = threading.Lock()

    def probabilities(self, inputs: Sequence[tuple[str, str]]) -> list[float]:
        """The probability of yes for each (question, passage), of which the longer text is truncated to fit."""
        from scipy.special import expit

        if not inputs:
            return []
        with self._lock:
            logits = self._encoder.predict(list(inputs), batch_size=_PAIRS_PER_BATCH, show_progress_bar=False)
        return expit(logits.astype(float).reshape(-1)).tolist()


class LabelReader:
    """A language model that is prompted as its card says. Calls of several threads are answered in batches.

    Raises:
        CheckpointError: its tokenizer does not tell its labels apart, or cannot write the separator of sub-questions.
        LanguageModelError: it cannot be loaded.
    """

    def __init__(self, folder: str | Path, card: SubModelCard) -> None:
        self._card = card
        self._engine = HFEngine(str(folder))
        local = self._engine.load()
        self._tokenizer = tokenizer = local.tokenizer
        labels = [target_ids(tokenizer, card, label) for label in card.labels or ()]
        if card.labels and (not all(labels) or labels[0] == labels[1]):
            raise CheckpointError(f"{folder}: its tokenizer cannot tell {' and '.join(card.labels)} apart")
        written = tokenizer.decode(target_ids(tokenizer, card, f"a {SEPARATOR} #1"), skip_special_tokens=True)
        if card.task == "decompose" and not (SEPARATOR in written and "#" in written):
            raise CheckpointError(f"{folder}: its tokenizer cannot write {SEPARATOR!r} and '#'")
        self._labels = [[*label, tokenizer.eos_token_id] for label in labels]

    def probabilities(self, inputs: Sequence[tuple[str, str]]) -> list[float]:
        """The probability of yes, against no, for each (question, passage)."""
        from scipy.special import expit

        prompts = [prompt_ids(self._tokenizer, self._card, question, passage) for question, passage in inputs]
        scores = self._engine.score(prompts, self._labels)
        return [float(expit(sum(yes) - sum(no))) for no, yes in scores]

    def generate(self, questions: Sequence[str]) -> list[str]:
        """The most likely text after the prompt of each question, decoded greedily."""
        prompts = [prompt_ids(self._tokenizer, self._card, question) for question in questions]
        return self._engine.write(prompts, min(_MOST_WRITTEN, self._card.max_tokens))


def prompt_ids(tokenizer: Any, card: SubModelCard, question: str, passage: str = "") -> list[int]:
    """The tokens of a card's prompt, at most `max_tokens`."""
    text = fit_prompt(tokenizer, card, question, passage)
    return tokenizer(text, truncation=True, max_length=card.max_tokens)["input_ids"]


def fit_prompt(tokenizer: Any, card: SubModelCard, question: str, passage: str = "") -> str:
    """Fill in a card's prompt, with the passage, and then the question, truncated to fit `max_tokens`."""
    for _ in range(2):
        whole = card.prompt.format(question=question, passage=passage)
        surplus = len(tokenizer(whole, truncation=False, verbose=False)["input_ids"]) - card.max_tokens
        if surplus <= 0:
            return whole
        if passage:
            passage = _cut(tokenizer, passage, surplus)
        else:
            question = _cut(tokenizer, question, surplus)
    return card.prompt.format(question=question, passage=passage)


def _cut(tokenizer: Any, text: str, surplus: int) -> str:
    """The text without its last `surplus` tokens."""
    tokens = tokenizer(text, add_special_tokens=False, truncation=False, verbose=False)["input_ids"]
    return tokenizer.decode(tokens[: max(0, len(tokens) - surplus)], skip_special_tokens=True)


def target_ids(tokenizer: Any, card: SubModelCard, target: str) -> list[int]:
    """The tokens of what follows the prompt, without the one that ends it."""
    text = target if card.kind == "seq2seq" else f" {target}"
    return tokenizer(text, add_special_tokens=False, truncation=False, verbose=False)["input_ids"]
