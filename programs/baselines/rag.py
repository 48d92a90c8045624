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
        return self._answer(question, [])

    def _answer(self, question: str, passages: list[Passage], /, **read: Any) -> dspy.Prediction:
        """The answer of one call, for which the model is shown `read` as well, and what else it writes."""
        output = self.ask(self.answer, last=True, question=question, **read, style=self.wording)
        added: dict[str, Any] = {name: text_of(output, name) for name in self.adds}
        for name, text in added.items():
            self.record(Reasoned(what="chain of thought" if name == "reasoning" else name, text=text))
        return self.conclude(text_of(output), passages, **added)


class ChainOfThought(Direct):
    """Reason step by step from memory, then answer; the prediction adds `reasoning`.

    Source: Wei et al., "Chain-of-Thought Prompting Elicits Reasoning in Large Language Models" (NeurIPS 2022).
    """

    name = "cot"
    adds: ClassVar = {"reasoning": ""}
    signature = ReasonDirectly


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
        self.begin_iteration(1)
        passages = self.retrieve_passages(question, self.top_k)
        return self._answer(question, passages, passages=passages)


class RAGChainOfThought(RAG):
    """Retrieve k passages for the question and reason over them before answering (BlendFilter's CoT baseline).

    The prediction adds `reasoning`.
    """

    name = "rag_cot"
    adds: ClassVar = {"reasoning": ""}
    signature = ReasonedAnswer


class ChainOfNote(RAG):
    """Retrieve once, then write a note on each passage and answer from the notes, all in one call; it adds `note`.

    Source: Yu et al., "Chain-of-Note: Enhancing Robustness in Retrieval-Augmented Language Models" (EMNLP 2024),
    section 3.2, with its three kinds of note: the passage answers, gives background, or is beside the point; 5
    passages. A baseline of Adaptive-Note (table 1) and RQ-RAG (table 2). Departures: docs/methods/baselines.md.
    """

    name = "chain_of_note"
    adds: ClassVar = {"note": ""}
    signature = ReadingNotes
