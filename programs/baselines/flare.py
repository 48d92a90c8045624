"""FLARE: write a sentence ahead, and retrieve if the model is unsure of it."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import dspy

from knowgap.programs.base import Program
from knowgap.programs.hyperparameters import Choice, Integer, Real
from knowgap.programs.logprobs import ask_for_tokens
from knowgap.programs.passages import distinct
from knowgap.programs.replies.outputs import clean_lines, probability_of, text_of
from knowgap.programs.trace.steps import Judged, Queried, Reasoned, Stopped
from knowgap.retrieval.passage import Passage, RetrieverLike
from knowgap.signatures import NextSentence, ShortenAnswer


class _Draft(NamedTuple):
    """A drafted sentence, and the answer if the sentence leads to it; both are empty if the model wrote none.

    The confidence is how sure the model is of the sentence, 0 to 1; the query is the part of it to search for.
    """

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
    (implicit query) and rewritten from the retrieved passages, which replace the earlier ones. A baseline of
    Adaptive-Note (table 1); 5 passages as there.

    If token log-probabilities do not come back, the confidence that the model states for the sentence is used, the
    whole sentence is the query, and the trace says so. Departures: docs/methods/baselines.md.
    """

    name = "flare"
    calls = "2 to 18"

    theta = Real(0.8, "probability below which a sentence is searched for (θ)", low=0.0, high=1.0)
    beta = Real(0.4, "probability below which a token is left out of the query (β)", low=0.0, high=1.0)
    iterations = Integer(8, "sentences at most", low=1, high=16)
    top_k = Integer(5, "passages read at a time", low=1, high=50)
    logprobs = Choice("auto", "ask for token log-probabilities, or never", choices=("auto", "never"), tune=False)

    def __init__(self, retriever: RetrieverLike | None = None, **kwargs: Any):
        super().__init__(retriever, **kwargs)
        self.sentence = dspy.Predict(NextSentence)
        self.final = dspy.Predict(ShortenAnswer)

    def forward(self, question: str) -> dspy.Prediction:
        """Answer `question`; the prediction adds `sentences`, the text that led to the answer."""
        sentences: list[str] = []
        answer, reason = "", "iterations"
        passages = self.retrieve_passages(question, self.top_k)
        read = list(passages)
        with_tokens = self.logprobs == "auto"
        for step in range(1, self.iterations + 1):
            self.begin_iteration(step)
            draft = self._draft(question, passages, sentences, with_tokens)
            with_tokens = with_tokens and not draft.refused
            if draft.sentence and not self._sure(draft):
                self.record(Queried(queries=[draft.query]))
                passages = self.retrieve_passages(draft.query, self.top_k)
                read += passages
                rewritten = self._draft(question, passages, sentences, with_tokens)
                draft = rewritten if rewritten.sentence else draft
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
        if not answer:
            inlined = [] if sentences else passages
            text = " ".join(sentences) or "\n".join(str(passage) for passage in passages)
            output = self.ask(self.final, inlined=inlined, question=question, text=text, style=self.wording)
            answer = text_of(output)
        return self.conclude(answer, distinct(read), sentences=sentences)

    def _sure(self, draft: _Draft) -> bool:
        sure = draft.confidence >= self.theta
        why = f"{draft.measure} {draft.confidence:.2f}, θ = {self.theta:g}"
        self.record(Judged(what="sure of the next sentence", value=sure, reason=why))
        return sure

    def _draft(self, question: str, passages: list[Passage], sentences: list[str], with_tokens: bool) -> _Draft:
        """The next sentence, with how sure the model is of it."""
        inputs = {"question": question, "passages": passages, "known": list(sentences), "style": self.wording}
        reply = ask_for_tokens(self, self.sentence, with_tokens, **inputs, leave=1)
        output, refused = reply.output, reply.refused
        if output is None:
            return _Draft(refused=refused)
        sentence, answer = text_of(output, "reasoning"), text_of(output) if output.finished else ""
        tokens = reply.tokens_of("reasoning")
        if tokens is None:
            return _Draft(sentence, answer, probability_of(output), query=sentence, refused=refused)
        probable = b"".join(token.spelling for token in tokens if math.exp(token.logprob) >= self.beta)
        query = " ".join(probable.decode(errors="ignore").split())
        confidence = math.exp(min(token.logprob for token in tokens))
        return _Draft(sentence, answer, confidence, "lowest token probability", query or sentence)
