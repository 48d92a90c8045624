"""MIGRES: missing-information guided retrieve, extract and solve."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import dspy
from typing_extensions import Self

from knowgap import signatures
from knowgap.programs.base import Program
from knowgap.programs.filtering import Found, compress, filter_sentences, rerank, resolve_threshold
from knowgap.programs.hyperparameters import Choice, Integer, Real, Switch
from knowgap.programs.passages import Claims, distinct, entailed_claims, entailment_of, merge_claims, read_claims
from knowgap.programs.replies.text import clean_lines, known_text, text_of
from knowgap.programs.trace.steps import Extracted, Missing, Prompted, Queried, Rejected, Stopped
from knowgap.retrieval import EmbeddedReranker
from knowgap.retrieval.entailment import EntailmentModel
from knowgap.retrieval.passage import Passage, RetrieverLike
from knowgap.retrieval.rerankers.reranker import Reranker, is_bge_base


class MIGRES(Program):
    """Extract what is known, name what is missing and search for it, until the question can be answered.

    Source: "LLMs Know What They Need: Leveraging a Missing Information Guided Framework to Empower Retrieval-Augmented
    Generation" (MIGRES), section 3 and figure 1; hyperparameters of table 12; ablations of tables 5 and 6.

    1. Retrieval module: retrieve, rerank, drop passages and sentences under δ; the best `top_k` passages are read. If
       none is left, the model writes what it knows, which is read in their place.
    2. Leaf module: extract useful statements; keep those that a passage they cite entails.
    3. Main module: answer from the statements alone, or say what is missing.
    4. Query generator: write at most three new queries for what is missing, and go back to 1.

    No query is asked and no passage is read twice (memory module). The last answer may use the model's own knowledge.
    Where the paper is silent: docs/methods/migres.md.

    Args:
        reranker: scores (query, text) pairs; default: the embedded one. The paper's is BGE-reranker-base.
        entailment: judges statements (`lm`: the language model); default: `grounding`. The paper's is T5-XXL-TRUE-NLI.

    >>> import knowgap
    >>> knowgap.MIGRES(top_k=3, iterations=2).values()["iterations"]
    2
    """

    name = "migres"
    calls = "2 to 20"
    adds: ClassVar = {"confidence": None, "explanation": "", "known": []}
    presets: ClassVar = {
        "multi_hop": {"delta": 3.0},
        "open_domain": {"iterations": 3, "delta": 5.0},
        "commonsense": {"delta": 0.0, "style": "yes_no"},
    }
    part_names = ("retriever", "reranker", "entailment")

    iterations = Integer(5, "iterations at most (T, table 12)", low=1, high=10)
    delta = Real(
        None, "relevance threshold δ; none takes the reranker's own (3 for BGE-base)", low=-30, high=30, search=(-4, 8)
    )
    top_k = Integer(5, "passages read per iteration at most (k, table 12)", low=1, high=20)
    retrieve_k = Integer(50, "passages retrieved per query (table 12)", low=1, high=200)
    max_queries = Integer(3, "new queries per iteration at most (section 3.2)", low=1, high=5)
    compression = Choice(
        "sentences",
        "what is read of a passage: its relevant sentences, all, a summary or a snippet (table 5)",
        choices=("sentences", "none", "summary", "snippet"),
    )
    entailment_threshold = Real(
        None, "probability from which a passage entails a statement; none takes the model's own", low=0.0, high=1.0
    )
    prompt_knowledge = Switch(True, "let the model write what it knows if no passage is left (table 6)")

    def __init__(
        self,
        retriever: RetrieverLike | None = None,
        *,
        reranker: Reranker | None = None,
        entailment: EntailmentModel | str | None = None,
        **hyperparameters: Any,
    ):
        super().__init__(retriever, **hyperparameters)
        self.reranker = reranker or EmbeddedReranker()
        self.entailment = entailment_of(entailment)
        self.leaf = dspy.Predict(signatures.ExtractUsefulInfo)
        self.main = dspy.Predict(signatures.MissingInfo)
        self.query = dspy.Predict(signatures.ProposeQueries)
        self.knowledge = dspy.Predict(signatures.PromptedKnowledge)
        self.last = dspy.Predict(signatures.LastAnswer)
        self.summarise = dspy.Predict(signatures.SummarisePassage)
        self.snippet = dspy.Predict(signatures.ExtractSnippet)

    @classmethod
    def from_preset(cls, name: str, retriever: RetrieverLike | None = None, **kwargs: Any) -> Self:
        """As for every program; a preset's δ, on the scale of BGE-reranker-base, is left out for another reranker."""
        delta = {} if is_bge_base(kwargs.get("reranker")) else {"delta": None}
        return super().from_preset(name, retriever, **{**delta, **kwargs})

    def forward(self, question: str) -> dspy.Prediction:
        """Answer `question`; the prediction adds `confidence` (1 to 5) and `known`."""
        known: Claims = {}
        queries, asked, read = [question], [question], set[str]()  # the last two are the memory module
        said, missing, reason = None, question, "iterations"
        for step in range(1, self.iterations + 1):
            self.begin_iteration(step)
            knowledge = self._search(queries, read) or self._prompt(queries, read)  # retrieval module
            known = merge_claims([*known.items(), *self._extract(queries, knowledge).items()])  # leaf module
            said = self.ask(self.main, known=list(known), question=question, style=self.wording)  # main module
            if known and is_answered(said):
                missing, reason = "", "answered"
                break
            missing = text_of(said, "missing") or text_of(said, "explanation") or missing
            self.record(Missing(missing=missing))
            if step == self.iterations:
                break
            inputs = {"question": question, "asked": asked, "known": list(known), "missing": missing}
            output = self.ask(self.query, **inputs, max_queries=self.max_queries)  # query generator
            queries, repeated = clean_lines(getattr(output, "queries", None), self.max_queries, asked)
            self.record(Queried(queries=queries, repeated=repeated))
            if not queries:
                reason = "no new query"
                break
            asked += queries
        self.record(Stopped(reason=reason))
        if reason != "answered":  # the paper does not say how it ends after T iterations
            inputs = {"known": list(known), "question": question, "style": self.wording}
            said = self.ask(self.last, last=True, **inputs)
        sources = distinct(passage for passages in known.values() for passage in passages)
        sure, why = getattr(said, "confidence", None) or 1, text_of(said, "explanation")
        verdict = {"supported": reason == "answered", "missing": missing, "known": list(known)}
        return self.conclude(text_of(said) or signatures.UNKNOWN, sources, confidence=sure, explanation=why, **verdict)

    def _search(self, queries: Sequence[str], read: set[str]) -> list[Found]:
        """Retriever and knowledge filter: what was not read before, reranked, filtered by δ (θ in 3.2), cut down."""
        delta = resolve_threshold(self.reranker, self.delta)
        results = self.retrieve(queries, self.retrieve_k)
        fresh = [[hit for hit in hits if hit.passage.id not in read] for hits in results]
        ranked, count = rerank(self, self.reranker, queries, fresh, delta), self.top_k
        match self.compression:
            case "sentences":
                shown = filter_sentences(self, self.reranker, ranked[:count], delta)
            case "summary":
                shown, count = compress(self, self.summarise, "summary", ranked, self.top_k)
            case "snippet":
                shown, count = compress(self, self.snippet, "snippet", ranked, self.top_k)
            case _:
                shown = ranked[:count]
        read |= {found.passage.id for found in ranked[:count]}
        return shown

    def _prompt(self, queries: Sequence[str], read: set[str]) -> list[Found]:
        """What the model knows about the queries, as one passage that is marked as the model's own; adds to `read`."""
        output = self.ask(self.knowledge, queries=list(queries)) if self.prompt_knowledge else None
        if not (text := known_text(output, "passage")):
            return []
        number = 1 + sum(name.startswith("model:") for name in read)
        passage = Passage(f"model:{number}", "the model's own knowledge", text)
        read.add(passage.id)
        self.record(Prompted(passage=passage.id, text=text), passage)
        return [Found(passage, 0.0, "", passage)]

    def _extract(self, queries: Sequence[str], knowledge: Sequence[Found]) -> Claims:
        """The leaf module: useful statements, each with the cited passages that entail it."""
        if not knowledge:
            return {}
        about = [query for query in queries if any(item.query == query for item in knowledge)] or list(queries)
        output = self.ask(self.leaf, passages=[item.shown for item in knowledge], queries=about)
        claims = read_claims(output, [item.passage for item in knowledge])
        entailed = entailed_claims(self.entailment, claims, self.entailment_threshold)
        for statement, sources in claims.items():
            if statement not in entailed:
                ids = [passage.id for passage in sources]
                self.record(Rejected(statement=statement, passages=ids))
        sources = [[passage.id for passage in passages] for passages in entailed.values()]
        self.record(Extracted(statements=list(entailed), sources=sources))
        return entailed


def is_answered(verdict: dspy.Prediction | None) -> bool:
    """Whether the main module answers: by `answerable` or, if it is absent, by an answer with nothing missing."""
    if verdict is None or not known_text(verdict):
        return False
    answerable = verdict.get("answerable")
    return not text_of(verdict, "missing") if answerable is None else bool(answerable)
