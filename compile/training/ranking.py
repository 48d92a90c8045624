"""What retrieval models are trained on and measured by: questions with their gold passages and what an index finds.

Models are trained on questions of the split `train`, and measured on others, which are told apart by their wording.
"""

from __future__ import annotations

import random
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import dspy
from pydantic import BaseModel

from knowgap.compiling.data.dataset import Dataset
from knowgap.compiling.evaluation.metrics.normalize import normalize_answer, reference_answers
from knowgap.compiling.evaluation.metrics.retrieval import mrr, recall
from knowgap.compiling.evaluation.statistics import Comparison, Interval, mean_interval, paired_comparison
from knowgap.compiling.training.config import RerankerConfig
from knowgap.compiling.training.fit import Job, TrainingPlan, TrainingResult, fit, is_main_process, plan
from knowgap.errors import UsageError
from knowgap.retrieval.passage import Passage, Retriever
from knowgap.storage.progress import Progress, no_progress

_AT_ONCE = 32


@dataclass(frozen=True)
class RankedQuestion:
    """A question, its gold passages, and the passages that an index finds for it, best first."""

    example: dspy.Example
    gold: list[Passage]
    found: list[Passage]

    def negatives(self, count: int) -> list[Passage]:
        """The best-ranked passages that are not gold, and that hold no acceptable answer (it might be right there)."""
        gold = {passage.text for passage in self.gold}
        answers = [f" {normalize_answer(answer)} " for answer in reference_answers(self.example)]
        answers = [answer for answer in answers if answer.strip() not in ("", "yes", "no")]
        wrong = (
            passage
            for passage in self.found
            if passage.text not in gold and not any(a in f" {normalize_answer(str(passage))} " for a in answers)
        )
        return [passage for passage, _ in zip(wrong, range(count), strict=False)]


class RankingScore(BaseModel, extra="forbid"):
    """How well an order puts gold passages first.

    Attributes:
        order: whose order it is.
        recall: at each cut-off, the share of a question's gold passages that stand before it.
        mrr: the reciprocal rank of the first gold passage, 0 if there is none.
        comparison: the recall at the first cut-off against that of the first order; None for the first itself.
    """

    order: str
    recall: dict[int, Interval]
    mrr: Interval
    comparison: Comparison | None = None


def unseen(examples: Iterable[dspy.Example], trained_on: Iterable[dspy.Example]) -> list[dspy.Example]:
    """The examples whose questions are not among those that a model was trained on, whatever their case and marks."""
    known = {normalize_answer(example.question) for example in trained_on}
    return [example for example in examples if normalize_answer(example.question) not in known]


def find_candidates(
    examples: Sequence[dspy.Example],
    retriever: Retriever,
    corpus: Iterable[Passage],
    *,
    depth: int = 50,
    progress: Progress | None = None,
) -> list[RankedQuestion]:
    """Search an index for each question.

    Args:
        examples: questions with `gold_ids`.
        retriever: the index.
        corpus: the passages, among them the gold ones.
        depth: how many passages to find for each question.
        progress: is called with (questions done, questions in all).

    Returns:
        The questions whose gold passages are known.

    Raises:
        UsageError: there is no such question.

    Warns:
        UserWarning: some questions were left out.
    """
    progress = progress or no_progress
    wanted = {name for example in examples for name in example.get("gold_ids") or ()}
    passages = {passage.id: passage for passage in corpus if passage.id in wanted}
    ready = [e for e in examples if e.get("gold_ids") and all(name in passages for name in e.gold_ids)]
    if not ready:
        raise UsageError(
            f"none of {len(examples)} questions names gold passages (gold_ids) that are among the passages: "
            "retrieval cannot be trained or measured on them"
        )
    if len(ready) < len(examples):
        left = len(examples) - len(ready)
        warnings.warn(f"{left} of {len(examples)} questions have no known gold passages: left out", stacklevel=2)
    ranked = []
    for start in range(0, len(ready), _AT_ONCE):
        part = ready[start : start + _AT_ONCE]
        for example, hits in zip(part, retriever.search([e.question for e in part], depth), strict=True):
            gold = [passages[name] for name in example.gold_ids]
            ranked.append(RankedQuestion(example, gold, [hit.passage for hit in hits]))
        progress(len(ranked), len(ready), "questions searched")
    return ranked


class TrainingRow(NamedTuple):
    """A question, the text of one of its gold passages, and those of wrong passages, best-ranked first."""

    question: str
    gold: str
    negatives: list[str]


