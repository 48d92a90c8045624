"""VTG: every statement of the answer is verified, and evidence is searched for if it fails."""

from __future__ import annotations

from itertools import chain
from typing import Any

import dspy

from knowgap.programs.base import Program
from knowgap.programs.citations import Claims, extracted_step, read_claims, supported
from knowgap.programs.entailment import entailment_of
from knowgap.programs.hyperparameters import Integer, Real
from knowgap.programs.passages import distinct
from knowgap.programs.replies.outputs import clean_lines, text_of
from knowgap.programs.trace.steps import Missing, Queried, Rejected, Stopped
from knowgap.retrieval.entailment import EntailmentModel
from knowgap.retrieval.passage import Passage, RetrieverLike
from knowgap.signatures import AnswerWithCitations, LastAnswer, ProposeQueries


class VTG(Program):
    """Draft an answer in statements that cite passages, verify each, search for evidence of those that fail, redraft.

    Source: Sun et al., "Towards Verifiable Text Generation with Evolving Memory and Self-Reflection" (VTG, 2024). A
    baseline of MIGRES (section 4.2, table 3), which describes it as follows: a verifier says whether the cited passages
    entail a statement; if they do not, new queries search for evidence, and statements for which none is retrieved are
    dropped. As in the paper, memory has a long-term part (the passages that verified statements cite) and a short-term
    part (the passages retrieved last).

    If no draft is verified as a whole, the answer is written from the verified statements. Departures:
    docs/methods/baselines.md.

    Args:
        entailment: says whether passages entail a statement, by itself or by name; `lm` asks the language model;
            default: the rule of `grounding`. The paper has T5-XXL-TRUE-NLI.
    """

    name = "vtg"
    calls = "1 to 6"
    part_names = ("retriever", "entailment")

    iterations = Integer(3, "drafts at most", low=1, high=10)
    top_k = Integer(5, "passages retrieved per query", low=1, high=50)
    max_queries = Integer(3, "queries for evidence per round", low=1, high=5)
    memory = Integer(10, "passages that a draft reads at most, verified ones first", low=1, high=50)
    entailment_threshold = Real(0.5, "probability from which passages entail a statement", low=0.0, high=1.0)

    def __init__(
        self, retriever: RetrieverLike | None = None, *, entailment: EntailmentModel | str | None = None, **kwargs: Any
    ):
        super().__init__(retriever, **kwargs)
        self.entailment = entailment_of(entailment)
        self.draft = dspy.Predict(AnswerWithCitations)
        self.query = dspy.Predict(ProposeQueries)
        self.last = dspy.Predict(LastAnswer)

    def forward(self, question: str) -> dspy.Prediction:
        """Answer `question`; the prediction adds `known`, the verified statements."""
        known: Claims = {}
        failed: list[str] = []
        answer, asked, queries, reason = "", [question], [question], "iterations"
        for step in range(1, self.iterations + 1):
            self.begin_iteration(step)
            retrieved = distinct(hit.passage for hits in self.retrieve(queries, self.top_k) for hit in hits)
            failed = self._search_evidence(failed, retrieved, known)
            if answer and not failed:
                reason = "verified"
                break
            passages = distinct(chain(*known.values(), retrieved))[: self.memory]
            output = self.ask(self.draft, question=question, passages=passages, style=self.wording, leave=1)
            answer, claims = text_of(output), read_claims(output, passages)
            if not claims:
                reason = "no statements"
                break
            failed = self._verify(claims, known)
            if answer and not failed:
                reason = "verified"
                break
            if step < self.iterations:
                queries = self._queries(question, known, failed, asked)
                if not queries:
                    reason = "no new query"
                    break
                asked += queries
        for statement in failed:
            self.record(Rejected(what=statement, why="no passage found entails it"))
        self.record(Stopped(reason=reason))
        if reason != "verified":
            answer = text_of(self.ask(self.last, question=question, known=list(known), style=self.wording))
        return self.conclude(answer, distinct(chain(*known.values())), known=list(known))

    def _verify(self, claims: Claims, known: Claims) -> list[str]:
        """Add the statements that their citations entail to `known`; return the others."""
        entailed = supported(self.entailment, claims, self.entailment_threshold)
        verified = {statement: sources for statement, sources in claims.items() if entailed[statement]}
        known.update(verified)
        self.record(extracted_step(verified))
        return [statement for statement in claims if statement not in known]

    def _search_evidence(self, failed: list[str], retrieved: list[Passage], known: Claims) -> list[str]:
        """Add the failed statements that a newly retrieved passage entails to `known`; return the others."""
        if not failed:
            return []
        pairs = [(str(passage), statement) for statement in failed for passage in retrieved]
        probabilities = iter(self.entailment.entails(pairs))
        evidence: Claims = {}
        for statement in failed:
            sources = [passage for passage in retrieved if next(probabilities) >= self.entailment_threshold]
            if sources:
                evidence[statement] = sources
        known.update(evidence)
        self.record(extracted_step(evidence))
        return [statement for statement in failed if statement not in evidence]

    def _queries(self, question: str, known: Claims, failed: list[str], asked: list[str]) -> list[str]:
        """New queries for evidence of the failed statements; the statements themselves if the model writes none."""
        missing = " ".join(failed) or question
        self.record(Missing(missing=missing, known=list(known)))
        output = self.ask(
            self.query,
            question=question,
            known=list(known),
            missing=missing,
            asked=list(asked),
            max_queries=self.max_queries,
            leave=2,
        )
        queries, repeated = clean_lines(output.queries if output is not None else None, self.max_queries, asked)
        if not queries:
            queries, _ = clean_lines(failed, self.max_queries, asked)
        self.record(Queried(queries=queries, repeated=repeated))
        return queries
