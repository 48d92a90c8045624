"""Make transcripts for RQ-RAG's generator with a teacher: queries, the passages found, and an answer based on these.

Source: "RQ-RAG: Learning to Refine Queries for Retrieval Augmented Generation", section 2.1, appendices A.2 and B.4.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

import dspy
from pydantic import BaseModel

from knowgap.compiling.evaluation.metrics.retrieval import found_gold
from knowgap.compiling.evaluation.provenance import lm_name, lm_settings, retriever_facts
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
from knowgap.signatures.rq_rag import AnswerFromSearches, PlanSearches, QueriesForParts, QueriesForReadings
from knowgap.storage.files import json_digest

Action = Literal["rewrite", "decompose", "disambiguate"]

_STYLES = {"chat": "long", "instruction": "long", "long_form": "long", "multiple_choice": "choice"}
"""The style of the answer by the type of a question; `short` for all others."""
_MOST_QUERIES = 4  # of a transcript
_UNREADABLE = "a reply of the teacher could not be read"


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
    by_id = {f"{id} {json_digest(each.question)[:8]}": each for id, each in zip(ids, examples, strict=True)}
    passages = {passage.id: passage for passage in corpus}
    about = {
        "teacher": [lm_name(teacher), lm_settings(teacher)],
        "index": retriever_facts(retriever),
        "top_k": config.top_k,
    }

    def ask(signature: type[dspy.Signature], **inputs: Any) -> dspy.Prediction | None:
        return ask_teacher(dspy.Predict(signature), teacher, **inputs)

    def make(id: str) -> TranscriptRecord:
        return _transcript_of(id, by_id[id], retriever, passages, config.top_k, ask)

    return write_records(list(by_id), make, output, TranscriptRecord, about, "transcript", run)


def _transcript_of(
    id: str,
    example: dspy.Example,
    retriever: Retriever,
    corpus: Mapping[str, Passage],
    top_k: int,
    ask: Callable[..., dspy.Prediction | None],
) -> TranscriptRecord:
    """The record of a question; `ask` gives the teacher's outputs, or None if they cannot be read."""

    def named(*fields: str) -> list[Passage]:
        """The passages of the corpus that the question names in these fields."""
        names = dict.fromkeys(name for field in fields for name in example.get(field) or ())
        return [corpus[name] for name in names if name in corpus]

    style = _STYLES.get(str(example.get("type")), "short")
    record = TranscriptRecord(
        id=id, action=action_of(example), question=example.question, style=style, dropped=_UNREADABLE
    )
    searched = BM25Index.from_passages(own) if (own := named("candidates")) else retriever
    inputs: dict[str, Any] = {"question": record.question, "max_queries": _MOST_QUERIES}
    if record.action == "decompose":
        planned = ask(QueriesForParts, **inputs, passages=named("candidates", "gold_ids"))
    elif record.action == "disambiguate":
        [hits] = searched.search([record.question], top_k)
        planned = ask(QueriesForReadings, **inputs, passages=[hit.passage for hit in hits])
    else:
        planned = ask(PlanSearches, **inputs)
    if planned is None:
        return record
    if planned.get("search", True):
        queries, _ = clean_lines(planned.queries, _MOST_QUERIES)
        if not queries:
            return record.model_copy(update={"dropped": "the teacher wrote no query"})
        for query, hits in zip(queries, searched.search(queries, top_k), strict=True):
            record.steps.append(SearchStep(query=query, passages=[hit.passage.to_dict() for hit in hits]))
        gold = {*example.get("gold_ids", [])}
        ids = [passage["id"] for step in record.steps for passage in step.passages]
        if record.action == "decompose" and found_gold(ids, gold) < gold:  # appendix B.4
            return record.model_copy(update={"dropped": "the queries did not find all gold passages"})
    path = Trajectory("", tuple(s.query for s in record.steps), tuple(tuple(s.found) for s in record.steps))
    answer = ask(
        AnswerFromSearches,
        question=record.question,
        searched=path.searched,
        passages=path.passages,
        style=STYLES[record.style],
    )
    record.answer = text_of(answer)  # which need not be the known one (section 4.4)
    record.dropped = "" if record.answer else _UNREADABLE
    return record
