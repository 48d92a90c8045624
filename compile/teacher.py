"""Let a language model, the teacher, write data: labels, transcripts and questions."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Generic

import dspy
from dspy.utils.exceptions import LMError

from knowgap.compiling.evaluation.threads import map_ordered
from knowgap.compiling.run import Run
from knowgap.lms.metering import UsageTracker, track_usage, without_history
from knowgap.lms.providers import as_language_model_error
from knowgap.programs.passages import number_passages
from knowgap.programs.replies.asking import ask_until_read
from knowgap.storage.processes import is_main_process
from knowgap.storage.record_file import R, RecordFile, read_records


def ask_teacher(predictor: dspy.Module, lm: dspy.BaseLM, **inputs: Any) -> dspy.Prediction | None:
    """Ask a language model, and return its outputs, or None if they cannot be read.

    Passages among the inputs are numbered. No history of calls is kept.

    Raises:
        LanguageModelError: the language model does not answer; the cause is DSPy's error.
    """
    try:
        with dspy.context(lm=lm), without_history():
            return ask_until_read(predictor, number_passages(inputs)[0]).prediction
    except LMError as error:
        raise as_language_model_error(error, lm) from error


@dataclass(frozen=True)
class TeacherRecords(Generic[R]):
    """The records in the order of their ids, this run's calls of the teacher, and how many records there were before.

    Records that could not be made are not among them.
    """

    records: list[R]
    calls: int
    kept: int


def write_records(
    ids: Sequence[str],
    make: Callable[[str], R | None],
    file: str | Path,
    kind: type[R],
    about: Mapping[str, Any],
    what: str,
    run: Run,
) -> TeacherRecords[R]:
    """Let a teacher write the records that a file does not have yet; the same call continues a killed run.

    If several processes train together, the main process writes; the others read what it has written, and must call
    this function after it (`main_process_first`).

    `make` returns the record of an id, or None if the teacher's reply cannot be read; `file`, `kind`, `about` and
    `what` are those of a `RecordFile`.

    Raises:
        UsageError: the file is about something else.
        LanguageModelError: the teacher does not answer; what was written before is kept.
    """
    if not is_main_process():
        written = read_records(file, kind, what)[1]
        return TeacherRecords([written[id] for id in ids if id in written], 0, len(ids))
    with RecordFile(file, kind, about, what) as lines, track_usage(UsageTracker()) as tracker:
        missing = [id for id in ids if id not in lines.records]
        for record in map_ordered(make, missing, run.num_threads, ahead=8 * run.num_threads):
            if record is not None:
                lines.append(record)
            if run.progress is not None:
                run.progress(len(lines.records), len(ids), f"{what}s")
        records = [lines.records[id] for id in ids if id in lines.records]
    return TeacherRecords(records, tracker.usage.asked, len(ids) - len(missing))
