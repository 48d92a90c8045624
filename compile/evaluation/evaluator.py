"""How well a program answers, question by question: nothing is left out, and a killed run continues."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import dspy

from knowgap.compile.evaluation.answers_file import AnswersFile
from knowgap.compile.evaluation.metrics import Metric, get_metric
from knowgap.compile.evaluation.provenance import Provenance, digest, provenance_of
from knowgap.compile.evaluation.results import Evaluation
from knowgap.compile.evaluation.runner import QuestionRecord, check_examples, map_ordered, resolve_lm, run_example
from knowgap.errors import LanguageModelUnreachable, UsageError
from knowgap.programs.base import Program

if TYPE_CHECKING:
    from knowgap.compile.data.dataset import Dataset

__all__ = ["Metrics", "Progress", "evaluate", "evaluate_on_test", "evaluate_split", "named_metrics"]

Metrics = Mapping[str, Metric] | Sequence[str | Metric] | str | Metric
Progress = Callable[[int, int, str], None]


def evaluate(
    program: Program,
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

    A question on which the program fails scores 0, keeps its error, and stays in the denominator.

    Args:
        program: what is evaluated.
        examples: `dspy.Example`s with `question` and `answer`; `id`, `aliases`, `gold_ids` and `type` where known.
        metrics: one metric or several: names, functions `(example, prediction) -> float`, or a mapping from names to
            functions; the first is the main one.
        lm: the language model; the one DSPy is configured with where absent.
        num_threads: questions at a time; the result does not depend on it.
        seed: of the bootstrap intervals.
        output: a JSON Lines file to which every record is written at once; the same call continues from it.
        progress: called after every question with how many are done, how many there are, and the running mean.
        provenance: more to be kept with the result.
        split: which split the questions are; say "test" by `evaluate_on_test`.
        k_recall: the cut-offs of `recall@k`, measured on the passages that the program retrieves first.
        traces: keep the trace of every question in its record, for reports; some 10 kB for each.

    Raises:
        UsageError: no questions, no language model, or an `output` that holds another evaluation.
        DataError: the main metric is not defined for a question.
        LanguageModelUnreachable: several questions in a row could not reach the language model; what was answered is
            in `output`, and the same call goes on from there.
    """
    if split == "test":
        raise UsageError('split="test" is set by evaluate_on_test(program, dataset, …) alone')
    return _evaluate(
        program,
        examples,
        metrics,
        lm=lm,
        num_threads=num_threads,
        seed=seed,
        output=output,
        progress=progress,
        provenance=provenance,
        split=split,
        k_recall=k_recall,
        traces=traces,
    )


def evaluate_on_test(
    program: Program,
    dataset: Dataset,
    metrics: Metrics = ("exact_match", "f1"),
    *,
    limit: int | None = None,
    provenance: Mapping[str, Any] | None = None,
    **options: Any,
) -> Evaluation:
    """Evaluate on the test split of a data set: the one way to a score that counts as a test score.

    Args:
        program: what is evaluated.
        dataset: its "test" split is asked; the other splits are held against it.
        metrics: as for `evaluate`.
        limit: the first so many questions only.
        provenance: more to be kept with the result.
        **options: the other arguments of `evaluate`.

    Raises:
        UsageError: the data set has no test questions, or one of them stands in another split as well.
    """
    test = list(dataset.splits.get("test", ()))[:limit]
    if not test:
        raise UsageError(f"the data set {dataset.name} has no test split")
    seen = {e.question for name, split in dataset.splits.items() if name != "test" for e in split}
    both = next((e.question for e in test if e.question in seen), None)
    if both is not None:
        raise UsageError(f"the data set {dataset.name} asks a test question in another split as well: {both!r}")
    more = {"dataset": dataset.name, "dataset_fingerprint": dataset.fingerprint, **(provenance or {})}
    return _evaluate(program, test, metrics, provenance=more, split="test", **options)


def evaluate_split(
    program: Program,
    dataset: Dataset,
    split: str,
    metrics: Metrics = ("exact_match", "f1"),
    *,
    limit: int | None = None,
    **options: Any,
) -> Evaluation:
    """Evaluate on a split of a data set, which the result names; on "test" as `evaluate_on_test` does.

    Args:
        program: what is evaluated.
        dataset: whose questions are asked.
        split: "train", "dev" or "test".
        metrics: as for `evaluate`.
        limit: ask the first questions only, at most this many.
        **options: the other arguments of `evaluate`.

    Raises:
        UsageError: the split is empty, or a test question stands in another split as well.
    """
    if split == "test":
        return evaluate_on_test(program, dataset, metrics, limit=limit, **options)
    facts = {"dataset": dataset.name, "dataset_fingerprint": dataset.fingerprint}
    return evaluate(program, dataset.questions(split, limit), metrics, split=split, provenance=facts, **options)


