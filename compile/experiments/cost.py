"""What a table will cost before it is run: calls, tokens and price.

Without asking anything, the number of calls lies between bounds that follow from a method's algorithm and its
hyperparameters, and tokens from `CALL`, `PASSAGE` and `REPLY`. Asking a few questions of each cell first replaces both
by what was measured.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import dspy
from pydantic import BaseModel, ConfigDict

from knowgap.compile.evaluation.provenance import digest, lm_name, state_of
from knowgap.compile.evaluation.quiet import quiet
from knowgap.compile.experiments.cells import Cell, ExperimentSetup, prepare
from knowgap.compile.experiments.table import ExperimentTable, read_table

__all__ = ["CALL", "PASSAGE", "REPLY", "CellCost", "CostEstimate", "call_bounds", "estimate_cost", "price_of"]

CALL = (250, 600)
"""Prompt tokens of a call without its passages, fewest and most: instructions, fields, question, notes."""
PASSAGE = (60, 200)
"""Prompt tokens of a passage of a sentence or two, and of one of 100 words with its title."""
REPLY = (20, 150)
"""Completion tokens of a call."""

_JUDGING = {"judged_accuracy": 1, "quest_recall": 3, "quest_token_precision": 3, "quest_token_recall": 3}
_JUDGING["quest_token_f1"] = 3


class Bounds(NamedTuple):
    """Calls of a question, fewest and most, and the passages that a call reads at most."""

    low: int
    high: int
    reads: int = 0


class CellCost(BaseModel):
    """What a cell will cost.

    Attributes:
        row: label of the row.
        column: the data set's title.
        questions: how many will be asked.
        calls: fewest and most calls in all, those of judging metrics included.
        prompt_tokens: fewest and most.
        completion_tokens: fewest and most.
        basis: where the numbers come from.
    """

    model_config = ConfigDict(extra="forbid")

    row: str
    column: str
    questions: int
    calls: tuple[float, float]
    prompt_tokens: tuple[float, float]
    completion_tokens: tuple[float, float]
    basis: str


class CostEstimate(BaseModel):
    """What a table will cost.

    Attributes:
        table: its name.
        cells: those that would be asked; rows that share their answers are counted once.
        prices: US dollars per million prompt and completion tokens; None where they are not known.
        lm: the language model that is priced.
    """

    model_config = ConfigDict(extra="forbid")

    table: str
    cells: list[CellCost]
    prices: tuple[float, float] | None = None
    lm: str = ""

    @property
    def calls(self) -> tuple[float, float]:
        """Calls in all, fewest and most."""
        return self._total("calls")

    @property
    def tokens(self) -> tuple[float, float]:
        """Prompt and completion tokens in all, fewest and most."""
        (a, b), (c, d) = self._total("prompt_tokens"), self._total("completion_tokens")
        return a + c, b + d

    @property
    def price(self) -> tuple[float, float] | None:
        """US dollars in all, least and most; None where prices are not known."""
        if self.prices is None:
            return None
        prompt, completion = self._total("prompt_tokens"), self._total("completion_tokens")
        low, high = ((p * self.prices[0] + c * self.prices[1]) / 1e6 for p, c in zip(prompt, completion, strict=True))
        return low, high

    def _total(self, name: str) -> tuple[float, float]:
        pairs = [getattr(cell, name) for cell in self.cells]
        return sum(low for low, _ in pairs), sum(high for _, high in pairs)


def estimate_cost(
    table: ExperimentTable | str | Path,
    *,
    output: str | Path,
    ask: int = 0,
    prices: tuple[float, float] | None = None,
    **setup: Any,
) -> CostEstimate:
    """Estimate what `run_experiment` will ask of the language model.

    Args:
        table: as for `run_experiment`.
        output: as for `run_experiment`; what is asked for the estimate goes to `estimate` in it.
        ask: questions of each cell that are asked first, for an estimate from what they cost; 0 asks nothing.
        prices: US dollars per million prompt and completion tokens; DSPy's table where absent.
        **setup: as for `run_experiment`.
    """
    read = table if isinstance(table, ExperimentTable) else read_table(table)
    given = ExperimentSetup(output=Path(output), **setup)
    cells = [cell for cell in prepare(read, given, dry=True) if cell.program is not None]
    measured: dict[tuple[int, int], tuple[int, Mapping[str, float]]] = {}
    if ask and any(cell.dataset for cell in cells):
        from knowgap.compile.experiments.runner import run_experiment

        options = {**setup, "limit": min(ask, given.limit or ask)}
        probe = run_experiment(read, output=Path(output) / "estimate", **options)
        measured = {(c.row, c.column): (c.questions, c.costs) for c in probe.cells if c.costs}
    planned: dict[str, CellCost] = {}
    for cell in cells:
        found = measured.get((cell.row_number, cell.column_number))
        planned.setdefault(_identity(cell), _planned(cell, found))
    name = lm_name(given.lm or dspy.settings.lm)
    return CostEstimate(table=read.name, cells=list(planned.values()), prices=prices or price_of(name), lm=name)


def _identity(cell: Cell) -> str:
    """What two cells have in common that share their answers."""
    program: Any = cell.program
    asked = [cell.column.dataset, cell.column.split, cell.column.sampling, cell.row.candidates, cell.row.engine]
    return digest([program.name, state_of(program), asked, cell.column.metrics, lm_name(cell.lm)])


def _planned(cell: Cell, measured: tuple[int, Mapping[str, float]] | None) -> CellCost:
    n = cell.questions
    judging = n * sum(_JUDGING.get(name, 0) for name in cell.column.metrics)
    more = [(judging * CALL[i], judging * REPLY[i]) for i in (0, 1)]
    if measured is not None:
        asked, costs = measured
        basis = f"measured on {asked} questions"
        calls = (n * costs["lm_calls"],) * 2
        prompts, replies = (n * costs["prompt_tokens"],) * 2, (n * costs["completion_tokens"],) * 2
    else:
        bounds = call_bounds(cell.program)
        basis = "the method's call structure"
        calls = (float(n * bounds.low), float(n * bounds.high))
        prompts = tuple(calls[i] * (CALL[i] + i * bounds.reads * PASSAGE[i]) for i in (0, 1))
        replies = tuple(calls[i] * REPLY[i] for i in (0, 1))
    return CellCost(
        row=cell.row.label,
        column=cell.column.title,
        questions=n,
        calls=(calls[0] + judging, calls[1] + judging),
        prompt_tokens=(prompts[0] + more[0][0], prompts[1] + more[1][0]),
        completion_tokens=(replies[0] + more[0][1], replies[1] + more[1][1]),
        basis=basis,
    )


def price_of(model: str) -> tuple[float, float] | None:
    """US dollars per million prompt and completion tokens, from the table that comes with DSPy; None if unknown."""
    from dspy.clients.model_metadata import model_info, rate

    provider, slash, name = model.partition("/")
    with quiet():  # it tries to renew its table, and warns where there is no network
        info = model_info(provider, name) if slash else None
    if not info:
        return None
    prompt, completion = rate(info, "input_cost_per_token"), rate(info, "output_cost_per_token")
    return None if prompt is None or completion is None else (prompt * 1e6, completion * 1e6)


def call_bounds(program: Any) -> Bounds:
    """Calls of a question that a program can make at least and at most, if nothing fails and nothing is retried."""
    rule = _BOUNDS.get(program.name)
    return rule(program.values()) if rule is not None else Bounds(1, 10, 5)


def _migres(v: Mapping[str, Any]) -> Bounds:
    compressing = v["retrieve_k"] * v["max_queries"] if v["compression"] in ("summary", "snippet") else 0
    leaves = v["max_queries"] if v["read_apart"] else 1
    each = leaves + 2 + v["prompt_knowledge"] + compressing
    return Bounds(1, v["iterations"] * each + 1, v["top_k"])


def _adaptive_note(v: Mapping[str, Any]) -> Bounds:
    if not v["collect"]:
        return Bounds(1, 1, v["top_k"])
    return Bounds(1, 2 + v["iterations"] * (2 + v["review"]), v["top_k"])


def _ra_isf(v: Mapping[str, Any]) -> Bounds:
    own = 2 * v["self_knowledge"] + (v["top_k"] + 1) * v["passage_relevance"]
    depth = v["depth"] if v["question_decomposition"] else 0
    levels = [v["max_questions"] ** d for d in range(depth + 1)]
    return Bounds(1, sum(levels) * own + 2 * sum(levels[:-1]), 1)


def _rq_rag(v: Mapping[str, Any]) -> Bounds:
    actions, nodes, calls = 3 if v["actions"] == "all" else 1, 1, 1
    for _ in range(v["depth"]):
        nodes = min(nodes, v["beam_width"]) * actions
        calls += 2 * nodes
    return Bounds(1, calls + 1, v["top_k"] * (v["depth"] + 1))  # one more where log-probabilities are refused


def _blend_filter(v: Mapping[str, Any]) -> Bounds:
    lists = v["original"] + v["external"] + v["internal"]
    filters = {"apart": lists, "union": 1, "none": 0}[v["knowledge_filter"]]
    each = 2 if v["relevance"] is None else v["top_k"] * (lists if v["knowledge_filter"] == "union" else 1)
    return Bounds(1, v["external"] + v["internal"] + filters * each + 2, v["top_k"] * lists)


_BOUNDS: dict[str, Callable[[Mapping[str, Any]], Bounds]] = {
    "migres": _migres,
    "adaptive_note": _adaptive_note,
    "ra_isf": _ra_isf,
    "rq_rag": _rq_rag,
    "blend_filter": _blend_filter,
    "direct": lambda v: Bounds(1, 1),
    "cot": lambda v: Bounds(1, 1),
    "rag": lambda v: Bounds(1, 1, v["top_k"]),
    "rag_cot": lambda v: Bounds(1, 1, v["top_k"]),
    "react": lambda v: Bounds(2, v["iterations"] + 1, v["iterations"] * v["top_k"]),
    "self_ask": lambda v: Bounds(2, 2 * v["iterations"] + 1, v["top_k"]),
    "iter_retgen": lambda v: Bounds(v["iterations"], v["iterations"], v["top_k"]),
    "ircot": lambda v: Bounds(2, v["iterations"] + 1, v["max_collected"]),
    "chain_of_note": lambda v: Bounds(1, 1, v["top_k"]),
    "least_to_most": lambda v: Bounds(2, v["max_questions"] + 2),
    "skr": lambda v: Bounds(1, 1, v["top_k"]),
    "flare": lambda v: Bounds(1, 2 * v["iterations"] + 2, v["top_k"]),
    "self_refine": lambda v: Bounds(1, 2, v["top_k"]),
    "self_rerank": lambda v: Bounds(1, 2, v["top_k"]),
    "itrg": lambda v: Bounds(1, v["iterations"] + 1, 2 * v["top_k"]),
    "vtg": lambda v: Bounds(1, 2 * v["iterations"], v["memory"]),
    "vanilla_s": lambda v: Bounds(1, 1, v["top_k"]),
    "summ": lambda v: Bounds(1, v["compressed"] + 1, v["top_k"]),
    "snippet": lambda v: Bounds(1, v["compressed"] + 1, v["top_k"]),
    "rerank": lambda v: Bounds(1, v["samples"], v["top_k"]),
    "probe_extraction": lambda v: Bounds(1, 1, v["passages"]),
    "probe_missing": lambda v: Bounds(1, 1),
    "probe_own_knowledge": lambda v: Bounds(1, 1),
    "probe_sub_modules": lambda v: Bounds(3, v["top_k"] + 3, 1),
}
