"""The layouts of questions: users' own, and public data sets'.

A layout is a function that turns a record of a file into the fields of `Question`, which are those of users' own
questions, and puts the passages that come with it into a pool.
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import dspy
from pydantic import BaseModel, BeforeValidator, Field, StringConstraints, ValidationError, model_validator

from knowgap.compiling.data.dataset import add_passage, make_example
from knowgap.compiling.data.records import Record, read_records
from knowgap.errors import DataError, shorten
from knowgap.retrieval.passage import Passage

Pool = dict[str, Passage]
"""The passages that come with questions, by id."""
Text = Annotated[str, StringConstraints(strip_whitespace=True)]
"""A string, without white space around it."""
Id = Annotated[str, BeforeValidator(lambda value: str(value) if type(value) is int else value)]
"""A string or whole number, as a string."""


def _as_answers(value: Any) -> Any:
    """One answer as a list; a number as a text, and true and false as "yes" and "no"."""
    if isinstance(value, bool):
        return ["yes" if value else "no"]
    return [str(value)] if isinstance(value, (str, int, float)) else value


def _as_documents(value: Any) -> Any:
    """Accept a text instead of an object that has nothing else, and one text instead of a list."""
    items = _as_list(value)
    return [{"text": each} if isinstance(each, str) else each for each in items] if isinstance(items, list) else items


def _as_list(value: Any) -> Any:
    """One text or number as a list."""
    return [value] if isinstance(value, (str, int)) else value


class _Fields(BaseModel):
    """Fields of a record; others are ignored, and null or a blank text counts as missing."""

    @model_validator(mode="before")
    @classmethod
    def _without_nulls(cls, data: Any) -> Any:
        if isinstance(data, dict):
            return {name: value for name, value in data.items() if value is not None and str(value).strip()}
        return data


class _Document(_Fields):
    id: Id | None = None
    title: str = ""
    text: Text


class Question(_Fields):
    """The fields of users' own questions, as `knowgap.compiling.data` documents them, and those that layouts add."""

    id: Id = ""
    question: Text
    answer: Annotated[list[Annotated[Text, Field(min_length=1)]], BeforeValidator(_as_answers)] = Field(min_length=1)
    aliases: Annotated[list[Text], BeforeValidator(_as_list)] = Field([])
    type: str = "question"
    gold_ids: Annotated[list[Id], BeforeValidator(_as_list)] = Field([])
    context: Annotated[list[_Document], BeforeValidator(_as_documents)] = Field([])
    more: dict[str, Any] = Field({}, alias="_more")  # fields of the example that only one layout has

    def example(self, pool: Pool) -> dspy.Example:
        """Make the example; its id is empty where the record has none."""
        own = self.model_dump(include={"id", "question", "type", "gold_ids"})
        candidates = [add_passage(pool, each.title, each.text, each.id) for each in self.context]
        return make_example(answers=[*self.answer, *self.aliases], **own, **{"candidates": candidates, **self.more})


def _rows(value: Any) -> Any:
    """Columns of equal length as rows, which is how Hugging Face's data sets keep lists of objects."""
    return list(zip(*value.values(), strict=True)) if isinstance(value, dict) else value


def _hotpotqa(data: dict[str, Any], pool: Pool) -> dict[str, Any]:
    """HotpotQA (Yang et al., 2018), 2WikiMultihopQA (Ho et al., 2020): several hops over Wikipedia.

    A supporting title that is not among the question's own paragraphs, as can happen in the full-wiki setting, is the
    gold id itself. The first of equal titles counts.
    """
    ids: dict[str, str] = {}
    for title, sentences in _rows(data["context"]):
        parts = [sentences] if isinstance(sentences, str) else sentences
        ids.setdefault(title, add_passage(pool, title, " ".join(filter(None, map(str.strip, parts)))))
    gold = [ids.get(title, title) for title, _ in _rows(data["supporting_facts"])]
    own = {"id": data.get("_id", data.get("id")), "gold_ids": gold, "context": []}
    return {"type": "bridge", **data, **own, "_more": {"candidates": ids.values()}}


