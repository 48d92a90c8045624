"""The questions that the embedded reranker is trained on: public training sets, each with its own passages.

HotpotQA (Yang et al. 2018) and 2WikiMultihopQA (Ho et al. 2020), training questions; of the latter also the worded
sub-questions; squadshifts (Miller et al. 2020), questions on Wikipedia, Reddit and Amazon reviews.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bundled_models.reading_examples import paragraphs_of, records
from knowgap.compiling.data.records import read_records
from knowgap.errors import DataError
from knowgap.retrieval.passage import Passage

_QUESTIONS = 250
_PASSAGES = 1500
_PARAGRAPHS = 600  # of squadshifts


Question = tuple[str, frozenset[str]]
"""A question, and the texts of its gold passages."""


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
    questions: list[Question]


def read_question_sets(folder: str | Path, seed: int) -> list[QuestionSet]:
    """Read the training files of a folder, at any depth; from each set at most 250 questions.

    Args:
        folder: has `hotpot_train*.json`, `hotpot_questions.jsonl` with `hotpot_corpus.jsonl`, `2wiki_train*.json` and
            `squadshifts_*.json`, any of them.
        seed: of the choice of questions and passages.

    Raises:
        DataError: none of these files is there, or one is not in its layout.
    """
    sets = [made for read in (_hotpot, _twowiki, _squadshifts) for made in read(Path(folder), random.Random(seed))]
    if not sets:
        raise DataError(f"{folder}: no training file of HotpotQA, 2WikiMultihopQA or squadshifts is there")
    return sets


def _hotpot(folder: Path, rng: random.Random) -> Iterator[QuestionSet]:
    texts, questions = _multi_hop(records(folder, "hotpot_train*.json"))
    corpus = {each["doc_id"]: _joined(each["title"], each["text"]) for each in records(folder, "hotpot_corpus.jsonl")}
    for record in records(folder, "hotpot_questions.jsonl"):
        gold = frozenset(corpus[id] for id in record["gold_doc_ids"])
        texts |= dict.fromkeys(sorted(gold))
        questions.append((record["question"], gold))
    others = sorted(set(corpus.values()) - set(texts))
    texts |= dict.fromkeys(rng.sample(others, max(0, min(len(others), _PASSAGES - len(texts)))))
    if questions:
        yield QuestionSet("hotpot", list(texts), questions[:_QUESTIONS])


def _twowiki(folder: Path, rng: random.Random) -> Iterator[QuestionSet]:
    chosen = _some(list(records(folder, "2wiki_train*.json")), _QUESTIONS, rng)
    texts, questions = _multi_hop(chosen)
    sub_questions: list[Question] = []
    for record in chosen:
        by_title, gold = _texts(record)
        for pair in record.get("qa_pairs", ()):
            asked = pair["question"].casefold()
            named = [t for t, text in by_title.items() if text in gold and t.split(" (")[0].casefold() in asked]
            if len(named) == 1:
                sub_questions.append((pair["question"], frozenset({by_title[named[0]]})))
    if questions:
        yield QuestionSet("2wiki", list(texts), questions)
        yield QuestionSet("2wiki", list(texts), _some(sub_questions, _QUESTIONS, rng))


def _squadshifts(folder: Path, rng: random.Random) -> Iterator[QuestionSet]:
    for path in sorted(folder.rglob("squadshifts_*.json")):
        paragraphs = [
            (_joined(record.data["title"].replace("_", " "), paragraph["context"]), paragraph["qas"])
            for record in read_records(path, "data")
            for paragraph in record.data["paragraphs"]
        ]
        paragraphs = _some(paragraphs, _PARAGRAPHS, rng)
        asked = [(qa["question"], frozenset({text})) for text, qas in paragraphs for qa in qas]
        yield QuestionSet(path.stem, list(dict(paragraphs)), _some(asked, _QUESTIONS, rng))


def _some(items: list[Any], most: int, rng: random.Random) -> list[Any]:
    return rng.sample(items, min(most, len(items)))


def _joined(title: str, text: str) -> str:
    return str(Passage("", title, text))


def _multi_hop(found: Iterable[dict[str, Any]]) -> tuple[dict[str, None], list[Question]]:
    """The texts of all paragraphs of some records, each once, and the questions."""
    texts: dict[str, None] = {}
    questions: list[Question] = []
    for record in found:
        by_title, gold = _texts(record)
        texts |= dict.fromkeys(by_title.values())
        questions.append((record["question"], gold))
    return texts, questions


def _texts(record: dict[str, Any]) -> tuple[dict[str, str], frozenset[str]]:
    """The texts of a question's paragraphs by their titles, and those of the gold ones."""
    paragraphs, gold = paragraphs_of(record)
    by_title = {title: _joined(title, text) for title, text in paragraphs.items()}
    return by_title, frozenset(by_title[title] for title in gold)
