"""Let a language model, the teacher, write data: labels, transcripts and questions."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import dspy
from dspy.utils.exceptions import LMError

from knowgap.compiling.evaluation.provenance import lm_name, lm_settings
from knowgap.compiling.evaluation.threads import map_ordered
from knowgap.compiling.run import Run
from knowgap.errors import UsageError
from knowgap.lms.metering import UsageTracker, track_usage, without_history
from knowgap.lms.providers import EXTRACTIVE, as_language_model_error
from knowgap.programs.passages import number_passages
from knowgap.programs.replies.asking import ask_until_read
from knowgap.storage.processes import is_main_process
from knowgap.storage.progress import no_progress
from knowgap.storage.record_file import R, RecordFile, read_records


def check_teacher(lm: dspy.BaseLM | None, what: str) -> dspy.BaseLM:
    """The language model that writes something; raises `UsageError` without one that can."""
    if lm is None or lm_name(lm) == EXTRACTIVE:
        raise UsageError(f"a teacher writes {what}, which the embedded reader is not: name a language model with --lm")
    return lm


def ask_teacher(predictor: dspy.Module, lm: dspy.BaseLM | None, **inputs: Any) -> dspy.Prediction | None:
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


def write_records(
    ids: Sequence[str],
    make: Callable[[str], R | None],
    file: str | Path,
    kind: type[R],
    about: Mapping[str, Any],
    what: str,
    run: Run,
) -> tuple[list[R], int]:
    """Let a teacher write the records that a file does not have yet; the same call continues a killed run.

    If several processes train together, the main process writes; the others read what it has written, and must call
    this function after it (`main_process_first`).

    `make` makes the record of an id, or None if the teacher's reply cannot be read; several threads call it. `file`,
    `kind` and `what` are those of a `RecordFile`; so is `about`, to which the teacher is added.

    Returns:
        The records in the order of their ids, without those that could not be made; this run's calls of the teacher.

    Raises:
        UsageError: there is no teacher that can write, or the file is about something else.
        LanguageModelError: the teacher does not answer; what was written before is kept.
    """
    if not is_main_process():
        written = read_records(file, kind, what)[1]
        return [written[id] for id in ids if id in written], 0
    lm = check_teacher(run.lm, f"each {what}")
    about = {"teacher": [lm_name(lm), lm_settings(lm)], **about}
    with RecordFile(file, kind, about, what) as lines, track_usage(UsageTracker()) as tracker:
        missing = [id for id in ids if id not in lines.records]
        for record in map_ordered(make, missing, run.num_threads, ahead=8 * run.num_threads):
            if record is not None:
                lines.append(record)
            (run.progress or no_progress)(len(lines.records), len(ids), f"{what}s")
        return [lines.records[id] for id in ids if id in lines.records], tracker.usage.asked
