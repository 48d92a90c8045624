"""The trace of one question: its steps, its passages and what it cost, in JSON and in words."""

from __future__ import annotations

import itertools
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

from pydantic import BaseModel, Field, SerializeAsAny

from knowgap.errors import shorten
from knowgap.lms.metering import Counts, Usage
from knowgap.programs.trace import steps as s
from knowgap.programs.trace.steps import Step
from knowgap.retrieval.passage import Passage

if TYPE_CHECKING:
    from rich.text import Text
    from rich.tree import Tree

S = TypeVar("S", bound=Step)
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f]")


class Cost(Counts):
    """The cost of one question.

    A call answered from a cache counts in both `lm_calls` and `cached_calls`, and so do its tokens: the cost of a
    method does not depend on what was asked before. `critical_calls` counts the longest chain of language-model
    calls that wait for one another.

    `knowledge_tokens` is the consumption of external knowledge (MIGRES, table 5): the words of titles and texts of
    retrieved passages that the model reads, once per call. Questions, instructions, demonstrations and what the model
    wrote itself do not count.
    """

    lm_calls: int = Field(default=0, description="calls of the language model, cached ones included")
    unreadable: int = Field(default=0, description="calls of requests to which no reply could be read")
    cut: int = Field(default=0, description="replies that ended at the limit of tokens, also when asked for again")
    retrievals: int = Field(default=0, description="queries sent to the retriever")
    unseen_searches: int = Field(default=0, description="questions of a module whose searches could not be seen")
    passages: int = Field(default=0, description="distinct passages read by the language model")
    knowledge_tokens: int = Field(default=0, description="words of retrieved text read, each time they are read")
    iterations: int = Field(default=0, description="iterations of the method")
    seconds: float = Field(default=0.0, description="wall time of the question")
    critical_calls: int = Field(default=0, description="calls in the longest chain that wait for one another")

    @property
    def tokens(self) -> int:
        """Tokens of prompts and completions."""
        return self.prompt_tokens + self.completion_tokens

    @property
    def all_unreadable(self) -> bool:
        """Whether the language model was asked and no reply could be read."""
        return 0 < self.lm_calls == self.unreadable

    def of_calls(self, usage: Usage) -> Cost:
        """The same cost, with the counts of calls and tokens that a tracker has."""
        counts = usage.model_dump(exclude={"calls", "money", "cut"}) | {"lm_calls": usage.asked}
        return self.model_copy(update=counts)

    def __str__(self) -> str:
        odd = {"unreadable": self.unreadable, "cut off": self.cut, "failed": self.failed_calls}
        odd["around the meter"] = self.uncounted_calls
        spoilt = "".join(f"{count} {what}, " for what, count in odd.items() if count)
        searched = "searches unseen" if self.unseen_searches else f"{self.retrievals} retrievals"
        tokens = "–" if self.unreported_calls else self.tokens
        return (
            f"{self.lm_calls} LM call{'s' * (self.lm_calls != 1)} ({self.cached_calls} from cache, {spoilt}"
            f"{self.critical_calls} in sequence), {tokens} tokens\n{searched}, {self.passages} passages read, "
            f"{self.knowledge_tokens} knowledge tokens, {self.seconds:.2f} s"
        )


