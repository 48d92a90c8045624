"""The file layouts that are known, and how a file is told to have one."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import dspy

from knowgap.compile.data.dataset import PassagePool
from knowgap.compile.data.jsonl import read_jsonl
from knowgap.compile.data.layouts.asqa import read_asqa
from knowgap.compile.data.layouts.crud import TASKS, read_crud
from knowgap.compile.data.layouts.hotpotqa import read_hotpotqa
from knowgap.compile.data.layouts.multiple_choice import read_multiple_choice
from knowgap.compile.data.layouts.musique import read_musique
from knowgap.compile.data.layouts.nq_open import read_nq_open
from knowgap.compile.data.layouts.popqa import read_popqa
from knowgap.compile.data.layouts.strategyqa import read_strategyqa
from knowgap.compile.data.layouts.triviaqa import read_triviaqa
from knowgap.compile.data.layouts.twowiki import read_twowiki
from knowgap.compile.data.records import read_json_array, read_lines, read_table
from knowgap.errors import DataError

__all__ = ["LAYOUTS", "Layout", "detect_layout"]

Reader = Callable[[Path, PassagePool], Iterator[tuple[int, dspy.Example]]]


@dataclass(frozen=True)
class Layout:
    """A file layout.

    Args:
        reader: yields line (or record) number and example, and pools the passages that come with them.
        about: one line on what it is.
        fits: whether a file whose first record is given has this layout.
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
    "asqa": Layout(
        read_asqa,
        "ambiguous questions with long answers (ALCE's JSON)",
        _has("sample_id", "qa_pairs"),
    ),
    "triviaqa": Layout(
        read_triviaqa,
        "trivia, with many aliases (official JSON, no passages)",
        _has("Data"),
    ),
    "crud": Layout(
        read_crud,
        "questions on one to three news reports, in Chinese (official JSON)",
        lambda record: bool(TASKS.keys() & record.keys()),
    ),
    "popqa": Layout(
        read_popqa,
        "questions on long-tail entities (official TSV, no passages)",
        _has("question", "possible_answers"),
    ),
    "openbookqa": Layout(
        read_multiple_choice,
        "elementary science, multiple choice (official JSON Lines, no passages)",
        _from_a_book,
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
        read_jsonl,
        "one's own questions (JSON Lines: question, answer, …)",
        _has("question", "answer"),
    ),
}


def detect_layout(path: Path) -> str:
    """The layout of a file, from its first record.

    Raises:
        DataError: the record fits no layout, or cannot be read.
    """
    record = _first_record(path)
    for name, layout in LAYOUTS.items():
        if layout.fits(record):
            return name
    fields = ", ".join(sorted(record)) or "none"
    raise DataError(
        f"the layout is not known: the first record's fields are {fields}. Say which layout it has, one of "
        f"{', '.join(LAYOUTS)}, or bring the fields question and answer",
        path=path,
        line=1,
    )


def _first_record(path: Path) -> Mapping[str, Any]:
    if path.name.removesuffix(".gz").endswith(".tsv"):
        return next(read_table(path)).data
    for number, line in read_lines(path):
        if not line.strip():
            continue
        if line.lstrip().startswith("["):
            return next(read_json_array(path)).data
        try:
            record = json.loads(line)
        except json.JSONDecodeError as error:
            if error.pos >= len(line.rstrip()) - 1 and (keys := _keys_ahead(path)):
                return keys
            raise DataError(f"is not JSON: {error.msg} at column {error.colno}", path=path, line=number) from error
        if not isinstance(record, dict):
            raise DataError(f"must be a JSON object, is {str(record)[:60]}", path=path, line=number)
        return record
    raise DataError("is empty", path=path)


def _keys_ahead(path: Path) -> Mapping[str, Any]:
    """Keys with lists in an object that is spread over lines, as far as its beginning shows them."""
    head = "\n".join(line for (_, line), _ in zip(read_lines(path), range(2000), strict=False))
    return dict.fromkeys(re.findall(r'^\s*\{?\s*"([^"\n]+)"\s*:\s*\[', head, re.MULTILINE), ())
