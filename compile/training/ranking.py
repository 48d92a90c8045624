"""Train and measure retrieval models on questions with their gold passages and what an index finds for them.

Models are trained on questions of the split `train`, and measured on questions with other wordings.
"""

from __future__ import annotations

import itertools
import random
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import dspy

from knowgap.compiling.data.dataset import Dataset
from knowgap.compiling.evaluation.metrics.normalize import normalize_answer, reference_answers
from knowgap.compiling.evaluation.metrics.retrieval import mrr, recall
from knowgap.compiling.training.config import RerankerConfig
from knowgap.compiling.training.fit import Job, TrainingPlan, plan
from knowgap.compiling.training.trained import Trained, Values, train
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
        """The best-ranked passages that are not gold and hold no acceptable answer, since those might be relevant."""
        gold = {passage.text for passage in self.gold}
        answers = [f" {normalize_answer(answer)} " for answer in reference_answers(self.example)]
        answers = [answer for answer in answers if answer.strip() not in ("", "yes", "no")]
        wrong = (
            passage
            for passage in self.found
            if passage.text not in gold and not any(a in f" {normalize_answer(str(passage))} " for a in answers)
        )
        return list(itertools.islice(wrong, count))


def search_all(
    examples: Sequence[dspy.Example], retriever: Retriever, depth: int, progress: Progress | None = None
) -> Iterator[tuple[dspy.Example, list[Passage]]]:
    """Each question with the best passages that an index finds for it."""
    for start in range(0, len(examples), _AT_ONCE):
        part = examples[start : start + _AT_ONCE]
        found = retriever.search([example.question for example in part], depth)
        yield from ((example, [hit.passage for hit in hits]) for example, hits in zip(part, found, strict=True))
        (progress or no_progress)(start + len(part), len(examples), "questions searched")


def find_candidates(
    examples: Sequence[dspy.Example],
    retriever: Retriever,
    corpus: Iterable[Passage],
    *,
    depth: int = 50,
    progress: Progress | None = None,
) -> list[RankedQuestion]:
    """Find `depth` passages in an index for each question whose gold passages are all in the corpus.

    Raises:
        UsageError: no question has known gold passages.

    Warns:
        UserWarning: some questions were left out.
    """
    ready, passages = _with_known_gold(examples, corpus)
    if len(ready) < len(examples):
        left = len(examples) - len(ready)
        warnings.warn(f"{left} of {len(examples)} questions have no known gold passages: left out", stacklevel=2)
    return [
        RankedQuestion(example, [passages[name] for name in example.gold_ids], found)
        for example, found in search_all(ready, retriever, depth, progress)
    ]


def _with_known_gold(
    examples: Sequence[dspy.Example], corpus: Iterable[Passage]
) -> tuple[list[dspy.Example], dict[str, Passage]]:
    """The examples whose gold passages are all in the corpus, and these passages by id."""
    wanted = {name for example in examples for name in example.get("gold_ids") or ()}
    passages = {passage.id: passage for passage in corpus if passage.id in wanted}
    ready = [e for e in examples if e.get("gold_ids") and all(name in passages for name in e.gold_ids)]
    if not ready:
        raise UsageError(
            f"none of {len(examples)} questions names gold passages (gold_ids) that are among the passages (the id of "
            "a document that was split names none of them): retrieval cannot be trained or measured on them"
        )
    return ready, passages


class TrainingRow(NamedTuple):
    """A question, the text of one of its gold passages, and those of wrong passages, best-ranked first."""

    question: str
    gold: str
    negatives: list[str]


def training_rows(questions: Sequence[RankedQuestion], negatives: int, seed: int = 0) -> list[TrainingRow]:
    """A row for each gold passage of each question, with `negatives` wrong passages.

    If the index finds too few, passages of other questions, drawn at random, are added.

    Raises:
        UsageError: there are too few passages.
    """
    random_numbers = random.Random(seed)
    everything = list(dict.fromkeys(passage for question in questions for passage in (*question.gold, *question.found)))
    rows: list[TrainingRow] = []
    for question in questions:
        hard = question.negatives(negatives)
        if len(hard) < negatives:
            others = [passage for passage in everything if passage not in hard and passage not in question.gold]
            if len(hard) + len(others) < negatives:
                raise UsageError(f"{negatives} negatives for a question, but only {len(everything)} passages in all")
            hard += random_numbers.sample(others, negatives - len(hard))
        wrong = [str(passage) for passage in hard]
        rows += [TrainingRow(question.example.question, str(passage), wrong) for passage in question.gold]
    return rows


def score_orders(
    questions: Sequence[RankedQuestion],
    orders: Mapping[str, Sequence[Sequence[Passage]]],
    cutoffs: Sequence[int] = (5,),
) -> Values:
    """How well orders of passages, each best first and by its name, put the gold ones of each question first.

    `recall@k`, for each k of `cutoffs`, is the share of the gold passages among the best k; `mrr` is the reciprocal
    rank of the first one, 0 if there is none.
    """
    scores: dict[str, dict[str, list[float]]] = {}
    for name, ranked in orders.items():
        pairs = list(zip((q.example for q in questions), map(list, ranked), strict=True))
        scores[name] = {f"recall@{k}": [recall(example, order, k=k) for example, order in pairs] for k in cutoffs}
        scores[name]["mrr"] = [mrr(example, order) for example, order in pairs]
    return scores


def held_out_questions(data: Dataset, split: str, limit: int | None) -> list[dspy.Example]:
    """The questions of a split that are not in the split `train`, ignoring case and punctuation.

    There are none if the split is called `none`.

    Raises:
        UsageError: every question is in the split `train`.
    """
    if split == "none":
        return []
    known = {normalize_answer(example.question) for example in data.splits["train"]}
    found = [example for example in data.questions(split, limit) if normalize_answer(example.question) not in known]
    if not found:
        raise UsageError(f"every question of the split {split!r} is in the split 'train', too")
    return found


def train_ranking(
    data: Dataset,
    retriever: Retriever,
    config: RerankerConfig,
    make_job: Callable[[list[RankedQuestion]], Job],
    rank: Mapping[str, Callable[[list[RankedQuestion]], Sequence[Sequence[Passage]]]],
    *,
    cutoffs: Sequence[int] = (5,),
    measured_depth: int | None = None,
    limit: int | None = None,
    dry_run: bool = False,
    progress: Progress | None = None,
) -> Trained | TrainingPlan:
    """Collect the training examples of a retrieval model, train it, and measure how it ranks gold passages.

    `make_job` makes the job that trains on some questions. `rank` has, by the name of each model, a function that
    orders passages for questions. Recall is measured at `cutoffs`, and the index by its best `measured_depth` passages
    (None: as many as the settings search for wrong ones). The other arguments are those of `reranker`.
    """

    def candidates(examples: list[dspy.Example], depth: int) -> list[RankedQuestion]:
        return find_candidates(examples, retriever, data.corpus, depth=depth, progress=progress)

    def measure() -> Values:
        questions = candidates(test, measured_depth or config.depth)
        orders = {name: order(questions) for name, order in rank.items()}
        return score_orders(questions, {"the index": [question.found for question in questions], **orders}, cutoffs)

    test = held_out_questions(data, config.measured_on, limit)
    if test:
        _with_known_gold(test, data.corpus)  # refuses them before the training instead of after it
    job = make_job(candidates(data.questions("train", limit), config.depth))
    return plan(job) if dry_run else train(job, measure if test else None, progress=progress)
