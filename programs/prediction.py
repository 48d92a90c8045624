"""What a program returns: a prediction that says which passages support which statement of its answer."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import dspy

from knowgap.errors import shorten
from knowgap.programs.replies.text import fits_style
from knowgap.programs.statements import strip_numbers
from knowgap.retrieval.grounding import MAX_SOURCES, MOST, GroundingEntailment, grounded, support
from knowgap.retrieval.passage import Passage
from knowgap.retrieval.words import FUNCTION_WORDS, split_sentences, words
from knowgap.signatures.values import is_unknown

if TYPE_CHECKING:
    from knowgap.retrieval.entailment import EntailmentModel

NOT_SUPPORTED = "Your documents do not say this."
"""How an answer in sentences begins if what was read does not state it."""
_IN_SENTENCES = ("long", "news")
"""Styles whose answers can be understood without the question."""
_YES_OR_NO = frozenset(("yes", "no", "ja", "nein", "oui", "non", "sí", "sim", "não", "はい", "いいえ", "是", "否"))
"""Answers whose words are in no passage."""


@dataclass(frozen=True, slots=True)
class Citation:
    """A statement of an answer with the passages that support it.

    Attributes:
        statement: a sentence of a long answer, or the whole of a short one, without bracketed citations.
        passages: at most three passages that hold the statement, best first; empty if none do.
        absent: names, numbers and dates of the statement, as it writes them, that no passage of the prediction has; of
            a short answer that none has, the answer. Empty if `passages` is not, and where no such word is missing.
    """

    statement: str
    passages: tuple[Passage, ...]
    absent: tuple[str, ...] = ()

    @property
    def supported(self) -> bool:
        """Whether a passage holds the statement."""
        return bool(self.passages)

    def to_dict(self) -> dict[str, Any]:
        """The citation as a JSON-ready mapping, with passages by their ids."""
        return {
            "statement": self.statement,
            "supported": self.supported,
            "passages": [passage.id for passage in self.passages],
            "absent": list(self.absent),
        }


def say_unsupported(question: str, guess: str, missing: str, explanation: str) -> str:
    """An answer in sentences that says that the documents do not answer the question, and what is missing.

    If the question is not in English, the model's explanation, which is in the question's language, says so.
    """
    english = not FUNCTION_WORDS.isdisjoint(words(question))
    said = [NOT_SUPPORTED] if english or not explanation else [explanation]
    if missing and said == [NOT_SUPPORTED]:
        said.append(f"Missing: {missing}" if missing.endswith(("?", "!", ".")) else f"Missing: {missing}.")
    if guess:
        said.append(f"A guess: {guess}")
    return " ".join(said)


class CitedPrediction(dspy.Prediction):
    """What a program returns: `answer`, `passages`, `trace`, and `citations`, which are computed when they are read.

    `supported` says whether what was read states the answer; it is None if the program does not judge that. `missing`
    is what is still missing, and `guess` an answer that is not supported; both may be empty.
    """

    _cite: Callable[[], list[Citation]] = list

    def __init__(self, base: Any = None, **fields: Any):
        super().__init__(base, **fields)
        self._cite = getattr(base, "_cite", list)

    @classmethod
    def of(cls, fields: Mapping[str, Any], cite: Callable[[], list[Citation]]) -> CitedPrediction:
        """Make a prediction with these fields, and with what `cite` finds when its citations are read."""
        made = cls(**fields)
        made._cite = cite
        return made

    @property
    def citations(self) -> list[Citation]:
        """The statements of the answer, each with the passages that hold it; empty if it is unknown or an option.

        The program's entailment model judges or, if it has none, the rule of `grounding`. No language model is called:
        if that is the entailment model, it was asked when the question was answered.
        """
        return self._cite()

    def __repr__(self) -> str:
        shown = {name: shorten(value) if isinstance(value, str) else value for name, value in self.items()}
        shown["passages"] = [passage.title or passage.id for passage in self.passages]
        return f"Prediction({', '.join(f'{name}={value!r}' for name, value in shown.items())})"


def cite_answer(
    question: str,
    answer: str,
    passages: Sequence[Passage],
    style: str = "short",
    entailment: EntailmentModel | None = None,
) -> list[Citation]:
    """Find at most three passages that hold each statement of an answer.

    Each sentence of a long answer is a statement, as in ALCE (Gao et al., 2023). By the rule of `grounding`, passages
    hold a sentence that have its names, its numbers and most of its words, and a short answer if they contain it; of
    these, those with most of the question's words are cited. A yes or no is in no passage, and cites the passages with
    most of the question's words.

    An entailment model reads a short answer with its question as `The answer to the question "…" is "…"`, as in
    Attributed Question Answering (Bohnet et al., 2022). The passages that entail a statement are cited.

    Args:
        question: the question.
        answer: the answer; one that is empty or unknown has no statements.
        passages: the candidates.
        style: the style of the answer, one of `STYLES`. The letter of a choice has no statements.
        entailment: the model that judges, with its default threshold; None for the rule.
    """
    if is_unknown(answer) or style == "choice":
        return []
    text = strip_numbers(answer)
    blocks = re.findall(r"(?:^\|.*\n?)+|^.+$", text, re.M)  # tables, and other lines
    found = [[block.rstrip()] if block.startswith("|") else split_sentences(block) for block in blocks]
    sentences = [sentence for some in found for sentence in some if re.search(r"\w", sentence)]
    short = style not in _IN_SENTENCES and len(sentences) < 2 and (style != "sentence" or fits_style(text, "short"))
    statements = [text.strip()] if short else list(dict.fromkeys(sentences))
    if entailment is None or isinstance(entailment, GroundingEntailment):
        found = [_holding(question, each, passages) if short else support(each, passages) for each in statements]
    else:
        framed = [
            f'The answer to the question "{question.strip()}" is "{each}".' if short else each for each in statements
        ]
        found = _entailing(entailment, framed, passages)
    citations = list[Citation]()
    for statement, holding in zip(statements, found, strict=True):
        absent = () if holding else grounded(statement, [str(passage) for passage in passages]).absent
        if short and not holding and not absent and passages and statement.lower() not in _YES_OR_NO:
            absent = (statement,)
        citations.append(Citation(statement, tuple(holding), absent))
    return citations


def _holding(question: str, answer: str, passages: Sequence[Passage]) -> list[Passage]:
    """The passages that contain a short answer, or all for a yes or no; of these, those with most of the question."""
    within = [(passage, grounded(answer, [str(passage)])) for passage in passages]
    contained = [p for p, found in within if not found.absent and found.share > MOST]
    candidates = passages if answer.strip(" .!").lower() in _YES_OR_NO else contained
    asked = {passage: grounded(question, [str(passage)]).share for passage in candidates}
    best = sorted(asked, key=lambda passage: -asked[passage])
    return [passage for passage in best if asked[passage] >= MOST][:MAX_SOURCES] or best[:1]


def _entailing(model: EntailmentModel, statements: Sequence[str], passages: Sequence[Passage]) -> list[list[Passage]]:
    """The passages that entail each statement, at most three, most probable first."""
    probabilities = iter(model.entails([(str(passage), each) for each in statements for passage in passages]))
    found = list[list[Passage]]()
    for _ in statements:
        probable = {passage: next(probabilities) for passage in passages}
        ranked = sorted(passages, key=lambda passage: -probable[passage])[:MAX_SOURCES]
        found.append([passage for passage in ranked if probable[passage] >= model.default_threshold])
    return found
