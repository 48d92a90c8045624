"""The questions that the embedded reranker is trained on: public training sets, each with its own passages.

HotpotQA (Yang et al. 2018) and 2WikiMultihopQA (Ho et al. 2020), training questions; of the latter also the worded
sub-questions; squadshifts (Miller et al. 2020), questions on Wikipedia, Reddit and Amazon reviews.
"""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bundled_models.reading_examples import in_layout, paragraphs_of
from knowgap.errors import DataError
from knowgap.retrieval.passage import Passage

_QUESTIONS = 250
_PASSAGES = 1500
_PARAGRAPHS = 600  # of squadshifts


@dataclass(frozen=True)
class QuestionSet:
    """Questions, each with the texts of its gold passages, and the texts that these are found among.

    Attributes:
        family: sets of one family share passages; they are held out together.
        texts: passages with their titles, as rerankers read them.
        questions: each with its gold texts.
    """

    family: str
    texts: list[str]
    questions: list[tuple[str, frozenset[str]]]


def read_question_sets(folder: str | Path, seed: int) -> list[QuestionSet]:
    """Read the training files of a folder, at any depth; from each set at most 250 questions.

    Args:
        folder: has `hotpot_train*.json`, `hotpot_questions.jsonl` with `hotpot_corpus.jsonl`, `2wiki_train*.json` and
            `squadshifts_*.json`, any of them.
        seed: of the choice of questions and passages.

    Raises:
        DataError: none of these files is there, or one is not in its layout.
    """
    with in_layout(folder):
        sets = [made for read in (_hotpot, _twowiki, _squadshifts) for made in read(Path(folder), random.Random(seed))]
    if not sets:
        raise DataError(f"{folder}: no training file of HotpotQA, 2WikiMultihopQA or squadshifts is there")
    return sets


def _hotpot(folder: Path, rng: random.Random) -> Iterator[QuestionSet]:
    texts: dict[str, None] = {}
    questions: list[tuple[str, frozenset[str]]] = []
    for record in _records(folder, "hotpot_train*.json"):
        by_title, gold = _texts(record)
        texts |= dict.fromkeys(by_title.values())
        questions.append((record["question"], gold))
    corpus = {
        record["doc_id"]: _joined(record["title"], record["text"]) for record in _lines(folder, "hotpot_corpus.jsonl")
    }
    for record in _lines(folder, "hotpot_questions.jsonl"):
        gold = frozenset(corpus[id] for id in record["gold_doc_ids"])
        texts |= dict.fromkeys(sorted(gold))
        questions.append((record["question"], gold))
    others = sorted(set(corpus.values()) - set(texts))
    texts |= dict.fromkeys(rng.sample(others, max(0, min(len(others), _PASSAGES - len(texts)))))
    if questions:
        yield QuestionSet("hotpot", list(texts), questions[:_QUESTIONS])


def _twowiki(folder: Path, rng: random.Random) -> Iterator[QuestionSet]:
    texts: dict[str, None] = {}
    questions: list[tuple[str, frozenset[str]]] = []
    sub_questions: list[tuple[str, frozenset[str]]] = []
    records = list(_records(folder, "2wiki_train*.json"))
    for record in rng.sample(records, min(_QUESTIONS, len(records))):
        by_title, gold = _texts(record)
        texts |= dict.fromkeys(by_title.values())
        questions.append((record["question"], gold))
        for pair in record.get("qa_pairs", ()):
            asked = pair["question"].casefold()
            named = [t for t, text in by_title.items() if text in gold and t.split(" (")[0].casefold() in asked]
            if len(named) == 1:
                sub_questions.append((pair["question"], frozenset({by_title[named[0]]})))
    if questions:
        yield QuestionSet("2wiki", list(texts), questions)
        chosen = rng.sample(sub_questions, min(_QUESTIONS, len(sub_questions)))
        yield QuestionSet("2wiki", list(texts), chosen)


def _squadshifts(folder: Path, rng: random.Random) -> Iterator[QuestionSet]:
    for path in sorted(folder.rglob("squadshifts_*.json")):
        paragraphs = [
            (
                _joined(article["title"].replace("_", " "), paragraph["context"]),
                [qa["question"] for qa in paragraph["qas"]],
            )
            for article in json.loads(path.read_text("utf-8"))["data"]
            for paragraph in article["paragraphs"]
        ]
        paragraphs = rng.sample(paragraphs, min(_PARAGRAPHS, len(paragraphs)))
        asked = [(question, frozenset({text})) for text, questions in paragraphs for question in questions]
        texts = list(dict.fromkeys(text for text, _ in paragraphs))
        yield QuestionSet(path.stem, texts, rng.sample(asked, min(_QUESTIONS, len(asked))))


def _joined(title: str, text: str) -> str:
    return str(Passage("", title, text))


def _texts(record: dict[str, Any]) -> tuple[dict[str, str], frozenset[str]]:
    """The texts of a question's paragraphs by their titles, and those of the gold ones."""
    paragraphs, gold = paragraphs_of(record)
    by_title = {title: _joined(title, text) for title, text in paragraphs.items()}
    return by_title, frozenset(by_title[title] for title in gold)


def _records(folder: Path, pattern: str) -> Iterator[dict[str, Any]]:
    for path in sorted(folder.rglob(pattern)):
        yield from json.loads(path.read_text("utf-8"))


def _lines(folder: Path, pattern: str) -> Iterator[dict[str, Any]]:
    for path in sorted(folder.rglob(pattern)):
        for line in path.read_text("utf-8").splitlines():
            if line.strip():
                yield json.loads(line)
