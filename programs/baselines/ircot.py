"""IRCoT: retrieval interleaved with the sentences of a chain of thought."""

from __future__ import annotations

from typing import Any, ClassVar

import dspy

from knowgap.programs.base import Program
from knowgap.programs.hyperparameters import Integer
from knowgap.programs.passages import distinct
from knowgap.programs.replies.text import clean_lines, text_of
from knowgap.programs.trace.steps import Queried, Reasoned, Stopped
from knowgap.retrieval.passage import Passage, RetrieverLike
from knowgap.signatures import NextStep, ReasonedAnswer


class IRCoT(Program):
    """Write one sentence of reasoning, retrieve with it, write the next; then answer from all that was retrieved.

    Source: Trivedi et al., "Interleaving Retrieval with Chain-of-Thought Reasoning for Knowledge-Intensive Multi-Step
    Questions" (ACL 2023), section 3: the question retrieves first; each sentence is the next query; its passages join
    those before, 15 at most; reasoning ends with the answer or after 8 sentences; a reader then answers from the
    collected passages, reasoning once more. The paper chooses k among 2, 4, 6 and 8 on a dev set; 4 here. A baseline of
    RA-ISF (table 1). Departures: docs/methods/baselines.md.
    """

    name = "ircot"
    adds: ClassVar = {"reasoning": "", "chain": []}
    calls = "2 to 9"

    iterations = Integer(8, "sentences of reasoning at most (section 3.1)", low=1, high=16)
    top_k = Integer(4, "passages retrieved per sentence (section 4)", low=1, high=20)
    max_collected = Integer(15, "passages collected at most (section 3.1)", low=1, high=50)

    def __init__(self, retriever: RetrieverLike | None = None, **hyperparameters: Any):
        super().__init__(retriever, **hyperparameters)
        self.step = dspy.Predict(NextStep)
        self.reader = dspy.Predict(ReasonedAnswer)

    def forward(self, question: str) -> dspy.Prediction:
        """Answer `question`; the prediction adds `reasoning`, the reader's, and `chain`, the interleaved sentences."""
        chain: list[str] = []
        passages: list[Passage] = []
        query, reason = question, "iterations"
        for step in range(1, self.iterations + 1):
            self.begin_iteration(step)
            passages = distinct([*passages, *self.retrieve_passages(query, self.top_k)])[: self.max_collected]
            output = self.ask(self.step, question=question, passages=passages, known=list(chain))
            sentences, repeated = clean_lines([text_of(output, "reasoning")], 1, chain)
            if not sentences:
                reason = "repeated sentence" if repeated else "no sentence"
                break
            chain += sentences
            self.record(Reasoned(what="chain of thought", text=sentences[0]))
            if output is not None and output.finished:
                reason = "answered"
                break
            if step < self.iterations:
                query = sentences[0]
                self.record(Queried(queries=[query]))
        self.record(Stopped(reason=reason))
        output = self.ask(self.reader, last=True, question=question, passages=passages, style=self.wording)
        return self.conclude_with(output, passages, chain=chain)
