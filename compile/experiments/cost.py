"""What a table will cost before it is run: calls, tokens and price.

Without asking anything, the number of calls lies between bounds that follow from the methods' algorithms and
hyperparameters, and the number of tokens follows from `CALL`, `PASSAGE` and `REPLY`. If a few questions of each cell
are asked first, the means of what they took replace both.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import dspy
import numpy as np
from pydantic import BaseModel

from knowgap.compiling.evaluation.metrics import JUDGING_CALLS
from knowgap.compiling.evaluation.provenance import digest, lm_name, state_of
from knowgap.compiling.experiments.call_bounds import call_bounds
from knowgap.compiling.experiments.cells import Cell, ExperimentSetup, prepare
from knowgap.compiling.experiments.runner import run_experiment
from knowgap.compiling.experiments.table import ExperimentTable, read_table
from knowgap.plugins import reference_of
from knowgap.programs.trace.usage import Prices, dollars, token_prices

__all__ = ["CALL", "PASSAGE", "REPLY", "CellCost", "CostEstimate", "estimate_cost"]

CALL = np.array([250, 600])
"""Prompt tokens of a call without its passages, fewest and most: instructions, fields, question, notes."""
PASSAGE = np.array([60, 200])
"""Prompt tokens of a passage of a sentence or two, and of one of 100 words with its title."""
REPLY = np.array([20, 150])
"""Completion tokens of a call, fewest and most."""

Range = tuple[float, float]


class CellCost(BaseModel, extra="forbid"):
    """What a cell will cost.

    Attributes:
        row: label of the row.
        column: the data set's title.
        questions: how many will be asked.
        calls: fewest and most calls in all, those of judging metrics included.
        prompt_tokens: fewest and most.
        completion_tokens: fewest and most.
        basis: where the numbers come from.
        lm: the language model that is asked.
        prices: its US dollars per million prompt and completion tokens; None if they are not known.
    """

    row: str
    column: str
    questions: int
    calls: Range
    prompt_tokens: Range
    completion_tokens: Range
    basis: str
    lm: str = ""
    prices: Prices | None = None

    @property
    def tokens(self) -> Range:
        """Prompt and completion tokens, fewest and most."""
        return _range(np.add(self.prompt_tokens, self.completion_tokens))

    @property
    def price(self) -> Range | None:
        """US dollars, least and most; None if the prices are not known."""
        if self.prices is None:
            return None
        return _range(dollars(np.array(self.prompt_tokens), np.array(self.completion_tokens), self.prices))


class CostEstimate(BaseModel, extra="forbid"):
    """What a table will cost.

    Attributes:
        table: its name.
        cells: those that will be asked; rows that share their answers are counted once.
    """

    table: str
    cells: list[CellCost]

    @property
    def lms(self) -> list[str]:
        """The language models that are asked."""
        return list(dict.fromkeys(cell.lm for cell in self.cells))

    @property
    def calls(self) -> Range:
        """Calls in all, fewest and most."""
        return _range(self._total("calls"))

    @property
    def tokens(self) -> Range:
        """Prompt and completion tokens in all, fewest and most."""
        return _range(self._total("tokens"))

    @property
    def price(self) -> Range | None:
        """US dollars in all, least and most; None if some price is not known."""
        prices = [cell.price for cell in self.cells]
        known = [price for price in prices if price is not None]
        return _range(np.sum(known, axis=0)) if known and len(known) == len(prices) else None

    def _total(self, name: str) -> np.ndarray:
        return np.sum([getattr(cell, name) for cell in self.cells], axis=0)


def _range(bounds: Sequence[float] | np.ndarray) -> Range:
    return float(bounds[0]), float(bounds[1])


def estimate_cost(
    table: ExperimentTable | str | Path,
    *,
    output: str | Path,
    ask: int = 0,
    prices: Prices | None = None,
    **setup: Any,
) -> CostEstimate:
    """Estimate what `run_experiment` will ask of the language model.

    Args:
        table: as for `run_experiment`.
        output: as for `run_experiment`; what is asked for the estimate goes to its folder `estimate`.
        ask: questions of each cell to ask first, for an estimate from what they cost; 0 asks nothing.
        prices: US dollars per million prompt and completion tokens; None for those of DSPy's table.
        **setup: as for `run_experiment`.
    """
    table = table if isinstance(table, ExperimentTable) else read_table(table)
    options = ExperimentSetup(output=Path(output), **setup)
    cells = [cell for cell in prepare(table, options, dry=True) if cell.program is not None]
    measured: dict[tuple[int, int], tuple[int, Mapping[str, float]]] = {}
    if ask and any(cell.dataset for cell in cells):
        limited = {**setup, "limit": min(ask, options.limit or ask)}
        probe = run_experiment(table, output=Path(output) / "estimate", **limited)
        measured = {(c.row, c.column): (c.questions, c.costs) for c in probe.cells if c.costs}
    costs: dict[str, CellCost] = {}
    for cell in cells:
        place = cell.row_number, cell.column_number
        costs.setdefault(_answers_identity(cell), _cell_cost(cell, measured.get(place), prices))
    return CostEstimate(table=table.name, cells=list(costs.values()))


def _answers_identity(cell: Cell) -> str:
    """The same for cells that share their answers."""
    program: Any = cell.program
    column = [cell.column.dataset, cell.column.split, cell.column.sampling, cell.column.metrics]
    row = [cell.row.candidates, cell.row.engine, *cell.row.top_p]
    return digest([reference_of(type(program)), state_of(program), column, row, lm_name(cell.lm)])


def _cell_cost(cell: Cell, measured: tuple[int, Mapping[str, float]] | None, prices: Prices | None) -> CellCost:
    program: Any = cell.program
    lm = lm_name(cell.lm or dspy.settings.lm)
    if measured is not None:
        asked, means = measured
        basis = f"measured on {asked} questions"
        names = "lm_calls", "prompt_tokens", "completion_tokens"
        calls, prompt, completion = (np.array([means[name], means[name]]) for name in names)
    else:
        basis = "the method's call structure"
        bounds = call_bounds(program)
        calls = np.array([bounds.low, bounds.high]) * max(1, len(cell.row.top_p))
        prompt = calls * (CALL + np.array([0, bounds.passages]) * PASSAGE)
        completion = calls * REPLY
    judging = sum(JUDGING_CALLS.get(name, 0) for name in cell.column.metrics)
    return CellCost(
        row=cell.row.label,
        column=cell.column.title,
        questions=cell.questions,
        calls=_range(cell.questions * (calls + judging)),
        prompt_tokens=_range(cell.questions * (prompt + judging * CALL)),
        completion_tokens=_range(cell.questions * (completion + judging * REPLY)),
        basis=basis,
        lm=lm,
        prices=prices or token_prices(lm),
    )