class Trace(BaseModel, extra="forbid"):
    """What a program did for one question, step by step; `model_dump_json` and `model_validate_json` keep it whole.

    Attributes:
        program: the program's name in the registry.
        question: the question asked.
        steps: in the order of the algorithm; concurrent branches follow one after another, whichever ended first.
        passages: every passage that a step names, by id.
        shown: for each passage that the language model read, by id, the most characters of its text in any prompt: the
            length of the text if it was not cut.
        cost: the cost of the question.

    >>> import dspy, knowgap
    >>> with dspy.context(lm=knowgap.make_lm("extractive")):
    ...     prediction = knowgap.get_program("direct")()(question="Who designed the Orle Bridge?")
    >>> prediction.trace.cost.lm_calls
    1
    """

    program: str
    question: str
    steps: list[SerializeAsAny[Step]] = []
    passages: dict[str, Passage] = {}
    shown: dict[str, int] = {}
    cost: Cost = Cost()

    def of(self, kind: type[S]) -> list[S]:
        """The steps of one kind, in order."""
        return [step for step in self.steps if isinstance(step, kind)]

    def describe(self, step: Step) -> list[str]:
        """Put a step into words: a headline, then one line for each detail; passages are named by their titles."""
        match step:
            case s.Retrieved():
                pairs = zip(step.queries, step.hits, strict=True)
                return ["retrieved", *(f"{shorten(query)} → {self._titles(ids, 5)}" for query, ids in pairs)]
            case s.Reranked():
                threshold = "" if step.threshold is None else f" at threshold {step.threshold:.2f}"
                kept = [f"{self.title(name)} ({score:.2f})" for name, score in step.kept.items()]
                return [f"reranked: kept {len(kept)}, dropped {len(step.dropped)}{threshold}", *kept]
            case s.Extracted():
                pairs = zip(step.statements, step.sources, strict=True)
                learnt = [f"{shorten(statement)} [{self._titles(ids)}]" for statement, ids in pairs]
                return ["learnt" if learnt else "learnt nothing", *learnt]
            case s.Queried():
                return [step.how, *map(shorten, step.queries), *(f"asked before: {q}" for q in step.repeated)]
            case s.Judged():
                about = f" of {self.title(step.passage)}" if step.passage else ""
                return [f"{step.what}{about}: {'yes' if step.value else 'no'}"]
            case s.Answered():
                sure = "" if step.confidence is None else f" (confidence {step.confidence:g})"
                verdict = {None: "", True: " (supported by what was read", False: " (not supported by what was read"}
                doubt = verdict[step.supported] + f"; missing: {step.missing}" * bool(step.missing)
                return [f"answer: {step.answer or '(empty)'}{sure}{doubt + ')' if doubt else ''}"]
            case _:
                fields = {name: self._titles(value) if isinstance(value, list) else value for name, value in step}
                if "passage" in fields:
                    fields["passage"] = self.title(fields["passage"])
                texts = {n: ("no", "yes")[v] if isinstance(v, bool) else shorten(v, 300) for n, v in fields.items()}
                return [step.words.format(**texts, kind=step.kind)]

    def _titles(self, ids: list[str], most: int = 8) -> str:
        more = f" and {len(ids) - most} more" if len(ids) > most else ""
        return (", ".join(map(self.title, ids[:most])) or "nothing") + more

    def title(self, passage_id: str) -> str:
        """The title of a passage, or its id if it has none."""
        passage = self.passages.get(passage_id)
        return (passage.title if passage is not None else "") or passage_id

    @property
    def stopped(self) -> str:
        """The reason of the last `Stopped` step; empty if there is none."""
        return next((step.reason for step in reversed(self.of(s.Stopped))), "")

    def __repr__(self) -> str:
        return f"Trace({self.program}: {len(self.steps)} steps, {self.cost.lm_calls} LM calls)"

    __str__ = __repr__

    def __rich__(self) -> Tree:
        """A tree of iterations, branches and steps, and at the end the cost."""
        from rich.text import Text
        from rich.tree import Tree

        def printable(line: str, style: str = "") -> Text:
            """A line without markup and without control characters of the terminal."""
            return Text(_CONTROL.sub(" ", line), style=style)

        colours = {"answered": "green", "missing": "yellow", "rejected": "dim", "malformed": "red"}
        root = Tree(Text.assemble(printable(self.question, "bold"), "  ", printable(self.program, "dim")))
        for iteration, of_iteration in itertools.groupby(self.steps, lambda step: step.iteration):
            node = root.add(printable(f"iteration {iteration}", "bold")) if iteration else root
            for branch, steps in itertools.groupby(of_iteration, lambda step: step.branch):
                place = node.add(printable(branch, "dim")) if branch else node
                for step in steps:
                    headline, *details = self.describe(step)
                    told = place.add(printable(headline, colours.get(step.kind, "")))
                    for line in details:
                        told.add(printable(line))
        root.add(Text(str(self.cost), style="dim"))
        return root


@dataclass(frozen=True)
class Round:
    """An iteration of a method.

    Attributes:
        queries: what was looked for.
        found: titles of at most five found passages that the answer rests on, or else of the first for each query.
        missing: what was missing in the end; empty if nothing was, or if the program did not say.
    """

    queries: list[str]
    found: list[str]
    missing: str

    def __str__(self) -> str:
        found = shorten(", ".join(self.found) or "nothing", 120)
        missing = f"; missing: {shorten(self.missing, 80)}" if self.missing else ""
        return f"looked for {shorten('; '.join(self.queries), 120)} → found {found}{missing}"


def rounds_of(trace: Trace) -> list[Round]:
    """The rounds of a question: the iterations that searched."""
    rounds, used = list[Round](), {name for step in trace.of(s.Answered)[-1:] for name in step.passages}
    for iteration in dict.fromkeys(step.iteration for step in trace.of(s.Retrieved)):
        steps = [step for step in trace.steps if step.iteration == iteration]
        searches = [step for step in steps if isinstance(step, s.Retrieved)]
        hits = [found for step in searches for found in step.hits]
        found = [name for some in hits for name in some if name in used] or [name for some in hits for name in some[:3]]
        titles = dict.fromkeys(map(trace.title, found))
        missing = [step.missing for step in steps if isinstance(step, s.Missing)]
        queries = [query for step in searches for query in step.queries]
        rounds.append(Round(queries, [*titles][:5], missing[-1] if missing else ""))
    return rounds
