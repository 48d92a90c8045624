"""FLARE: look ahead by a sentence, and retrieve where the model is unsure of it."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import dspy
from dspy.utils.exceptions import LMInvalidRequestError, LMUnsupportedFeatureError

from knowgap.programs.base import Program
from knowgap.programs.hyperparameters import Choice, Integer, Real
from knowgap.programs.logprobs import field_logprobs, pop_token_logprobs
from knowgap.programs.outputs import clean_lines, probability_of, text_of
from knowgap.programs.reading.passage_numbering import distinct
from knowgap.programs.trace.steps import Judged, Queried, Reasoned, Stopped
from knowgap.retrieval.passage import Passage, Retriever
from knowgap.signatures import STYLES, NextSentence, ShortenAnswer

__all__ = ["FLARE"]


class _Draft(NamedTuple):
    """A sentence as first written: how sure the model is of it, by which measure, and what of it to search for."""

    sentence: str = ""
    answer: str = ""
    confidence: float = 0.0
    measure: str = "stated confidence"
    query: str = ""
    refused: bool = False


class FLARE(Program):
    """Write the answer sentence by sentence; retrieve with a sentence that the model is unsure of, and rewrite it.

    Source: Jiang et al., "Active Retrieval Augmented Generation" (EMNLP 2023), FLARE_direct: the question retrieves
    first; a sentence with a token less probable than θ is searched for without its tokens less probable than β
    (implicit query) and written anew from what was found, which takes the place of earlier passages. A baseline of
    Adaptive-Note (table 1); 5 passages as there.

    Simplified: the end of the text is a field of the output and not a phrase looked for; queries are never questions
    written by the model (the paper's explicit variant). Where token log-probabilities do not come back, the confidence
    that the model states for the sentence stands in, the whole sentence is the query, and the trace says so.
    """

    name = "flare"

    theta = Real(0.8, "probability below which a sentence is searched for (θ)", low=0.0, high=1.0)
    beta = Real(0.4, "probability below which a token is left out of the query (β)", low=0.0, high=1.0)
    iterations = Integer(8, "sentences at most", low=1, high=16)
    top_k = Integer(5, "passages read at a time", low=1, high=50)
    logprobs = Choice("auto", "ask for token log-probabilities, or never", choices=("auto", "never"), tune=False)
    style = Choice("short", "how the answer is worded", choices=tuple(STYLES), tune=False)

    def __init__(self, retriever: Retriever | None = None, **kwargs: Any):
        super().__init__(retriever, **kwargs)
        self.sentence = dspy.Predict(NextSentence)
        self.final = dspy.Predict(ShortenAnswer)

    def forward(self, question: str) -> dspy.Prediction:
        """Answer `question`; the prediction adds `sentences`, the text that led to the answer."""
        sentences: list[str] = []
        answer, reason = "", "iterations"
        passages = self._found(question)
        read = list(passages)
        with_tokens = self.logprobs == "auto"
        for step in range(1, self.iterations + 1):
            self.begin_iteration(step)
            draft = self._draft(question, passages, sentences, with_tokens)
            with_tokens = with_tokens and not draft.refused
            if draft.sentence:
                sure = draft.confidence >= self.theta
                why = f"{draft.measure} {draft.confidence:.2f}, θ = {self.theta:g}"
                self.record(Judged(what="sure of the next sentence", value=sure, reason=why))
                if not sure:
                    self.record(Queried(queries=[draft.query]))
                    passages = self._found(draft.query)
                    read += passages
                    again = self._draft(question, passages, sentences, with_tokens)
                    draft = again if again.sentence else draft
            new, repeated = clean_lines([draft.sentence], 1, sentences)
            if not new:
                reason = "repeated sentence" if repeated else "no sentence"
                break
            sentences += new
            self.record(Reasoned(what="sentence", text=new[0]))
            if draft.answer:
                answer, reason = draft.answer, "answered"
                break
        self.record(Stopped(reason=reason))
        read = distinct(read)
        if not answer:
            inlined = [] if sentences else passages
            text = " ".join(sentences) or "\n".join(str(passage) for passage in passages)
            output = self.ask(self.final, inlined=inlined, question=question, text=text, style=STYLES[self.style])
            answer = text_of(output)
        return self.conclude(answer, read, sentences=sentences)

    def _found(self, query: str) -> list[Passage]:
        return self.retrieve_passages(query, self.top_k)

    def _draft(self, question: str, passages: list[Passage], sentences: list[str], with_tokens: bool) -> _Draft:
        """The next sentence, with how sure the model is of it."""
        inputs: dict[str, Any] = {"question": question, "passages": passages, "known": list(sentences)}
        inputs["style"] = STYLES[self.style]
        tokens_too: dict[str, Any] = {"config": {"logprobs": True}} if with_tokens else {}
        refused = False
        try:
            output = self.ask(self.sentence, **inputs, **tokens_too)
        except (LMUnsupportedFeatureError, LMInvalidRequestError):
            if not with_tokens:
                raise
            refused, output = True, self.ask(self.sentence, **inputs)
        if output is None:
            return _Draft(refused=refused)
        tokens, sentence, answer = pop_token_logprobs(output), text_of(output, "reasoning"), text_of(output)
        found = field_logprobs(tokens, "reasoning", sentence)
        if found is None:
            return _Draft(sentence, answer, probability_of(output), query=sentence, refused=refused)
        end = len(found.generated)
        spelled = tokens[end - len(found.value) : end]
        sure = b"".join(token for token, logprob in spelled if math.exp(logprob) >= self.beta)
        query = " ".join(sure.decode(errors="ignore").split())
        return _Draft(sentence, answer, math.exp(min(found.value)), "lowest token probability", query or sentence)
