"""Evaluate programs: ask every question, score the answers, compare several, and continue a run that was killed.

`estimate` says beforehand what that costs.
"""

from __future__ import annotations

import logging
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any, TypedDict, overload

import dspy
from pydantic import BaseModel
from typing_extensions import Unpack

from knowgap.compiling.data.dataset import Dataset
from knowgap.compiling.evaluation.metrics import DEFAULT_METRICS, Metrics, named_metrics
from knowgap.compiling.evaluation.metrics.retrieval import without_missing_gold
from knowgap.compiling.evaluation.provenance import Provenance, examples_digest, provenance_of
from knowgap.compiling.evaluation.results import Evaluation, Evaluations
from knowgap.compiling.evaluation.runner import QuestionRecord, check_examples, resolve_lm, run_questions
from knowgap.compiling.run import Run
from knowgap.errors import UsageError, shorten
from knowgap.lms.metering import UsageTracker, dollars, token_prices, track_usage, without_history
from knowgap.programs.modules import as_program, named_programs
from knowgap.storage.record_file import RecordFile

_LOG = logging.getLogger("knowgap")

Questions = Dataset | Sequence[dspy.Example]


class _Options(TypedDict, total=False):
    run: Run
    split: str
    limit: int | None
    output: str | Path | None
    traces: bool


@overload
def evaluate(
    program: dspy.Module, questions: Questions, metrics: Metrics = ..., **options: Unpack[_Options]
) -> Evaluation: ...
@overload
def evaluate(
    program: Mapping[str, dspy.Module] | Sequence[dspy.Module],
    questions: Questions,
    metrics: Metrics = ...,
    **options: Unpack[_Options],
) -> Evaluations: ...
def evaluate(
    program: dspy.Module | Mapping[str, dspy.Module] | Sequence[dspy.Module],
    questions: Questions,
    metrics: Metrics = DEFAULT_METRICS,
    *,
    run: Run = Run(),
    split: str = "",
    limit: int | None = None,
    output: str | Path | None = None,
    traces: bool = False,
) -> Evaluation | Evaluations:
    """Ask one program, or several, the same questions, and score the answers.

    A question on which a program fails scores 0, keeps its error, and stays in the denominator. A log message names the
    questions for which the language model could not be reached.

    Args:
        program: a program or a DSPy module; or several, which are compared with the first: a mapping from labels, or a
            list, if their names differ.
        questions: a data set, or `dspy.Example`s with `question` and `answer` (a text, a list of acceptable ones, a
            number or a boolean), and `id`, `aliases`, `gold_ids` and `type` if known.
        metrics: one metric or several: names, functions `(example, prediction) -> float`, or a mapping from names to
            functions; the first is the main one.
        run: the language model, how many questions are asked at a time, the seed of the bootstrap intervals, and a
            callback that hears after every question of the running mean.
        split: the split of the data set that is asked: "train", "dev" or "test"; by default "dev".
        limit: ask only the first questions, at most this many.
        output: a record file, to which every answer is written as soon as it arrives; the same call continues from it,
            also with another `limit`. For several programs, a folder with a file `LABEL.jsonl` for each.
        traces: whether to keep the trace of every question in its record, for reports; about 10 kB each. Questions that
            `output` has without one are asked again.

    Returns:
        The evaluation of the program; for several programs, their evaluations by label.

    Raises:
        UsageError: there are no programs, no questions or no language model, two programs have the same name, `output`
            holds other answers, or a metric gives something else than a number from 0 to 1.
        DataError: the main metric is not defined for a question, or scores passages that the index does not hold.
        LanguageModelUnreachable: the language model could not be reached for several questions in a row; `output` has
            the answers so far, and the same call continues from there.
        LanguageModelError: no reply to the first questions could be read.

    >>> import knowgap
    >>> data = knowgap.load_dataset("sample")
    >>> run = knowgap.Run(lm=knowgap.make_lm("extractive"))
    >>> found = knowgap.evaluate(knowgap.get_program("direct")(), data, "f1", run=run, limit=2)
    >>> len(found.records), found.metrics, found.provenance.split
    (2, ['f1'], 'dev')
    """
    facts: dict[str, Any] = {}
    if isinstance(questions, Dataset):
        split = split or "dev"
        every, whole = questions.questions(split, limit), questions.questions(split)
        facts = {"dataset": questions.name, "dataset_fingerprint": questions.fingerprint}
    elif split:
        raise UsageError(f"split={split!r} works only with a data set: pass the data set itself, not its questions")
    else:
        every, whole = questions[: limit and max(limit, 0)], questions
    ids, named = check_examples(every), named_metrics(metrics)

    def ask(program: Any, output: str | Path | None, run: Run) -> Evaluation:
        program = as_program(program)
        lm = resolve_lm(run.lm, program)
        examples = without_missing_gold(every, program.retriever, next(iter(named)))
        origin = provenance_of(program, examples, lm, metrics=named, split=split, seed=run.seed, **facts)
        about, by_id = answers_about(origin, named, whole), dict(zip(ids, examples, strict=True))
        answers = nullcontext() if output is None else RecordFile(output, QuestionRecord, about, "answer")
        with answers as file, dspy.context(lm=lm), without_history():
            stream = run_questions(program, by_id, named, replace(run, lm=lm), file=file, traces=traces)
            found = Evaluation(records=list(stream), metrics=list(named), provenance=origin)
        if lost := found.lost:
            failed = f"{len(lost)} of {len(ids)} questions could not reach the language model and count as failed"
            _LOG.warning("%s (%s); run the same again to ask them once more", failed, shorten(", ".join(lost), 200))
        return found

    if isinstance(program, dspy.Module):
        return ask(program, output, run)
    if not isinstance(program, Mapping) or not program:
        program = named_programs([*program])
    results = Evaluations()
    for label, each in program.items():
        file = None if output is None else Path(output) / f"{file_name(label)}.jsonl"
        results[label] = ask(each, file, run.part(label, len(results) * len(ids), len(program) * len(ids)))
    return results


