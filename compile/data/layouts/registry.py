"""The known file layouts, and how to tell which one a file has."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from knowgap.compiling.data.dataset import Examples, PassagePool
from knowgap.compiling.data.layouts.asqa import read_asqa
from knowgap.compiling.data.layouts.crud import TASKS, read_crud
from knowgap.compiling.data.layouts.hotpotqa import read_hotpotqa
from knowgap.compiling.data.layouts.multiple_choice import read_multiple_choice
from knowgap.compiling.data.layouts.musique import read_musique
from knowgap.compiling.data.layouts.nq_open import read_nq_open
from knowgap.compiling.data.layouts.popqa import read_popqa
from knowgap.compiling.data.layouts.strategyqa import read_strategyqa
from knowgap.compiling.data.layouts.triviaqa import read_triviaqa
from knowgap.compiling.data.layouts.twowiki import read_twowiki
from knowgap.compiling.data.own_questions import read_by_loader, read_own_questions
from knowgap.compiling.data.records import read_records, stream_keys
from knowgap.errors import DataError, UsageError
from knowgap.plugins import find

Reader = Callable[[Any, PassagePool], Examples]


@dataclass(frozen=True)
class Layout:
    """A file layout.

    Args:
        reader: yields line (or record) number and example, and adds their passages to the pool.
        about: one line on what it is.
        fits: tells whether a file has this layout from its first record.
    """

    reader: Reader
    about: str
    fits: Callable[[Mapping[str, Any]], bool]


def _has(*fields: str) -> Callable[[Mapping[str, Any]], bool]:
    return lambda record: record.keys() >= set(fields)


def _from_a_book(record: Mapping[str, Any]) -> bool:
    """Whether a multiple-choice record is OpenBookQA's: by its own fields, or by its ids such as `7-980`."""
    return "answerKey" in record and (
        "question_stem" in record or "fact1" in record or bool(re.fullmatch(r"\d+-\d+", str(record.get("id"))))
    )


LAYOUTS: dict[str, Layout] = {
    "2wikimultihopqa": Layout(
        read_twowiki,
        "2 to 4 hops over Wikipedia, with evidence triples (official JSON)",
        _has("supporting_facts", "context", "evidences"),
    ),
    "hotpotqa": Layout(
        read_hotpotqa,
        "two hops over Wikipedia, distractor or full-wiki (official JSON)",
        _has("supporting_facts", "context"),
    ),
    "musique": Layout(
        read_musique,
        "2 to 4 hops composed of single hops, with aliases (official JSON Lines)",
        _has("paragraphs", "question_decomposition"),
    ),
    "strategyqa": Layout(
        read_strategyqa,
        "yes/no questions with an implicit strategy (official JSON, paragraphs beside it)",
        lambda record: "qid" in record and isinstance(record.get("answer"), bool),
    ),
    "asqa": Layout(read_asqa, "ambiguous questions with long answers (ALCE's JSON)", _has("sample_id", "qa_pairs")),
    "triviaqa": Layout(read_triviaqa, "trivia, with many aliases (official JSON, no passages)", _has("Data")),
    "crud": Layout(
        read_crud,
        "questions on one to three news reports, in Chinese (official JSON)",
        lambda record: bool(TASKS.keys() & record.keys()),
    ),
    "popqa": Layout(
        read_popqa, "questions on long-tail entities (official TSV, no passages)", _has("question", "possible_answers")
    ),
    "openbookqa": Layout(
        read_multiple_choice, "elementary science, multiple choice (official JSON Lines, no passages)", _from_a_book
    ),
    "arc_challenge": Layout(
        read_multiple_choice,
        "school science, multiple choice (official JSON Lines, no passages)",
        _has("question", "answerKey"),
    ),
    "nq_open": Layout(
        read_nq_open,
        "questions of search-engine users (official JSON Lines, no passages)",
        lambda record: record.keys() == {"question", "answer"} and isinstance(record["answer"], list),
    ),
    "jsonl": Layout(
        read_own_questions, "your own questions (JSON Lines: question, answer, …)", _has("question", "answer")
    ),
}


def find_reader(name: str) -> Reader:
    """What reads files of a layout.

    Args:
        name: a key of `LAYOUTS`; `module:Name` of a loader from outside; or what an installed package offers under that
            name, in the group `knowgap.layouts` of its entry points. A loader takes a path and yields a dictionary for
            each question, with the fields of `knowgap.compiling.data` and, if it divides them, `split`.

    Raises:
        UnknownName: there is no such layout.
        UsageError: a loader from outside that cannot be imported, or is none.
    """
    if name in LAYOUTS:
        return LAYOUTS[name].reader
    loader = find("layout", name, LAYOUTS)
    if not callable(loader):
        raise UsageError(f"layout {name}: is {type(loader).__name__}; a loader is a function of a path")
    return functools.partial(read_by_loader, cast("Any", loader), name)


def detect_layout(path: Path) -> str:
    """Tell the layout of a file from its first record.

    Raises:
        DataError: the record fits no layout or cannot be read.
    """
    try:
        record = next(read_records(path)).data
    except DataError:
        # One object over several lines, with the questions under one of its keys?
        for key in stream_keys(path):
            if name := _fitting({key: ()}):
                return name
        raise
    if name := _fitting(record):
        return name
    fields = ", ".join(sorted(record)) or "none"
    raise DataError(
        f"the layout is not known: the first record's fields are {fields}. Say which layout it has, one of "
        f"{', '.join(LAYOUTS)}, or bring the fields question and answer",
        path=path,
        line=1,
    )


def _fitting(record: Mapping[str, Any]) -> str | None:
    return next((name for name, layout in LAYOUTS.items() if layout.fits(record)), None)
