"""The numbered sources of an answer: which passage a statement rests on, which sentence of it, and in which file."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
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
        sentence: the sentence of the passage that is closest to the statements that cite it; empty if none does.
        place: the passage's file and its position there, if the index has recorded them.
    """

    number: int
    passage: Passage
    sentence: str = ""
    place: Source | None = None

    @property
    def title(self) -> str:
        """The title of the document, without the headings above the passage; the passage's id if it has no title."""
        title = self.passage.title.removesuffix(f" / {self.section}") if self.section else self.passage.title
        return title or self.passage.id

    @property
    def section(self) -> str:
        """The headings of the document above the passage; empty if there are none, or if its file is not known."""
        in_file = self.place is not None and self.place.unit != "line"
        return self.passage.title.partition(" / ")[2] if in_file else ""

    @property
    def position(self) -> str:
        """Where a reader finds it in the file: `page 3`, `rows 12–40`, or the section; empty if nothing is known."""
        unit = self.place.position if self.place is not None else ""
        return f"{self.section}, {unit}" if self.section and unit.startswith("row") else unit or self.section

    def __str__(self) -> str:
        """The number, the title, and the place, except for lines of JSON Lines and TSV files."""
        place = self.place
        places = [place.file, self.position] if place is not None and place.unit != "line" else []
        named = ", ".join(part for part in dict.fromkeys([self.title, *places]) if part)
        return f"[{self.number}] {named}" if self.number else named

    def to_dict(self) -> dict[str, Any]:
        """The source as a JSON-ready mapping; what is not known is left out."""
        place = self.place
        record = {
            "number": self.number,
            "title": self.title,
            "passage_id": self.passage.id,
            "sentence": self.sentence,
            "file": place.file if place is not None else "",
            "position": self.position,
            "page": place.first if place is not None and place.unit == "page" else 0,
            "section": self.section,
        }
        return {name: value for name, value in record.items() if value}


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
        refused, found = prediction.supported is False, prediction.citations
        passages = prediction.passages[:_NEAREST] if refused else prediction.passages
        order = passages if refused else distinct([*(p for each in found for p in each.passages), *passages])
        places = places_of(retriever, [passage.id for passage in order])
        if refused:
            return cls(prediction.answer, [], [], [AnswerSource(0, each, place=places.get(each.id)) for each in order])
        question = prediction.trace.question
        sources = [
            AnswerSource(number, passage, _sentence(passage, found, question), places.get(passage.id))
            for number, passage in enumerate(order, start=1)
        ]
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
    number_of = {source.passage.id: source.number for source in sources}
    text, end = strip_numbers(answer) if citations else answer, 0
    pieces = []
    for citation in citations:
        place = text.find(citation.statement, end)
        if place < 0:
            continue
        numbers = "".join(f"[{number}]" for number in sorted(number_of[each.id] for each in citation.passages))
        behind = place + len(citation.statement.rstrip(_CLOSING))
        pieces += [text[end:behind], f" {numbers}" if numbers else ""]
        end = behind
    return "".join([*pieces, text[end:]])
