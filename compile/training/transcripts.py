"""Make transcripts for RQ-RAG's generator with a teacher: queries, what they find, and an answer from that.

Source: "RQ-RAG: Learning to Refine Queries for Retrieval Augmented Generation", section 2.1, appendices A.2 and B.4.
"""

from __future__ import annotations

import random
import threading
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import dspy
from pydantic import BaseModel

from knowgap.compiling.evaluation.metrics import f1
from knowgap.compiling.evaluation.metrics.normalize import normalize_answer, reference_answers
from knowgap.compiling.evaluation.provenance import lm_name, lm_settings, retriever_facts
from knowgap.compiling.evaluation.runner import check_examples, map_ordered
from knowgap.compiling.teacher import ask_teacher
from knowgap.compiling.training.config import GeneratorConfig
from knowgap.errors import UsageError
from knowgap.programs.replies.outputs import clean_lines, text_of
from knowgap.programs.trajectory import Trajectory
from knowgap.retrieval.passage import Passage, Retriever
from knowgap.signatures import STYLES
from knowgap.signatures.rq_rag_teacher import (
    AnswerFromSearches,
    PlanSearches,
    QueriesForParts,
    QueriesForReadings,
    Turn,
)
from knowgap.storage.progress import Progress
from knowgap.storage.record_file import RecordFile

KINDS: dict[str, Literal["rewrite", "decompose", "disambiguate"]] = {
    "chat": "rewrite",
    "single_hop": "rewrite",
    "multi_hop": "decompose",
    "ambiguous": "disambiguate",
}
"""The kinds of questions in the pool, each with the action that refines its queries."""
_STYLES = {"chat": "long", "long_form": "long", "multiple_choice": "choice"}
"""How the answer is worded, by the kind or type of a question; short elsewhere."""
DROPPED = {
    "unreadable": "a reply of the teacher could not be read",
    "no query": "the teacher wrote no query",
    "gold not found": "the queries did not find all gold passages",
    "not supported": "the teacher did not find the answer in the passages",
    "other answer": "the new answer is none of the known ones",
}
"""Why a question gives no transcript."""
_DECISIVE = {"top_k", "max_queries", "retention", "drop", "seed"}
"""The settings on which transcripts depend."""
_AGREES = 0.5  # token F1 from which a new answer is a known one


class SearchStep(BaseModel, extra="forbid"):
    """A query with what it found.

    Attributes:
        action: rewrite, decompose or disambiguate.
        query: as the teacher wrote it.
        passages: id, title and text of each, best first.
    """

    action: Literal["rewrite", "decompose", "disambiguate"]
    query: str
    passages: list[dict[str, str]]

    @property
    def found(self) -> list[Passage]:
        """The passages."""
        return [Passage.from_dict(passage) for passage in self.passages]


class TranscriptRecord(BaseModel, extra="forbid"):
    """What became of one question.

    Attributes:
        id: the id of the question.
        kind: chat, single_hop, multi_hop or ambiguous.
        question: what is asked.
        style: how the answer is worded, a key of `STYLES`.
        history: messages before the question, with role and content.
        steps: queries in order; none if no search is needed.
        answer: made from what the steps found.
        dropped: why there is no transcript, a key of `DROPPED`; empty if there is one.
    """

    id: str
    kind: str
    question: str
    style: str = "short"
    history: list[dict[str, str]] = []
    steps: list[SearchStep] = []
    answer: str = ""
    dropped: str = ""


@dataclass(frozen=True)
class Construction:
    """The transcripts of a pool.

    Attributes:
        records: one per question, in their order.
        calls: calls of the teacher in this run.
    """

    records: list[TranscriptRecord]
    calls: int

    @property
    def kept(self) -> list[TranscriptRecord]:
        """Those that have a transcript."""
        return [record for record in self.records if not record.dropped]

    def counts(self) -> dict[str, int]:
        """How many were kept, by kind, and how many dropped, by reason; in words."""
        kept = Counter(f"kept, {record.kind}" for record in self.kept)
        dropped = Counter(f"dropped: {DROPPED[record.dropped]}" for record in self.records if record.dropped)
        return {**dict(sorted(kept.items())), **dict(sorted(dropped.items()))}


