"""ALCE's baselines as MIGRES runs them (section 4.2, table 3): all of them rerank the passages of one retrieval.

Source: Gao et al., "Enabling Large Language Models to Generate Text with Citations" (ALCE, EMNLP 2023). Departures:
docs/methods/baselines.md.
"""

from __future__ import annotations

import functools
from typing import Any, ClassVar, Literal

import dspy

from knowgap.programs.base import Program
from knowgap.programs.citations import Claims, citation_recall, extracted_step, read_claims
from knowgap.programs.entailment import entailment_of
from knowgap.programs.filtering import (
    ScoredPassage,
    compress,
    filter_sentences,
    rerank,
    resolve_threshold,
)
from knowgap.programs.hyperparameters import Integer, OptionalReal, Real, Switch
from knowgap.programs.passages import distinct
from knowgap.programs.replies.outputs import text_of
from knowgap.programs.trace.recorder import run_concurrently
from knowgap.programs.trace.steps import Answered, Selected
from knowgap.retrieval import EmbeddedReranker
from knowgap.retrieval.entailment import EntailmentModel
from knowgap.retrieval.passage import Passage, RetrieverLike
from knowgap.retrieval.rerankers.reranker import Reranker
from knowgap.signatures import AnswerFromPassages, AnswerWithCitations, ExtractSnippet, SummarisePassage


class Reranking(Program):
    """The common part of these baselines: retrieve once and rerank.

    Args:
        reranker: scores (query, text) pairs; default: the embedded one. The paper's is BGE-reranker-base.
    """

    part_names = ("retriever", "reranker")
    signature: ClassVar[type[dspy.Signature]] = AnswerFromPassages

    top_k = Integer(5, "passages read at most (MIGRES, section 4.4)", low=1, high=20)
    retrieve_k = Integer(50, "passages retrieved and reranked (MIGRES, table 12)", low=1, high=200)

    def __init__(self, retriever: RetrieverLike | None = None, *, reranker: Reranker | None = None, **kwargs: Any):
        super().__init__(retriever, **kwargs)
        self.reranker = reranker or EmbeddedReranker()
        self.answer = dspy.Predict(self.signature)

    def _ranked(self, question: str, threshold: float | None = None) -> list[ScoredPassage]:
        """The passages of one retrieval that score at least `threshold`, best first."""
        self.begin_iteration(1)
        hits = self.retrieve([question], self.retrieve_k)
        return rerank(self, self.reranker, [question], hits, threshold)


class Summ(Reranking):
    """Retrieve, rerank, let the model summarise passages until k of them are relevant, and answer from the summaries.

    SUMM (MIGRES, tables 3 and 5): passages are summarised best first; k is five.
    """

    name = "summ"
    calls = "1 to 21"
    output_field: ClassVar[Literal["summary", "snippet"]] = "summary"
    compressor: ClassVar[type[dspy.Signature]] = SummarisePassage

    compressed = Integer(20, "passages compressed at most", low=1, high=100)

    def __init__(self, retriever: RetrieverLike | None = None, **kwargs: Any):
        super().__init__(retriever, **kwargs)
        self.compress = dspy.Predict(self.compressor)

    def forward(self, question: str) -> dspy.Prediction:
        """Answer `question` from one retrieval."""
        ranked = self._ranked(question)[: self.compressed]
        compressed = compress(self, self.compress, self.output_field, ranked, self.top_k)
        shown = [item.shown for item in compressed]
        output = self.ask(self.answer, question=question, passages=shown, style=self.wording)
        return self.conclude(text_of(output), [item.original for item in compressed])


class Snippet(Summ):
    """SNIPPET: like SUMM, with excerpts in the passages' own words in place of summaries."""

    name = "snippet"
    calls = "1 to 21"
    output_field = "snippet"
    compressor = ExtractSnippet


