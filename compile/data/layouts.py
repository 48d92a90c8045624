"""The layouts of questions: users' own, public data sets', and loaders from outside.

A layout is a subclass of `Question`, whose pydantic fields say where a record has the parts of a question, and, if the
files need more than that, a function that yields their records. The table of all layouts is in `registry`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Annotated, Any, Literal

import dspy
from pydantic import AliasChoices, AliasPath, BeforeValidator, Field, Json, StrictBool

from knowgap.compiling.data.dataset import SPLITS, PassagePool, make_example
from knowgap.compiling.data.records import Fields, Id, Record, Text, Texts, read_json_object, read_records
from knowgap.errors import DataError, shorten

QUESTION_NAMES = ("question", "q", "query", "prompt")
ANSWER_NAMES = (
    "answer",
    "answers",
    "short_answers",
    "a",
    "expected",
    "expected_answer",
    "gold",
    "gold_answer",
    "reference",
)
"""The names that these fields of users' own questions may have, the most certain first."""


def _as_answers(value: Any) -> Any:
    if isinstance(value, bool):
        return ["yes" if value else "no"]
    values = value if isinstance(value, list) else [str(value) if isinstance(value, (int, float)) else value]
    if not values or not all(isinstance(each, str) and each.strip() for each in values):
        raise ValueError(
            f"is {shorten(repr(value), 60)}, but must be the expected answer, as a text that is not blank or a list "
            'of such texts; write "unanswerable" where the documents have no answer'
        )
    return values


def _as_objects(key: str) -> BeforeValidator:
    """Accept a string instead of an object that has only this key, and one string instead of a list."""

    def read(value: Any) -> Any:
        items = ([value] if value.strip() else []) if isinstance(value, str) else value
        return [{key: each} if isinstance(each, str) else each for each in items] if isinstance(items, list) else items

    return BeforeValidator(read)


def _as_rows(value: Any) -> Any:
    """Turn columns of equal length into rows, which is how Hugging Face's data sets keep lists of objects."""
    columns = list(value.values()) if isinstance(value, dict) else []
    if columns and all(isinstance(column, list) and len(column) == len(columns[0]) for column in columns):
        return list(zip(*columns, strict=True))
    return value


_MaybeTexts = Annotated[
    Texts, BeforeValidator(lambda value: [] if isinstance(value, str) and not value.strip() else value)
]
"""A list of strings, or one string as a list; the empty list for a blank one, such as an empty cell of a table."""


class _Step(Fields):
    question: Text
    answer: str = ""


class _Turn(Fields):
    role: Text
    content: Text


class Question(Fields):
    """The fields of a question that layouts have in common; a layout overrides those that it names differently."""

    id: Id = ""
    question: Text
    answer: Annotated[list[str], BeforeValidator(_as_answers)]
    aliases: _MaybeTexts = Field([])
    type: str = "question"
    gold_ids: _MaybeTexts = Field([])
    evidences: list[tuple[str, str, str]] = Field([])
    decomposition: Annotated[list[_Step], _as_objects("question")] = Field([])
    history: list[_Turn] = Field([])

    def _more(self, pool: PassagePool) -> dict[str, Any]:
        """Return the fields of the example that only this layout has; put the question's passages into the pool."""
        return {"history": [turn.model_dump() for turn in self.history]} if self.history else {}

    def example(self, pool: PassagePool) -> dspy.Example:
        """Make the example; its id is empty in layouts without ids."""
        fields = self.model_dump(include={"id", "question", "type", "gold_ids", "evidences", "decomposition"})
        return make_example(**{**fields, "answers": [*self.answer, *self.aliases], **self._more(pool)})


class _Document(Fields):
    id: Id | None = None
    title: str = ""
    text: Text


class OwnQuestion(Question):
    """Users' own questions, with the fields that `knowgap.compiling.data` documents."""

    question: Text = Field(validation_alias=AliasChoices(*QUESTION_NAMES))
    answer: Annotated[list[str], BeforeValidator(_as_answers)] = Field(validation_alias=AliasChoices(*ANSWER_NAMES))
    context: Annotated[list[_Document], _as_objects("text")] = Field([])

    def _more(self, pool: PassagePool) -> dict[str, Any]:
        return super()._more(pool) | {"candidates": [pool.add(each.title, each.text, each.id) for each in self.context]}