def _musique(data: dict[str, Any], pool: Pool) -> dict[str, Any]:
    """MuSiQue-Ans and MuSiQue-Full (Trivedi et al., 2022): 2 to 4 hops composed of single hops.

    MuSiQue-Full asks each question twice under one id, once without a supporting paragraph. The latter has the suffix
    `-unanswerable` in its id, and "unanswerable" as its type and answer.
    """
    ids = [add_passage(pool, each["title"], each["paragraph_text"]) for each in data["paragraphs"]]
    gold = [id for id, each in zip(ids, data["paragraphs"], strict=True) if each.get("is_supporting")]
    own = {"answer": data["answer"], "aliases": data.get("answer_aliases"), "type": data["id"].partition("__")[0]}
    if not data.get("answerable", True):
        own = {"id": f"{data['id']}-unanswerable", "answer": "unanswerable", "type": "unanswerable"}
    return {**data, "gold_ids": gold, **own, "_more": {"candidates": ids}}


def _leaves(value: Any) -> Iterator[str]:
    if isinstance(value, list):
        for item in value:
            yield from _leaves(item)
    elif value not in ("operation", "no_evidence"):
        yield value


def _strategyqa_records(path: Path, pool: Pool) -> Iterator[Record]:
    """Paragraphs are in `<stem>_paragraphs.jsonl` beside the questions, or in the release's `.json`, by id."""
    lines, release = (path.with_name(f"{path.stem}_paragraphs.{suffix}") for suffix in ("jsonl", "json"))
    paragraphs: Iterable[Any] = (record.data for record in read_records(lines)) if lines.exists() else ()
    if not lines.exists() and release.exists():
        paragraphs = json.loads(release.read_text(encoding="utf-8")).values()
    for each in paragraphs:
        text = each.get("contents") or each["content"]
        add_passage(pool, each["title"], text, f"{each['title']}-{each['para_index']}")
    yield from read_records(path)


def _strategyqa(data: dict[str, Any], pool: Pool) -> dict[str, Any]:
    """StrategyQA (Geva et al., 2021): yes/no questions. Gold passages are those of any annotator."""
    gold = [*_leaves(data.get("evidence") or [])]
    return {"type": "yes_no", "gold_ids": gold, **data, "id": data["qid"]}


def _asqa(data: dict[str, Any], pool: Pool) -> dict[str, Any]:
    """ASQA (Stelmakh et al., 2022), as ALCE (Gao et al., 2023) recompiled it: ambiguous questions, long answers.

    The example's `short_answers` has one list for each reading of the question; str-em and str-hit use it.
    """
    readings = data["qa_pairs"]
    own = {"id": data["sample_id"], "question": data["question"], "answer": data["answer"], "type": "long_form"}
    more = {"short_answers": [each["short_answers"] for each in readings]}
    return {**own, "context": data.get("docs"), "_more": more}


def _triviaqa(data: dict[str, Any], pool: Pool) -> dict[str, Any]:
    """TriviaQA (Joshi et al., 2017). The evidence documents, which are separate files, are not read."""
    answer, own = data["Answer"], {"id": data["QuestionId"], "question": data["Question"], "type": "single_hop"}
    return {**own, "answer": answer["Value"], "aliases": answer.get("Aliases")}


def _popqa(data: dict[str, Any], pool: Pool) -> dict[str, Any]:
    """PopQA (Mallen et al., 2023): long-tail entities."""
    answers, kind = json.loads(data["possible_answers"]), data.get("prop") or "single_hop"
    return {"id": data.get("id"), "question": data["question"], "answer": answers, "type": kind}


def _multiple_choice(data: dict[str, Any], pool: Pool) -> dict[str, Any]:
    """ARC (Clark et al., 2018) and OpenBookQA (Mihaylov et al., 2018), in the official and the flat layout.

    The lettered options are appended to the question; the answer is the letter, and the option's text is an alias.
    """
    asked = data["question"] if isinstance(data.get("question"), dict) else data
    choices = asked["choices"]
    if isinstance(choices, dict):  # flat: a list of labels, and one of texts
        rows = [*zip(choices["label"], choices["text"], strict=True)]
    else:
        rows = [(each["label"], each["text"]) for each in choices]
    options, key = dict(rows), data["answerKey"]
    stem = asked.get("stem") or asked.get("question_stem") or asked["question"]
    question = "\n".join([stem, *(f"{label}. {text}" for label, text in options.items())])
    return {"id": data.get("id"), "question": question, "answer": [key, options[key]], "type": "multiple_choice"}


