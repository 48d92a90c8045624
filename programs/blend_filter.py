"""BlendFilter: blend three queries, filter what they find, answer from the rest."""

from __future__ import annotations

import functools
from typing import Any, ClassVar

import dspy

from knowgap import signatures
from knowgap.programs.base import Program
from knowgap.programs.hyperparameters import Choice, Integer, Switch
from knowgap.programs.passages import cited, distinct
from knowgap.programs.replies.text import text_of
from knowgap.programs.trace.recorder import run_concurrently
from knowgap.programs.trace.steps import Filtered, Reasoned
from knowgap.retrieval.passage import Passage, RetrieverLike


class BlendFilter(Program):
    """Search with the question, and with it and what the model writes about it; filter what is found; answer.

    Source: "BlendFilter: Advancing Retrieval-Augmented Large Language Models via Query Generation Blending and
    Knowledge Filtering", algorithm 1, equations 1 to 9, appendix B; queries left out as in table 6, K as in figure 4,
    filter after the union as in remark 2, no filter as in equation 6. No code was released.

    1. Search with the question (q), with the question after a draft reasoned from its passages (q_ex), and with the
       question after a passage from the model's memory (q_in); K passages each.
    2. Filter each list by itself, in three turns: the model names the topic, judges the passages one by one without
       what it knows of the topic, and lists the relevant ids. StrategyQA has the last two turns alone.
    3. Reason over the union of what is left, and draw the short answer from the reasoning.

    A question takes eleven calls of the language model, five of them in sequence; ten without the topic. Where the
    paper is silent: docs/methods/blend_filter.md.

    >>> import knowgap
    >>> knowgap.BlendFilter(internal=False).internal
    False
    """

    name = "blend_filter"
    calls = "8 to 11"
    adds: ClassVar = {"reasoning": ""}
    presets: ClassVar = {"multi_hop": {}, "commonsense": {"topic": False, "style": "yes_no"}}

    top_k = Integer(5, "passages retrieved per query (K, section 4.1.4)", low=1, high=20)
    original = Switch(True, "search with the question itself (q, table 6)")
    external = Switch(True, "search with the question and a draft reasoned from its passages (q_ex, table 6)")
    internal = Switch(True, "search with the question and a passage from the model's memory (q_in, table 6)")
    knowledge_filter = Choice(
        "apart",
        "filter each query's passages by themselves, their union (remark 2), or nothing (equation 6)",
        choices=("apart", "union", "none"),
    )
    topic = Switch(
        True,
        "filter in three turns, without what the model knows of the question's topic (appendix B, HotpotQA and 2Wiki); "
        "off, in two, and possibly nothing is relevant (StrategyQA)",
        when={"knowledge_filter": ["apart", "union"]},
    )

    def __init__(self, retriever: RetrieverLike | None = None, **hyperparameters: Any):
        super().__init__(retriever, **hyperparameters)
        self.answer = dspy.Predict(signatures.ReasonedAnswer)
        self.internal_knowledge = dspy.Predict(signatures.InternalKnowledge)
        self.name_topic = dspy.Predict(signatures.QuestionTopic)
        self.reason = dspy.Predict(signatures.ReasonRelevance)
        self.list_ids = dspy.Predict(signatures.FilterKnowledge)
        self.shorten = dspy.Predict(signatures.ShortenAnswer)

    def forward(self, question: str) -> dspy.Prediction:
        """Answer `question` from the filtered passages of its searches; the prediction adds `reasoning`."""
        self.begin_iteration(1)
        # K_q, which is also K_ex: line 1 of algorithm 1, whose lines 2 to 7 follow
        direct = self.retrieve_passages(question, self.top_k) if self.original or self.external else []
        texts = [
            functools.partial(self._draft, question, direct),  # equation 1
            functools.partial(self._recall, question),  # equation 3
            functools.partial(self._name_topic, question),  # the filter's first turn, the same for all lists
        ]
        draft, memory, topic = run_concurrently(texts, ["external", "internal", ""])
        queries = {"external": f"{draft} {question}", "internal": f"{memory} {question}"}  # equations 2 and 4
        queries = {name: query.strip() for name, query in queries.items() if getattr(self, name)}
        found = self.retrieve([*queries.values()], self.top_k) if queries else []  # equation 5
        lists = {"original": direct} if self.original else {}
        lists |= {name: [hit.passage for hit in hits] for name, hits in zip(queries, found, strict=True)}
        if self.knowledge_filter == "union":
            lists = {"": distinct(passage for passages in lists.values() for passage in passages)}
        filters = [functools.partial(self._filter, question, topic, passages) for passages in lists.values()]
        filtered = run_concurrently(filters, [*lists])  # equation 7
        union = distinct(passage for passages in filtered for passage in passages)  # equation 8
        output = self.ask(self.answer, question=question, passages=union, style=self.wording)  # equation 9
        reasoning, answer = text_of(output, "reasoning"), text_of(output)
        if output is not None:
            self.record(Reasoned(what="chain of thought", text=reasoning))
            text = f"{reasoning}\nThe answer is: {answer}".strip()
            short = self.ask(self.shorten, last=True, question=question, text=text, style=self.wording)
            answer = text_of(short) or answer
        return self.conclude(answer or signatures.UNKNOWN, union, reasoning=reasoning)

    def _draft(self, question: str, passages: list[Passage]) -> str:
        """The reasoning and the answer from the passages that the question finds; empty if not searched with."""
        if not self.external:
            return ""
        output = self.ask(self.answer, question=question, passages=passages, style=self.wording)
        return self._recorded("external knowledge", f"{text_of(output, 'reasoning')} {text_of(output)}")

    def _recall(self, question: str) -> str:
        """A passage from the model's memory; empty if not searched with."""
        if not self.internal:
            return ""
        output = self.ask(self.internal_knowledge, question=question)
        return self._recorded("internal knowledge", text_of(output, "passage"))

    def _recorded(self, what: str, text: str) -> str:
        text = " ".join(text.split())
        self.record(Reasoned(what=what, text=text))
        return text

    def _name_topic(self, question: str) -> str:
        if not self.topic or self.knowledge_filter == "none":
            return ""
        return text_of(self.ask(self.name_topic, question=question), "topic")

    def _filter(self, question: str, topic: str, passages: list[Passage]) -> list[Passage]:
        """The passages that the model lists as relevant (equation 7)."""
        if not passages or self.knowledge_filter == "none":
            return passages
        inputs = {"question": question, "passages": passages, "expected": signatures.EXPECTED_RELEVANT[self.topic]}
        judged = text_of(self.ask(self.reason, **inputs, topic=topic), "reasoning")
        output = self.ask(self.list_ids, **inputs, assessment=judged)
        relevant = cited(passages, output.relevant_ids or ()) if output is not None else []
        kept = [passage for passage in passages if passage in relevant]
        dropped = [passage.id for passage in passages if passage not in relevant]
        self.record(Filtered(kept=[passage.id for passage in kept], dropped=dropped))
        return kept
