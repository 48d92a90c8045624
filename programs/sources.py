"""The numbered sources of an answer: which passage a statement rests on, which sentence of it, and in which file."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from knowgap.programs.passages import distinct
from knowgap.programs.prediction import Citation, CitedPrediction
from knowgap.programs.statements import strip_numbers
from knowgap.retrieval.documents.sources import Source, places_of
from knowgap.retrieval.passage import Passage
from knowgap.retrieval.words import content_words, split_sentences

_NEAREST = 5  # passages shown beside an answer that is not supported
_CLOSING = ".!?。！？…"


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
        text: the answer, with a number such as `[1]` after each statement that a passage supports.
        sources: the passages that were read; none if the program found that they do not support the answer.
        citations: which passages support which statement.
        nearest: at most five passages, the nearest to an answer that is not supported, without numbers.

    >>> import dspy, knowgap
    >>> towns = [knowgap.Passage("orle", "Orle", "Orle is a town on the Isk.")]
    >>> index = knowgap.build_index(towns, "towns", engine="bm25")
    >>> program = knowgap.get_program("rag")(index, style="sentence")
    >>> with dspy.context(lm=knowgap.make_lm("extractive")):
    ...     cited = CitedAnswer.of(program(question="Which river is the town of Orle on?"))
    >>> print(cited.text)
    Orle is a town on the Isk [1].
    >>> print(*cited.sources)
    [1] Orle
    """

    text: str
    sources: list[AnswerSource]
    citations: list[Citation]
    nearest: Sequence[AnswerSource] = ()

    @classmethod
    def of(cls, prediction: CitedPrediction, retriever: Any = None) -> CitedAnswer:
        """Number the sources of a prediction; the index that found the passages may know their files."""
        refused = prediction.supported is False
        found = [] if refused else prediction.citations
        read = prediction.passages[:_NEAREST] if refused else prediction.passages
        order = distinct([*(passage for citation in found for passage in citation.passages), *read])
        places, question = places_of(retriever, [passage.id for passage in order]), prediction.trace.question
        sources = [
            AnswerSource.of(
                number * (not refused), passage, places.get(passage.id), _sentence(passage, found, question)
            )
            for number, passage in enumerate(order, start=1)
        ]
        if refused:
            return cls(prediction.answer, [], [], sources)
        return cls(_with_numbers(prediction.answer, found, sources), sources, found)

    def to_dict(self, prediction: CitedPrediction) -> dict[str, Any]:
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
        behind = place + len(citation.statement.rstrip(_CLOSING))
        pieces += [text[end:behind], f" {numbers}" if numbers else ""]
        end = behind
    return "".join([*pieces, text[end:]])
