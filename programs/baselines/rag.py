"""The baselines of one call: without retrieval, or from what is retrieved once; also with reasoning or notes."""

from __future__ import annotations

from typing import Any, ClassVar

import dspy

from knowgap.programs.base import Program
from knowgap.programs.hyperparameters import Integer
from knowgap.programs.replies.text import text_of
from knowgap.programs.trace.steps import Reasoned
from knowgap.retrieval.passage import Passage, RetrieverLike
from knowgap.signatures import AnswerDirectly, AnswerFromPassages, ReadingNotes, ReasonDirectly, ReasonedAnswer


class Direct(Program):
    """Ask the language model and take its answer.

    The row without retrieval of every table: "Direct" (RA-ISF, table 1), "NoR" (Adaptive-Note, table 1).
    """

    name = "direct"
    calls = "1"
    needs_retriever = False
    signature: ClassVar[type[dspy.Signature]] = AnswerDirectly

    def __init__(self, retriever: RetrieverLike | None = None, **hyperparameters: Any):
        super().__init__(retriever, **hyperparameters)
        self.answer = dspy.Predict(self.signature)

    def forward(self, question: str) -> dspy.Prediction:
        """Answer `question` without passages."""
        return self.conclude(text_of(self._ask(question)), [])

    def _ask(self, question: str, *, last: bool = True, **read: Any) -> dspy.Prediction | None:
        return self.ask(self.answer, last=last, question=question, **read, style=self.wording)


class ChainOfThought(Direct):
    """Reason step by step from memory, then answer.

    Source: Wei et al., "Chain-of-Thought Prompting Elicits Reasoning in Large Language Models" (NeurIPS 2022).
    """

    name = "cot"
    adds: ClassVar = {"reasoning": ""}
    signature = ReasonDirectly

    def forward(self, question: str) -> dspy.Prediction:
        """Answer `question` without passages; the prediction adds `reasoning`."""
        return self.conclude_with(self._ask(question), [])


class RAG(Direct):
    """Retrieve k passages for the question and answer from them.

    "Vanilla" (Adaptive-Note, table 1; k = 5), "RAG" (RA-ISF, table 1). MIGRES' "VANILLA" reranks.
    """

    name = "rag"
    needs_retriever = True
    signature = AnswerFromPassages

    top_k = Integer(5, "passages retrieved and read", low=1, high=50)

    def forward(self, question: str) -> dspy.Prediction:
        """Answer `question` from one retrieval."""
        passages, output = self._read(question)
        return self.conclude(text_of(output), passages)

    def _read(self, question: str) -> tuple[list[Passage], dspy.Prediction | None]:
        self.begin_iteration(1)
        passages = self.retrieve_passages(question, self.top_k)
        return passages, self._ask(question, passages=passages)


class RAGChainOfThought(RAG):
    """Retrieve k passages for the question and reason over them before answering (BlendFilter's CoT baseline)."""

    name = "rag_cot"
    adds: ClassVar = {"reasoning": ""}
    signature = ReasonedAnswer

    def forward(self, question: str) -> dspy.Prediction:
        """Answer `question` from one retrieval; the prediction adds `reasoning`."""
        passages, output = self._read(question)
        return self.conclude_with(output, passages)


class ChainOfNote(RAG):
    """Retrieve once, then write a note on each passage and answer from the notes, all in one call.

    Source: Yu et al., "Chain-of-Note: Enhancing Robustness in Retrieval-Augmented Language Models" (EMNLP 2024),
    section 3.2, with its three kinds of note: the passage answers, gives background, or is beside the point; 5
    passages. A baseline of Adaptive-Note (table 1) and RQ-RAG (table 2). Departures: docs/methods/baselines.md.
    """

    name = "chain_of_note"
    adds: ClassVar = {"note": ""}
    signature = ReadingNotes

    def forward(self, question: str) -> dspy.Prediction:
        """Answer `question` from one retrieval; the prediction adds `note`."""
        passages, output = self._read(question)
        note = text_of(output, "note")
        self.record(Reasoned(what="note", text=note))
        return self.conclude(text_of(output), passages, note=note)
