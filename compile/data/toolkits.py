"""Layouts of questions that other toolkits and several data sets share: FlashRAG, DPR, KILT and SQuAD."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field

from knowgap.compiling.data.dataset import PassagePool
from knowgap.compiling.data.layouts import Question
from knowgap.compiling.data.records import Fields, Id, Record, Text, Texts, read_json_object, read_records


class FlashRAG(Question):
    """FlashRAG (Jin et al., 2024): the data sets of its collection in one layout."""

    answer: Annotated[Texts, Field(min_length=1)] = Field(alias="golden_answers")


class _Context(Fields):
    title: str = ""
    text: Text
    passage_id: Id = ""


class DPR(Question):
    """DPR's retriever files (Karpukhin et al., 2020): questions with positive and negative passages.

    The positive passages are gold. If passages have ids, these are the ids of DPR's collection.
    """

    answer: Annotated[Texts, Field(min_length=1)] = Field(alias="answers")
    type: str = "single_hop"
    positive_ctxs: list[_Context]
    negative_ctxs: list[_Context] = Field([])
    hard_negative_ctxs: list[_Context] = Field([])

    def _more(self, pool: PassagePool) -> dict[str, Any]:
        gold, *others = (
            [pool.add(each.title, each.text, each.passage_id or None) for each in contexts]
            for contexts in (self.positive_ctxs, self.hard_negative_ctxs, self.negative_ctxs)
        )
        return {"gold_ids": gold, "candidates": [*gold, *(id for ids in others for id in ids)]}


def kilt_records(path: Path, pool: PassagePool) -> Iterator[Record]:
    """KILT (Petroni et al., 2021): gold ids are the Wikipedia ids of all provenances; passages are not in the file."""
    for record in read_records(path):
        outputs = [each for each in record.data.get("output") or () if isinstance(each, dict)]
        places: list[Any] = [place for each in outputs for place in each.get("provenance") or ()]
        gold = dict.fromkeys(str(place["wikipedia_id"]) for place in places if "wikipedia_id" in place)
        answers = [each["answer"] for each in outputs if each.get("answer")]
        asked = {"id": record.data.get("id"), "question": record.data.get("input")}
        yield record.replace({**asked, "answer": answers, "gold_ids": list(gold)})


class _Answer(Fields):
    text: Text


class _SQuADQuestion(Fields):
    id: Id
    question: Text
    answers: list[_Answer] = Field([])
    is_impossible: bool = False


class _SQuADParagraph(Fields):
    context: Text
    qas: list[_SQuADQuestion]


class _SQuADArticle(Fields):
    title: str = ""
    paragraphs: list[_SQuADParagraph]


class SQuAD(Question):
    """SQuAD 1.1 and 2.0 (Rajpurkar et al., 2016, 2018). An impossible question has the answer "unanswerable"."""

    type: str = "single_hop"
    passage: str

    def _more(self, pool: PassagePool) -> dict[str, Any]:
        return {"candidates": [self.passage]}


def squad_records(path: Path, pool: PassagePool) -> Iterator[Record]:
    """The questions of all articles, numbered consecutively; their paragraphs go into the pool.

    In Hugging Face's copy (Parquet or Arrow), every row is a question with its paragraph.
    """
    count = 0
    if path.is_dir() or path.suffix in (".parquet", ".arrow"):
        for record in read_records(path):
            passage = pool.add(str(record.data.get("title", "")).replace("_", " "), str(record.data.get("context", "")))
            texts = (record.data.get("answers") or {}).get("text") or []
            yield record.replace({**record.data, **_squad_answers(passage, texts)})
        return
    for number, data in enumerate(read_json_object(path).get("data") or (), start=1):
        article = Record(data, path, number).read(_SQuADArticle)
        for paragraph in article.paragraphs:
            passage = pool.add(article.title.replace("_", " "), paragraph.context)
            for asked in paragraph.qas:
                count += 1
                texts = [] if asked.is_impossible else [answer.text for answer in asked.answers]
                fields = {"id": asked.id, "question": asked.question, **_squad_answers(passage, texts)}
                yield Record(fields, path, count)


def _squad_answers(passage: str, texts: Sequence[str]) -> dict[str, Any]:
    answers = list(dict.fromkeys(texts))
    return {"answer": answers or ["unanswerable"], "gold_ids": [passage] if answers else [], "passage": passage}