def training_rows(questions: Sequence[RankedQuestion], negatives: int, seed: int = 0) -> list[TrainingRow]:
    """A row for each gold passage of each question, with so many wrong passages.

    If the index finds too few, passages of other questions, drawn at random, fill up the rest.

    Raises:
        UsageError: there are too few passages.
    """
    random_numbers = random.Random(seed)
    everything = list(dict.fromkeys(passage for question in questions for passage in (*question.gold, *question.found)))
    rows: list[TrainingRow] = []
    for question in questions:
        hard = question.negatives(negatives)
        others = [passage for passage in everything if passage not in hard and passage not in question.gold]
        if len(hard) < negatives:
            if len(hard) + len(others) < negatives:
                raise UsageError(f"{negatives} negatives for a question: there are only {len(everything)} passages")
            hard += random_numbers.sample(others, negatives - len(hard))
        wrong = [str(passage) for passage in hard]
        rows += [TrainingRow(question.example.question, str(passage), wrong) for passage in question.gold]
    return rows


def compare_orders(
    questions: Sequence[RankedQuestion],
    orders: Mapping[str, Sequence[Sequence[Passage]]],
    cutoffs: Sequence[int] = (5,),
) -> list[RankingScore]:
    """Score several orders of passages for the same questions, each but the first also against the first.

    Args:
        questions: the questions.
        orders: by name, the passages for each question, best first.
        cutoffs: where recall is measured.
    """
    first: list[float] | None = None
    scores = []
    for name, ranked in orders.items():
        pairs = list(zip((q.example for q in questions), map(list, ranked), strict=True))
        recalls = {k: [recall(example, order, k=k) for example, order in pairs] for k in cutoffs}
        main = recalls[cutoffs[0]]
        compared = None if first is None else paired_comparison(f"recall@{cutoffs[0]}", first, main)
        first = first or main
        scores.append(
            RankingScore(
                order=name,
                recall={k: mean_interval(values) for k, values in recalls.items()},
                mrr=mean_interval([mrr(example, order) for example, order in pairs]),
                comparison=compared,
            )
        )
    return scores


@dataclass(frozen=True)
class TrainedRanking:
    """A trained reranker or ColBERT checkpoint.

    Attributes:
        training: what the training did.
        scores: how the index, the model before the training and the trained one rank gold passages of questions that
            are not trained on; empty where nothing was measured.
    """

    training: TrainingResult
    scores: list[RankingScore]


def held_out_questions(data: Dataset, split: str, limit: int | None) -> list[dspy.Example]:
    """The questions of a split that are not in the split `train`.

    Raises:
        UsageError: there are none.
    """
    found = unseen(data.questions(split, limit), data.splits["train"])
    if not found:
        raise UsageError(f"every question of the split {split!r} is in the split 'train', too")
    return found


def train_ranking(
    data: Dataset,
    retriever: Retriever,
    config: RerankerConfig,
    make_job: Callable[[list[RankedQuestion]], Job],
    orders: Callable[[list[RankedQuestion]], Mapping[str, Sequence[Sequence[Passage]]]],
    *,
    cutoffs: Sequence[int] = (5,),
    limit: int | None = None,
    dry_run: bool = False,
    progress: Progress | None = None,
) -> TrainedRanking | TrainingPlan:
    """Find what a model is trained on, train it, and measure it.

    Args:
        data: trained on the questions of its split `train`.
        retriever: the index that finds wrong passages.
        config: the settings.
        make_job: the training on some questions.
        orders: how models rank the passages of some questions, by the name of the model.
        cutoffs: where recall is measured.
        limit: take so many questions of each split at most.
        dry_run: train nothing, and return what the training would take.
        progress: is called with (units done, units in all, what is done).
    """
    asked = data.questions("train", limit)
    test = held_out_questions(data, config.measured_on, limit) if config.measured_on != "none" else []
    job = make_job(find_candidates(asked, retriever, data.corpus, depth=config.depth, progress=progress))
    if dry_run:
        return plan(job)
    result = fit(job, progress)
    if not test or not is_main_process():
        return TrainedRanking(result, [])
    measured = find_candidates(test, retriever, data.corpus, depth=config.depth, progress=progress)
    ranked = {"the index": [question.found for question in measured], **orders(measured)}
    return TrainedRanking(result, compare_orders(measured, ranked, cutoffs))
