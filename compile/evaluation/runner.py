"""Run a program on questions in several threads; every question gets a record, even if the program fails on it."""

from __future__ import annotations

import errno
import logging
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from typing import Any

import dspy
from dspy.utils import exceptions as lm_errors
from pydantic import BaseModel

from knowgap.compiling.evaluation.metrics import EVIDENCE, Metric
from knowgap.compiling.evaluation.metrics.answers import predicted_answer, reference_answers
from knowgap.compiling.evaluation.metrics.retrieval import scores_passages
from knowgap.compiling.evaluation.threads import map_ordered
from knowgap.compiling.run import Run
from knowgap.errors import DataError, EmptyQuestion, KnowgapError, LanguageModelUnreachable, UsageError, shorten
from knowgap.lms.metering import UsageTracker, is_garbled, track_usage
from knowgap.lms.providers import as_language_model_error, unreadable_replies
from knowgap.programs.base import Program
from knowgap.programs.trace.evidence import FAILED, evidence_fates
from knowgap.programs.trace.trace import Cost, Trace
from knowgap.signatures.values import is_unknown
from knowgap.storage.record_file import RecordFile

_LOG = logging.getLogger("knowgap")

_CONNECTION_ERRORS = (
    LanguageModelUnreachable,
    lm_errors.LMTransportError,
    lm_errors.LMTimeoutError,
    lm_errors.LMServerError,
    lm_errors.LMRateLimitError,
)
_DISK_ERRORS = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS, errno.EIO, errno.EMFILE, errno.ENFILE}
_FATAL_ERRORS = (KnowgapError, lm_errors.LMConfigurationError, lm_errors.LMAuthError, lm_errors.LMBillingError)


class QuestionRecord(BaseModel, extra="forbid"):
    """The result of one question.

    Attributes:
        id: the example's id.
        question: what was asked.
        reference: acceptable answers; the first one is shown in reports.
        type: the kind of question.
        answer: the program's answer; empty if it failed.
        supported: whether the program found that what it read states the answer; None if it gives no verdict.
        missing: what it still missed for an answer, if it said so.
        scores: score by metric name, in [0, 1]; None if the metric is not defined for this question.
        error: why the program failed, or a metric could not reach its language model; empty if neither is so. A
            question on which the program failed scores 0 by every metric; those that score passages need gold passages.
        lost: whether the language model could not be reached.
        passages: ids of the passages that the answer rests on.
        gold: ids of the passages that hold the evidence.
        evidence: the fate of each gold passage, one of `knowgap.programs.trace.evidence.FATES`, by id.
        trace: the program's trace, if traces are kept.
    """

    id: str
    question: str = ""
    reference: list[str] = []
    type: str = ""
    answer: str = ""
    supported: bool | None = None
    missing: str = ""
    scores: dict[str, float | None] = {}
    error: str = ""
    lost: bool = False
    passages: list[str] = []
    gold: list[str] = []
    evidence: dict[str, str] = {}
    cost: Cost = Cost()
    trace: Trace | None = None

    @property
    def answers(self) -> bool:
        """Whether the question is answered as supported: by the program's verdict, or else by an answer in words."""
        return bool(self.answer) and (not is_unknown(self.answer) if self.supported is None else self.supported)

    @property
    def failure(self) -> str:
        """Why the question has no answer: the program's error, or replies that could not be read; else empty."""
        if self.error or not self.cost.unreadable or (self.answer and not self.cost.all_unreadable):
            return self.error
        return f"no readable answer: {self.cost.unreadable} of {self.cost.lm_calls} replies could not be read"


def resolve_lm(lm: dspy.BaseLM | None, program: Program | None = None) -> dspy.BaseLM:
    """The language model to use: `lm`, or DSPy's configured one, or one that the program itself is bound to.

    Raises:
        UsageError: there is none.
    """
    named = [lm, dspy.settings.lm]
    if program is not None:
        generator: Any = program.parts().get("generator")
        named += [*(predictor.lm for predictor in program.predictors()), generator]
    model = next((each for each in named if each is not None), None)
    if model is None:
        raise UsageError("no language model: pass run=Run(lm=…), or configure one with dspy.configure(lm=…)")
    return model


def check_examples(examples: Sequence[dspy.Example], what: str = "examples") -> list[str]:
    """The ids of the examples; one without an id is named by its position.

    Raises:
        UsageError: there are no examples.
        DataError: two have the same id, or one lacks a question or an answer (a text, a number, a boolean or a list).
    """
    if not examples:
        raise UsageError(f"no {what}: there is nothing to ask")
    ids: dict[str, None] = {}
    for number, example in enumerate(examples, start=1):
        for field, kinds in (("question", str), ("answer", (str, int, float, list, tuple))):
            if not isinstance(example.get(field), kinds) or example[field] in ("", [], ()):
                raise DataError(f"{what}: every example needs the field {field}", line=number, field=field)
        name = str(example.get("id") or f"question-{number}")
        if name in ids:
            raise DataError(f"{what}: the id {name!r} is used twice", line=number, field="id")
        ids[name] = None
    return list(ids)


