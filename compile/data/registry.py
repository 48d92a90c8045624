"""The table of layouts, the detection of a file's layout, and loaders from outside."""

from __future__ import annotations

import functools
import re
import warnings
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import dspy

from knowgap.compiling.data import layouts, toolkits
from knowgap.compiling.data.dataset import PassagePool, question_id
from knowgap.compiling.data.records import Record, read_records, stream_keys
from knowgap.errors import DataError, UsageError
from knowgap.plugins import find

Examples = Iterator[tuple[int, dspy.Example]]
"""Line or record numbers, and the examples there."""
Reader = Callable[[Any, PassagePool], Examples]


@dataclass(frozen=True)
class Layout:
    """A file layout: a line about it, the fields of a record, and a function that says whether a first record fits it.

    `records` yields the records of a file, and puts passages from files beside it into the pool.
    """

    about: str
    row: type[layouts.Question]
    fits: Callable[[Mapping[str, Any]], bool]
    records: Callable[[Path, PassagePool], Iterable[Record]] = lambda path, pool: read_records(path)

    def read(self, path: str | Path, pool: PassagePool) -> Examples:
        """Yield line or record numbers and examples of a file; its passages go into the pool."""
        return _examples(self.records(Path(path), pool), self.row, pool)


def _examples(records: Iterable[Record], row: type[layouts.Question], pool: PassagePool) -> Examples:
    seen: Counter[str] = Counter()
    for record in records:
        question = record.read(row)
        try:
            example = question.example(pool)
            "".join([example.question, example.answer, *example.aliases]).encode()
        except DataError as error:
            raise record.error(error.problem) from error
        except UnicodeEncodeError as error:  # half of a character outside the first 65,536, as in a text that was cut
            raise record.error(f"the question or an answer is not valid Unicode ({error.reason})") from error
        example.id = example.id or question_id(example.question, seen)
        yield record.line, example


def _has(*fields: str) -> Callable[[Mapping[str, Any]], bool]:
    return lambda record: record.keys() >= set(fields)


def _from_a_book(record: Mapping[str, Any]) -> bool:
    """Whether a multiple-choice record is OpenBookQA's: by its own fields, or by its ids such as `7-980`."""
    own = "question_stem" in record or "fact1" in record or re.fullmatch(r"\d+-\d+", str(record.get("id")))
    return "answerKey" in record and bool(own)


def _are_own(record: Mapping[str, Any]) -> bool:
    """Whether a record has a question and an answer, by one of the names that users give them."""
    return all(_names_of(record).values())


def _names_of(record: Mapping[str, Any]) -> dict[str, str]:
    """The fields of a record that are the question and the answer; an empty name where none is."""
    known = {"question": layouts.QUESTION_NAMES, "answer": layouts.ANSWER_NAMES}
    return {part: next((name for name in names if name in record), "") for part, names in known.items()}


LAYOUTS: dict[str, Layout] = {
    "2wikimultihopqa": Layout(
        "2 to 4 hops over Wikipedia, with evidence triples (official JSON)",
        layouts.TwoWiki,
        _has("supporting_facts", "context", "evidences"),
        layouts.two_wiki_records,
    ),
    "hotpotqa": Layout(
        "two hops over Wikipedia, distractor or full-wiki (official JSON)",
        layouts.HotpotQA,
        _has("supporting_facts", "context"),
    ),
    "musique": Layout(
        "2 to 4 hops composed of single hops, with aliases (official JSON Lines)",
        layouts.MuSiQue,
        _has("paragraphs", "question_decomposition"),
    ),
    "strategyqa": Layout(
        "yes/no questions with an implicit strategy (official JSON, paragraphs beside it)",
        layouts.StrategyQA,
        lambda record: {"qid", "question"} <= record.keys() and isinstance(record.get("answer"), bool),
        layouts.strategyqa_records,
    ),
    "asqa": Layout("ambiguous questions with long answers (ALCE's JSON)", layouts.ASQA, _has("sample_id", "qa_pairs")),
    "triviaqa": Layout(
        "trivia, with many aliases (official JSON, no passages)",
        layouts.TriviaQA,
        _has("Data"),
        lambda path, pool: read_records(path, key="Data"),
    ),
    "crud": Layout(
        "questions on one to three news reports, in Chinese (official JSON)",
        layouts.CRUD,
        lambda record: bool(layouts.CRUD_TASKS.keys() & record.keys()),
        layouts.crud_records,
    ),
    "popqa": Layout(
        "questions on long-tail entities (official TSV, no passages)",
        layouts.PopQA,
        _has("question", "possible_answers"),
    ),
    "openbookqa": Layout(
        "elementary science, multiple choice (official JSON Lines, no passages)",
        layouts.Question,
        _from_a_book,
        layouts.choice_records,
    ),
    "arc_challenge": Layout(
        "school science, multiple choice (official JSON Lines, no passages)",
        layouts.Question,
        _has("question", "answerKey"),
        layouts.choice_records,
    ),
    "nq_open": Layout(
        "questions of search-engine users (official JSON Lines, no passages)",
        layouts.NQOpen,
        lambda record: record.keys() == {"question", "answer"} and isinstance(record["answer"], list),
    ),
    "flashrag": Layout(
        "any data set in FlashRAG's layout (JSON Lines with golden_answers, no passages)",
        toolkits.FlashRAG,
        _has("question", "golden_answers"),
    ),
    "dpr": Layout(
        "questions with positive and negative passages (DPR's JSON)",
        toolkits.DPR,
        _has("question", "answers", "positive_ctxs"),
    ),
    "kilt": Layout(
        "knowledge-intensive tasks over Wikipedia (KILT's JSON Lines, no passages)",
        layouts.Question,
        _has("input", "output"),
        toolkits.kilt_records,
    ),
    "squad": Layout(
        "questions on paragraphs of Wikipedia (official JSON, versions 1.1 and 2.0)",
        toolkits.SQuAD,
        lambda record: (
            (record.keys() <= {"data", "version"} and "data" in record)
            or (record.keys() >= {"context", "question"} and isinstance(record.get("answers"), dict))
        ),
        toolkits.squad_records,
    ),
    "jsonl": Layout("your own questions (JSON Lines or CSV: question, answer, …)", layouts.OwnQuestion, _are_own),
    "beir": Layout(
        "retrieval test collections: a folder with corpus, queries and judgements (BEIR's layout)",
        layouts.BEIR,
        lambda record: False,
        layouts.beir_records,
    ),
}

