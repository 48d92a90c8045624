"""MIGRES: missing-information guided retrieve, extract and solve."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any, ClassVar

import dspy

from knowgap.programs.base import Program
from knowgap.programs.citations import Claims, entailed_claims, extracted_step, merge_claims, read_claims
from knowgap.programs.entailment import entailment_of
from knowgap.programs.filtering import (
    ReadPassage,
    ScoredPassage,
    compress,
    filter_sentences,
    rerank,
    resolve_threshold,
    suggest_calibrating,
)
from knowgap.programs.hyperparameters import Choice, Integer, OptionalReal, Real, Switch
from knowgap.programs.logprobs import ask_probability
from knowgap.programs.passages import distinct
from knowgap.programs.replies.outputs import clean_lines, known_text, text_of
from knowgap.programs.trace.recorder import run_concurrently
from knowgap.programs.trace.steps import Judged, Missing, Prompted, Queried, Rejected, Stopped, Withheld
from knowgap.retrieval import EmbeddedReranker
from knowgap.retrieval.entailment import EntailmentModel
from knowgap.retrieval.passage import Hit, Passage, RetrieverLike
from knowgap.retrieval.rerankers.reranker import Reranker, is_bge_base
from knowgap.signatures import (
    UNKNOWN,
    AnswerFromPassages,
    AnswerOrPlan,
    ExtractNewInfo,
    ExtractSnippet,
    ExtractUsefulInfo,
    LastAnswer,
    LastLook,
    MissingInfo,
    PromptedKnowledge,
    ProposeQueries,
    StatementsSuffice,
    SummarisePassage,
)

_TWICE = 2
"""How many times a passage that gives no statement is shown at most."""
_OWN = "model:"
"""The beginning of the ids of passages that the model wrote from its own knowledge."""

_WITH_BGE = {"min_passages": 0, "compression": "sentences", "title_in_sentences": True}
"""Defaults for the paper's reranker."""
_PAPERS_READING = {
    **_WITH_BGE,
    "plan_together": False,
    "each_query": False,
    "second_reading": False,
    "show_known": False,
    "patience": 10,
    "correct_sources": False,
}


