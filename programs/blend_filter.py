"""BlendFilter: three queries blended, what they find filtered, an answer from what is left."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any, ClassVar

import dspy

from knowgap.programs.base import Program
from knowgap.programs.hyperparameters import Choice, Integer, Switch, Threshold
from knowgap.programs.reading.passage_numbering import cited, distinct
from knowgap.programs.trace.recorder import run_concurrently
from knowgap.programs.trace.steps import Filtered, Judged, Reasoned
from knowgap.retrieval.passage import Passage, Retriever
from knowgap.signatures import (
    STYLES,
    UNKNOWN,
    ExternalKnowledge,
    FilterKnowledge,
    InternalKnowledge,
    KnowledgeRelevance,
    ReasonedAnswer,
    ReasonRelevance,
    ShortenAnswer,
)

__all__ = ["BlendFilter"]


class BlendFilter(Program):
    """Search with the question, with it and a reasoned draft, and with it and a passage from memory; filter; answer.

    Source: "BlendFilter: Advancing Retrieval-Augmented Large Language Models via Query Generation Blending and
    Knowledge Filtering", algorithm 1, equations 1 to 9, appendix B; queries left out as in table 6, K as in figure 4,
    filter after the union as in remark 2, no filter as in equation 6. No code was released.

    The question is searched once: what it finds serves the original branch and the draft of the external one. The
    three branches run at once, so a question takes ten calls of the language model, five of them in sequence. Where
    appendix B has the model name the question's topic and forget what it knows about it, the filter is told to set
    aside what it knows.

    Beyond the paper: with `relevance` set, a probability per passage takes the place of the filter's two turns.

    Args:
        retriever: the index to search. The paper's is ColBERTv2 over Wikipedia abstracts.
        **kwargs: `concurrent` and hyperparameters.
    """

    name = "blend_filter"
    presets: ClassVar = {
        "multi_hop": {"top_k": 5},
        "commonsense": {"top_k": 5, "style": "yes_no"},
    }

    top_k = Integer(5, "passages retrieved per query (K, section 4.1)", low=1, high=20)
    original = Switch(True, "search with the question itself (q, table 6)")
    external = Switch(True, "search with the question and a draft reasoned from its passages (q_ex, table 6)")
    internal = Switch(True, "search with the question and a passage from the model's memory (q_in, table 6)")
    knowledge_filter = Choice(
        "apart",
        "filter each query's passages by themselves, their union (remark 2), or nothing (equation 6)",
        choices=("apart", "union", "none"),
    )
    relevance = Threshold(
        "judge",
        "relevant",
        "probability from which a passage is relevant; none lets the model reason and list ids (equation 7)",
        when={"knowledge_filter": ["apart", "union"]},
    )
    style = Choice("short", "how the answer is worded", choices=tuple(STYLES), tune=False)

    def __init__(self, retriever: Retriever | None = None, **kwargs: Any):
        super().__init__(retriever, **kwargs)
        self.draft = dspy.Predict(ExternalKnowledge)
        self.recall = dspy.Predict(InternalKnowledge)
        self.reason = dspy.Predict(ReasonRelevance)
        self.list_ids = dspy.Predict(FilterKnowledge)
        self.judge = dspy.Predict(KnowledgeRelevance)
        self.answer = dspy.Predict(ReasonedAnswer)
        self.shorten = dspy.Predict(ShortenAnswer)

    def forward(self, question: str) -> dspy.Prediction:
        """Answer `question` from the filtered union of three searches; the prediction adds `reasoning`."""
        self.begin_iteration(1)
        direct = self._search(question) if self.original or self.external else []
        branches: dict[str, Callable[[], list[Passage]]] = {}
        if self.original:
            branches["original"] = lambda: direct
        if self.external:
            branches["external"] = lambda: self._external(question, direct)
        if self.internal:
            branches["internal"] = lambda: self._internal(question)
        apart = self.knowledge_filter == "apart"
        tasks = [functools.partial(self._branch, question, branch, apart) for branch in branches.values()]
        kept = distinct(passage for part in run_concurrently(tasks, list(branches)) for passage in part)
        if self.knowledge_filter == "union":
            kept = self._filtered(question, kept)
        return self._answer(question, kept)

    def _branch(self, question: str, search: Callable[[], list[Passage]], apart: bool) -> list[Passage]:
        found = search()
        return self._filtered(question, found) if apart else found

    def _search(self, query: str) -> list[Passage]:
        return self.retrieve_passages(query, self.top_k)

    def _external(self, question: str, passages: Sequence[Passage]) -> list[Passage]:
        """Equations 1 and 2: what the question finds together with a reasoned draft of its answer."""
        if not passages:
            return []
        output = self.ask(self.draft, question=question, passages=passages)
        text = _joined(output.reasoning, output.answer) if output is not None else ""
        return self._augmented(question, "external knowledge", text)

    def _internal(self, question: str) -> list[Passage]:
        """Equations 3 and 4: what the question finds together with a passage from the model's memory."""
        output = self.ask(self.recall, question=question)
        return self._augmented(question, "internal knowledge", _joined(output.passage) if output is not None else "")

    def _augmented(self, question: str, source: str, text: str) -> list[Passage]:
        """Search with generated text in front of the question; without any, that would be the original query again."""
        if not text:
            return []
        self.record(Reasoned(what=source, text=text))
        return self._search(f"{text} {question}")

    def _filtered(self, question: str, passages: list[Passage]) -> list[Passage]:
        """Equation 7: the passages that the model finds relevant; none where its reply cannot be read."""
        if not passages:
            return []
        if self.relevance is None:
            kept, why = self._listed(question, passages)
        else:
            kept, why = self._judged(question, passages), ""
        dropped = [passage.id for passage in passages if passage not in kept]
        self.record(Filtered(kept=[passage.id for passage in kept], dropped=dropped, reason=why))
        return kept

    def _listed(self, question: str, passages: list[Passage]) -> tuple[list[Passage], str]:
        """Two turns: an assessment of every passage, then the ids of the relevant ones."""
        shown = passages
        output = self.ask(self.reason, question=question, passages=shown)
        assessment = _joined(output.reasoning) if output is not None else ""
        output = self.ask(self.list_ids, question=question, passages=shown, assessment=assessment)
        relevant = set(cited(passages, output.relevant_ids or ()) if output is not None else ())
        return [passage for passage in passages if passage in relevant], assessment

    def _judged(self, question: str, passages: list[Passage]) -> list[Passage]:
        """Every passage by its own probability."""
        tasks = [
            functools.partial(self.ask, self.judge, inlined=[p], question=question, passage=str(p)) for p in passages
        ]
        kept: list[Passage] = []
        for passage, output in zip(passages, run_concurrently(tasks), strict=True):
            relevant = output is not None and bool(output.relevant)
            self.record(Judged(what="relevance", value=relevant, passage=passage.id))
            kept += [passage] if relevant else []
        return kept

    def _answer(self, question: str, passages: list[Passage]) -> dspy.Prediction:
        """Equation 9: reason over the kept passages, then word the answer."""
        style = STYLES[self.style]
        output = self.ask(self.answer, question=question, passages=passages, style=style)
        answer = (output.answer or "").strip() if output is not None else ""
        reasoning = (output.reasoning or "").strip() if output is not None else ""
        if reasoning or answer:
            self.record(Reasoned(what="chain of thought", text=reasoning))
            text = f"{reasoning}\nThe answer is: {answer}" if answer else reasoning
            output = self.ask(self.shorten, question=question, text=text, style=style)
            answer = ((output.answer or "").strip() if output is not None else "") or answer
        answer = answer or UNKNOWN
        return self.conclude(answer, passages, reasoning=reasoning)


def _joined(*texts: str | None) -> str:
    return " ".join(" ".join(text.split()) for text in texts if text and text.strip())
