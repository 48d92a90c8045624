"""MIGRES: missing-information guided retrieve, extract and solve."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any, ClassVar

import dspy

from knowgap.programs.base import Program
from knowgap.programs.hyperparameters import Choice, Integer, OptionalReal, Real, Switch
from knowgap.programs.outputs import clean_lines
from knowgap.programs.reading.passage_filtering import (
    ReadPassages,
    compress,
    filter_sentences,
    rerank,
    resolve_threshold,
)
from knowgap.programs.reading.passage_numbering import cited, distinct
from knowgap.programs.trace.recorder import run_concurrently
from knowgap.programs.trace.steps import (
    Extracted,
    Judged,
    Missing,
    Prompted,
    Queried,
    Rejected,
    Stopped,
)
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
    """Extract what is known, name what is missing, ask for it, until the question can be answered.

    Source: "LLMs Know What They Need: Leveraging a Missing Information Guided Framework to Empower Retrieval-Augmented
    Generation" (MIGRES), section 3 and figure 1; hyperparameters of table 12; ablations of tables 5 and 6.

    Where the released code departs from the paper, this follows the paper: a passage found by several queries keeps
    its highest score (released: the last query's), passages are left out once read (released: once shown), knowledge
    is prompted for all queries (released: for the first), and a question without a final answer counts as wrong
    (released: it leaves the denominator). As in the released code, a missing-information text shorter than ten
    characters gives way to the explanation, and the last answer alone may use the model's own knowledge. The presets'
    δ is that of table 12, on the raw logits of BGE-reranker-base; for another reranker, calibrate it or leave it out.

    The paper does not say whether a passage of which the sentence filter let one sentence through has been read. Here
    the sentences that were shown have been, and the others may still be; `remember="passages"` reads none of it again.

    Args:
        retriever: the index to search.
        reranker: scores (query, text) pairs; the embedded scorer where absent. The paper's is BGE-reranker-base.
        entailment: says whether a passage entails a statement; the embedded one where absent. The paper's is
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
    prompt_knowledge = Switch(True, "let the model write what it knows where no passage survives (table 6)")
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
    def from_preset(cls, name: str, retriever: Retriever | None = None, **kwargs: Any) -> MIGRES:
        """A program with a preset's hyperparameters; the preset's δ only for the reranker on whose scale it is.

        Raises:
            UnknownName: when there is no preset of that name.
        """
        values = cls.preset(name)
        if "bge-reranker-base" not in getattr(kwargs.get("reranker"), "name", ""):
            del values["delta"]
        return cls(retriever, **{**values, **kwargs})

    def forward(self, question: str) -> dspy.Prediction:
        """Answer `question`; the prediction adds `confidence` (1 to 5), `known` and `missing`."""
        known: dict[str, list[Passage]] = {}
        asked, queries, missing = [question], [question], ""
        seen: dict[str, str] = {}  # passage id → what of it is unread
        reason = "iterations"
        for step in range(1, self.iterations + 1):
            self.begin_iteration(step)
            found = self._search(queries, seen)
            learnt = self._read(question, queries, found, seen)
            new = {statement: sources for statement, sources in learnt.items() if statement not in known}
            known |= new
            if step == self.iterations:
                break
            if new or not missing:  # without anything new, main would repeat itself
                decision = self.ask(self.main, question=question, known=list(known), style=STYLES[self.style])
                if decision is not None and not _unanswerable(decision.answer):
                    self.record(Stopped(reason="answered"))
                    return self._answer(decision, known, missing="")
                missing = _missing(decision) or missing or question
                self.record(Missing(missing=missing, known=list(known), explanation=_explanation(decision)))
            queries = self._new_queries(question, known, missing, asked)
            if not queries:
                reason = "no new query"
                break
            asked += queries
        self.record(Stopped(reason=reason))
        decision = self.ask(self.last, question=question, known=list(known), style=STYLES[self.style])
        return self._answer(decision, known, missing)

    def _search(self, queries: Sequence[str], seen: dict[str, str]) -> ReadPassages:
        """Retrieve, rerank and filter: what is to be read, and the passage as it stands in the index."""
        hits = self.retrieve(queries, self.retrieve_k)
        whole = {hit.passage.id: hit.passage for found in hits for hit in found}
        delta = self.threshold
        kept = rerank(self, self.reranker, queries, [self._unread(found, seen) for found in hits], delta)
        if self.compression == "summary":
            narrowed = compress(self, self.summarise, "summary", kept, self.top_k)
        elif self.compression == "snippet":
            narrowed = compress(self, self.snippet, "snippet", kept, self.top_k)
        elif self.compression == "none":
            narrowed = {passage: (query, passage) for _, query, passage in kept[: self.top_k]}
        else:
            narrowed = filter_sentences(self, self.reranker, kept[: self.top_k], delta)
        return {shown: (query, whole[shown.id]) for shown, (query, _) in narrowed.items()}

    def _unread(self, hits: list[Hit], seen: dict[str, str]) -> list[Hit]:
        """The hits without what was read before."""
        if not self.memory:
            return hits
        unread: list[Hit] = []
        for hit in hits:
            rest = seen.get(hit.passage.id)
            if rest is None:
                unread.append(hit)
            elif rest:
                unread.append(Hit(Passage(hit.passage.id, hit.passage.title, rest), hit.score, hit.rank))
        return unread

    def _rest(self, shown: Passage, unread: str) -> str:
        """What of a passage's text is still `unread` once `shown` was."""
        if self.remember == "passages" or self.compression != "sentences":
            return ""
        read = set(split_sentences(shown.text))
        return " ".join(sentence for sentence in split_sentences(unread) if sentence not in read)

    @property
    def threshold(self) -> float:
        """The δ in force: the hyperparameter, or the reranker's own default."""
        return resolve_threshold(self.reranker, self.delta)

    def _read(
        self, question: str, queries: Sequence[str], found: ReadPassages, seen: dict[str, str]
    ) -> dict[str, list[Passage]]:
        """The leaf module: useful statements and the passages that support each."""
        concerned = list(dict.fromkeys(query for query, _ in found.values()))
        if not found and self.prompt_knowledge:
            found, concerned = self._prompted(queries, seen), list(queries)
        if not found:
            return {}
        for shown, (_, original) in found.items():
            seen[shown.id] = self._rest(shown, seen.get(shown.id) or original.text)
        # What the model knows itself is one passage for all queries.
        groups = [[q] for q in concerned] if self.read_apart and len(found) > 1 else [concerned]
        tasks = [
            functools.partial(self._leaf, question, group, {p: o for p, (q, o) in found.items() if q in group})
            for group in groups
        ]
        learnt: dict[str, list[Passage]] = {}
        for part in run_concurrently(tasks):
            for statement, sources in part.items():
                learnt[statement] = distinct([*learnt.get(statement, []), *sources])
        return learnt

    def _leaf(self, question: str, queries: list[str], originals: dict[Passage, Passage]) -> dict[str, list[Passage]]:
        passages = list(originals)
        output = self.ask(self.leaf, question=question, queries=queries, passages=passages)
        claims: dict[str, list[Passage]] = {}
        for item in output.statements if output is not None else ():
            statement = " ".join(item.statement.split())
            if statement:
                sources = [originals[passage] for passage in cited(passages, item.sources)]
                claims[statement] = distinct([*claims.get(statement, []), *sources])
        if self.check_entailment:
            claims = self._entailed(claims)
        self.record(
            Extracted(
                statements=list(claims), sources=[[passage.id for passage in sources] for sources in claims.values()]
            )
        )
        return claims

    def _entailed(self, claims: dict[str, list[Passage]]) -> dict[str, list[Passage]]:
        """The statements that some cited passage entails, with the passages that do."""
        pairs = [(str(passage), statement) for statement, sources in claims.items() for passage in sources]
        probabilities = iter(self.entailment.entails(pairs))
        result: dict[str, list[Passage]] = {}
        for statement, sources in claims.items():
            holding = [passage for passage in sources if next(probabilities) >= self.entailment_threshold]
            if holding:
                result[statement] = holding
            else:
                why = "no cited passage entails it" if sources else "no passage cited"
                self.record(Rejected(what=statement, why=why))
        return result

    def _prompted(self, queries: Sequence[str], seen: dict[str, str]) -> ReadPassages:
        """What the model knows about the queries, as a passage marked as its own."""
        output = self.ask(self.knowledge, queries=list(queries))
        text = output.passage.strip() if output is not None else ""
        if not text or text.casefold().rstrip(".").strip() == UNKNOWN:
            self.record(Judged(what="knowledge of its own", value=False))
            return {}
        number = 1 + sum(passage_id.startswith("model:") for passage_id in seen)
        passage = Passage(f"model:{number}", "the model's own knowledge", text)
        self.record(Prompted(queries=list(queries), passage=passage.id, text=text), passage)
        return {passage: (queries[0], passage)}

    def _new_queries(self, question: str, known: dict[str, list[Passage]], missing: str, asked: list[str]) -> list[str]:
        """At most three queries for what is missing, none asked before."""
        before = asked if self.memory else [question]
        output = self.ask(self.query, question=question, known=list(known), missing=missing, asked=before)
        besides = asked if self.memory else []
        queries, repeated = clean_lines(output.queries if output is not None else None, self.max_queries, besides)
        if not queries:  # the missing information itself is the next best query
            queries, _ = clean_lines([missing], 1, besides)
        self.record(Queried(queries=queries, repeated=repeated))
        return queries

    def _answer(
        self, decision: dspy.Prediction | None, known: dict[str, list[Passage]], missing: str
    ) -> dspy.Prediction:
        answer = (decision.answer or "").strip() if decision is not None else ""
        if _unanswerable(answer):
            answer = UNKNOWN
        confidence = min(5, max(1, decision.confidence)) if decision is not None else 1
        passages = distinct(passage for sources in known.values() for passage in sources)
        explanation = _explanation(decision)
        added = {"known": list(known), "missing": missing}
        return self.conclude(answer, passages, confidence=confidence, explanation=explanation, **added)


def _unanswerable(answer: str | None) -> bool:
    return not (answer or "").strip() or UNANSWERABLE in str(answer).casefold()


def _explanation(decision: dspy.Prediction | None) -> str:
    return (decision.explanation or "").strip() if decision is not None else ""


def _missing(decision: dspy.Prediction | None) -> str:
    """What the main module found missing; its explanation where it hardly says."""
    text = (decision.missing or "").strip() if decision is not None else ""
    return text if len(text) >= 10 else _explanation(decision) or text
