"""MIGRES: missing-information guided retrieve, extract and solve."""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, ClassVar

import dspy
from typing_extensions import Self

from knowgap.programs.base import Program
from knowgap.programs.hyperparameters import Choice, Integer, OptionalReal, Real, Switch
from knowgap.programs.outputs import clean_lines, text_of
from knowgap.programs.reading.citations import Claims, extracted_step, merge_claims, read_claims
from knowgap.programs.reading.passage_filtering import (
    ReadPassage,
    compress,
    filter_sentences,
    rerank,
    resolve_threshold,
)
from knowgap.programs.reading.passage_numbering import distinct
from knowgap.programs.trace.recorder import run_concurrently
from knowgap.programs.trace.steps import Judged, Missing, Prompted, Queried, Rejected, Stopped
from knowgap.retrieval import EmbeddedEntailment, EmbeddedReranker
from knowgap.retrieval.entailment.model import EntailmentModel
from knowgap.retrieval.passage import Hit, Passage, Retriever
from knowgap.retrieval.rerankers.reranker import Reranker
from knowgap.retrieval.sentences import split_sentences
from knowgap.signatures import (
    STYLES,
    UNANSWERABLE,
    UNKNOWN,
    ExtractSnippet,
    ExtractUsefulInfo,
    LastAnswer,
    MissingInfo,
    PromptedKnowledge,
    ProposeQueries,
    SummarisePassage,
)

__all__ = ["MIGRES"]


