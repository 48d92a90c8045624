"""Make transcripts for RQ-RAG's generator with a teacher: queries, the passages found, and an answer based on these.

Source: "RQ-RAG: Learning to Refine Queries for Retrieval Augmented Generation", section 2.1, appendices A.2 and B.4.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import dspy
from pydantic import BaseModel

from knowgap.compiling.evaluation.metrics.retrieval import found_gold
from knowgap.compiling.evaluation.provenance import digest, lm_name, lm_settings, retriever_facts
from knowgap.compiling.evaluation.runner import check_examples
from knowgap.compiling.run import Run
from knowgap.compiling.teacher import TeacherRecords, ask_teacher, write_records
from knowgap.compiling.training.config import GeneratorConfig
from knowgap.errors import UsageError
from knowgap.programs.replies.text import clean_lines, text_of
from knowgap.programs.rq_rag import Trajectory
from knowgap.retrieval.indexes import BM25Index
from knowgap.retrieval.passage import Passage, Retriever
from knowgap.signatures import STYLES
from knowgap.signatures.rq_rag_teacher import AnswerFromSearches, PlanSearches, QueriesForParts, QueriesForReadings

Action = Literal["rewrite", "decompose", "disambiguate"]

_STYLES = {"chat": "long", "instruction": "long", "long_form": "long", "multiple_choice": "choice"}
"""The style of the answer by the type of a question; `short` for all others."""
_MOST_QUERIES = 4  # of a transcript


class SearchStep(BaseModel, extra="forbid"):
    """A query with what it found.

    Attributes:
        query: the query as the teacher wrote it.
        passages: id, title and text of each, best first.
    """

    query: str
    passages: list[dict[str, str]]

    @property
    def found(self) -> list[Passage]:
        """The passages."""
        return [Passage.from_dict(passage) for passage in self.passages]


class TranscriptRecord(BaseModel, extra="forbid"):
    """The transcript of a question, or the reason why there is none.

    Attributes:
        id: the id of the question, and the beginning of its digest.
        action: how its queries are refined.
        question: what is asked.
        style: how the answer is worded, a key of `STYLES`.
        steps: queries in order; none if no search is needed.
        answer: the teacher's answer from what the steps found.
        dropped: why there is no transcript, in words; empty if there is one.
    """

    id: str
    action: Action
    question: str
    style: str = "short"
    steps: list[SearchStep] = []
    answer: str = ""
    dropped: str = ""


def count_transcripts(records: Iterable[TranscriptRecord]) -> dict[str, int]:
    """How many were kept, by action, and how many dropped, by reason; in words."""
    counts = Counter(f"dropped, {each.dropped}" if each.dropped else f"kept, {each.action}" for each in records)
    return dict(sorted(counts.items(), reverse=True))


def action_of(example: dspy.Example) -> Action:
    """How the queries of a question are refined: by its type in the data set, else by how many gold passages it has."""
    if example.get("type") in ("ambiguous", "long_form"):
        return "disambiguate"
    return "decompose" if len(example.get("gold_ids") or ()) > 1 else "rewrite"


def construct_transcripts(
    examples: Sequence[dspy.Example],
    retriever: Retriever,
    corpus: Iterable[Passage],
    output: str | Path,
    config: GeneratorConfig,
    run: Run,
) -> TeacherRecords[TranscriptRecord]:
    """Make a transcript of every question that the record file `output` does not have yet; see `write_records`.

    The questions have an `id`; `gold_ids`, `candidates` and `type` are used if given. Where a question
    names its candidates in the corpus, BM25 searches these alone (appendix B.4), and the teacher of a question of
    several steps sees them (table 5).

    Raises:
        UsageError: there is no teacher, there are no questions, or the output was made with something else.
        LanguageModelError: the teacher does not answer.
    """
    teacher = run.lm
    if teacher is None:
        raise UsageError("training needs transcripts: give a teacher that writes them")
    ids = check_examples(examples)
    by_id = {f"{id} {digest(each.question)[:8]}": each for id, each in zip(ids, examples, strict=True)}
    passages = {passage.id: passage for passage in corpus}
    about = {
        "teacher": [lm_name(teacher), lm_settings(teacher)],
        "index": retriever_facts(retriever),
        "top_k": config.top_k,
    }

    def make(id: str) -> TranscriptRecord:
        return _Author(retriever, teacher, config.top_k, passages, by_id[id]).write(id)

    return write_records(list(by_id), make, output, TranscriptRecord, about, "transcript", run)


@dataclass
class _Author:
    """Writes the transcript of a question with a teacher."""

    retriever: Retriever
    teacher: dspy.BaseLM
    top_k: int
    corpus: Mapping[str, Passage]
    example: dspy.Example

    def write(self, id: str) -> TranscriptRecord:
        """Make the record of the question."""
        style = _STYLES.get(str(self.example.get("type")), "short")
        record = TranscriptRecord(id=id, action=action_of(self.example), question=self.example.question, style=style)
        if candidates := self._named("candidates"):
            self.retriever = BM25Index.from_passages(candidates)
        record.dropped = self._search(record) or self._answer(record)
        return record

    def _search(self, record: TranscriptRecord) -> str:
        """Give the record the teacher's queries and what they find; return why it is dropped, or an empty string."""
        planned = self._plan(record)
        if planned is None:
            return "a reply of the teacher could not be read"
        if not planned.get("search", True):
            return ""
        queries, _ = clean_lines(planned.queries, _MOST_QUERIES)
        if not queries:
            return "the teacher wrote no query"
        for query, hits in zip(queries, self.retriever.search(queries, self.top_k), strict=True):
            record.steps.append(SearchStep(query=query, passages=[hit.passage.to_dict() for hit in hits]))
        gold = {*self.example.get("gold_ids", [])}
        ids = [passage["id"] for step in record.steps for passage in step.passages]
        if record.action == "decompose" and found_gold(ids, gold) < gold:
            return "the queries did not find all gold passages"  # appendix B.4
        return ""

    def _plan(self, record: TranscriptRecord) -> dspy.Prediction | None:
        """What to search for; None if the reply cannot be read."""
        inputs: dict[str, Any] = {"question": record.question, "max_queries": _MOST_QUERIES}
        if record.action == "decompose":
            return self._ask(QueriesForParts, **inputs, passages=self._named("candidates", "gold_ids"))
        if record.action == "disambiguate":
            [hits] = self.retriever.search([record.question], self.top_k)
            return self._ask(QueriesForReadings, **inputs, passages=[hit.passage for hit in hits])
        return self._ask(PlanSearches, **inputs)

    def _answer(self, record: TranscriptRecord) -> str:
        """Give the record the teacher's answer from what was found; return why it is dropped, or an empty string.

        The answer need not be the known one (section 4.4).
        """
        path = Trajectory("", tuple(s.query for s in record.steps), tuple(tuple(s.found) for s in record.steps))
        output = self._ask(
            AnswerFromSearches,
            question=record.question,
            searched=path.searched,
            passages=path.passages,
            style=STYLES[record.style],
        )
        record.answer = text_of(output)
        return "" if record.answer else "a reply of the teacher could not be read"

    def _named(self, *fields: str) -> list[Passage]:
        """The passages of the corpus that the question names in these fields."""
        names = dict.fromkeys(name for field in fields for name in self.example.get(field) or ())
        return [self.corpus[name] for name in names if name in self.corpus]

    def _ask(self, signature: type[dspy.Signature], **inputs: Any) -> dspy.Prediction | None:
        return ask_teacher(dspy.Predict(signature), self.teacher, **inputs)
