"""ReAct: think, search, read, until the answer is settled."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import dspy

from knowgap.programs.base import Program
from knowgap.programs.hyperparameters import Integer
from knowgap.programs.passages import distinct
from knowgap.programs.replies.text import text_of
from knowgap.programs.trace.steps import Queried, Reasoned, Stopped
from knowgap.retrieval.passage import Passage, RetrieverLike
from knowgap.signatures import AnswerBySearching


class ReAct(Program):
    """Interleave thoughts, searches and their results, then answer from the whole trajectory.

    Source: Yao et al., "ReAct: Synergizing Reasoning and Acting in Language Models" (ICLR 2023), section 3; at most 7
    steps, as there on HotpotQA. A baseline of MIGRES (table 3), Adaptive-Note (table 1) and BlendFilter (table 2).

    Prompts and predictors are those of `dspy.ReAct` with one tool, `search`. Its loop is written out here, so that
    every step is in the trace, an unreadable turn ends the search instead of being taken for an error of the tool, and
    an error of the retriever is raised instead of being shown to the model. Departures: docs/methods/baselines.md.
    """

    name = "react"
    adds: ClassVar = {"reasoning": ""}
    calls = "2 to 8"

    iterations = Integer(7, "turns at most (section 3.2)", low=1, high=20)
    top_k = Integer(5, "passages retrieved per search", low=1, high=50)

    def __init__(self, retriever: RetrieverLike | None = None, **hyperparameters: Any):
        super().__init__(retriever, **hyperparameters)
        agent = dspy.ReAct(AnswerBySearching, tools=[self.search])
        self.turn, self.extract = agent.react, agent.extract
        # Only the name of the next tool and the answer are required.
        turn: Any = self.turn.signature
        turn = turn.delete("next_thought").delete("next_tool_args")
        turn = turn.prepend("next_thought", dspy.OutputField(default_factory=str), str)
        self.turn.signature = turn.append("next_tool_args", dspy.OutputField(default_factory=dict), dict[str, Any])
        extract: Any = self.extract.predict.signature
        extract = extract.delete("reasoning").prepend("reasoning", dspy.OutputField(default_factory=str), str)
        self.extract.predict.signature = extract

    # The name and the docstring are part of the prompt.
    def search(self, query: str) -> list[Passage]:
        """Find passages on a query of a few words."""
        return self.retrieve_passages(query, self.top_k)

    def forward(self, question: str) -> dspy.Prediction:
        """Answer `question`; the prediction adds `reasoning`."""
        turns, found, reason = list[str](), list[Passage](), "iterations"
        for step in range(1, self.iterations + 1):
            self.begin_iteration(step)
            output = self._ask_over(self.turn, turns, found, question)
            if output is None:
                reason = "unreadable turn"
                break
            thought = text_of(output, "next_thought")
            self.record(Reasoned(what="thought", text=thought))
            query = str((output.next_tool_args or {}).get("query") or "").strip()
            if output.next_tool_name != "search" or not query:
                reason = "finished" if output.next_tool_name == "finish" else "no query"
                break
            self.record(Queried(queries=[query]))
            passages = self.search(query)
            told = "\n".join(map(str, passages)) or "nothing"
            turns.append(f"Thought: {thought}\nSearch: {query}\nFound:\n{told}")
            found += passages
        self.record(Stopped(reason=reason))
        return self.conclude_with(self._ask_over(self.extract, turns, found, question), distinct(found))

    def _ask_over(self, predictor: dspy.Module, turns: Sequence[str], found: Sequence[Passage], question: str) -> Any:
        """Ask over the trajectory."""
        trajectory = "\n\n".join(turns) or "(nothing was searched yet)"
        inputs = {"question": question, "style": self.wording, "trajectory": trajectory}
        return self.ask(predictor, last=predictor is self.extract, inlined=found, **inputs)
