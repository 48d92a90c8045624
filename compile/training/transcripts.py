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

from knowgap.compiling.evaluation.metrics import f1
from knowgap.compiling.evaluation.metrics.normalize import contains_answer, reference_answers
from knowgap.compiling.evaluation.metrics.retrieval import found_gold
from knowgap.compiling.evaluation.provenance import digest, lm_name, lm_settings, retriever_facts
from knowgap.compiling.evaluation.runner import check_examples
from knowgap.compiling.run import Run
from knowgap.compiling.teacher import TeacherRecords, ask_teacher, write_records
from knowgap.compiling.training.config import GeneratorConfig
from knowgap.errors import UsageError
from knowgap.programs.replies.text import clean_lines, text_of
from knowgap.programs.rq_rag import Trajectory
from knowgap.retrieval.bm25 import BM25Index
from knowgap.retrieval.passage import Passage, Retriever
from knowgap.signatures import STYLES
from knowgap.signatures.rq_rag_teacher import (
    AnswerFromSearches,
    PlanSearches,
    QueriesForParts,
    QueriesForReadings,
    Turn,
)

KINDS: dict[str, Literal["rewrite", "decompose", "disambiguate"]] = {
    "chat": "rewrite",
    "single_hop": "rewrite",
    "multi_hop": "decompose",
    "ambiguous": "disambiguate",
}
"""The kinds of questions in the pool, each with the action that refines its queries."""
_STYLES = {"chat": "long", "long_form": "long", "multiple_choice": "choice"}
"""The style of the answer by the kind or type of a question; `short` for all others."""
DROPPED = {
    "unreadable": "a reply of the teacher could not be read",
    "no query": "the teacher wrote no query",
    "gold not found": "the queries did not find all gold passages",
    "not supported": "the teacher did not find the answer in the passages",
    "other answer": "the new answer is none of the known ones",
}
"""Why a question gives no transcript."""
_DECISIVE = {"top_k", "max_queries", "drop_unfound", "drop_answers"}
"""The settings on which transcripts depend."""
_AGREES = 0.5  # the lowest token F1 at which a new answer counts as a known one


class SearchStep(BaseModel, extra="forbid"):
    """A query with what it found.

    Attributes:
        action: rewrite, decompose or disambiguate.
        query: the query as the teacher wrote it.
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
    """The transcript of a question, or the reason why there is none.

    Attributes:
        id: the id of the question, and the beginning of its digest.
        kind: chat, single_hop, multi_hop or ambiguous.
        question: what is asked.
        style: how the answer is worded, a key of `STYLES`.
        history: messages before the question, with role and content.
        steps: queries in order; none if no search is needed.
        answer: the teacher's answer from what the steps found.
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


def count_transcripts(records: Iterable[TranscriptRecord]) -> dict[str, int]:
    """How many were kept, by kind, and how many dropped, by reason; in words."""
    counts = Counter(
        f"dropped: {DROPPED[record.dropped]}" if record.dropped else f"kept, {record.kind}" for record in records
    )
    return dict(sorted(counts.items(), reverse=True))


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


def construct_transcripts(
    examples: Sequence[dspy.Example],
    retriever: Retriever,
    corpus: Iterable[Passage],
    output: str | Path,
    config: GeneratorConfig,
    run: Run,
) -> TeacherRecords[TranscriptRecord]:
    """Make a transcript of every question that the record file `output` does not have yet; see `write_records`.

    The questions have an `id`; `gold_ids`, `candidates`, `decomposition`, `history` and `type` are used if given. Where
    a question names its candidates in the corpus, BM25 searches these alone (appendix B.4), and the teacher of a
    question of several steps sees them (table 5).

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
        **config.model_dump(include=_DECISIVE),
    }

    def make(id: str) -> TranscriptRecord:
        among = candidate_retriever(by_id[id], passages) or retriever
        return _Author(among, teacher, config, passages, by_id[id]).write(id)

    more = {"num_threads": run.num_threads, "progress": run.progress}
    return write_records(list(by_id), make, output, TranscriptRecord, about, "transcript", **more)


def candidate_retriever(example: dspy.Example, passages: Mapping[str, Passage]) -> Retriever | None:
    """BM25 over a question's own candidates (appendix B.4); None if it names none, or they are not in the corpus."""
    own = [passages[name] for name in example.get("candidates") or () if name in passages]
    return BM25Index.from_passages(own) if own else None


