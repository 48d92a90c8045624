"""Trains the embedded reranker: a logistic regression over what MiniLM and the words say of a query and a text.

It is fitted to tell gold passages from the other ones among 50 that late interaction ranks first, each set of
questions with the same weight. Each family of sets is held out in turn; what the rest gives on it sets δ. How well it
ranks is measured on development sets, by `benchmarks/retrieval.py`.

The questions are of public training sets, each with its own passages: HotpotQA (Yang et al. 2018) and 2WikiMultihopQA
(Ho et al. 2020), of the latter also the worded sub-questions; squadshifts (Miller et al. 2020), questions on Wikipedia,
Reddit and Amazon reviews.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from bundled_models.reading_examples import paragraphs_of, records
from table import note

from knowgap.compiling.data.records import read_records
from knowgap.errors import DataError
from knowgap.retrieval.colbert import fit_projection
from knowgap.retrieval.minilm import token_vectors, write_weights
from knowgap.retrieval.passage import Passage
from knowgap.retrieval.rerankers.relevance import FEATURES, NAME, RelevanceFeatures, late_interaction

_QUESTIONS = 250
_PARAGRAPHS = 600  # of squadshifts
_RETRIEVED, _BEST = 50, 5
_SHOWN = 0.9  # the share of gold among the best five that δ lets pass
_WIDTH, _PASSAGES_FOR_PROJECTION = 384, 400
_PENALTY = 1e-4


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


class _Candidates(NamedTuple):
    """The retrieved texts of a set's questions: 50 a question where there are so many, in the order of retrieval.

    Attributes:
        family: of the set.
        features: [questions, texts, 3].
        gold: which are gold. [questions, texts].
    """

    family: str
    features: npt.NDArray[np.float64]
    gold: npt.NDArray[np.bool_]


def train(data: Path, output: Path, seed: int) -> dict[str, Any]:
    """Train the embedded reranker and write it.

    Args:
        data: folder of training files; see `read_question_sets`.
        output: folder in which the weights are written: `read_weights` reads them.
        seed: of the choice of questions and passages.

    Returns:
        δ, and the number of pairs that the model was trained on, JSON-ready.

    Raises:
        DataError: no training file is there, or one holds no JSON records.
    """
    sets = read_question_sets(data, seed)
    texts = sorted({text for own in sets for text in own.texts})
    chosen = np.random.default_rng(seed).permutation(len(texts))[:_PASSAGES_FOR_PROJECTION]
    states = np.concatenate([of_text for _, of_text in token_vectors([texts[i] for i in chosen])])
    projection = fit_projection(states, _WIDTH).astype(np.float16)
    features = RelevanceFeatures(projection)
    candidates = [_candidates(own, features) for own in sets]
    delta = _delta(candidates)
    coefficients, intercept = _fit(candidates)
    settings = {
        "coefficients": dict(zip(FEATURES, coefficients.round(4).tolist(), strict=True)),
        "intercept": round(intercept, 4),
        "delta": delta,
        "prior": round(_RETRIEVED * float(np.mean([own.gold.mean() for own in candidates])), 2),
    }
    write_weights(output, NAME, {"projection": projection}, settings)
    return {"delta": delta, "pairs": sum(own.gold.size for own in candidates)}


def _candidates(own: QuestionSet, features: RelevanceFeatures) -> _Candidates:
    note(f"relevance: {len(own.questions)} questions of {own.family}")
    texts = features.encode(own.texts)
    rows, gold = [], []
    for asked, wanted in own.questions:
        [query] = features.encode([asked])
        scores = np.array([late_interaction(query, text) for text in texts])
        found = [own.texts[i] for i in np.argsort(-scores, kind="stable")[:_RETRIEVED]]
        rows.append(features.compute([(asked, text) for text in found]))
        gold.append([text in wanted for text in found])
    return _Candidates(own.family, np.array(rows), np.array(gold))


def _fit(candidates: Sequence[_Candidates]) -> tuple[npt.NDArray[np.float64], float]:
    """Coefficients and intercept of a logistic regression in which every set weighs the same."""
    from scipy.optimize import minimize
    from scipy.special import expit

    features = np.concatenate([own.features.reshape(-1, len(FEATURES)) for own in candidates])
    inputs = np.column_stack([features, np.ones(len(features))])
    gold = np.concatenate([own.gold.ravel() for own in candidates])
    sizes = np.array([own.gold.size for own in candidates])
    weights = np.repeat(1 / sizes, sizes) / len(candidates)

    def loss(parameters: npt.NDArray[np.float64]) -> tuple[float, npt.NDArray[np.float64]]:
        logits = inputs @ parameters
        value = weights @ np.logaddexp(0, np.where(gold, -logits, logits)) + _PENALTY * parameters @ parameters / 2
        return float(value), inputs.T @ (weights * (expit(logits) - gold)) + _PENALTY * parameters

    fitted = minimize(loss, np.zeros(inputs.shape[1]), jac=True, method="L-BFGS-B").x
    return fitted[:-1], float(fitted[-1])


def _delta(candidates: Sequence[_Candidates]) -> float:
    """The largest δ, in tenths, that lets pass the wanted share of gold among the best five on every set.

    Each set has the logits of a model of the other families, or of a model of all sets where there is one family only.
    """
    lowest = []
    for own in candidates:
        coefficients, intercept = _fit([each for each in candidates if each.family != own.family] or candidates)
        scores = own.features @ coefficients + intercept
        best = np.argsort(-scores, axis=1, kind="stable")[:, :_BEST]
        of_gold = np.take_along_axis(scores, best, axis=1)[np.take_along_axis(own.gold, best, axis=1)]
        if of_gold.size:
            lowest.append(np.quantile(of_gold, 1 - _SHOWN, method="lower"))
    return float(np.floor(10 * min(lowest)) / 10)


def read_question_sets(folder: Path, seed: int) -> list[QuestionSet]:
    """Read the training files of a folder, at any depth; from each set at most 250 questions.

    Args:
        folder: has `hotpot_train*.json`, `2wiki_train*.json` and `squadshifts_*.json`, any of them.
        seed: of the choice of questions and passages.

    Raises:
        DataError: none of these files is there, or one holds no JSON records.
    """
    sets = [made for read in (_multi_hop, _squadshifts) for made in read(folder, random.Random(seed))]
    if not sets:
        raise DataError(f"{folder}: no training file of HotpotQA, 2WikiMultihopQA or squadshifts is there")
    return sets


def _multi_hop(folder: Path, rng: random.Random) -> Iterator[QuestionSet]:
    """The questions of 2WikiMultihopQA, its worded sub-questions, and the questions of HotpotQA."""
    for family, pattern in (("2wiki", "2wiki_train*.json"), ("hotpot", "hotpot_train*.json")):
        texts: dict[str, None] = {}
        questions: list[Question] = []
        sub_questions: list[Question] = []
        for record in _some(list(records(folder, pattern)), _QUESTIONS, rng):
            by_title, gold = _texts(record)
            texts |= dict.fromkeys(by_title.values())
            questions.append((record["question"], gold))
            for pair in record.get("qa_pairs", ()):
                asked = pair["question"].casefold()
                named = [t for t, text in by_title.items() if text in gold and t.split(" (")[0].casefold() in asked]
                if len(named) == 1:
                    sub_questions.append((pair["question"], frozenset({by_title[named[0]]})))
        for found in filter(None, (questions, _some(sub_questions, _QUESTIONS, rng))):
            yield QuestionSet(family, list(texts), found)


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


def _texts(record: dict[str, Any]) -> tuple[dict[str, str], frozenset[str]]:
    """The texts of a question's paragraphs by their titles, and those of the gold ones."""
    paragraphs, gold = paragraphs_of(record)
    by_title = {title: _joined(title, text) for title, text in paragraphs.items()}
    return by_title, frozenset(by_title[title] for title in gold)