def _single_hop(data: dict[str, Any], pool: Pool) -> dict[str, Any]:
    """NQ-open (Lee et al., 2019): single-hop questions of search-engine users."""
    return {"type": "single_hop", **data}


def _flashrag(data: dict[str, Any], pool: Pool) -> dict[str, Any]:
    """FlashRAG (Jin et al., 2024): the data sets of its collection in one layout."""
    return {"id": data.get("id"), "question": data["question"], "answer": data["golden_answers"]}


def _own(data: dict[str, Any], pool: Pool) -> dict[str, Any]:
    """Your own questions: JSON Lines or CSV with question, answer and what else is known."""
    return data


class Layout(NamedTuple):
    """A file layout.

    Attributes:
        fields: makes the fields of `Question` from a record, and puts the passages that come with it into the pool.
        names: fields that a first record of this layout has.
        records: yields the records of a file, and puts passages from files beside it into the pool.
    """

    fields: Callable[[dict[str, Any], Pool], dict[str, Any]]
    names: set[str]
    records: Callable[[Path, Pool], Iterable[Record]] = lambda path, pool: read_records(path)


LAYOUTS = {
    "2wikimultihopqa": Layout(_hotpotqa, {"supporting_facts", "context", "evidences"}),
    "hotpotqa": Layout(_hotpotqa, {"supporting_facts", "context"}),
    "musique": Layout(_musique, {"paragraphs", "question_decomposition"}),
    "strategyqa": Layout(_strategyqa, {"qid", "term", "question", "answer"}, _strategyqa_records),
    "asqa": Layout(_asqa, {"sample_id", "qa_pairs"}),
    "triviaqa": Layout(_triviaqa, {"Data"}, lambda path, pool: read_records(path, key="Data")),
    "popqa": Layout(_popqa, {"question", "possible_answers"}),
    "arc_challenge": Layout(_multiple_choice, {"answerKey"}),
    "flashrag": Layout(_flashrag, {"question", "golden_answers"}),
    "jsonl": Layout(_own, {"question", "answer"}),
    "nq_open": Layout(_single_hop, {"question", "answer"}),
}
"""Layouts by name, in the order in which a first record is compared with them."""


def read_examples(path: Path, name: str, pool: Pool) -> Iterator[tuple[int, dspy.Example]]:
    """Read the questions of a file in a layout of `LAYOUTS`, and put the passages that come with them into the pool.

    Yields line or record numbers, and the examples there.

    Raises:
        DataError: a record is not of the layout; names file, line and field.
    """
    layout, seen = LAYOUTS[name], Counter[str]()
    for record in layout.records(path, pool):
        try:
            example = Question.model_validate(layout.fields(record.data, pool)).example(pool)
        except DataError as error:
            raise record.error(error.problem, error.field) from error
        except ValidationError as error:
            first = error.errors(include_url=False)[0]
            field = ".".join(map(str, first["loc"]))
            raise record.error(f"{first['msg']}, given {shorten(repr(first['input']), 60)}", field) from error
        except KeyError as error:
            raise record.lacks(str(error.args[0])) from error
        except (AttributeError, LookupError, TypeError, ValueError) as error:
            raise record.error(f"is not a record of this layout: {error}") from error
        if not example.id:
            digest = hashlib.sha256(example.question.encode()).hexdigest()[:16]
            seen[digest] += 1
            example.id = digest if seen[digest] == 1 else f"{digest}-{seen[digest]}"
        yield record.line, example


def detect_layout(path: Path) -> str:
    """Detect the layout of a file from its first record; raise a `DataError` if none fits or it cannot be read."""
    record = next(read_records(path)).data
    for name, layout in LAYOUTS.items():
        if record.keys() >= layout.names:
            return name
    raise DataError(
        f"the layout is not known: the first record's fields are {', '.join(sorted(record)) or 'none'}. Name its "
        f"layout, one of {', '.join(LAYOUTS)}, or provide the fields question and answer",
        path=path,
        line=1,
    )