class LoadedQuestion(OwnQuestion):
    """A question from a loader from outside, which may name its split."""

    split: Literal["train", "dev", "test"] | None = None

    def _more(self, pool: PassagePool) -> dict[str, Any]:
        return super()._more(pool) | ({"split": self.split} if self.split else {})


class HotpotQA(Question):
    """HotpotQA (Yang et al., 2018), distractor and full-wiki settings.

    A supporting title that is not among the question's own paragraphs, as can happen in the full-wiki setting, is the
    gold id itself. The first of equal titles counts.
    """

    id: Id = Field(validation_alias=AliasChoices("_id", "id"))
    type: str = "bridge"
    supporting_facts: Annotated[list[tuple[str, Any]], BeforeValidator(_as_rows)]
    context: Annotated[list[tuple[str, list[str]]], BeforeValidator(_as_rows)]

    def _more(self, pool: PassagePool) -> dict[str, Any]:
        ids: dict[str, str] = {}
        for title, sentences in self.context:
            ids.setdefault(title, pool.add(title, " ".join(filter(None, map(str.strip, sentences)))))
        return {"gold_ids": [ids.get(title, title) for title, _ in self.supporting_facts], "candidates": ids.values()}


class TwoWiki(HotpotQA):
    """2WikiMultihopQA (Ho et al., 2020): HotpotQA's layout with evidence triples."""

    decomposition: list[_Step] = Field([], alias="qa_pairs")


class _Aliases(Fields):
    Q_id: Text
    aliases: Texts = Field([])
    demonyms: Texts = Field([])


def two_wiki_records(path: Path, pool: PassagePool) -> Iterator[Record]:
    """With the release's `id_aliases.json` beside the file, other names of the answer's entity count as answers too.

    These are its aliases and demonyms, as in the release's `2wikimultihop_evaluate_v1.1.py`.
    """
    file = path.with_name("id_aliases.json")
    rows = [record.read(_Aliases) for record in read_records(file)] if file.exists() else []
    aliases = {row.Q_id: [*row.aliases, *row.demonyms] for row in rows}
    for record in read_records(path):
        yield record.replace({**record.data, "aliases": aliases.get(str(record.data.get("answer_id")))})


class _Paragraph(Fields):
    title: Text
    paragraph_text: Text
    is_supporting: StrictBool = False


class MuSiQue(Question):
    """MuSiQue-Ans and MuSiQue-Full (Trivedi et al., 2022).

    MuSiQue-Full asks each question twice under one id, once without a supporting paragraph. The latter has the suffix
    `-unanswerable` in its id, and "unanswerable" as its type and answer. In a sub-question, `#1` is replaced by the
    answer to the first one, and so on.
    """

    id: Id = Field(min_length=1)
    aliases: Texts = Field([], alias="answer_aliases")
    answerable: StrictBool = True
    paragraphs: list[_Paragraph]
    decomposition: list[_Step] = Field([], alias="question_decomposition")

    def _more(self, pool: PassagePool) -> dict[str, Any]:
        ids = [pool.add(each.title, each.paragraph_text) for each in self.paragraphs]
        steps = [step.model_dump() for step in self.decomposition]
        answers = {f"#{number}": step["answer"] for number, step in enumerate(steps, start=1)}
        for step in steps:
            step["question"] = re.sub(r"#\d+", lambda found: answers.get(found[0], found[0]), step["question"])
        unanswerable = {"id": f"{self.id}-unanswerable", "answers": ["unanswerable"], "type": "unanswerable"}
        return {
            "type": self.id.partition("__")[0],
            "gold_ids": [id for id, each in zip(ids, self.paragraphs, strict=True) if each.is_supporting],
            "candidates": ids,
            "decomposition": steps,
            **({} if self.answerable else unanswerable),
        }


def _leaves(value: Any) -> Iterator[str]:
    if isinstance(value, list):
        for item in value:
            yield from _leaves(item)
    elif not isinstance(value, str):
        raise ValueError(f"must hold paragraph ids in nested lists, but holds {value!r}")
    elif value not in ("operation", "no_evidence"):
        yield value


class StrategyQA(Question):
    """StrategyQA (Geva et al., 2021): yes/no questions. Gold passages are those of any annotator."""

    id: Id = Field(alias="qid")
    type: str = "yes_no"
    gold_ids: Annotated[list[str], BeforeValidator(lambda value: list(_leaves(value)))] = Field([], alias="evidence")


