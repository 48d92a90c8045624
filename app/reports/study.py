"""A study as its page shows it: trials, settings that changed, Pareto front, importances and dev questions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from knowgap.compiling.evaluation.statistics import Comparison, Interval, mean_interval
from knowgap.compiling.study.summary import StudyFacts
from knowgap.compiling.study.trials import DEFAULT, TrialResult
from knowgap.programs import PROGRAMS, get_program
from knowgap.reports.charts import Chart, Point
from knowgap.reports.rendering import format_setting, in_words


@dataclass(frozen=True)
class StudyView:
    """A study with at least one complete trial.

    Attributes:
        facts: what is stored.
        chosen: the chosen trial.
        questions: ids of the dev questions in the order of the trials' scores; empty if they are not known.
    """

    facts: StudyFacts
    chosen: TrialResult
    questions: Sequence[str]

    @property
    def interval(self) -> Interval:
        """The dev score of the chosen trial."""
        return mean_interval(self.chosen.scores, self.facts.seed)

    @property
    def finding(self) -> str:
        """What the study chose, in a sentence."""
        facts, chosen = self.facts, self.chosen
        of = f" of {chosen.program}" if len(facts.programs) > 1 else ""
        before = f", {self.start.score:.3f} with {facts.describe(self.start)}" if self.gain and self.start else ""
        return (
            f"Trial {chosen.number}{of} is chosen: {in_words(facts.metric)} {self.interval} on the dev questions on "
            f"which it was chosen{before}; {chosen.cost('lm_calls'):.1f} LM calls a question."
        )

    @cached_property
    def importances(self) -> dict[str, float]:
        """The importance of each parameter, by its name and the range that it has if any one trial is left out."""
        found = self.facts.importances()
        return {f"{name} [{low:.2f}, {high:.2f}]": share for name, (share, low, high) in found.items()}

    @property
    def start(self) -> TrialResult | None:
        """The trial that the chosen one is compared with: the defaults, or those at the start."""
        return self.facts.labelled(DEFAULT) or self.facts.labelled("current")

    @cached_property
    def gain(self) -> Comparison | None:
        """The chosen trial against `start` on the dev questions; None if it is the same."""
        return self.facts.gain(self.start) if self.start and self.start.number != self.chosen.number else None

    def kind(self, trial: TrialResult) -> str:
        """How charts mark a trial: "chosen", "pruned", "default" or "complete"."""
        if trial.number == self.chosen.number:
            return "chosen"
        return "pruned" if not trial.complete else "default" if trial is self.facts.labelled(DEFAULT) else "complete"

    def _point(self, x: float, trial: TrialResult, number: int = 0) -> Point:
        pruned = "" if trial.complete else f" over {len(trial.scores)} of {self.facts.size} questions, then stopped"
        label = (
            f"trial {trial.number} ({self.facts.describe(trial)}): {in_words(self.facts.metric)} "
            f"{trial.score:.3f}{pruned}; {trial.cost(self.facts.cost):.3g} {in_words(self.facts.cost)} per question"
        )
        return Point(x, trial.score, self.kind(trial), label, number=number)

    @property
    def _score_name(self) -> str:
        return f"dev {in_words(self.facts.metric)}"

    @property
    def trials_chart(self) -> Chart:
        """The score of every trial, with the best so far."""
        best: list[tuple[float, float]] = []
        for position, trial in enumerate(self.facts.trials):
            if trial.complete and (not best or trial.score > best[-1][1]):
                best.append((position, trial.score))
        return Chart(
            caption="Score of every trial, in the order in which they began (dev split)",
            points=[self._point(position, trial) for position, trial in enumerate(self.facts.trials)],
            x_name="trial",
            y_name=self._score_name,
            line=best,
            line_name="best so far",
            whole_numbers=True,
        )

    def differences(self, trial: TrialResult) -> list[str]:
        """The settings in which a trial differs from the first of its program, and its demonstrations."""
        first = next(each.values for each in self.facts.trials if each.program == trial.program)
        changed = [f"{name} = {format_setting(v)}" for name, v in trial.values.items() if v != first.get(name)]
        return changed + [f"demonstrations of {p}: {n}" for p, n in self.facts.n_demos(trial).items() if n]

    @property
    def compared(self) -> dict[str, TrialResult]:
        """The trials of the chosen program whose settings are shown side by side, by heading."""
        own = [trial for trial in reversed(self.facts.trials) if trial.program == self.chosen.program]
        headings = {DEFAULT: "the defaults", "current": "at the start"}
        first = {heading: t for label, heading in headings.items() for t in own if t.label == label}
        return {**first, "chosen": self.chosen}

    @cached_property
    def settings(self) -> list[tuple[str, list[str], str]]:
        """Name, values in the trials that are compared, and meaning of every setting; those that differ come first."""
        program, meanings = self.chosen.program, dict[str, str]()
        if program in PROGRAMS:  # a report does not import a program of the user's
            meanings = {name: declared.help for name, declared in get_program(program).hyperparameters().items()}
        values = [
            {name: format_setting(trial.values.get(name)) for name in self.chosen.values}
            | {f"demonstrations of {name}": str(n) for name, n in self.facts.n_demos(trial).items()}
            for trial in self.compared.values()
        ]
        settings = [(name, [each.get(name, "") for each in values], meanings.get(name, "")) for name in values[-1]]
        return sorted(settings, key=lambda setting: len({*setting[1]}) == 1)

    @property
    def n_changed(self) -> int:
        """The number of settings in which the compared trials differ."""
        return sum(len({*values}) > 1 for _, values, _ in self.settings)

    @property
    def front_chart(self) -> Chart:
        """Score against cost of every complete trial; of several programs, the best trials and the front are named."""
        cost, programs = self.facts.cost, self.facts.programs if len(self.facts.programs) > 1 else []
        named = [*self.facts.front, *(each.best for each in self.facts.by_program() if each.best is not None)]
        numbers = {trial.number: programs.index(trial.program) + 1 for trial in named if programs}
        complete = [trial for trial in self.facts.complete if trial.costs[cost] is not None]
        return Chart(
            caption=f"Score and {in_words(cost)} of every complete trial (dev split)",
            points=[self._point(trial.cost(cost), trial, numbers.get(trial.number, 0)) for trial in complete],
            names=programs,
            x_name=f"{in_words(cost)} per question",
            y_name=self._score_name,
            line=[(trial.cost(cost), trial.score) for trial in self.facts.front],
            line_name="Pareto front: best score at that cost or less",
        )

    @property
    def changed_questions(self) -> list[tuple[str, float, float]]:
        """The dev questions on which `start` and the chosen trial differ, with both scores; those won come first."""
        before = self.start.scores if self.start else []
        changed = [each for each in zip(self.questions, before, self.chosen.scores, strict=False) if each[1] != each[2]]
        return sorted(changed, key=lambda each: each[1] - each[2])