def file_name(label: str) -> str:
    """The file name for the label of a program, which may be the path of an artifact: `compiled-artifact`."""
    return re.sub(r"[/:\\]", "-", label.strip("./"))


def answers_about(origin: Provenance, metrics: Iterable[str], questions: Sequence[dspy.Example]) -> dict[str, Any]:
    """The header of a file of answers: everything that answers and scores depend on.

    `questions` are all questions of the split, so that the header stays the same if more of them are asked.
    """
    kept = {"program", "state", "lm", "lm_settings", "retriever", "split", "outside"}
    return {
        "kind": "answers",
        **origin.model_dump(mode="json", include=kept),
        "data": examples_digest(questions),
        "models": {name: facts.get("digest") or facts["name"] for name, facts in origin.models.items()},
        "metrics": list(metrics),
    }


class Estimate(BaseModel, extra="forbid"):
    """About what it costs to ask `questions` questions if no answer comes from a cache.

    `calls` of the language model, tokens of all prompts and replies, and `money` in US dollars, None if the price of
    the language model is not known.
    """

    questions: int
    calls: int
    prompt_tokens: int
    completion_tokens: int
    money: float | None = None


def estimate(
    program: dspy.Module,
    questions: Sequence[dspy.Example],
    metrics: Metrics = "f1",
    *,
    count: int | None = None,
    run: Run = Run(),
) -> Estimate:
    """Estimate what it costs to ask a program questions, with the metrics that ask a language model.

    Three of the questions, spread over all of them, are asked. `count` is how often a question will be asked in all;
    default: each once.

    Raises:
        UsageError: there are no questions, the program fails on all three, or some of its calls are not counted.
    """
    check_examples(questions)
    chosen = questions[:: max(1, len(questions) // 3)][:3]
    with track_usage(UsageTracker()) as tracker:
        found = evaluate(program, chosen, metrics, run=replace(run, progress=None))
    usage, count = tracker.usage, count or len(questions)
    if usage.uncounted_calls or len(found.failures) == len(chosen):
        why = "some calls of the language model are not counted" if usage.uncounted_calls else found.failures[0].failure
        raise UsageError(f"what it costs cannot be estimated: {why}")
    figures = (usage.asked, usage.prompt_tokens, usage.completion_tokens)
    calls, read, written = (math.ceil(figure * count / len(chosen)) for figure in figures)
    prices = token_prices(found.provenance.lm)
    counts = {"calls": calls, "prompt_tokens": read, "completion_tokens": written}
    money = None if prices is None else dollars(read, written, prices)
    return Estimate(questions=count, **counts, money=money)
