"""Evaluate a program: ask every question, score the answers, and continue a run that was killed."""

from __future__ import annotations

import logging
import threading
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import dspy

from knowgap.compiling.data.dataset import Dataset
from knowgap.compiling.evaluation.answers_file import AnswersFile, identity_of
from knowgap.compiling.evaluation.delegating_program import AnyProgram
from knowgap.compiling.evaluation.metrics import Metrics, named_metrics
from knowgap.compiling.evaluation.metrics.missing_gold import without_missing_gold
from knowgap.compiling.evaluation.provenance import provenance_of
from knowgap.compiling.evaluation.results import Evaluation
from knowgap.compiling.evaluation.runner import (
    QuestionRecord,
    check_examples,
    map_ordered,
    resolve_lm,
    run_example,
    stop_if_unreadable,
)
from knowgap.errors import LanguageModelUnreachable, UsageError
from knowgap.programs.trace.usage import without_history
from knowgap.storage.progress import Progress

__all__ = ["evaluate", "evaluate_on_test", "evaluate_split"]

_LOG = logging.getLogger("knowgap")


def evaluate(
    program: AnyProgram,
    examples: Sequence[dspy.Example],
    metrics: Metrics = ("exact_match", "f1"),
    *,
    lm: dspy.BaseLM | None = None,
    num_threads: int = 4,
    seed: int = 0,
    output: str | Path | None = None,
    progress: Progress | None = None,
    provenance: Mapping[str, Any] | None = None,
    split: str = "",
    k_recall: Sequence[int] = (5, 10),
    traces: bool = False,
) -> Evaluation:
    """Ask a program every question and score the answers.

    A question on which the program fails scores 0, keeps its error, and stays in the denominator. One for which the
    language model cannot be reached is asked once more; those that stay lost are named in a log message.

    Args:
        program: what is evaluated.
        examples: `dspy.Example`s with `question` and `answer`, and `id`, `aliases`, `gold_ids` and `type` if known.
        metrics: one metric or several: names, functions `(example, prediction) -> float`, or a mapping from names to
            functions; the first is the main one.
        lm: the language model; default: the one DSPy is configured with.
        num_threads: questions at a time; the result does not depend on it.
        seed: of the bootstrap intervals.
        output: a JSON Lines file that gets every record at once; the same call continues from it.
        progress: called after every question with how many are done, how many there are, and the running mean.
        provenance: more facts to keep with the result.
        split: which split the questions are; for "test", call `evaluate_on_test`.
        k_recall: the cut-offs of `first_search_recall@k`, of the passages that the program's first search returns.
        traces: keep the trace of every question in its record, for reports; some 10 kB each.

    Raises:
        UsageError: no questions, no language model, or an `output` that holds another evaluation.
        DataError: the main metric is not defined for a question, or scores passages that the index does not hold.
        LanguageModelUnreachable: several questions in a row could not reach the language model; what was answered is
            in `output`, and the same call continues from there.
        LanguageModelError: to the first questions, no reply of the language model could be read.
    """
    if split == "test" and not isinstance(split, _CheckedSplit):
        raise UsageError('split="test" is set by evaluate_on_test(program, dataset, …) alone')
    by_name, ids, model = named_metrics(metrics), check_examples(examples), resolve_lm(lm, program)
    examples, unindexed = without_missing_gold(examples, program.retriever, next(iter(by_name)))
    more = {**(provenance or {}), **({"unindexed_gold": unindexed} if unindexed else {})}
    origin = provenance_of(program, examples, model, metrics=by_name, split=str(split), seed=seed, **more)
    tally = _Tally(len(ids), next(iter(by_name)), max(3, num_threads), progress, model)
    identity = identity_of(origin, list(by_name), k_recall)
    with (
        AnswersFile(output, identity) if output is not None else nullcontext() as file,
        dspy.context(lm=model),
        without_history(),
    ):
        earlier = file.records if file is not None else {}
        again = {name for name, record in earlier.items() if record.lost or record.cost.all_unreadable}
        records = {name: earlier[name] for name in ids if name in earlier and name not in again}
        for record in records.values():
            tally.add(record)

        def run(position: int) -> QuestionRecord:
            record = run_example(program, examples[position], ids[position], by_name, k_recall, keep_trace=traces)
            if file is not None:
                file.append(record)
            tally.add(record)
            return record

        remaining = [position for position, name in enumerate(ids) if name not in records]
        records |= {record.id: record for record in map_ordered(run, remaining, num_threads)}
    result = Evaluation(records=[records[name] for name in ids], metrics=list(by_name), provenance=origin)
    if result.lost:
        _LOG.warning(
            "%d of %d questions could not reach the language model and count as failed (%s); the same again asks them "
            "again",
            len(result.lost),
            len(ids),
            ", ".join(result.lost[:10]) + (", …" if len(result.lost) > 10 else ""),
        )
    return result


