"""What a program returns: a prediction whose statements cite passages, and the numbered sources of its answer."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import dspy

from knowgap.errors import shorten
from knowgap.programs.passages import distinct, strip_numbers
from knowgap.programs.replies.text import fits_style
from knowgap.retrieval.documents.sources import Source, places_of
from knowgap.retrieval.entailment import EntailmentModel
from knowgap.retrieval.grounding import MAX_SOURCES, MOST, GroundingEntailment, grounded, support
from knowgap.retrieval.passage import Passage
from knowgap.retrieval.words import FUNCTION_WORDS, content_words, split_sentences, words
from knowgap.signatures.values import is_unknown

NOT_SUPPORTED = "Your documents do not say this."
"""How an answer in sentences begins if what was read does not state it."""
_DENIALS = re.compile(
    r"\b(?:nichts?|kein\w*|pas|aucun\w*|no|ningun\w*|non|nessun\w*|não|nenhum\w*|niet|geen|nie|не|нет|لا|لم|ليس)\b"
    r"|[没未不]|ない|ません",
    re.I,
)
"""Words with which other languages than English say that something is not so."""
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

    A model's explanation that says so in another language than English, as the question is, stands for that sentence.
    """
    denied = _DENIALS.search(explanation) and not _is_english(explanation) and not _is_english(question)
    said = [explanation] if denied else [NOT_SUPPORTED]
    if missing and not denied:
        said.append(f"Missing: {missing}" if missing.endswith(("?", "!", ".")) else f"Missing: {missing}.")
    if guess:
        said.append(f"A guess: {guess}")
    return " ".join(said)


def _is_english(text: str) -> bool:
    """Whether a quarter of the words are English function words; some are words of other languages, too."""
    found = words(text)
    return sum(word in FUNCTION_WORDS for word in found) * 4 >= len(found)


class CitedPrediction(dspy.Prediction):
    """What a program returns: `answer`, `passages`, `trace` and `citations`.

    `supported` says whether what was read states the answer; it is None if the program does not judge that. `missing`
    is what is still missing, and `guess` an answer that is not supported; both may be empty. `citations` are the
    statements of the answer, each with the passages that hold it, as the program's entailment model judges or, if it
    has none, the rule of `grounding`; there are none if the answer is unknown or an option.
    """

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
    blocks = re.findall(r"(?:^\|.*\n?)+|(?:^(?!\|).*\n?)+", text, re.M)  # tables, and what stands between them
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


@dataclass(frozen=True, slots=True)
class AnswerSource:
    """A passage that was read for an answer.

    Attributes:
        number: from 1. The passages that statements of the answer cite, at most three each, come first, in the order of
            citation. 0 for a passage that is only the nearest to an answer that nothing supports.
        title: the title of the document; the passage's id if it has none.
        passage_id: the passage's id.
        sentence: the sentence of the passage that is closest to the statements that cite it; empty if none does.
        file: the document's file; empty if the index has not recorded it, and for a line of JSON Lines or TSV.
        position: where a reader finds it in the file: the headings above it, and its page or rows.
    """

    number: int
    title: str
    passage_id: str
    sentence: str = ""
    file: str = ""
    position: str = ""

    @classmethod
    def of(cls, number: int, passage: Passage, place: Source | None, sentence: str = "") -> AnswerSource:
        """Make the source of a passage, whose title has the document's headings where its place is known."""
        if place is None or place.unit == "line":
            return cls(number, passage.title or passage.id, passage.id, sentence)
        title, _, section = passage.title.partition(" / ")
        position = ", ".join(part for part in (section, place.position) if part)
        return cls(number, title or passage.id, passage.id, sentence, place.file, position)

    def __str__(self) -> str:
        """The number, the title, and the place."""
        named = ", ".join(part for part in dict.fromkeys([self.title, self.file, self.position]) if part)
        return f"[{self.number}] {named}" if self.number else named

    def to_dict(self) -> dict[str, Any]:
        """The source as a JSON-ready mapping; what is not known is left out."""
        return {name: value for name, value in asdict(self).items() if value}


@dataclass(frozen=True, slots=True)
class CitedAnswer:
    """An answer with numbered sources, for readers.

    Attributes:
        text: the answer, with a number such as `[1]` after each statement that a passage supports. If the documents do
            not state it and there is no guess, it says so, in every style.
        sources: the passages that were read; none if the program found that they do not support the answer.
        citations: which passages support which statement.
        nearest: at most five passages, the nearest to an answer that is not supported, without numbers.
    """

    text: str
    sources: list[AnswerSource]
    citations: list[Citation]
    nearest: Sequence[AnswerSource] = ()

    @classmethod
    def of(cls, prediction: dspy.Prediction, retriever: Any = None) -> CitedAnswer:
        """Number the sources of a prediction; the index that found the passages may know their files."""
        refused = prediction.supported is False
        found = [] if refused else prediction.citations
        read = prediction.passages[:5] if refused else prediction.passages
        order = distinct([*(passage for citation in found for passage in citation.passages), *read])
        places, question = places_of(retriever, [passage.id for passage in order]), prediction.trace.question
        sources = [
            AnswerSource.of(0 if refused else n, each, places.get(each.id), _sentence(each, found, question))
            for n, each in enumerate(order, start=1)
        ]
        if refused:
            explained = (question, "", prediction.missing, str(prediction.get("explanation") or ""))
            text = say_unsupported(*explained) if is_unknown(prediction.answer) else prediction.answer
            return cls(text, [], [], sources)
        return cls(_with_numbers(prediction.answer, found, sources), sources, found)

    def to_dict(self, prediction: dspy.Prediction) -> dict[str, Any]:
        """The answer with its verdict, its sources and what was read for it, JSON-ready."""
        return {
            **{name: prediction[name] for name in ("answer", "supported", "missing", "guess")},
            "cited_answer": self.text,
            "sources": [source.to_dict() for source in self.sources],
            "citations": [citation.to_dict() for citation in self.citations],
            "nearest": [source.to_dict() for source in self.nearest],
            "passages": [passage.to_dict() for passage in prediction.passages],
        }


def _sentence(passage: Passage, citations: Sequence[Citation], question: str) -> str:
    """The sentence of a passage that shares most words with the statements that cite it, then with the question."""
    said = " ".join(citation.statement for citation in citations if passage in citation.passages)
    sentences = split_sentences(passage.text)
    if not said or not sentences:
        return ""
    wanted, asked = set(content_words(said)), set(content_words(question))
    found = {sentence: set(content_words(sentence)) for sentence in sentences}
    return " ".join(max(found, key=lambda each: (len(found[each] & wanted), len(found[each] & asked))).split())


def _with_numbers(answer: str, citations: Sequence[Citation], sources: Sequence[AnswerSource]) -> str:
    """The answer with the numbers of its sources after each statement, before the punctuation that ends it."""
    number_of = {source.passage_id: source.number for source in sources}
    text, end = strip_numbers(answer) if citations else answer, 0
    pieces = []
    for citation in citations:
        place = text.index(citation.statement, end)
        numbers = "".join(f"[{number}]" for number in sorted(number_of[each.id] for each in citation.passages))
        behind = place + len(citation.statement.rstrip(".!?。！？…"))
        pieces += [text[end:behind], f" {numbers}" if numbers else ""]
        end = behind
    return "".join([*pieces, text[end:]])
