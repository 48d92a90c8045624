"""Transcripts as records: one per question, in a JSON Lines file that a later run continues."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

import orjson
from filelock import Timeout
from pydantic import BaseModel, ConfigDict, Field
from typing_extensions import Self

from knowgap.errors import DataError, UsageError
from knowgap.retrieval.index.files import acquire_lock, release_lock
from knowgap.retrieval.passage import Passage

__all__ = ["DROPPED", "DataConfig", "RecordFile", "SearchStep", "TranscriptRecord"]

DROPPED = {
    "unreadable": "a reply of the teacher could not be read",
    "no query": "the teacher wrote no query",
    "gold not found": "the queries did not find all gold passages",
    "not supported": "the teacher did not find the answer in the passages",
    "other answer": "the new answer is none of the known ones",
}
"""Why a question gives no transcript."""


class DataConfig(BaseModel):
    """How transcripts are made.

    Attributes:
        top_k: passages per query (appendix B.4: 3).
        max_queries: queries of a transcript at most.
        retention: share of the questions that keep the data set's own answer instead of one made from what was
            retrieved (section 4.4, figure 4a: 0 is best).
        drop: leave out what does not match: appendix B.4 drops a question whose gold passages were not found; a new
            answer that the passages do not support, or that is none of the known ones, is dropped as well.
        seed: decides which questions keep their answer.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    top_k: int = Field(default=3, ge=1, le=20)
    max_queries: int = Field(default=4, ge=1, le=8)
    retention: float = Field(default=0.0, ge=0, le=1)
    drop: bool = True
    seed: int = 0


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
        id: the question's.
        kind: chat, single_hop, multi_hop or ambiguous.
        question: what is asked.
        style: how the answer is worded, a key of `STYLES`.
        history: messages before the question, with role and content.
        steps: queries in order; none if no search is needed.
        answer: made from what the steps found.
        dropped: why there is no transcript, a key of `DROPPED`; empty if there is one.
        digest: of the question and its known answers.
    """

    id: str
    kind: str
    question: str
    style: str = "short"
    history: list[dict[str, str]] = []
    steps: list[SearchStep] = []
    answer: str = ""
    dropped: str = ""
    digest: str = ""


class RecordFile:
    """A file of records that is being written: a header that says what they were made with, then one record a line.

    What a killed run wrote is kept, and a line that it left unfinished is cut off. Use it as a context manager.

    Args:
        path: made, with its folder, if it is not there.
        made_with: what the records depend on, as JSON values.

    Attributes:
        records: those in the file, by id.

    Raises:
        UsageError: the file is something else, was made with something else, or is being written to.
        DataError: a line is damaged.
    """

    def __init__(self, path: Path, made_with: dict[str, Any]):
        self.path = path
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            self._lock = acquire_lock(path, timeout=0)
        except Timeout:
            raise UsageError(f"another run is writing to {path}: wait for it, or name another folder") from None
        try:
            self._file = path.open("a+b", buffering=0)
            self._file.seek(0)
            lines = self._file.read().split(b"\n")
            self._file.truncate(sum(len(line) + 1 for line in lines[:-1]))
            header, self.records = _parse(path, lines[:-1])
            made_with = orjson.loads(orjson.dumps(made_with))
            if header is None:
                self._file.write(orjson.dumps({"made_with": made_with}) + b"\n")
            elif header != made_with:
                differing = sorted(key for key in {*header, *made_with} if header.get(key) != made_with.get(key))
                raise UsageError(
                    f"{path} was made with another {', '.join(differing)}: name another folder, or remove the file"
                )
        except BaseException:
            self.__exit__()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *problem: object) -> None:
        if hasattr(self, "_file"):
            self._file.close()
        release_lock(self._lock)

    def append(self, record: TranscriptRecord) -> None:
        """Write a record; it is handed to the operating system before this returns."""
        self._file.write(record.model_dump_json().encode() + b"\n")
        self.records[record.id] = record


def _parse(path: Path, lines: list[bytes]) -> tuple[dict[str, Any] | None, dict[str, TranscriptRecord]]:
    """The header, None in an empty file, and the records by id."""
    header: dict[str, Any] | None = None
    records: dict[str, TranscriptRecord] = {}
    for number, line in enumerate(lines, start=1):
        try:
            if number == 1:
                header = dict(orjson.loads(line)["made_with"])
            else:
                record = TranscriptRecord.model_validate_json(line)
                records[record.id] = record
        except (KeyError, TypeError, ValueError):
            raise DataError("is no transcript: remove the line, or the file", path=path, line=number) from None
    return header, records