class _StrategyQAParagraph(Fields):
    title: Text
    para_index: int
    text: Text = Field(validation_alias=AliasChoices("contents", "content"))


def strategyqa_records(path: Path, pool: PassagePool) -> Iterator[Record]:
    """Paragraphs are in `<stem>_paragraphs.jsonl` beside the questions, or in the release's `.json`, by id."""
    lines, release = (path.with_name(f"{path.stem}_paragraphs.{suffix}") for suffix in ("jsonl", "json"))
    paragraphs: Iterable[Record] = read_records(lines) if lines.exists() else ()
    if not lines.exists() and release.exists():
        paragraphs = [Record(each, release, n) for n, each in enumerate(read_json_object(release).values(), start=1)]
    for record in paragraphs:
        row = record.read(_StrategyQAParagraph)
        pool.add(row.title, row.text, f"{row.title}-{row.para_index}")
    yield from read_records(path)


class _Pair(Fields):
    question: str = ""
    short_answers: Texts = Field(min_length=1)


class ASQA(Question):
    """ASQA (Stelmakh et al., 2022), as ALCE (Gao et al., 2023) recompiled it: ambiguous questions, long answers.

    The example's `short_answers` has one list for each reading of the question; str-em and str-hit use it.
    """

    id: Id = Field(alias="sample_id")
    type: str = "long_form"
    qa_pairs: list[_Pair] = Field(min_length=1)
    docs: list[_Document] = Field([])

    def _more(self, pool: PassagePool) -> dict[str, Any]:
        return {
            "candidates": [pool.add(doc.title, doc.text, doc.id) for doc in self.docs],
            "decomposition": [{"question": each.question, "answer": each.short_answers[0]} for each in self.qa_pairs],
            "short_answers": [each.short_answers for each in self.qa_pairs],
        }


class TriviaQA(Question):
    """TriviaQA (Joshi et al., 2017). The evidence documents, which are separate files, are not read."""

    id: Id = Field(alias="QuestionId")
    question: Text = Field(alias="Question")
    answer: Texts = Field(validation_alias=AliasPath("Answer", "Value"))
    aliases: Texts = Field([], validation_alias=AliasPath("Answer", "Aliases"))
    type: str = "single_hop"


CRUD_TASKS = {"questanswer_1doc": "1Doc", "questanswer_2docs": "2Docs", "questanswer_3docs": "3Docs"}
"""The keys of the tasks in CRUD's file, each with the part of the name of its file of saved questions."""


def _joined(value: Any) -> Any:
    return "\n".join(map(str, value)) if isinstance(value, list) else value


class CRUD(Question):
    """The question-answering tasks of CRUD-RAG (Lyu et al., 2024), in Chinese; the news become the corpus."""

    id: Id = Field(alias="ID")
    question: Annotated[Text, BeforeValidator(_joined)] = Field(alias="questions")
    answer: Annotated[list[str], BeforeValidator(lambda value: _as_answers(_joined(value)))] = Field(alias="answers")
    news: list[Text]
    quest_questions: Texts
    quest_answers: Texts

    def _more(self, pool: PassagePool) -> dict[str, Any]:
        ids = [pool.add("", text) for text in self.news]
        return {"gold_ids": ids, "quest_questions": self.quest_questions, "quest_answers": self.quest_answers}


def crud_records(path: Path, pool: PassagePool) -> Iterator[Record]:
    """The records of the three tasks, numbered consecutively; other tasks in the file are skipped.

    If the release's `QuestAnswer1Doc_quest_gt_save.json` (and those for 2 and 3) are beside the file, their questions
    and reference answers become the examples' `quest_questions` and `quest_answers`, which RAGQuestEval uses.
    """
    tasks, count = read_json_object(path), 0
    for task, name in CRUD_TASKS.items():
        file = path.with_name(f"QuestAnswer{name}_quest_gt_save.json")
        saved = read_json_object(file) if file.exists() else {}
        for item in tasks.get(task, ()):
            count += 1
            entry = saved.get(item.get("ID"), {})
            questions, answers = entry.get("question", ()), entry.get("answers", ())
            # Some saved questions have no answers; the release's own evaluation cannot use them either.
            usable = len(questions) == len(answers)
            more = {
                "ID": f"{name}-{item.get('ID')}",
                "type": name.lower(),
                "news": [item[field] for field in sorted(item) if re.fullmatch(r"news\d+", field)],
                "quest_questions": list(questions) if usable else [],
                "quest_answers": list(answers) if usable else [],
            }
            yield Record({**item, **more}, path, count)
    if not count:
        raise DataError(f"holds none of the tasks {', '.join(CRUD_TASKS)}", path=path)


