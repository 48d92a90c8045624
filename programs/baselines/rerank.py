"""RERANK: several answers with citations, and the one whose citations hold best."""

from __future__ import annotations

import functools
from typing import Any

import dspy

from knowgap.programs.base import Program
from knowgap.programs.hyperparameters import Integer, Real
from knowgap.programs.outputs import text_of
from knowgap.programs.reading.citations import Claims, citation_recall, extracted_step, read_claims
from knowgap.programs.reading.passage_filtering import rerank
from knowgap.programs.reading.passage_numbering import distinct
from knowgap.programs.trace.recorder import run_concurrently
from knowgap.programs.trace.steps import Answered, Selected
from knowgap.retrieval import EmbeddedEntailment, EmbeddedReranker
from knowgap.retrieval.entailment.model import EntailmentModel
from knowgap.retrieval.passage import Passage, RetrieverLike
from knowgap.retrieval.rerankers.reranker import Reranker
from knowgap.signatures import AnswerWithCitations

__all__ = ["CitationRerank"]


class CitationRerank(Program):
    """Retrieve, rerank, sample several answers with citations, and take the one with the highest citation recall.

    Source: Gao et al., "Enabling Large Language Models to Generate Text with Citations" (ALCE, EMNLP 2023), RERANK,
    as run in MIGRES (section 4.2, table 3): four samples; a statement is recalled if the passages it cites, taken
    together, entail it. Ties go to the earliest sample. Simplified: the statements that lead to the answer are
    checked, where ALCE checks the sentences of a long answer itself.

    Args:
        retriever: the index to search.
        reranker: scores (query, text) pairs; default: the embedded one. The paper's is BGE-reranker-base.
        entailment: says whether passages entail a statement; default: the embedded one. The papers' is
            T5-XXL-TRUE-NLI.
        **kwargs: `concurrent` and hyperparameters.
    """

    name = "rerank"
    part_names = ("retriever", "reranker", "entailment")

    samples = Integer(4, "answers sampled (MIGRES, section 4.2)", low=1, high=16)
    temperature = Real(1.0, "temperature of the samples", low=0.1, high=2.0, tune=False)
    entailment_threshold = Real(0.5, "probability from which passages entail a statement", low=0.0, high=1.0)
    top_k = Integer(5, "passages read (MIGRES, section 4.4)", low=1, high=20)
    retrieve_k = Integer(50, "passages retrieved and reranked (MIGRES, table 12)", low=1, high=200)

    def __init__(
        self,
        retriever: RetrieverLike | None = None,
        *,
        reranker: Reranker | None = None,
        entailment: EntailmentModel | None = None,
        **kwargs: Any,
    ):
        super().__init__(retriever, **kwargs)
        self.reranker = reranker or EmbeddedReranker()
        self.entailment = entailment or EmbeddedEntailment()
        self.answer = dspy.Predict(AnswerWithCitations)

    def forward(self, question: str) -> dspy.Prediction:
        """Answer `question`; the prediction adds `confidence`, the citation recall, and `answers`, of all samples."""
        self.begin_iteration(1)
        hits = self.retrieve([question], self.retrieve_k)
        passages = [entry.passage for entry in rerank(self, self.reranker, [question], hits)[: self.top_k]]
        names = [f"sample {number}" for number in range(1, self.samples + 1)]
        tasks = [functools.partial(self._sample, question, passages, number) for number in range(1, self.samples + 1)]
        samples = run_concurrently(tasks, names)
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
