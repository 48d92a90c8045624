"""Questions put to a program by several threads: one record for each, whatever happens to it."""

from __future__ import annotations

import contextvars
import gc
import threading
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, TypeVar

import dspy
from dspy.utils import exceptions as lm_errors
from pydantic import BaseModel, ConfigDict

from knowgap.compile.evaluation.metrics import Metric
from knowgap.compile.evaluation.metrics.normalize import reference_answers
from knowgap.errors import DataError, EmptyQuestion, KnowgapError, LanguageModelUnreachable, UsageError
from knowgap.programs.base import Program
from knowgap.programs.trace.steps import Retrieved
from knowgap.programs.trace.trace import Cost, Trace

__all__ = [
    "QuestionRecord",
    "check_examples",
    "fatal_cause",
    "is_connection_error",
    "map_ordered",
    "resolve_lm",
    "run_example",
]

T = TypeVar("T")
R = TypeVar("R")

_LOST = (
    LanguageModelUnreachable,
    lm_errors.LMTransportError,
    lm_errors.LMTimeoutError,
    lm_errors.LMServerError,
    lm_errors.LMRateLimitError,
)
_HOPELESS = (KnowgapError, lm_errors.LMConfigurationError, lm_errors.LMAuthError, lm_errors.LMBillingError)


class QuestionRecord(BaseModel):
    """What came of one question.

    Attributes:
        id: the example's id.
        question: what was asked.
        reference: acceptable answers, the first one shown.
        type: the kind of question.
        answer: what the program said; empty where it failed.
        scores: score by metric name, in [0, 1]; None where the metric is not defined for this question.
        error: why the program failed; empty where it did not. A failed question scores 0.
        lost: whether it failed because the language model could not be reached.
        passages: ids of the passages that the answer rests on.
        gold: ids of the passages that hold the evidence.
        cost: the question's ledger.
        trace: what the program did, where it was to be kept.
    """

    model_config = ConfigDict(extra="forbid")

    id: str
    question: str
    reference: list[str]
    type: str = ""
    answer: str = ""
    scores: dict[str, float | None] = {}
    error: str = ""
    lost: bool = False
    passages: list[str] = []
    gold: list[str] = []
    cost: Cost = Cost()
    trace: Trace | None = None


def resolve_lm(lm: dspy.BaseLM | None, program: Program | None = None) -> dspy.BaseLM:
    """`lm`, or the one that DSPy is configured with, or the one that the program's predictors are bound to.

    Raises:
        UsageError: there is none.
    """
    bound = [predictor.lm for predictor in program.predictors() if predictor.lm is not None] if program else []
    found = lm if lm is not None else dspy.settings.lm or next(iter(bound), None)
    if found is None:
        raise UsageError("no language model: pass lm=…, or configure one with dspy.configure(lm=…)")
    return found


def check_examples(examples: Sequence[dspy.Example], what: str = "examples") -> list[str]:
    """The ids of the examples; a question without an id is known by its position.

    Raises:
        UsageError: there are none.
        DataError: two have the same id, or one lacks a question or an answer.
    """
    if not examples:
        raise UsageError(f"no {what}: there is nothing to ask")
    ids: dict[str, None] = {}
    for number, example in enumerate(examples, start=1):
        for field in ("question", "answer"):
            if not isinstance(example.get(field), str):
                raise DataError(f"{what}: every example needs a {field}", line=number, field=field)
        name = str(example.get("id") or f"question-{number}")
        if name in ids:
            raise DataError(f"{what}: the id {name!r} stands twice", line=number, field="id")
        ids[name] = None
    return list(ids)