class _Choice(Fields):
    label: Text
    text: Text


class _Choices(Fields):
    stem: Text = Field(validation_alias=AliasChoices("stem", "question_stem", "question"))
    choices: list[_Choice]
    key: Text = Field(alias="answerKey")


def choice_records(path: Path, pool: PassagePool) -> Iterator[Record]:
    """ARC (Clark et al., 2018) and OpenBookQA (Mihaylov et al., 2018), in the official and the flat layout.

    The lettered options are appended to the question; the answer is the letter, and the option's text is an alias.
    """
    for record in read_records(path):
        data = record.data
        stem = data.get("question")
        nested = stem if isinstance(stem, dict) else data
        if isinstance(choices := nested.get("choices"), dict):  # flat: a list of labels, and one of texts
            labels, texts = choices.get("label") or [], choices.get("text") or []
            if len(labels) != len(texts):
                raise record.error(f"has {len(labels)} labels but {len(texts)} texts", "choices")
            choices = [{"label": label, "text": text} for label, text in zip(labels, texts, strict=True)]
        row = record.replace({**data, **nested, "choices": choices}).read(_Choices)
        options = {choice.label: choice.text for choice in row.choices}
        if len(options) != len(row.choices):
            raise record.error(f"a label occurs twice among {', '.join(options)}", "choices")
        if row.key not in options:
            raise record.error(f"{row.key!r} is not one of the options {', '.join(options)}", "answerKey")
        question = "\n".join([row.stem, *(f"{label}. {text}" for label, text in options.items())])
        fields = {"id": data.get("id"), "question": question, "answer": [row.key, options[row.key]]}
        yield record.replace({**fields, "type": "multiple_choice"})


class PopQA(Question):
    """PopQA (Mallen et al., 2023): long-tail entities. `popularity` is the monthly page views of the subject."""

    type: str = Field("single_hop", alias="prop")
    answer: Json[Annotated[list[str], Field(min_length=1)]] = Field(alias="possible_answers")
    popularity: int = Field(0, alias="s_pop")

    def _more(self, pool: PassagePool) -> dict[str, Any]:
        return {"popularity": self.popularity}


class NQOpen(Question):
    """NQ-open (Lee et al., 2019): single-hop questions of search-engine users."""

    type: str = "single_hop"


class _Query(Fields):
    id: Id = Field(alias="_id")
    text: Text
    metadata: dict[str, Any] = Field({})


class _Judgement(Fields):
    query: Text = Field(alias="query-id")
    passage: Text = Field(alias="corpus-id")
    score: int


class BEIR(LoadedQuestion):
    """BEIR (Thakur et al., 2021): a folder with `corpus.jsonl`, `queries.jsonl` and `qrels/SPLIT.tsv`.

    Without `corpus.jsonl`, the passages are those of an existing index. A passage with a score above 0 is gold. The
    answer is the query's `metadata.answer`; if it is empty, the question can only measure retrieval.
    """

    type: str = "retrieval"
    answer: Texts


def beir_records(folder: Path, pool: PassagePool) -> Iterator[Record]:
    """The judged queries; those without a judgement are left out."""
    queries = {(query := record.read(_Query)).id: query for record in read_records(folder / "queries.jsonl")}
    files = {name: file for name in SPLITS if (file := folder / "qrels" / f"{name}.tsv").is_file()}
    if not files:
        raise DataError("holds none of train.tsv, dev.tsv and test.tsv", path=folder / "qrels")
    for split, file in files.items():
        gold: dict[str, list[str]] = {}
        for record in read_records(file):
            row = record.read(_Judgement)
            if row.query not in queries:
                raise record.error(f"{row.query!r} is not among the queries", "query-id")
            gold.setdefault(row.query, []).extend([row.passage] if row.score > 0 else [])
        for number, (id, ids) in enumerate(gold.items(), start=1):
            query = queries[id]
            answer = query.metadata.get("answer") or ""
            fields = {"id": id, "question": query.text, "answer": answer, "gold_ids": ids, "split": split}
            yield Record(fields, file, number)