class MIGRES(Program):
    """Extract what is known, name what is missing and search for it, until the question can be answered.

    Source: "LLMs Know What They Need: Leveraging a Missing Information Guided Framework to Empower Retrieval-Augmented
    Generation" (MIGRES), section 3 and figure 1; hyperparameters of table 12; ablations of tables 5 and 6.

    1. Retrieve, rerank, drop passages under δ, and cut the best `top_k` down to their relevant sentences.
    2. Leaf module: extract useful statements; keep those that the passages they cite entail.
    3. Main module: answer from the statements alone, or say what is missing.
    4. Query module: write at most three new queries for what is missing, and go back to 1, `iterations` times at most.
    5. The last answer may use the model's own knowledge.

    If no passage survives, the model writes what it knows; this text is read as a passage marked as the model's own.
    Departures from the paper, and the defaults that differ with its reranker: docs/methods/migres.md.

    Args:
        reranker: scores (query, text) pairs; default: the embedded one. The paper's is BGE-reranker-base.
        entailment: judges statements (`lm`: the language model); default: `grounding`. The paper's is T5-XXL-TRUE-NLI.

    >>> import knowgap
    >>> knowgap.MIGRES(top_k=3, iterations=2).values()["iterations"]
    2
    """

    name = "migres"
    calls = "2 to 21"
    presets: ClassVar = {
        "multi_hop": {"iterations": 5, "delta": 3.0, **_PAPERS_READING},
        "open_domain": {"iterations": 3, "delta": 5.0, **_PAPERS_READING},
        "commonsense": {"iterations": 5, "delta": 0.0, **_PAPERS_READING, "style": "yes_no"},
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
    min_passages = Integer(
        3,
        "passages read per iteration in any case, although δ would drop them; 0 with the paper's reranker",
        low=0,
        high=20,
    )
    retrieve_k = Integer(50, "passages retrieved per query (table 12)", low=1, high=200)
    max_queries = Integer(3, "new queries per iteration at most (section 3.2)", low=1, high=5)
    compression = Choice(
        "none",
        "how a passage is cut down before reading: sentence filter, nothing, summary or snippet (table 5); sentences "
        "with the paper's reranker",
        choices=("sentences", "none", "summary", "snippet"),
    )
    title_in_sentences = Switch(
        False,
        "score a sentence with the title before it, as the released code does; on with the paper's reranker",
        when={"compression": ["sentences"]},
    )
    check_entailment = Switch(True, "keep a statement only if a cited passage entails it (section 3.2)")
    entailment_threshold = Real(
        0.5,
        "probability from which a passage entails a statement",
        low=0.0,
        high=1.0,
        when={"check_entailment": [True]},
    )
    correct_sources = Switch(
        True,
        "keep a statement that another passage shown entails, and cite that one",
        when={"check_entailment": [True]},
    )
    prompt_knowledge = Switch(True, "let the model write what it knows if no passage survives (table 6)")
    memory = Switch(True, "remember queries and passages and use none twice (section 3.2)")
    plan_together = Switch(True, "write new queries in the reply that says what is missing")
    each_query = Switch(True, "read the best passage of each query before the next best of all")
    second_reading = Switch(
        True,
        "read a passage that gave no statement once more for a new query, and for the last answer",
        when={"memory": [True]},
    )
    show_known = Switch(True, "show what is known to the extraction, so that it can link to it")
    second_look = Switch(
        False,
        "accept an answer only if the model, shown the statements alone, finds that they suffice; for models that "
        "believe so too soon",
    )
    second_look_threshold = Real(
        0.45,
        "probability from which the statements suffice, where the model gives log-probabilities; else its word counts",
        low=0.0,
        high=1.0,
        when={"second_look": [True]},
    )
    answer_alone = Switch(
        False,
        "ask for the answer again at the end, alone, over the passages that it rests on; for models that write a "
        "sentence after an explanation",
    )
    patience = Integer(2, "iterations in a row without a new statement that end the search", low=1, high=10)
    read_apart = Switch(False, "read each query's passages in a call of its own", tune=False)

    def __init__(
        self,
        retriever: RetrieverLike | None = None,
        *,
        reranker: Reranker | None = None,
        entailment: EntailmentModel | str | None = None,
        **kwargs: Any,
    ):
        super().__init__(retriever, **{**(_WITH_BGE if is_bge_base(reranker) else {}), **kwargs})
        self.reranker = reranker or EmbeddedReranker()
        self.entailment = entailment_of(entailment)
        self.leaf = dspy.Predict(ExtractUsefulInfo)
        self.leaf_linking = dspy.Predict(ExtractNewInfo)
        self.main = dspy.Predict(MissingInfo)
        self.plan = dspy.Predict(AnswerOrPlan)
        self.sufficiency = dspy.Predict(StatementsSuffice)
        self.last = dspy.Predict(LastAnswer)
        self.last_reading = dspy.Predict(LastLook)
        self.reader = dspy.Predict(AnswerFromPassages)
        self.query = dspy.Predict(ProposeQueries)
        self.knowledge = dspy.Predict(PromptedKnowledge)
        self.summarise = dspy.Predict(SummarisePassage)
        self.snippet = dspy.Predict(ExtractSnippet)

    def forward(self, question: str) -> dspy.Prediction:
        """Answer `question`; the prediction adds `confidence` (1 to 5), `known` and `missing`."""
        known: Claims = {}
        asked, found_nothing, queries, missing = [question], list[str](), [question], ""
        read = dict[str, int]()  # how often each passage was shown; one that gave a statement is not shown again
        unused = dict[Passage, tuple[int, int]]()  # passages that gave no statement, by place and round
        guess: dspy.Prediction | None = None
        reason, dry = "iterations", 0
        for step in range(1, self.iterations + 1):
            self.begin_iteration(step)
            results = self.retrieve(queries, self.retrieve_k)
            chosen = self._choose(queries, results, read)
            claims = self._extract(question, queries, chosen, read, known)
            new = {statement: sources for statement, sources in claims.items() if statement not in known}
            known |= new
            dry, guess = (0, None) if new else (dry + 1, guess)
            unused |= {item.original: (place, -step) for place, item in enumerate(chosen)}
            found_nothing += _fruitless(queries, results, new, {item.original.id for item in chosen})
            taken = [passage for sources in known.values() for passage in sources]
            read.update((passage.id, _TWICE) for passage in taken)
            unused = {passage: place for passage, place in unused.items() if passage not in taken}
            last = step == self.iterations
            if last and self.prompt_knowledge:
                break
            queries = []
            # Without new statements, the main module would repeat itself, unless it is to write other queries.
            if new or not missing or (self.plan_together and dry < self.patience):
                decision = self._decide(question, known, asked, found_nothing, last)
                believed = is_answered(decision)
                if believed and self._accepts(question, known):
                    self.record(Stopped(reason="answered"))
                    return self._answer(question, text_of(decision), decision, known, missing="")
                missing = (text_of(decision, "missing") if believed else _missing(decision)) or missing or question
                explanation = text_of(decision, "explanation")
                self.record(Missing(missing=missing, known=list(known), explanation=explanation))
                if self.plan_together and not last:
                    if decision is not None and believed and not clean_lines(decision.get("queries"), 1, asked)[0]:
                        queries = self._new_queries(question, known, missing, asked, found_nothing)
                    else:
                        queries = self._unasked(decision, missing, asked)
                    guess = decision if known and known_text(decision) else None
            if last or not self.may_go_on():
                break
            if dry >= self.patience:
                reason = "nothing new"
                break
            if not self.plan_together:
                queries = self._new_queries(question, known, missing, asked, found_nothing)
            if not queries:
                reason = "no new query"
                break
            asked += queries
        self.record(Stopped(reason=reason))
        if not self.prompt_knowledge:
            return self._answer(question, "", None, known, missing)
        if guess is not None:
            return self._answer(question, text_of(guess), guess, known, missing)
        passages = sorted(unused, key=unused.__getitem__)[: self.top_k] if self.second_reading else []
        inputs = {"question": question, "known": list(known), "style": self.wording}
        decision = (
            self.ask(self.last_reading, **inputs, passages=passages) if passages else self.ask(self.last, **inputs)
        )
        return self._answer(question, text_of(decision), decision, known, missing, passages)

    def _decide(
        self, question: str, known: Claims, asked: list[str], found_nothing: list[str], last: bool
    ) -> dspy.Prediction | None:
        """Ask the main module for the answer or what is missing and, with `plan_together`, for queries."""
        inputs: dict[str, Any] = {"question": question, "known": list(known), "style": self.wording}
        leave = int(self.prompt_knowledge)  # for the last answer
        if last or not self.plan_together:
            return self.ask(self.main, **inputs, leave=leave)
        remembered: dict[str, Any] = {"asked": asked, "found_nothing": found_nothing}
        if not self.memory:
            remembered = {"asked": [question], "found_nothing": []}
        return self.ask(self.plan, **inputs, **remembered, max_queries=self.max_queries, leave=leave)

    def _accepts(self, question: str, known: Claims) -> bool:
        """Whether an answer may end the search: statements are known and pass a second look, or no call is left."""
        if not known or not self.second_look or not self.may_go_on():
            return bool(known) or not self.may_go_on()
        inputs = {"question": question, "known": list(known), "leave": 1}
        probability = ask_probability(self, self.sufficiency, "suffices", **inputs)
        if probability is None:  # unreadable
            return True
        enough = probability >= self.second_look_threshold
        self.record(Judged(what="the statements suffice", value=enough, reason=f"probability {probability:.2f}"))
        return enough

    def _unasked(self, decision: dspy.Prediction | None, missing: str, asked: list[str]) -> list[str]:
        """The queries of a reply that were not asked before; if it has none, the missing information itself."""
        exclude = asked if self.memory else []
        written = decision.get("queries") if decision is not None else None
        queries, repeated = clean_lines(written, self.max_queries, exclude)
        queries = queries or clean_lines([missing], 1, exclude)[0]
        self.record(Queried(queries=queries, repeated=repeated))
        return queries

    def _choose(
        self, queries: Sequence[str], results: Sequence[Sequence[Hit]], read: dict[str, int]
    ) -> list[ReadPassage]:
        """Rerank, filter and cut down the retrieved passages; return those to read, and count them as read."""
        limit = _TWICE if self.second_reading else 1
        seen = {name for name, times in read.items() if times >= limit} if self.memory else set[str]()
        fresh = [[hit for hit in hits if hit.passage.id not in seen] for hits in results]
        if withheld := distinct(
            hit.passage for hits in results for hit in hits[: self.top_k] if hit.passage.id in seen
        ):
            self.record(Withheld(passages=[passage.id for passage in withheld]))
        ranked = rerank(self, self.reranker, queries, fresh, self.threshold, self.min_passages)
        if self.each_query:
            ranked = _best_of_each_first(queries, ranked)
        ranked = ranked[: self.top_k]
        read.update((scored.passage.id, read.get(scored.passage.id, 0) + 1) for scored in ranked)
        match self.compression:
            case "summary":
                return compress(self, self.summarise, "summary", ranked, self.top_k)
            case "snippet":
                return compress(self, self.snippet, "snippet", ranked, self.top_k)
            case "none":
                return [ReadPassage(passage, passage, query) for _, query, passage in ranked]
            case _:
                threshold = resolve_threshold(self.reranker, self.delta)
                return filter_sentences(self, self.reranker, ranked, threshold, titles=self.title_in_sentences)

    @property
    def threshold(self) -> float | None:
        """The relevance threshold δ: the hyperparameter, or the reranker's default; None for a reranker without one."""
        threshold = self.reranker.default_threshold if self.delta is None else self.delta
        if threshold is None:
            suggest_calibrating(self.reranker.name)
        return threshold

    def _extract(
        self,
        question: str,
        queries: Sequence[str],
        passages: Sequence[ReadPassage],
        read: dict[str, int],
        known: Claims,
    ) -> Claims:
        """The leaf module: useful statements and the passages that support each."""
        answered = list(dict.fromkeys(item.query for item in passages))
        if not passages and self.prompt_knowledge:
            passages, answered = self._prompted(queries, read), list(queries)
        if not passages:
            return {}
        # The model's own knowledge is one passage for all queries.
        groups = [[query] for query in answered] if self.read_apart and len(passages) > 1 else [answered]
        tasks = [
            functools.partial(self._leaf, question, group, [item for item in passages if item.query in group], known)
            for group in groups
        ]
        return merge_claims(claim for claims in run_concurrently(tasks) for claim in claims.items())

    def _leaf(self, question: str, queries: list[str], passages: Sequence[ReadPassage], known: Claims) -> Claims:
        inputs: dict[str, Any] = {"question": question, "queries": queries, "passages": [p.shown for p in passages]}
        if self.show_known:
            output = self.ask(self.leaf_linking, **inputs, known=list(known), leave=1)
        else:
            output = self.ask(self.leaf, **inputs, leave=1)
        claims = read_claims(output, [item.original for item in passages])
        repeated = {statement for statement in claims if clean_lines([statement], 1, [question])[1]}
        entailed = {statement: sources for statement, sources in claims.items() if statement not in repeated}
        if self.check_entailment:
            others = [item.original for item in passages] if self.correct_sources else []
            entailed = entailed_claims(self.entailment, entailed, self.entailment_threshold, others)
        for statement, sources in claims.items():
            if statement not in entailed:
                unsupported = "no cited passage entails it" if sources else "no passage cited"
                why = "it repeats the question" if statement in repeated else unsupported
                self.record(Rejected(what=statement, why=why, passages=[passage.id for passage in sources]))
        self.record(extracted_step(entailed))
        return entailed

    def _prompted(self, queries: Sequence[str], read: dict[str, int]) -> list[ReadPassage]:
        """What the model knows about the queries, as one passage that is marked as the model's own."""
        text = known_text(self.ask(self.knowledge, queries=list(queries), leave=2), "passage")
        if not text:
            self.record(Judged(what="knowledge of its own", value=False))
            return []
        number = 1 + sum(passage_id.startswith(_OWN) for passage_id in read)
        passage = Passage(f"{_OWN}{number}", "the model's own knowledge", text)
        read[passage.id] = _TWICE
        self.record(Prompted(queries=list(queries), passage=passage.id, text=text), passage)
        return [ReadPassage(passage, passage, queries[0])]

    def _new_queries(
        self, question: str, known: Claims, missing: str, asked: list[str], found_nothing: list[str]
    ) -> list[str]:
        """At most `max_queries` queries for the missing information, none of them asked before."""
        output = self.ask(
            self.query,
            question=question,
            known=list(known),
            missing=missing,
            asked=asked if self.memory else [question],
            found_nothing=found_nothing if self.memory else [],
            max_queries=self.max_queries,
            leave=1,
        )
        return self._unasked(output, missing, asked)

    def _answer(
        self,
        question: str,
        answer: str,
        decision: dspy.Prediction | None,
        known: Claims,
        missing: str,
        passages: Sequence[Passage] = (),
    ) -> dspy.Prediction:
        """Make the prediction; its answer rests on the known statements, and on `passages` that were also shown."""
        rests_on = distinct([*(passage for sources in known.values() for passage in sources), *passages])
        if self.answer_alone and rests_on:
            output = self.ask(self.reader, question=question, passages=rests_on, style=self.wording)
            answer = known_text(output) or answer
        return self.conclude(
            answer or UNKNOWN,
            rests_on,
            confidence=min(5, max(1, decision.confidence or 1)) if decision is not None else 1,
            explanation=text_of(decision, "explanation"),
            known=list(known),
            missing=missing,
            supported=not missing and is_answered(decision),
        )


def is_answered(decision: dspy.Prediction | None) -> bool:
    """Whether the main module answers: by `answerable` or, if it is absent, by an answer with nothing missing."""
    if decision is None or not text_of(decision):
        return False
    answerable = decision.get("answerable")
    return not text_of(decision, "missing") if answerable is None else bool(answerable)


def _best_of_each_first(queries: Sequence[str], ranked: list[ScoredPassage]) -> list[ScoredPassage]:
    """Move the best passage of each query to the front, and keep the order otherwise."""
    best = [next((scored for scored in ranked if scored.query == query), None) for query in queries]
    first = sorted({ranked.index(scored) for scored in best if scored is not None})
    return [ranked[i] for i in first] + [scored for i, scored in enumerate(ranked) if i not in first]


def _fruitless(queries: Sequence[str], results: Sequence[Sequence[Hit]], new: Claims, read: set[str]) -> list[str]:
    """The queries whose passages were read but gave no statement; none if a new statement rests on other sources."""
    cited = {passage.id for sources in new.values() for passage in sources}
    returned = [{hit.passage.id for hit in hits} for hits in results]
    if any(not sources for sources in new.values()) or cited - set[str]().union(*returned):
        return []
    return [query for query, ids in zip(queries, returned, strict=True) if read & ids and not cited & ids]


def _missing(decision: dspy.Prediction | None) -> str:
    """The missing information that the main module names, or its explanation if that has fewer than ten characters."""
    text = text_of(decision, "missing")
    return text if len(text) >= 10 else text_of(decision, "explanation") or text