class MIGRES(Program):
    """Extract what is known, name what is missing and search for it, until the question can be answered.

    Source: "LLMs Know What They Need: Leveraging a Missing Information Guided Framework to Empower Retrieval-Augmented
    Generation" (MIGRES), section 3 and figure 1; hyperparameters of table 12; ablations of tables 5 and 6.

    Where the paper is silent: a passage found by several queries keeps its highest score (released code: the last
    query's), and passages are left out once read (released: once shown twice). Knowledge is prompted for all queries
    (released: for the first). Without new statements, the main module is skipped, as in the released code. Without a
    new query, the missing information is searched for itself (released: the question again); if that was asked before,
    the search ends. As in the released code, a missing-information text shorter than ten characters gives way to the
    explanation, and the last answer may use the model's own knowledge. The presets' δ is that of table 12, on the raw
    logits of BGE-reranker-base; for another reranker, calibrate it or leave it out.

    If the sentence filter shows one sentence of a passage, that sentence counts as read and the others may be read
    later; with `remember="passages"`, the whole passage counts as read.

    Args:
        retriever: the index to search.
        reranker: scores (query, text) pairs; default: the embedded one. The paper's is BGE-reranker-base.
        entailment: says whether a passage entails a statement; default: the embedded one. The paper's is
            T5-XXL-TRUE-NLI.
        **kwargs: `concurrent` and hyperparameters.
    """

    name = "migres"
    presets: ClassVar = {
        "multi_hop": {"iterations": 5, "delta": 3.0},
        "open_domain": {"iterations": 3, "delta": 5.0},
        "commonsense": {"iterations": 5, "delta": 0.0, "style": "yes_no"},
    }
    part_names = ("retriever", "reranker", "entailment")

    iterations = Integer(5, "iterations at most (T, table 12)", low=1, high=10)
    delta = OptionalReal(
        None,
        "relevance threshold δ on the reranker's raw score; none takes the reranker's own default",
        low=-30.0,
        high=30.0,
        search=(-4.0, 8.0),
    )
    top_k = Integer(5, "passages read per iteration at most (k, table 12)", low=1, high=20)
    retrieve_k = Integer(50, "passages retrieved per query (table 12)", low=1, high=200)
    max_queries = Integer(3, "new queries per iteration at most (section 3.2)", low=1, high=5)
    compression = Choice(
        "sentences",
        "how a passage is cut down before reading: sentence filter, nothing, summary or snippet (table 5)",
        choices=("sentences", "none", "summary", "snippet"),
    )
    check_entailment = Switch(True, "keep a statement only if a cited passage entails it (section 3.2)")
    entailment_threshold = Real(
        0.5,
        "probability from which a passage entails a statement",
        low=0.0,
        high=1.0,
        when={"check_entailment": [True]},
    )
    prompt_knowledge = Switch(True, "let the model write what it knows if no passage survives (table 6)")
    memory = Switch(True, "remember queries and passages and use none twice (section 3.2)")
    remember = Choice(
        "sentences",
        "what of a passage counts as read once it was cut down: the sentences that were shown, or all of it",
        choices=("sentences", "passages"),
        when={"memory": [True], "compression": ["sentences"]},
    )
    read_apart = Switch(False, "read each query's passages in a call of its own", tune=False)
    style = Choice("short", "how the answer is worded", choices=tuple(STYLES), tune=False)

    def __init__(
        self,
        retriever: Retriever | None = None,
        *,
        reranker: Reranker | None = None,
        entailment: EntailmentModel | None = None,
        **kwargs: Any,
    ):
        super().__init__(retriever, **kwargs)
        self.reranker = reranker or EmbeddedReranker()
        self.entailment = entailment or EmbeddedEntailment()
        self.leaf = dspy.Predict(ExtractUsefulInfo)
        self.main = dspy.Predict(MissingInfo)
        self.last = dspy.Predict(LastAnswer)
        self.query = dspy.Predict(ProposeQueries)
        self.knowledge = dspy.Predict(PromptedKnowledge)
        self.summarise = dspy.Predict(SummarisePassage)
        self.snippet = dspy.Predict(ExtractSnippet)

    @classmethod
    def from_preset(cls, name: str, retriever: Retriever | None = None, **kwargs: Any) -> Self:
        """Make a program with the hyperparameters of a preset; its δ only for the reranker on whose scale it is.

        Raises:
            UnknownName: the program has no such preset.
        """
        values = cls.preset(name)
        if "bge-reranker-base" not in getattr(kwargs.get("reranker"), "name", ""):
            del values["delta"]
        return cls(retriever, **{**values, **kwargs})

    def forward(self, question: str) -> dspy.Prediction:
        """Answer `question`; the prediction adds `confidence` (1 to 5), `known` and `missing`."""
        known: Claims = {}
        asked, queries, missing = [question], [question], ""
        unread: dict[str, str] = {}  # id of each passage read before → the rest of its text
        reason = "iterations"
        for step in range(1, self.iterations + 1):
            self.begin_iteration(step)
            passages = self._search(queries, unread)
            claims = self._extract(question, queries, passages, unread)
            new = {statement: sources for statement, sources in claims.items() if statement not in known}
            known |= new
            if step == self.iterations:
                break
            if new or not missing:  # without new statements, the main module would repeat itself
                decision = self.ask(self.main, question=question, known=list(known), style=STYLES[self.style])
                if not _unanswerable(text_of(decision)):
                    self.record(Stopped(reason="answered"))
                    return self._answer(decision, known, missing="")
                explanation = text_of(decision, "explanation")
                missing = _missing(decision) or missing or question
                self.record(Missing(missing=missing, known=list(known), explanation=explanation))
            queries = self._new_queries(question, known, missing, asked)
            if not queries:
                reason = "no new query"
                break
            asked += queries
        self.record(Stopped(reason=reason))
        decision = self.ask(self.last, question=question, known=list(known), style=STYLES[self.style])
        return self._answer(decision, known, missing)

    def _search(self, queries: Sequence[str], unread: Mapping[str, str]) -> list[ReadPassage]:
        """Retrieve, rerank and filter; returns the passages to read."""
        results = self.retrieve(queries, self.retrieve_k)
        whole = {hit.passage.id: hit.passage for hits in results for hit in hits}
        delta = self.threshold
        ranked = rerank(self, self.reranker, queries, [self._without_read(hits, unread) for hits in results], delta)
        if self.compression == "summary":
            passages = compress(self, self.summarise, "summary", ranked, self.top_k)
        elif self.compression == "snippet":
            passages = compress(self, self.snippet, "snippet", ranked, self.top_k)
        elif self.compression == "none":
            passages = [ReadPassage(passage, passage, query) for _, query, passage in ranked[: self.top_k]]
        else:
            passages = filter_sentences(self, self.reranker, ranked[: self.top_k], delta)
        return [item._replace(original=whole[item.original.id]) for item in passages]

    def _without_read(self, hits: Sequence[Hit], unread: Mapping[str, str]) -> list[Hit]:
        """The hits without the text that was read before."""
        if not self.memory:
            return list(hits)
        rest = [(hit, unread.get(hit.passage.id, hit.passage.text)) for hit in hits if unread.get(hit.passage.id) != ""]
        return [replace(hit, passage=replace(hit.passage, text=text)) for hit, text in rest]

    def _rest(self, shown: Passage, text: str) -> str:
        """The sentences of `text` that were not `shown`; none if the whole passage counts as read."""
        if self.remember == "passages" or self.compression != "sentences":
            return ""
        read = set(split_sentences(shown.text))
        return " ".join(sentence for sentence in split_sentences(text) if sentence not in read)

    @property
    def threshold(self) -> float:
        """The relevance threshold δ: the hyperparameter, or the reranker's default."""
        return resolve_threshold(self.reranker, self.delta)

    def _extract(
        self, question: str, queries: Sequence[str], passages: Sequence[ReadPassage], unread: dict[str, str]
    ) -> Claims:
        """The leaf module: useful statements and the passages that support each; marks the passages as read."""
        answered = list(dict.fromkeys(item.query for item in passages))
        if not passages and self.prompt_knowledge:
            passages, answered = self._prompted(queries, unread), list(queries)
        if not passages:
            return {}
        for item in passages:
            text = unread.get(item.original.id) or item.original.text
            unread[item.original.id] = self._rest(item.shown, text)
        # The model's own knowledge is one passage for all queries.
        groups = [[query] for query in answered] if self.read_apart and len(passages) > 1 else [answered]
        tasks = [
            functools.partial(self._leaf, question, group, [item for item in passages if item.query in group])
            for group in groups
        ]
        return merge_claims(claim for claims in run_concurrently(tasks) for claim in claims.items())

    def _leaf(self, question: str, queries: list[str], passages: Sequence[ReadPassage]) -> Claims:
        shown = [item.shown for item in passages]
        output = self.ask(self.leaf, question=question, queries=queries, passages=shown)
        claims = read_claims(output, [item.original for item in passages])
        if self.check_entailment:
            claims = self._entailed(claims)
        self.record(extracted_step(claims))
        return claims

    def _entailed(self, claims: Claims) -> Claims:
        """The statements that some cited passage entails, with the passages that do."""
        pairs = [(str(passage), statement) for statement, sources in claims.items() for passage in sources]
        probabilities = iter(self.entailment.entails(pairs))
        entailed: Claims = {}
        for statement, sources in claims.items():
            entailing = [passage for passage in sources if next(probabilities) >= self.entailment_threshold]
            if entailing:
                entailed[statement] = entailing
            else:
                why = "no cited passage entails it" if sources else "no passage cited"
                self.record(Rejected(what=statement, why=why, passages=[passage.id for passage in sources]))
        return entailed

    def _prompted(self, queries: Sequence[str], unread: Mapping[str, str]) -> list[ReadPassage]:
        """What the model knows about the queries, as one passage that is marked as the model's own."""
        text = text_of(self.ask(self.knowledge, queries=list(queries)), "passage")
        if not text or text.casefold().rstrip(".").strip() == UNKNOWN:
            self.record(Judged(what="knowledge of its own", value=False))
            return []
        number = 1 + sum(passage_id.startswith("model:") for passage_id in unread)
        passage = Passage(f"model:{number}", "the model's own knowledge", text)
        self.record(Prompted(queries=list(queries), passage=passage.id, text=text), passage)
        return [ReadPassage(passage, passage, queries[0])]

    def _new_queries(self, question: str, known: Claims, missing: str, asked: list[str]) -> list[str]:
        """At most `max_queries` queries for the missing information, none of them asked before."""
        before = asked if self.memory else [question]
        output = self.ask(self.query, question=question, known=list(known), missing=missing, asked=before)
        exclude = asked if self.memory else []
        queries, repeated = clean_lines(output.queries if output is not None else None, self.max_queries, exclude)
        if not queries:  # search for the missing information itself
            queries, _ = clean_lines([missing], 1, exclude)
        self.record(Queried(queries=queries, repeated=repeated))
        return queries

    def _answer(self, decision: dspy.Prediction | None, known: Claims, missing: str) -> dspy.Prediction:
        answer = text_of(decision)
        return self.conclude(
            UNKNOWN if _unanswerable(answer) else answer,
            distinct(passage for sources in known.values() for passage in sources),
            confidence=min(5, max(1, decision.confidence)) if decision is not None else 1,
            explanation=text_of(decision, "explanation"),
            known=list(known),
            missing=missing,
        )


def _unanswerable(answer: str) -> bool:
    return not answer or UNANSWERABLE in answer.casefold()


def _missing(decision: dspy.Prediction | None) -> str:
    """The missing information that the main module names, or its explanation if it hardly says."""
    text = text_of(decision, "missing")
    return text if len(text) >= 10 else text_of(decision, "explanation") or text
