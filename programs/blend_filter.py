"""BlendFilter: blend three queries, filter what they find, answer from the rest."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable
from typing import Any, ClassVar

import dspy

from knowgap.programs.base import Program
from knowgap.programs.hyperparameters import Choice, Integer, Switch, Threshold
from knowgap.programs.passages import cited, distinct
from knowgap.programs.replies.outputs import known_text, text_of
from knowgap.programs.trace.recorder import run_concurrently
from knowgap.programs.trace.steps import Filtered, Judged, Reasoned, Rejected
from knowgap.retrieval.passage import Passage, RetrieverLike
from knowgap.signatures import (
    EXPECTED_RELEVANT,
    UNKNOWN,
    AssessAndFilter,
    FilterKnowledge,
    InternalKnowledge,
    KnowledgeRelevance,
    ReasonedAnswer,
    ReasonRelevance,
    ShortenAnswer,
)

_TOKEN = re.compile(r"[A-Za-z]{1,4}|\d{1,2}|\S")
_PAPERS_SEARCHES = {
    "top_k": 5,
    "internal": True,
    "knowledge_filter": "apart",
    "merged": False,
    "always_shorten": True,
}


class BlendFilter(Program):
    """Search with the question, and with it and what the model writes about it; filter what is found; answer.

    Source: "BlendFilter: Advancing Retrieval-Augmented Large Language Models via Query Generation Blending and
    Knowledge Filtering", algorithm 1, equations 1 to 9, appendix B; queries left out as in table 6, K as in figure 4,
    filter after the union as in remark 2, no filter as in equation 6. No code was released. With the paper's settings:

    1. Three branches run at once. Each searches for K passages: with the question (q), with the question and a draft
       reasoned from its passages (q_ex), with the question and a passage from the model's memory (q_in).
    2. Each list is filtered by itself, in two turns: the model assesses the passages, then lists the relevant ids.
    3. The model reasons over the union and answers, and shortens an answer that is longer than the style asks.

    A question then takes ten calls of the language model, five of them in sequence. Departures from the paper:
    docs/methods/blend_filter.md.

    >>> import knowgap
    >>> knowgap.BlendFilter(internal=False).internal
    False
    """

    name = "blend_filter"
    calls = "2 to 4"
    presets: ClassVar = {
        "multi_hop": _PAPERS_SEARCHES,
        "commonsense": {**_PAPERS_SEARCHES, "none_relevant": True, "style": "yes_no"},
    }

    top_k = Integer(7, "passages retrieved per query (K, section 4.1: 5)", low=1, high=20)
    original = Switch(True, "search with the question itself (q, table 6)")
    external = Switch(True, "search with the question and a draft reasoned from its passages (q_ex, table 6)")
    internal = Switch(False, "search with the question and a passage from the model's memory (q_in, table 6)")
    query_tokens = Integer(
        250, "length of a query, about: a generated text is cut, the question is not", low=32, high=8192, tune=False
    )
    knowledge_filter = Choice(
        "union",
        "filter each query's passages by themselves, their union (remark 2), or nothing (equation 6)",
        choices=("apart", "union", "none"),
    )
    none_relevant = Switch(
        False,
        "tell the filter that possibly none of the passages is relevant (appendix B, StrategyQA)",
        when={"knowledge_filter": ["apart", "union"], "relevance": [None]},
    )
    merged = Switch(
        True,
        "assess passages and list the relevant ones in one call instead of two",
        when={"knowledge_filter": ["apart", "union"], "relevance": [None]},
    )
    relevance = Threshold(
        "judge",
        "relevant",
        "probability from which a passage is relevant; none lets the model reason and list ids (equation 7)",
        when={"knowledge_filter": ["apart", "union"]},
    )
    always_shorten = Switch(False, "shorten every answer (appendix B), not only one that is longer than the style asks")

    def __init__(self, retriever: RetrieverLike | None = None, **kwargs: Any):
        super().__init__(retriever, **kwargs)
        self.internal_knowledge = dspy.Predict(InternalKnowledge)
        self.reason = dspy.Predict(ReasonRelevance)
        self.list_ids = dspy.Predict(FilterKnowledge)
        self.assess = dspy.Predict(AssessAndFilter)
        self.judge = dspy.Predict(KnowledgeRelevance)
        self.answer = dspy.Predict(ReasonedAnswer)
        self.shorten = dspy.Predict(ShortenAnswer)

    def forward(self, question: str) -> dspy.Prediction:
        """Answer `question` from the filtered union of its searches; the prediction adds `reasoning`."""
        self.begin_iteration(1)
        direct = self.retrieve_passages(question, self.top_k) if self.original or self.external else []
        branches: dict[str, Callable[[], list[Passage]]] = {}
        if self.original:
            branches["original"] = lambda: direct
        if self.external:
            branches["external"] = lambda: self._search_with_draft(question, direct)
        if self.internal:
            branches["internal"] = lambda: self._search_with_memory(question)
        tasks = [functools.partial(self._branch, question, search) for search in branches.values()]
        union = distinct(passage for passages in run_concurrently(tasks, list(branches)) for passage in passages)
        return self._answer(question, self._filter(question, union) if self.knowledge_filter == "union" else union)

    def _branch(self, question: str, search: Callable[[], list[Passage]]) -> list[Passage]:
        passages = search()
        return self._filter(question, passages) if self.knowledge_filter == "apart" else passages

    def _search_with_draft(self, question: str, passages: list[Passage]) -> list[Passage]:
        """Equations 1 and 2: search with the question and a draft of its answer, reasoned from its passages."""
        inputs = {"question": question, "passages": passages, "style": self.wording}
        output = self.ask(self.answer, **inputs, leave=2) if passages else None
        draft = " ".join([text_of(output, "reasoning"), text_of(output)])
        return self._search_augmented(question, "external knowledge", draft)

    def _search_with_memory(self, question: str) -> list[Passage]:
        """Equations 3 and 4: search with the question and a passage from the model's memory."""
        passage = known_text(self.ask(self.internal_knowledge, question=question, leave=2), "passage")
        return self._search_augmented(question, "internal knowledge", passage)

    def _search_augmented(self, question: str, what: str, text: str) -> list[Passage]:
        """Search with generated text before the question; without text, there is nothing new to search for."""
        text = " ".join(text.split())
        if not text:
            return []
        self.record(Reasoned(what=what, text=text))
        kept = _cut(text, self.query_tokens - len(_TOKEN.findall(question)))
        if kept != text:
            why = f"left out of the query, which holds the whole question and about {self.query_tokens} tokens"
            self.record(Rejected(what=text[len(kept) :].strip(), why=why))
        return self.retrieve_passages(f"{kept} {question}", self.top_k) if kept else []

    def _filter(self, question: str, passages: list[Passage]) -> list[Passage]:
        """Equation 7: the passages that the model finds relevant."""
        if not passages:
            return []
        if self.relevance is None:
            relevant, reason = self._list_relevant(question, passages)
        else:
            relevant, reason = self._judge_each(question, passages), ""
        kept = [passage.id for passage in relevant]
        dropped = [passage.id for passage in passages if passage not in relevant]
        self.record(Filtered(kept=kept, dropped=dropped, reason=reason))
        return relevant

    def _list_relevant(self, question: str, passages: list[Passage]) -> tuple[list[Passage], str]:
        """Let the model assess the passages and list the relevant ids, in two turns or one; return both.

        All passages are kept if the model names none, unless `none_relevant` allows that.
        """
        inputs = {"question": question, "passages": passages, "expected": EXPECTED_RELEVANT[self.none_relevant]}
        output = self.ask(self.assess if self.merged else self.reason, **inputs, leave=1)
        assessment = " ".join(text_of(output, "reasoning").split())
        if not self.merged:
            output = self.ask(self.list_ids, **inputs, assessment=assessment, leave=1)
        if output is None and not self.may_go_on():
            return passages, "no call left"
        relevant = cited(passages, output.relevant_ids or ()) if output is not None else []
        if not relevant and not self.none_relevant:
            return passages, "no passage was named"
        return [passage for passage in passages if passage in relevant], assessment

    def _judge_each(self, question: str, passages: list[Passage]) -> list[Passage]:
        """The passages whose probability of relevance reaches the threshold."""
        tasks = [
            functools.partial(self.ask, self.judge, inlined=[passage], question=question, passage=str(passage), leave=1)
            for passage in passages
        ]
        relevant: list[Passage] = []
        for passage, output in zip(passages, run_concurrently(tasks), strict=True):
            unasked = output is None and not self.may_go_on()
            value = unasked or (output is not None and bool(output.relevant))
            self.record(Judged(what="relevance", value=value, passage=passage.id))
            relevant += [passage] if value else []
        return relevant

    def _answer(self, question: str, passages: list[Passage]) -> dspy.Prediction:
        """Equation 9: reason over the passages, then word the answer if need be."""
        style = self.wording
        output = self.ask(self.answer, question=question, passages=passages, style=style)
        answer, reasoning = text_of(output), text_of(output, "reasoning")
        if reasoning or answer:
            self.record(Reasoned(what="chain of thought", text=reasoning))
            if self.always_shorten or not answer:
                text = f"{reasoning}\nThe answer is: {answer}" if answer else reasoning
                answer = text_of(self.ask(self.shorten, question=question, text=text, style=style)) or answer
        return self.conclude(answer or UNKNOWN, passages, reasoning=reasoning)


def _cut(text: str, tokens: int) -> str:
    """Cut a text to at most `tokens` tokens, after a whole word if there is one."""
    ends = [match.end() for match in _TOKEN.finditer(text)]
    if len(ends) <= tokens:
        return text
    end = ends[tokens - 1] if tokens > 0 else 0
    return text[:end] if text[end] == " " else text[:end].rpartition(" ")[0] or text[:end]
