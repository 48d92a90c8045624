"""How often a method asks the language model for one question, at least and at most, from its hyperparameters."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from knowgap.programs.base import Program

__all__ = ["CallBounds", "call_bounds"]


class CallBounds(NamedTuple):
    """Calls for a question, fewest and most, and how many passages a call reads at most."""

    low: int
    high: int
    passages: int = 0


def call_bounds(program: Program) -> CallBounds:
    """The bounds of a program, if nothing fails and nothing is retried; a guess for a method without a rule."""
    rule = _RULES.get(program.name)
    return rule(program.values()) if rule is not None else CallBounds(1, 10, 5)


def _migres(v: Mapping[str, Any]) -> CallBounds:
    compressing = v["top_k"] if v["compression"] in ("summary", "snippet") else 0
    leaves = v["max_queries"] if v["read_apart"] else 1
    each = leaves + 2 + v["prompt_knowledge"] + compressing
    return CallBounds(1, v["iterations"] * each + 1, v["top_k"])


def _adaptive_note(v: Mapping[str, Any]) -> CallBounds:
    if not v["collect"]:
        return CallBounds(1, 1, v["top_k"])
    return CallBounds(1, 2 + v["iterations"] * (2 + v["review"]), v["top_k"])


def _ra_isf(v: Mapping[str, Any]) -> CallBounds:
    judging = 1 if v["judge_together"] else v["top_k"]
    own = 2 * v["self_knowledge"] + (judging + 1) * v["passage_relevance"]
    depth = v["depth"] if v["question_decomposition"] else 0
    levels = [v["max_questions"] ** d for d in range(depth + 1)]
    return CallBounds(1, sum(levels) * own + 2 * sum(levels[:-1]), v["top_k"] if v["judge_together"] else 1)


def _rq_rag(v: Mapping[str, Any]) -> CallBounds:
    actions, nodes, calls = 3 if v["actions"] == "all" else 1, 1, 1
    for _ in range(v["depth"]):
        nodes = min(nodes, v["beam_width"]) * actions
        calls += 2 * nodes
    return CallBounds(1, calls + 1, v["top_k"] * (v["depth"] + 1))  # one more where log-probabilities are refused


def _blend_filter(v: Mapping[str, Any]) -> CallBounds:
    lists = v["original"] + v["external"] + v["internal"]
    filters = {"apart": lists, "union": 1, "none": 0}[v["knowledge_filter"]]
    each = (
        2 - v["merged"] if v["relevance"] is None else v["top_k"] * (lists if v["knowledge_filter"] == "union" else 1)
    )
    return CallBounds(1, v["external"] + v["internal"] + filters * each + 2, v["top_k"] * lists)


_RULES: dict[str, Callable[[Mapping[str, Any]], CallBounds]] = {
    "migres": _migres,
    "adaptive_note": _adaptive_note,
    "ra_isf": _ra_isf,
    "rq_rag": _rq_rag,
    "blend_filter": _blend_filter,
    **dict.fromkeys(("direct", "cot", "probe_missing", "probe_own_knowledge"), lambda v: CallBounds(1, 1)),
    **dict.fromkeys(("rag", "rag_cot", "chain_of_note", "skr", "vanilla_s"), lambda v: CallBounds(1, 1, v["top_k"])),
    **dict.fromkeys(("self_refine", "self_rerank"), lambda v: CallBounds(1, 2, v["top_k"])),
    **dict.fromkeys(("summ", "snippet"), lambda v: CallBounds(1, v["compressed"] + 1, v["top_k"])),
    "react": lambda v: CallBounds(2, v["iterations"] + 1, v["iterations"] * v["top_k"]),
    "self_ask": lambda v: CallBounds(2, 2 * v["iterations"] + 1, v["top_k"]),
    "iter_retgen": lambda v: CallBounds(v["iterations"], v["iterations"], v["top_k"]),
    "ircot": lambda v: CallBounds(2, v["iterations"] + 1, v["max_collected"]),
    "least_to_most": lambda v: CallBounds(2, v["max_questions"] + 2),
    "flare": lambda v: CallBounds(1, 2 * v["iterations"] + 2, v["top_k"]),
    "itrg": lambda v: CallBounds(1, v["iterations"] + 1, 2 * v["top_k"]),
    "vtg": lambda v: CallBounds(1, 2 * v["iterations"], v["memory"]),
    "rerank": lambda v: CallBounds(1, v["samples"], v["top_k"]),
    "probe_extraction": lambda v: CallBounds(1, 1, v["passages"]),
    "probe_sub_modules": lambda v: CallBounds(3, v["top_k"] + 3, 1),
}