def kind_of(example: dspy.Example) -> str:
    """The kind of a question, a key of `KINDS`: by its type in the data set, else by how many steps it takes."""
    named = str(example.get("type") or "")
    if named in ("chat", "instruction") or example.get("history"):
        return "chat"
    if named in ("ambiguous", "long_form"):
        return "ambiguous"
    return (
        "multi_hop" if max(len(example.get(part) or ()) for part in ("decomposition", "gold_ids")) > 1 else "single_hop"
    )


def teacher_calls(examples: Sequence[dspy.Example], config: GeneratorConfig) -> int:
    """How often a teacher is called at most, if it can be read: for queries, and for the answer unless it is kept."""
    return sum(1 if _keeps_answer(str(example.get("id")), config) else 2 for example in examples)


def construct_transcripts(
    examples: Sequence[dspy.Example],
    retriever: Retriever,
    teacher: dspy.BaseLM,
    output: str | Path,
    *,
    config: GeneratorConfig | None = None,
    passages: Mapping[str, Passage] | None = None,
    num_threads: int = 4,
    progress: Progress | None = None,
) -> Construction:
    """Make a transcript of every question, and write each as soon as it is made; the same call continues a killed run.

    Args:
        examples: with `id`; `gold_ids`, `candidates`, `decomposition`, `history` and `type` are used if they are there.
        retriever: what the queries are searched in.
        teacher: any language model.
        output: the file of records, in JSON Lines.
        config: how transcripts are made.
        passages: the corpus by id, from which a teacher sees the passages around a question of several steps (table 5).
        num_threads: questions at a time.
        progress: called after every question with how many are done, how many there are, and the share kept, in words.

    Raises:
        UsageError: no questions, or an output that was made with something else.
        LanguageModelError: the teacher does not answer.
    """
    ids, config = check_examples(examples), config or GeneratorConfig()
    made_with = {
        "teacher": [lm_name(teacher), lm_settings(teacher)],
        "index": retriever_facts(retriever),
        **config.model_dump(include=_DECISIVE),
    }
    author = _Author(retriever, teacher, config, passages or {})
    with RecordFile(output, TranscriptRecord, made_with, "transcript") as file:
        by_id = dict(zip(ids, examples, strict=True))
        for name in ids:
            if name in file.records and file.records[name].question != by_id[name].question:
                raise UsageError(f"{output} has another question by the id {name!r}: name another folder")

        def tell() -> str:
            records = [file.records[name] for name in ids if name in file.records]
            return f"{sum(not record.dropped for record in records) / len(records):.0%} kept"

        missing = file.missing(ids)
        made = map_ordered(lambda name: author.write(name, by_id[name]), missing, num_threads, ahead=8 * num_threads)
        file.keep(made, len(ids), progress, tell)
        return Construction([file.records[name] for name in ids], author.calls)


def draft_transcripts(
    examples: Sequence[dspy.Example], retriever: Retriever, config: GeneratorConfig
) -> list[TranscriptRecord]:
    """Transcripts of the length that a teacher's will have, to measure with before one is asked.

    Their queries are the known sub-questions, or the question, and their answers those of the data set.
    """
    records = []
    for example in examples:
        kind, parts = kind_of(example), [part["question"] for part in example.get("decomposition") or ()]
        queries = list(dict.fromkeys(parts))[: config.max_queries] or [example.question]
        record = TranscriptRecord(
            id=str(example.get("id")),
            kind=kind,
            question=example.question,
            history=list(example.get("history") or []),
            answer=example.answer,
        )
        record.steps = _search(retriever, kind, queries, config.top_k)
        records.append(record)
    return records


def _search(retriever: Retriever, kind: str, queries: list[str], top_k: int) -> list[SearchStep]:
    results = retriever.search(queries, top_k) if queries else []
    return [
        SearchStep(action=KINDS[kind], query=query, passages=[hit.passage.to_dict() for hit in hits])
        for query, hits in zip(queries, results, strict=True)
    ]


def _keeps_answer(id: str, config: GeneratorConfig) -> bool:
    return random.Random(f"{config.seed} {id}").random() < config.retention