class VanillaS(Reranking):
    """Retrieve, rerank, keep the relevant sentences of the best passages, and answer from them.

    VANILLA-s: ALCE's vanilla baseline over MIGRES' own reranking and sentence filter (section 3.2). If no passage
    reaches δ, the model answers without any. With `relevance_filter` off it is MIGRES' VANILLA: the best reranked
    passages as they are, whatever their score.
    """

    name = "vanilla_s"
    calls = "1"
    presets: ClassVar = {
        "multi_hop": {"delta": 3.0},
        "open_domain": {"delta": 5.0},
        "commonsense": {"delta": 0.0, "style": "yes_no"},
    }
    delta = OptionalReal(
        None,
        "relevance threshold δ on the reranker's raw score; none takes the reranker's own default",
        low=-30.0,
        high=30.0,
        search=(-4.0, 8.0),
        when={"relevance_filter": [True]},
    )
    relevance_filter = Switch(True, "drop passages and sentences below δ; off: VANILLA")

    @property
    def threshold(self) -> float:
        """The δ in force: the hyperparameter, or the reranker's own default."""
        return resolve_threshold(self.reranker, self.delta)

    def forward(self, question: str) -> dspy.Prediction:
        """Answer `question` from one retrieval."""
        threshold = self.threshold if self.relevance_filter else None
        ranked = self._ranked(question, threshold)[: self.top_k]
        shown = original = [item.passage for item in ranked]
        if threshold is not None:
            filtered = filter_sentences(self, self.reranker, ranked, threshold)
            shown, original = [item.shown for item in filtered], [item.original for item in filtered]
        output = self.ask(self.answer, question=question, passages=shown, style=self.wording)
        return self.conclude(text_of(output), original)


class CitationRerank(Reranking):
    """Retrieve, rerank, sample several answers with citations, and take the one with the highest citation recall.

    RERANK: four samples; a statement is recalled if the passages it cites, taken together, entail it. Ties go to the
    earliest sample.

    Args:
        entailment: says whether passages entail a statement, by itself or by name; `lm` asks the language model;
            default: the rule of `grounding`. The paper has T5-XXL-TRUE-NLI.
    """

    name = "rerank"
    calls = "4"
    part_names = ("retriever", "reranker", "entailment")
    signature = AnswerWithCitations

    samples = Integer(4, "answers sampled (MIGRES, section 4.2)", low=1, high=16)
    temperature = Real(1.0, "temperature of the samples", low=0.1, high=2.0, tune=False)
    entailment_threshold = Real(0.5, "probability from which passages entail a statement", low=0.0, high=1.0)

    def __init__(
        self, retriever: RetrieverLike | None = None, *, entailment: EntailmentModel | str | None = None, **kwargs: Any
    ):
        super().__init__(retriever, **kwargs)
        self.entailment = entailment_of(entailment)

    def forward(self, question: str) -> dspy.Prediction:
        """Answer `question`; the prediction adds `confidence`, the citation recall, and `answers`, of all samples."""
        passages = [entry.passage for entry in self._ranked(question)[: self.top_k]]
        names = [f"sample {number}" for number in range(1, self.samples + 1)]
        tasks = [functools.partial(self._sample, question, passages, number) for number in range(1, self.samples + 1)]
        samples = run_concurrently(tasks, names, leave=0)
        recalls = [citation_recall(self.entailment, claims, self.entailment_threshold) for _, claims in samples]
        # A sample without an answer comes last, whatever it cites.
        best = max(range(self.samples), key=lambda n: (bool(samples[n][0]), recalls[n], -n))
        answer, claims = samples[best]
        self.record(Selected(strategy="citation recall", answer=answer, scores=dict(zip(names, recalls, strict=True))))
        cited = distinct(passage for sources in claims.values() for passage in sources)
        return self.conclude(answer, cited, confidence=recalls[best], answers=[sampled for sampled, _ in samples])

    def _sample(self, question: str, passages: list[Passage], number: int) -> tuple[str, Claims]:
        """One sampled answer, and its statements with the passages they cite."""
        # The number of the sample keeps the cache from giving the same answer for all.
        config = {"temperature": self.temperature, "rollout_id": number}
        inputs = {"question": question, "passages": passages, "style": self.wording}
        output = self.ask(self.answer, config=config, **inputs)
        claims = read_claims(output, passages)
        self.record(extracted_step(claims))
        answer = text_of(output)
        self.record(Answered(answer=answer))
        return answer, claims