_TASKS = {
    **dict.fromkeys(("sample", "hotpotqa"), "multi_hop"),
    **dict.fromkeys(("2wikimultihopqa", "musique"), "multi_hop_deep"),
    **dict.fromkeys(("triviaqa", "popqa", "nq_open"), "open_domain"),
    **dict.fromkeys(("openbookqa", "arc_challenge"), "multiple_choice"),
    "strategyqa": "commonsense",
    "asqa": "long_form",
    "crud": "news",
}


def task_of(dataset: str) -> str:
    """The family of tasks that a data set belongs to, by its name; empty if it is not known."""
    return _TASKS.get(dataset, "")


def find_reader(name: str) -> Reader:
    """Find the function that reads files of a layout.

    Args:
        name: a key of `LAYOUTS`; `module:Name` of a loader from outside; or what an installed package offers under that
            name, in the group `knowgap.layouts` of its entry points. A loader takes a path and yields a dictionary for
            each question, with the fields of `knowgap.compiling.data` and, if it divides them, `split`.

    Raises:
        UsageError: there is no such layout, or a loader from outside that cannot be imported.
    """
    if name in LAYOUTS:
        return LAYOUTS[name].read
    loader = find("layout", name, LAYOUTS)
    if not callable(loader):
        raise UsageError(f"layout {name} is of type {type(loader).__name__}, but a loader must be a function of a path")
    return functools.partial(_read_by_loader, cast("Any", loader), name)


def _read_by_loader(loader: Callable[[str], Iterable[Any]], name: str, path: str, pool: PassagePool) -> Examples:
    def records() -> Iterator[Record]:
        for number, item in enumerate(loader(path), start=1):
            fields = item.toDict() if isinstance(item, dspy.Example) else item
            if not isinstance(fields, Mapping):
                problem = f"{name} must yield a dictionary for each question, but yielded {type(item).__name__}"
                raise DataError(problem, path=path, line=number)
            yield Record(dict(fields), Path(path), number)

    return _examples(records(), layouts.LoadedQuestion, pool)


def detect_layout(path: Path) -> str:
    """Detect the layout of a file from its first record; raise a `DataError` if none fits or it cannot be read."""
    try:
        record: Mapping[str, Any] = next(iter(read_records(path))).data
    except DataError:
        # One object over several lines, with the questions under one of its keys?
        if path.is_dir() or not (key := next(filter(lambda key: _fitting({key: ()}), stream_keys(path)), None)):
            raise
        record = {key: ()}
    if name := _fitting(record):
        guessed = [f"{part} is {own}" for part, own in _names_of(record).items() if own and own != part]
        if name == "jsonl" and guessed:
            warnings.warn(f"{path.name}: {', '.join(guessed)}", stacklevel=2)
        return name
    fields = ", ".join(sorted(record)) or "none"
    problem = "the layout is not known"
    if "question" in record:
        problem = "there is no answer to score replies by (knowgap ask needs none), or the layout is not known"
    raise DataError(
        f"{problem}: the first record's fields are {fields}. Name its layout, one of "
        f"{', '.join(LAYOUTS)}, or provide the fields question and answer",
        path=path,
        line=1,
    )


def layout_named(name: str, path: Path) -> str | None:
    """The layout that has a data set's name; None if there is none, or if a file's first record fits another layout.

    Papers' releases may keep a data set's questions in another layout, which `detect_layout` then finds.
    """
    if name not in LAYOUTS or not path.is_file():
        return name if name in LAYOUTS and path.exists() else None
    try:
        record = next(iter(read_records(path))).data
    except DataError:
        return name  # its reader says what is wrong
    return name if LAYOUTS[name].fits(record) or _fitting(record) is None else None


def _fitting(record: Mapping[str, Any]) -> str | None:
    return next((name for name, layout in LAYOUTS.items() if layout.fits(record)), None)
