"""Estimate what a run costs before it is run: the number of questions, times the calls for each, times the prices.

If no question is asked, each is assumed to need as many calls as the program's algorithm and hyperparameters allow,
each with a prompt of `CALL` tokens, `PASSAGE` more for every passage that it reads, and a reply of `REPLY` tokens. The
estimate is then an upper bound. If a few questions are asked first, their means replace these numbers.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import dspy
from pydantic import BaseModel

from knowgap.compiling.evaluation.metrics import JUDGING_CALLS
from knowgap.compiling.evaluation.provenance import lm_name
from knowgap.compiling.evaluation.runner import check_examples, resolve_lm, run_example
from knowgap.errors import UsageError
from knowgap.lms.metering import Prices, dollars, token_prices, without_history
from knowgap.programs.base import Program
from knowgap.programs.trace.trace import Cost

CALL = 600
"""Prompt tokens of a call without its passages, at most: instructions, fields, question, notes."""
PASSAGE = 200
"""Tokens of a passage of 100 words with its title."""
REPLY = 150
"""Completion tokens of a call."""

_MEASURED = 3  # questions that are asked if an estimate is to be measured


class Estimate(BaseModel, extra="forbid"):
    """What a run costs if no answer comes from a cache.

    Attributes:
        questions: how many questions are asked, repetitions included.
        calls: calls of the language model.
        prompt_tokens: tokens of all prompts.
        completion_tokens: tokens of all replies.
        money: US dollars; None if the price is not known.
        measured: how many questions were asked for this estimate; if there were none, it is an upper bound.
    """

    questions: int
    calls: int
    prompt_tokens: int
    completion_tokens: int
    money: float | None = None
    measured: int = 0

    @classmethod
    def of_calls(
        cls,
        questions: int,
        calls: float,
        prompt_tokens: float,
        completion_tokens: float,
        *,
        lm: Any = None,
        prices: Prices | None = None,
        measured: int = 0,
    ) -> Estimate:
        """Make an estimate from the calls and tokens of all questions together, which are rounded up.

        `prices` are US dollars per million prompt and completion tokens; default: those of `lm` in DSPy's table.
        """
        asked, read, written = (math.ceil(round(number, 6)) for number in (calls, prompt_tokens, completion_tokens))
        known = prices or token_prices(lm_name(lm))
        money = None if known is None else dollars(read, written, known)
        tokens = {"prompt_tokens": read, "completion_tokens": written}
        return cls(questions=questions, calls=asked, **tokens, money=money, measured=measured)

    def __add__(self, other: Estimate) -> Estimate:
        money = None if self.money is None or other.money is None else self.money + other.money
        names = [name for name in type(self).model_fields if name != "money"]
        return Estimate(**{name: getattr(self, name) + getattr(other, name) for name in names}, money=money)

    def __str__(self) -> str:
        money = "price not known" if self.money is None else f"${self.money:.2f}"
        tokens = f"{self.prompt_tokens:,} prompt and {self.completion_tokens:,} completion tokens"
        bound = "about" if self.measured else "at most"
        return f"{bound} {self.calls:,} calls, {tokens}, {money}: {self.questions:,} questions"


def estimate(
    program: Program,
    examples: Sequence[dspy.Example] | int,
    metrics: Sequence[str] = (),
    *,
    lm: dspy.BaseLM | None = None,
    prices: Prices | None = None,
    times: int = 1,
    demos: int = 0,
    measure: bool = False,
) -> Estimate:
    """Estimate what it costs to ask a program questions.

    Args:
        program: the program; it needs no index unless `measure` is set.
        examples: the questions, or how many there are.
        metrics: the names of the metrics that score the answers; those that ask a language model are counted.
        lm: the language model, whose prices are used, and which is asked if `measure` is set.
        prices: US dollars per million prompt and completion tokens, instead of those in DSPy's table.
        times: how often each question is asked, such as the number of trials of a study.
        demos: how many demonstrations every prompt will show besides those that the program has; each is assumed to be
            as long as a prompt.
        measure: ask three of the questions first, and estimate from what they cost.

    Raises:
        UsageError: there are no questions, the program fails on each of those that are asked, or it is not one of
            knowgap's and nothing is measured.

    >>> import knowgap
    >>> from knowgap.compiling.evaluation.estimate import estimate
    >>> estimate(knowgap.get_program("cot")(), 500, prices=(2.5, 10.0)).calls
    500
    """
    number = examples if isinstance(examples, int) else len(check_examples(examples))
    asked = number * times
    if measure:
        if isinstance(examples, int):
            raise UsageError("measuring an estimate needs the questions themselves: pass them, not their number")
        costs = _measure(program, examples, resolve_lm(lm, program))
        measured = len(costs)
        calls, prompt, completion = (
            sum(getattr(cost, name) for cost in costs) / measured
            for name in ("lm_calls", "prompt_tokens", "completion_tokens")
        )
    else:
        bound = call_bound(program)
        longer = 1 + max((len(predictor.demos) for predictor in program.predictors()), default=0)
        calls, prompt = bound.calls, bound.calls * (CALL * longer + PASSAGE * bound.passages)
        completion, measured = bound.calls * REPLY, 0
    judged = sum(JUDGING_CALLS.get(name, 0) for name in metrics)
    return Estimate.of_calls(
        asked,
        asked * (calls + judged),
        asked * (prompt * (1 + demos) + judged * CALL),
        asked * (completion + judged * REPLY),
        lm=lm,
        prices=prices,
        measured=measured,
    )


def _measure(program: Program, examples: Sequence[dspy.Example], lm: dspy.BaseLM) -> list[Cost]:
    """Ask a few of the questions, and return the costs of those on which the program does not fail."""
    chosen = examples[:: max(1, len(examples) // _MEASURED)][:_MEASURED]
    with without_history(), dspy.context(lm=lm):
        records = [run_example(program, example, str(number), {}) for number, example in enumerate(chosen)]
    costs = [record.cost for record in records if not record.error]
    if not costs:
        raise UsageError(f"{program.name} failed on every question that was tried: {records[0].error}")
    if any(cost.uncounted_calls for cost in costs):
        raise UsageError(f"what {program.name} costs cannot be measured: some of its calls are not counted")
    return costs


class CallBound(NamedTuple):
    """How many calls a question needs at most, and how many passages a call reads at most."""

    calls: int
    passages: int = 0


def call_bound(program: Program) -> CallBound:
    """The bound of a program if nothing fails, nothing is retried, and no answer is longer than its style asks.

    Raises:
        UsageError: the program is not one of knowgap's, so its algorithm is not known.

    >>> import knowgap
    >>> call_bound(knowgap.AdaptiveNote(iterations=2, review=True))
    CallBound(calls=8, passages=5)
    """
    rule = _RULES.get(program.name)
    if rule is None:
        raise UsageError(
            f"how many calls {program.name} makes is not known before it runs: measure it on three questions, "
            "with measure=True, or with `knowgap eval --dry-run --measure`"
        )
    bound, most = rule(program.values()), program.max_calls
    return bound if most is None else bound._replace(calls=min(most, bound.calls))


def _knowgap(v: Mapping[str, Any]) -> CallBound:
    return CallBound(v["iterations"], v["keep"] + max(v["top_k"], 2 * v["max_queries"]))


def _migres(v: Mapping[str, Any]) -> CallBound:
    compressing = v["top_k"] if v["compression"] in ("summary", "snippet") else 0
    step = 3 + max(compressing, v["prompt_knowledge"])  # leaf, main, queries
    return CallBound(v["iterations"] * step - 1 + v["last_answer"], v["top_k"])


def _adaptive_note(v: Mapping[str, Any]) -> CallBound:
    return CallBound(2 + v["iterations"] * (2 + v["review"]) if v["collect"] else 1, v["top_k"])


def _ra_isf(v: Mapping[str, Any]) -> CallBound:
    judging = (1 if v["judge_together"] else v["top_k"]) * v["passage_relevance"]
    levels = v["depth"] + 1 if v["question_decomposition"] else 1
    questions = sum(_SUB_QUESTIONS**level for level in range(levels))
    each = v["self_knowledge"] + judging + v["question_decomposition"] + 1
    return CallBound(questions * each, v["top_k"] if v["judge_together"] else 1)


_SUB_QUESTIONS = 4
"""RA-ISF's sub-questions of a question, as in its paper's table 5; a model may write more."""


def _rq_rag(v: Mapping[str, Any]) -> CallBound:
    children = 3 if v["actions"] == "all" else 1
    nodes, calls = 1, 1
    for _ in range(v["depth"]):
        nodes = min(nodes, v["beam_width"]) * children
        calls += 2 * nodes
    return CallBound(calls, v["top_k"] * v["depth"])


def _blend_filter(v: Mapping[str, Any]) -> CallBound:
    lists = v["original"] + v["external"] + v["internal"]
    filters = {"apart": lists, "union": 1, "none": 0}[v["knowledge_filter"]]
    topic = v["topic"] and v["knowledge_filter"] != "none"
    return CallBound(v["external"] + v["internal"] + topic + 2 * filters + 2, v["top_k"] * lists)


_RULES: dict[str, Callable[[Mapping[str, Any]], CallBound]] = {
    "knowgap": _knowgap,
    "migres": _migres,
    "adaptive_note": _adaptive_note,
    "ra_isf": _ra_isf,
    "rq_rag": _rq_rag,
    "blend_filter": _blend_filter,
    **dict.fromkeys(("direct", "cot", "probe_missing", "probe_own_knowledge"), lambda v: CallBound(1)),
    **dict.fromkeys(("rag", "rag_cot", "chain_of_note"), lambda v: CallBound(1, v["top_k"])),
    "react": lambda v: CallBound(v["iterations"] + 1, v["iterations"] * v["top_k"]),
    "self_ask": lambda v: CallBound(2 * v["iterations"] + 1, v["top_k"]),
    "iter_retgen": lambda v: CallBound(v["iterations"], v["top_k"]),
    "ircot": lambda v: CallBound(v["iterations"] + 1, v["max_collected"]),
    "least_to_most": lambda v: CallBound(v["max_questions"] + 2),
    "probe_extraction": lambda v: CallBound(1, v["passages"]),
    "probe_sub_modules": lambda v: CallBound(v["top_k"] + 3, 1),
}
