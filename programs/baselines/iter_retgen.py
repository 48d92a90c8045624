"""ITER-RETGEN: the last answer, with its reasoning and the question, is the next query."""

from __future__ import annotations

from typing import ClassVar

import dspy

from knowgap.programs.baselines.rag import Direct
from knowgap.programs.hyperparameters import Integer
from knowgap.programs.replies.text import text_of
from knowgap.programs.trace.steps import Answered, Queried, Reasoned, Stopped
from knowgap.retrieval.passage import Passage
from knowgap.signatures import ReasonedAnswer


class IterRetGen(Direct):
    """Retrieve, answer with reasoning, and retrieve again with what was written, a fixed number of times.

    Source: Shao et al., "Enhancing Retrieval-Augmented Large Language Models with Iterative Retrieval-Generation
    Synergy" (Findings of EMNLP 2023), section 3: in iteration t the query is the output of iteration t-1 together
    with the question, and the answer is generated from the passages of that query alone. Two iterations with 5
    passages each, as in MIGRES (table 4); the paper goes up to seven. A baseline of MIGRES, RA-ISF and BlendFilter.
    If an output cannot be read, the previous one stays. Departures: docs/methods/baselines.md.
    """

    name = "iter_retgen"
    adds: ClassVar = {"reasoning": ""}
    calls = "2"
    needs_retriever = True
    signature = ReasonedAnswer

    iterations = Integer(2, "rounds of retrieval and generation", low=1, high=7)
    top_k = Integer(5, "passages retrieved and read per round", low=1, high=50)

    def forward(self, question: str) -> dspy.Prediction:
        """Answer `question`; the prediction adds `reasoning`."""
        answer, reasoning = "", ""
        passages: list[Passage] = []
        query = question
        for step in range(1, self.iterations + 1):
            self.begin_iteration(step)
            if step > 1:
                query = " ".join(part for part in (reasoning, answer, question) if part)
                self.record(Queried(queries=[query]))
            passages = self.retrieve_passages(query, self.top_k)
            inputs = {"question": question, "passages": passages, "style": self.wording}
            output = self.ask(self.answer, last=step == self.iterations, **inputs)
            if output is not None:
                answer, reasoning = text_of(output) or answer, text_of(output, "reasoning")
            self.record(Reasoned(what="chain of thought", text=reasoning))
            if step < self.iterations:
                self.record(Answered(answer=answer, passages=[passage.id for passage in passages]))
        self.record(Stopped(reason="iterations"))
        return self.conclude(answer, passages, reasoning=reasoning)