def run_example(
    program: Program,
    example: dspy.Example,
    name: str,
    metrics: Mapping[str, Metric],
    recall_at: Sequence[int] = (),
    *,
    keep_trace: bool = False,
) -> QuestionRecord:
    """Ask one question and score the answer.

    A program's failure becomes part of the record. What no other question could do better at is raised: an LM that
    refuses its credentials, an index that cannot be read, a program that is not put together rightly.

    Args:
        program: what is asked.
        example: the question and its answers.
        name: the id under which it is recorded.
        metrics: by name; the first one has to be defined for every question.
        recall_at: adds `recall@k`, the share of the gold passages among the first k of what the program retrieved
            first, where it retrieved so many and the example names its gold passages.
        keep_trace: whether the record keeps the trace; without it, a thousand questions take a megabyte.

    Raises:
        DataError: the first metric is not defined for the question.
        KnowgapError: whatever asking again would not mend.
    """
    gold = list(example.get("gold_ids") or [])
    record = QuestionRecord(
        id=name,
        question=example.question,
        reference=reference_answers(example),
        type=str(example.get("type") or ""),
        gold=gold,
    )
    try:
        prediction = program(question=example.question)
    except Exception as error:  # whatever a program stumbles over counts against it, and must not end the evaluation
        record.lost = is_connection_error(error)
        reason = fatal_cause(error)
        if reason is not None:
            raise reason from error
        record.error = f"{type(error).__name__}: {' '.join(str(error).split())}"[:1000]
        record.scores = dict.fromkeys(metrics, 0.0)
        return record
    record.answer = str(prediction.get("answer") or "")
    record.passages = [passage.id for passage in prediction.get("passages") or []]
    trace: Trace = prediction.trace
    record.cost = trace.cost
    record.trace = trace if keep_trace else None
    for position, (metric_name, metric) in enumerate(metrics.items()):
        try:
            record.scores[metric_name] = _number(metric(example, prediction))
        except DataError:
            if position == 0:
                raise
            record.scores[metric_name] = None
    first = next(iter(trace.of(Retrieved)), None)
    for k in recall_at:
        if gold and first is not None and first.k >= k:
            record.scores[f"recall@{k}"] = len({*first.hits[0][:k]} & {*gold}) / len({*gold})
    return record


def _number(score: Any) -> float:
    return float(score.score if hasattr(score, "score") else score)


def is_connection_error(error: BaseException) -> bool:
    """Whether the language model could not be reached, which another time it may."""
    return any(isinstance(link, _LOST) for link in _chain(error))


def fatal_cause(error: BaseException) -> Exception | None:
    """The reason, if there is one, for which asking other questions would fail as well."""
    for link in _chain(error):
        if isinstance(link, _HOPELESS) and not isinstance(link, (EmptyQuestion, *_LOST)):
            return link
    return None


def _chain(error: BaseException) -> list[BaseException]:
    """An error and what caused it, outermost first."""
    links: list[BaseException] = []
    link: BaseException | None = error
    while link is not None and link not in links:
        links.append(link)
        link = link.__cause__ or (None if link.__suppress_context__ else link.__context__)
    return links


class _SeldomCollecting:
    """While many questions are asked, Python looks for reference cycles less often: each search stops all threads."""

    def __init__(self) -> None:
        self._lock, self._inside, self._before = threading.Lock(), 0, gc.get_threshold()

    def __enter__(self) -> None:
        with self._lock:
            self._inside += 1
            if self._inside == 1:
                self._before = gc.get_threshold()
                if 0 < self._before[0] < _ALLOCATIONS:  # 0 is never
                    gc.set_threshold(_ALLOCATIONS, *self._before[1:])

    def __exit__(self, *problem: object) -> None:
        with self._lock:
            self._inside -= 1
            if not self._inside:
                gc.set_threshold(*self._before)


_ALLOCATIONS = 20_000
_seldom_collecting = _SeldomCollecting()


def map_ordered(
    function: Callable[[T], R], items: Sequence[T], num_threads: int, ahead: int | None = None
) -> Iterator[R]:
    """Results of `function` for the items in their order, worked out by several threads.

    The caller's context variables, and with them DSPy's settings, hold in the threads. When the caller stops early,
    what has not begun is not begun.

    Args:
        function: what is done with each item.
        items: in the order in which results are wanted.
        num_threads: at least 1.
        ahead: how many items are begun at most before the first one's result is taken; all where absent.
    """
    if num_threads < 1:
        raise UsageError(f"num_threads={num_threads}: at least one thread is needed")
    if num_threads == 1:
        yield from (function(item) for item in items)
        return
    pool = ThreadPoolExecutor(max_workers=num_threads, thread_name_prefix="knowgap-ask")
    begun: deque[Future[R]] = deque()
    with _seldom_collecting:
        try:
            for item in items:
                begun.append(pool.submit(contextvars.copy_context().run, function, item))
                if ahead is not None and len(begun) >= ahead:
                    yield begun.popleft().result()
            while begun:
                yield begun.popleft().result()
        finally:
            pool.shutdown(wait=True, cancel_futures=True)