def named_metrics(metrics: Metrics) -> dict[str, Metric]:
    """Metrics by name, from whatever way they were given in.

    Raises:
        UnknownName: for a name that is not in the registry.
        UsageError: for no metric at all, or two of one name.
    """
    if isinstance(metrics, Mapping):
        found = dict(metrics)
    else:
        several = [metrics] if isinstance(metrics, str) or callable(metrics) else list(metrics)
        pairs = [(m, get_metric(m)) if isinstance(m, str) else (_metric_name(m), m) for m in several]
        found = dict(pairs)
        if len(found) != len(pairs):
            raise UsageError("two metrics have the same name: pass a mapping from names to metrics")
    if not found:
        raise UsageError("no metric: name at least one")
    return found


def _metric_name(metric: Any) -> str:
    return getattr(metric, "__name__", None) or type(metric).__name__


def _evaluate(
    program: Program,
    examples: Sequence[dspy.Example],
    metrics: Metrics,
    *,
    provenance: Mapping[str, Any] | None,
    split: str,
    lm: dspy.BaseLM | None = None,
    num_threads: int = 4,
    seed: int = 0,
    output: str | Path | None = None,
    progress: Progress | None = None,
    k_recall: Sequence[int] = (5, 10),
    traces: bool = False,
) -> Evaluation:
    measures, ids, model = named_metrics(metrics), check_examples(examples), resolve_lm(lm, program)
    origin = provenance_of(program, examples, model, split=split, seed=seed, **(provenance or {}))
    file = AnswersFile(output, _identity(origin, list(measures), k_recall)) if output is not None else None
    known = {name: r for name, r in file.records.items() if name in set(ids) and not r.lost} if file else {}
    tally = _Tally(len(ids), next(iter(measures)), max(3, num_threads), progress)
    for record in known.values():
        tally.add(record)

    def ask(position: int) -> QuestionRecord:
        record = run_example(program, examples[position], ids[position], measures, k_recall, keep_trace=traces)
        if file is not None:
            file.append(record)
        tally.add(record)
        return record

    todo = [position for position, name in enumerate(ids) if name not in known]
    try:
        with dspy.context(lm=model):
            known |= {record.id: record for record in map_ordered(ask, todo, num_threads)}
    finally:
        if file is not None:
            file.close()
    return Evaluation(records=[known[name] for name in ids], metrics=list(measures), provenance=origin)


def _identity(origin: Provenance, metrics: list[str], k_recall: Sequence[int]) -> dict[str, str]:
    parts: dict[str, Any] = {
        "program": [origin.program, origin.state],
        "data": origin.data,
        "language model": [origin.lm, origin.lm_settings],
        "metrics": [metrics, list(k_recall)],
        "index": [origin.retriever.get(key) for key in ("name", "digest", "corpus_digest")],
        "reranker and entailment": [origin.reranker, origin.entailment],
        "split": origin.split,
    }
    return {name: digest(value)[:16] for name, value in parts.items()}


class _Tally:
    """Counts records as they come, tells the caller, and notices when the language model is gone."""

    def __init__(self, total: int, metric: str, patience: int, progress: Progress | None):
        self.total, self.metric, self.patience, self.progress = total, metric, patience, progress
        self.done, self.failed, self.points, self.lost_in_a_row = 0, 0, 0.0, 0
        self._lock = threading.Lock()

    def add(self, record: QuestionRecord) -> None:
        with self._lock:
            self.done += 1
            self.failed += bool(record.error)
            self.points += record.scores.get(self.metric) or 0.0
            self.lost_in_a_row = self.lost_in_a_row + 1 if record.lost else 0
            if self.progress is not None:
                failed = f", {self.failed} failed" if self.failed else ""
                self.progress(self.done, self.total, f"{self.metric} {self.points / self.done:.3f}{failed}")
            if self.lost_in_a_row >= min(self.patience, self.total):
                raise LanguageModelUnreachable(
                    f"{self.lost_in_a_row} questions in a row could not reach the language model: {record.error}"
                )