def run_questions(
    program: Program,
    questions: Mapping[str, dspy.Example],
    metrics: Mapping[str, Metric],
    run: Run,
    *,
    file: RecordFile[QuestionRecord] | None = None,
    ahead: int | None = None,
    traces: bool = False,
) -> Iterator[QuestionRecord]:
    """Ask a program questions and score its answers, for evaluations, cells of experiments and trials of studies.

    Args:
        program: the program.
        questions: the questions by id, in the order of the records.
        metrics: the metrics by name; the first is the main one.
        run: how many questions are asked at a time, a callback that hears of the running mean, and the language model
            that an error names if no reply can be read; it is not set for the program.
        file: a file of answers, to which new records are added at once. Its records are yielded again, except those of
            questions that were lost or had no readable reply, lack a wanted trace, or have other gold passages by now.
        ahead: how many questions may be started before the first record is taken; default: all.
        traces: whether the records keep their traces.

    Yields:
        The record of every question, in order.

    Raises:
        LanguageModelUnreachable: the language model could not be reached for several questions in a row.
        LanguageModelError: no reply to the first questions could be read.
        KnowgapError: see `run_example`.
    """
    main, patience = next(iter(metrics)), min(max(3, run.num_threads), len(questions))
    points, last = 0.0, deque[QuestionRecord](maxlen=patience)

    def ask(question: tuple[str, dspy.Example]) -> QuestionRecord:
        id, example = question
        known = None if file is None else file.records.get(id)
        if traces and known is not None and known.trace is None and not known.error:
            known = None
        if known is not None and known.gold == _gold(example) and not (known.lost or known.cost.all_unreadable):
            return known
        record = run_example(program, example, id, metrics, keep_trace=traces)
        if file is not None:
            file.append(record)
        return record

    with closing(map_ordered(ask, [*questions.items()], run.num_threads, ahead)) as records:
        for done, record in enumerate(records, start=1):
            last.append(record)
            points += record.scores.get(main) or 0.0
            if run.progress is not None:
                run.progress(done, len(questions), f"{main} {points / done:.3f}")
            if len(last) == patience and all(each.lost for each in last):
                lost = f"{patience} questions in a row could not reach the language model"
                raise LanguageModelUnreachable(f"{lost}: {record.error}")
            if done == patience and run.lm is not None and all(each.cost.all_unreadable for each in last):
                raise unreadable_replies(run.lm, *(sum(getattr(e.cost, n) for e in last) for n in ("lm_calls", "cut")))
            yield record


def _gold(example: dspy.Example) -> list[str]:
    return [*map(str, example.get("gold_ids") or ())]


def run_example(
    program: Program, example: dspy.Example, id: str, metrics: Mapping[str, Metric], *, keep_trace: bool = False
) -> QuestionRecord:
    """Ask one question and score the answer.

    If searches can be seen, a question with gold passages is also scored by the metrics of `EVIDENCE`. If the program
    fails, the record says why. An answer that was made of no readable reply scores 0, whatever it says.

    Raises:
        DataError: the first metric is not defined for the question.
        KnowgapError: a failure that would affect every other question as well, such as refused credentials, an index
            that cannot be read, or a program that is not put together correctly.
    """
    record = QuestionRecord(
        id=id,
        question=example.question,
        reference=reference_answers(example),
        type=str(example.get("type") or ""),
        gold=_gold(example),
    )
    tracker = UsageTracker()
    try:
        with track_usage(tracker):
            prediction = program(question=example.question)
    except Exception as error:  # any failure of the program counts against it, and must not end the evaluation
        if (cause := fatal_cause(error)) is not None:
            raise cause from (None if cause is error else error)
        _LOG.debug("the question %s failed", id, exc_info=True)
        record.lost, record.error = is_connection_error(error), shorten(f"{type(error).__name__}: {error}", 1000)
        record.cost, record.evidence = Cost().of_calls(tracker.usage), dict.fromkeys(record.gold, FAILED)
        every = dict.fromkeys([*metrics, *(EVIDENCE if record.gold else ())])
        record.scores = {name: 0.0 if record.gold or not scores_passages(name) else None for name in every}
        return record
    record.answer = predicted_answer(prediction) or ""
    record.supported, record.missing = prediction.get("supported"), str(prediction.get("missing") or "")
    record.passages = [str(passage.id) for passage in prediction.get("passages") or []]
    trace: Trace = prediction.trace
    record.cost, record.trace = trace.cost, trace if keep_trace else None
    every = dict(metrics)
    if record.gold and not trace.cost.unseen_searches:
        record.evidence = evidence_fates(trace, record.gold)
        every |= EVIDENCE
    unread = bool(record.failure)
    for name, metric in every.items():
        try:
            record.scores[name] = 0.0 if unread and not scores_passages(name) else metric(example, prediction)
        except DataError:
            if not record.scores:  # the main one
                raise
            record.scores[name] = None
        except lm_errors.LMError as error:
            if not is_connection_error(error):
                raise as_language_model_error(error) from error
            record.scores[name], record.lost = 0.0, True
            record.error = shorten(f"{type(error).__name__}: {error}", 1000)
    return record


def is_connection_error(error: BaseException) -> bool:
    """Whether the language model could not be reached or its answer was garbled, so that a retry may succeed."""
    return any(isinstance(cause, _CONNECTION_ERRORS) or is_garbled(cause) for cause in _causes(error))


def fatal_cause(error: BaseException) -> Exception | None:
    """The cause of an error that would make every other question fail as well, or None.

    Such causes are errors of knowgap's own, a language model that refuses its key or has no quota left (returned as a
    `LanguageModelError`), and a disk that is full, read-only or broken.
    """
    for cause in _causes(error):
        if isinstance(cause, OSError) and cause.errno in _DISK_ERRORS:
            return cause
        if isinstance(cause, _FATAL_ERRORS) and not isinstance(cause, (EmptyQuestion, *_CONNECTION_ERRORS)):
            return as_language_model_error(cause) if isinstance(cause, lm_errors.LMError) else cause
    return None


def _causes(error: BaseException | None) -> Iterator[BaseException]:
    """An error and its causes, outermost first."""
    while error is not None:
        yield error
        error = error.__cause__ or (None if error.__suppress_context__ else error.__context__)