@dataclass
class _Author:
    """Writes the transcript of a question with a teacher."""

    retriever: Retriever
    teacher: dspy.BaseLM
    config: GeneratorConfig
    corpus: Mapping[str, Passage]
    example: dspy.Example

    def write(self, id: str) -> TranscriptRecord:
        """Make the record of the question."""
        example, kind = self.example, kind_of(self.example)
        style = _STYLES.get(kind) or _STYLES.get(str(example.get("type")), "short")
        history = list(example.get("history") or [])
        record = TranscriptRecord(id=id, kind=kind, question=example.question, style=style, history=history)
        record.dropped = self._search(record) or self._answer(record)
        return record

    def _search(self, record: TranscriptRecord) -> str:
        """Give the record the teacher's queries and what they find; return why it is dropped, or an empty string."""
        planned = self._plan(record)
        if planned is None:
            return "unreadable"
        if not planned.get("search", True):
            return ""
        queries, _ = clean_lines(planned.queries, self.config.max_queries)
        if not queries:
            return "no query"
        for query, hits in zip(queries, self.retriever.search(queries, self.config.top_k), strict=True):
            passages = [hit.passage.to_dict() for hit in hits]
            record.steps.append(SearchStep(action=KINDS[record.kind], query=query, passages=passages))
        gold = {*self.example.get("gold_ids", [])}
        found = found_gold((passage["id"] for step in record.steps for passage in step.passages), gold)
        unfound = self.config.drop_unfound and record.kind == "multi_hop" and found != gold
        return "gold not found" if unfound else ""

    def _plan(self, record: TranscriptRecord) -> dspy.Prediction | None:
        """What to search for; None if the reply cannot be read."""
        inputs: dict[str, Any] = {"question": record.question, "max_queries": self.config.max_queries}
        if record.kind == "multi_hop":
            known = dict.fromkeys([*(self.example.get("candidates") or ()), *(self.example.get("gold_ids") or ())])
            around = [self.corpus[name] for name in known if name in self.corpus]
            return self._ask(QueriesForParts, **inputs, passages=around)
        if record.kind == "ambiguous":
            [hits] = self.retriever.search([record.question], self.config.top_k)
            return self._ask(QueriesForReadings, **inputs, passages=[hit.passage for hit in hits])
        return self._ask(PlanSearches, **inputs, history=_turns(record))

    def _answer(self, record: TranscriptRecord) -> str:
        """Give the record the teacher's answer from what was found; return why it is dropped, or an empty string."""
        path = Trajectory("", tuple(s.query for s in record.steps), tuple(tuple(s.found) for s in record.steps))
        output = self._ask(
            AnswerFromSearches,
            history=_turns(record),
            question=record.question,
            searched=path.searched,
            passages=path.passages,
            style=STYLES[record.style],
        )
        record.answer = text_of(output)
        if output is None or not record.answer:
            return "unreadable"
        if self.config.drop_answers and record.steps and not output.supported:
            return "not supported"
        if self.config.drop_answers and record.kind != "chat" and not _agrees(self.example, record.answer):
            return "other answer"
        return ""

    def _ask(self, signature: type[dspy.Signature], **inputs: Any) -> dspy.Prediction | None:
        return ask_teacher(dspy.Predict(signature), self.teacher, **inputs)


def _turns(record: TranscriptRecord) -> list[Turn]:
    return [Turn(role=turn["role"], content=turn["content"]) for turn in record.history]


def _agrees(example: dspy.Example, answer: str) -> bool:
    """Whether a new answer is a known one in other words, or contains one."""
    known = [
        *reference_answers(example),
        *(short for reading in example.get("short_answers") or () for short in reading),
    ]
    return f1(example, answer) >= _AGREES or contains_answer(answer, known)
