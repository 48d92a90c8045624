"""The result of an evaluation, with its intervals and costs, and the comparison of two results."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
from pydantic import BaseModel, TypeAdapter, ValidationError

from knowgap.compiling.evaluation.metrics import EVIDENCE
from knowgap.compiling.evaluation.metrics.answers import is_unanswerable
from knowgap.compiling.evaluation.provenance import Provenance
from knowgap.compiling.evaluation.runner import QuestionRecord
from knowgap.compiling.evaluation.statistics import Comparison, Interval, holm, mean_interval, paired_comparison
from knowgap.errors import DataError, UnknownName, UsageError
from knowgap.programs.trace.evidence import FATES
from knowgap.programs.trace.trace import Cost
from knowgap.storage.files import write_file

_FILE = "evaluations.json"
_KNOWN_BY = ("uncounted_calls", "unreported_calls", "unseen_searches")  # say which of the others are known
COSTS: dict[str, str] = {
    **{n: f"{str(f.description).capitalize()}." for n, f in Cost.model_fields.items() if n not in _KNOWN_BY},
    "tokens": "Tokens of prompts and completions.",
}
"""The costs of a question by name, with a line on each: counts and seconds, where less is better."""


class Evaluation(BaseModel, extra="forbid"):
    """The scores and costs of every question, in the order of the data.

    Attributes:
        records: one for each question, failed ones included.
        metrics: names of the metrics that were asked for, the main one first.
        provenance: where the result comes from.

    >>> import knowgap
    >>> data, run = knowgap.load_dataset("sample"), knowgap.Run(lm=knowgap.make_lm("extractive"))
    >>> found = knowgap.evaluate(knowgap.get_program("direct")(), data, "f1", run=run, limit=2)
    >>> isinstance(found, knowgap.Evaluation), found.interval("f1").n
    (True, 2)
    """

    records: list[QuestionRecord]
    metrics: list[str]
    provenance: Provenance

    def __repr__(self) -> str:
        means = ", ".join(f"{name} {self.interval(name)}" for name in self.metrics if self.defines(name))
        calls = self.costs()["lm_calls"]
        asked = f"{len(self.records)} questions, {len(self.failures)} failed"
        spent = "not all counted" if calls is None else f"{calls:.1f} per question"
        return f"Evaluation({self.provenance.program} {self.provenance.split}; {asked}; {means}; LM calls: {spent})"

    __str__ = __repr__

    @property
    def failures(self) -> list[QuestionRecord]:
        """The questions on which the program failed, or that have no readable answer; they stay in the denominator."""
        return [record for record in self.records if record.failure]

    @property
    def lost(self) -> list[str]:
        """The ids of the questions that failed because the language model could not be reached."""
        return [record.id for record in self.records if record.lost]

    def evidence(self) -> dict[str, float]:
        """The share of gold passages that had each fate of `FATES`, in their order; empty without gold passages.

        Shares are means over the questions with gold passages, as are the scores of `found`, `shown` and `used`.
        """
        fates = [[*record.evidence.values()] for record in self.records if record.evidence]
        return {fate: float(np.mean([own.count(fate) / len(own) for own in fates])) for fate in FATES} if fates else {}

    def refusals(self) -> dict[str, Any]:
        """How often the program answered what the documents do not answer, and refused what they do.

        Empty if the questions have none that is unanswerable. Otherwise `unanswerable` and `answerable` are the numbers
        of questions, `answered` is how many unanswerable ones were answered as supported all the same, `refused` how
        many answerable ones were not, failed questions left out, and `verdict` whether the program said so itself:
        without a verdict, every answer counts as supported that does not say that it is not known.
        """
        unanswerable = [record for record in self.records if is_unanswerable(record.reference)]
        answerable = [record for record in self.records if not is_unanswerable(record.reference)]
        if not unanswerable:
            return {}
        return {
            "unanswerable": len(unanswerable),
            "answered": sum(record.answers for record in unanswerable),
            "answerable": len(answerable),
            "refused": sum(not (record.answers or record.failure) for record in answerable),
            "verdict": any(record.supported is not None for record in self.records),
        }

    def scores(self, metric: str | None = None) -> dict[str, float]:
        """Score by question id, for the questions for which the metric is defined; by default the main metric.

        A name of `COSTS` gives the costs of the questions on which the program did not fail.

        Raises:
            UnknownName: nothing was scored by that metric, or that cost is not known.
        """
        name = metric or self.metrics[0]
        if name in COSTS:
            asked = [record for record in self.records if not record.error]
            unknown = unknown_costs([record.cost for record in asked])
            scores = {record.id: getattr(record.cost, name) for record in asked if name not in unknown}
        else:
            scores = {r.id: score for r in self.records if (score := r.scores.get(name)) is not None}
        if not scores:
            raise UnknownName.among("metric of this evaluation", name, self.metrics)
        return scores

    def defines(self, metric: str) -> bool:
        """Whether some question has a score by this metric, or such a cost."""
        with suppress(UnknownName):
            return bool(self.scores(metric))
        return False

    def mean(self, metric: str | None = None) -> float:
        """The mean score over all questions for which the metric is defined, failed ones included."""
        return float(np.mean(list(self.scores(metric).values())))

    def interval(self, metric: str | None = None) -> Interval:
        """The mean with its 95% bootstrap interval (percentiles of 10,000 resamples, seeded)."""
        return mean_interval(list(self.scores(metric).values()), self.provenance.seed)

    def by_type(self, metric: str | None = None) -> dict[str, Interval]:
        """The mean by type of question, in alphabetical order of the types."""
        groups: dict[str, list[float]] = defaultdict(list)
        types = {record.id: record.type for record in self.records}
        for question, score in self.scores(metric).items():
            groups[types[question]].append(score)
        return {kind: mean_interval(groups[kind], self.provenance.seed) for kind in sorted(groups)}

    def costs(self) -> dict[str, float | None]:
        """The mean of every cost over the questions on which the program did not fail; None if it is not known."""
        return {name: self.mean(name) if self.defines(name) else None for name in COSTS}

    def spoilt(self) -> dict[str, int]:
        """How many replies could not be read or were cut off, and how many calls were not counted, in all questions."""
        counted = {"unreadable": "unreadable", "cut": "cut", "uncounted": "uncounted_calls"}
        return {name: sum(getattr(record.cost, field) for record in self.records) for name, field in counted.items()}

    def summary(self) -> dict[str, Any]:
        """Scores with intervals, costs, failures and split, as an artifact keeps them."""
        origin, metrics = self.provenance, dict.fromkeys([*self.metrics, *EVIDENCE])
        return {
            "split": origin.split,
            "questions": len(self.records),
            "failed": len(self.failures),
            "lost": len(self.lost),
            **self.spoilt(),
            "scores": {name: self.interval(name).model_dump() for name in metrics if self.defines(name)},
            "evidence": self.evidence(),
            "refusals": self.refusals(),
            "costs": self.costs(),
            **{name: getattr(origin, name) for name in ("data", "state", "lm")},
        }


class Evaluations(dict[str, Evaluation]):
    """The evaluations of several programs on the same questions, by label; the others are compared with the first."""

    def comparisons(self, metric: str | None = None) -> dict[str, Comparison]:
        """Compare every other evaluation with the first, question by question, with p-values corrected for all of them.

        An evaluation of other questions is left out, and one without scores by the metric; see `compare` and `holm`.
        """
        found: dict[str, Comparison] = {}
        first, *others = self or [""]
        for label in others:
            with suppress(UsageError, UnknownName):
                found[label] = compare(self[first], self[label], metric)
        holm(found.values())
        return found

    def save(self, folder: str | Path) -> Path:
        """Write the evaluations into a folder as `evaluations.json`, atomically; return the file."""
        return write_file(Path(folder) / _FILE, _ADAPTER.dump_json(dict(self), indent=1))

    @classmethod
    def load(cls, path: str | Path) -> Evaluations:
        """Read what `save` wrote into a folder, or the file itself.

        Raises:
            UsageError: there is no such file.
            DataError: it holds something else.
        """
        file = Path(path) / _FILE if Path(path).is_dir() else Path(path)
        if not file.is_file():
            raise UsageError(f"{path} holds no evaluations: name a folder that `knowgap eval` or `compile` wrote")
        try:
            return cls(_ADAPTER.validate_json(file.read_bytes()))
        except ValidationError as error:
            raise DataError(f"these are no evaluations: {error.errors()[0]['msg']}", path=file) from None


_ADAPTER = TypeAdapter(dict[str, Evaluation])


def compare(before: Evaluation, after: Evaluation, metric: str | None = None) -> Comparison:
    """Compare two evaluations of the same questions, on those for which the metric is defined in both.

    Args:
        before: the baseline.
        after: the one whose gain or loss is measured.
        metric: default: the main metric of `before`.

    Raises:
        UsageError: the questions differ, or none has a score in both.
        UnknownName: nothing was scored by that metric.
    """
    questions = [{record.id: record.question for record in evaluation.records} for evaluation in (before, after)]
    if questions[0] != questions[1]:
        raise UsageError("only evaluations of the same questions can be compared")
    name = metric or before.metrics[0]
    left, right = before.scores(name), after.scores(name)
    both = [id for id in left if id in right]
    if not both:
        raise UsageError(f"no question has a score for {name} in both evaluations")
    return paired_comparison(name, [left[id] for id in both], [right[id] for id in both], after.provenance.seed)


def unknown_costs(costs: Sequence[Cost]) -> set[str]:
    """The names of the costs that are not known for these questions, since something was not counted or not seen."""
    unknown, searched = set[str](), {"retrievals", "passages", "knowledge_tokens"}
    if any(cost.uncounted_calls for cost in costs):
        unknown |= COSTS.keys() - searched - {"iterations", "seconds"}
    if any(cost.unreported_calls for cost in costs):
        unknown |= {"prompt_tokens", "completion_tokens", "tokens"}
    if costs and all(cost.unseen_searches for cost in costs):
        unknown |= searched
    return unknown