class _Author:
    """Writes transcripts with a teacher; may be used by several threads.

    Attributes:
        calls: calls of the teacher so far.
    """

    def __init__(
        self, retriever: Retriever, teacher: dspy.BaseLM, config: GeneratorConfig, corpus: Mapping[str, Passage]
    ):
        self.retriever, self.teacher, self.config, self.corpus = retriever, teacher, config, corpus
        self.calls, self._counting = 0, threading.Lock()
        self._plan = dspy.Predict(PlanSearches)
        self._parts, self._readings = dspy.Predict(QueriesForParts), dspy.Predict(QueriesForReadings)
        self._answer = dspy.Predict(AnswerFromSearches)

    def write(self, id: str, example: dspy.Example) -> TranscriptRecord:
        """Make the record of one question."""
        kind = kind_of(example)
        record = TranscriptRecord(
            id=id,
            kind=kind,
            question=example.question,
            style=_STYLES.get(kind) or _STYLES.get(str(example.get("type")), "short"),
            history=list(example.get("history") or []),
        )
        planned = self._queries(record, example)
        if planned is None:
            return _dropped(record, "unreadable")
        searches, queries = planned
        if searches and not queries:
            return _dropped(record, "no query")
        record.steps = _search(self.retriever, kind, queries, self.config.top_k)
        found = {passage["id"] for step in record.steps for passage in step.passages}
        if self.config.drop and kind == "multi_hop" and not {*example.get("gold_ids", [])} <= found:
            return _dropped(record, "gold not found")
        if _keeps_answer(id, self.config):
            record.answer = example.answer
            return record
        return self._with_new_answer(record, example)

    def _queries(self, record: TranscriptRecord, example: dspy.Example) -> tuple[bool, list[str]] | None:
        """Whether a search is needed, and the queries; None if the reply cannot be read."""
        inputs: dict[str, Any] = {"question": record.question, "max_queries": self.config.max_queries}
        if record.kind == "multi_hop":
            known = dict.fromkeys([*(example.get("candidates") or ()), *(example.get("gold_ids") or ())])
            around = [self.corpus[name] for name in known if name in self.corpus]
            output = self._ask(self._parts, **inputs, passages=around)
        elif record.kind == "ambiguous":
            [hits] = self.retriever.search([record.question], self.config.top_k)
            output = self._ask(self._readings, **inputs, passages=[hit.passage for hit in hits])
        else:
            output = self._ask(self._plan, **inputs, history=_turns(record))
        if output is None:
            return None
        searches = bool(output.get("search", True))
        return searches, clean_lines(output.get("queries"), self.config.max_queries)[0] if searches else []

    def _with_new_answer(self, record: TranscriptRecord, example: dspy.Example) -> TranscriptRecord:
        """The record with the teacher's answer from what was found, or dropped."""
        path = Trajectory(searches=tuple((step.query, tuple(step.found)) for step in record.steps))
        output = self._ask(
            self._answer,
            history=_turns(record),
            question=record.question,
            searched=path.searched,
            passages=path.passages,
            style=STYLES[record.style],
        )
        record.answer = text_of(output)
        if output is None or not record.answer:
            return _dropped(record, "unreadable")
        if self.config.drop and record.steps and not output.supported:
            return _dropped(record, "not supported")
        if self.config.drop and record.kind != "chat" and not _agrees(example, record.answer):
            return _dropped(record, "other answer")
        return record

    def _ask(self, predictor: dspy.Module, **inputs: Any) -> dspy.Prediction | None:
        output, calls = ask_teacher(predictor, self.teacher, **inputs)
        with self._counting:
            self.calls += calls
        return output


def _turns(record: TranscriptRecord) -> list[Turn]:
    return [Turn(role=turn["role"], content=turn["content"]) for turn in record.history]


def _dropped(record: TranscriptRecord, reason: str) -> TranscriptRecord:
    record.dropped = reason
    return record


def _agrees(example: dspy.Example, answer: str) -> bool:
    """Whether a new answer is a known one in other words, or has one in it."""
    words = f" {normalize_answer(answer)} "
    known = [
        *reference_answers(example),
        *(short for reading in example.get("short_answers") or () for short in reading),
    ]
    return f1(example, answer) >= _AGREES or any(f" {normalize_answer(each)} " in words for each in known)