def evaluate_on_test(
    program: AnyProgram, dataset: Dataset, metrics: Metrics = ("exact_match", "f1"), **options: Any
) -> Evaluation:
    """Evaluate on the test split of a data set: the one way to a score that counts as a test score.

    The arguments are those of `evaluate_split`.
    """
    return evaluate_split(program, dataset, "test", metrics, **options)


def evaluate_split(
    program: AnyProgram,
    dataset: Dataset,
    split: str,
    metrics: Metrics = ("exact_match", "f1"),
    *,
    limit: int | None = None,
    provenance: Mapping[str, Any] | None = None,
    **options: Any,
) -> Evaluation:
    """Evaluate on a split of a data set, which the result names.

    Args:
        program: what is evaluated.
        dataset: whose questions are asked.
        split: "train", "dev" or "test".
        metrics: as for `evaluate`.
        limit: ask the first questions only, at most this many.
        provenance: more facts to keep with the result.
        **options: the other arguments of `evaluate`.

    Raises:
        UsageError: the split is empty, or a test question is in another split as well.
    """
    examples = dataset.questions(split, limit)
    if split == "test":
        elsewhere = {e.question for name, part in dataset.splits.items() if name != "test" for e in part}
        for example in examples:
            if example.question in elsewhere:
                message = f"the data set {dataset.name} asks a test question in another split as well"
                raise UsageError(f"{message}: {example.question!r}")
    facts = {"dataset": dataset.name, "dataset_fingerprint": dataset.fingerprint, **(provenance or {})}
    return evaluate(program, examples, metrics, provenance=facts, split=_CheckedSplit(split), **options)


class _CheckedSplit(str):
    """The name of a split whose questions come from a data set, and if it is "test", are in no other split."""

    __slots__ = ()


class _Tally:
    """Counts records as they come, reports progress, and notices a model that is gone or that nobody can read."""

    def __init__(self, total: int, metric: str, patience: int, progress: Progress | None, lm: dspy.BaseLM):
        self.total, self.metric, self.patience, self.progress = total, metric, min(patience, total), progress
        self.done, self.failed, self.points, self.lost_in_a_row = 0, 0, 0.0, 0
        self.lm, self.first = lm, list[QuestionRecord]()
        self._lock = threading.Lock()

    def add(self, record: QuestionRecord) -> None:
        with self._lock:
            self.done += 1
            self.failed += bool(record.error)
            self.points += record.scores.get(self.metric) or 0.0
            if len(self.first) < self.patience:
                self.first.append(record)
                if len(self.first) == self.patience:
                    stop_if_unreadable(self.first, self.lm)
            self.lost_in_a_row = self.lost_in_a_row + 1 if record.lost else 0
            if self.progress is not None:
                failed = f", {self.failed} failed" if self.failed else ""
                self.progress(self.done, self.total, f"{self.metric} {self.points / self.done:.3f}{failed}")
            if self.lost_in_a_row >= self.patience:
                raise LanguageModelUnreachable(
                    f"{self.lost_in_a_row} questions in a row could not reach the language model: {record.error}"
                )
