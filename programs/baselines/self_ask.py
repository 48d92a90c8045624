"""Self-Ask: follow-up questions, answered one after another, until none is needed."""

from __future__ import annotations

from typing import Any, ClassVar

import dspy

from knowgap.programs.base import Program
from knowgap.programs.hyperparameters import Integer
from knowgap.programs.passages import distinct
from knowgap.programs.replies.text import clean_lines, known_text, text_of
from knowgap.programs.trace.steps import Judged, Queried, Stopped
from knowgap.retrieval.passage import Passage, RetrieverLike
from knowgap.signatures import STYLES, AnswerFromPassages, FollowUp, SubAnswer, Synthesise


class SelfAsk(Program):
    """Ask a follow-up question, look it up, answer it, and go on until the question itself can be answered.

    Source: Press et al., "Measuring and Narrowing the Compositionality Gap in Language Models" (Findings of EMNLP
    2023), section 3, with a search engine behind the follow-ups. A baseline of MIGRES (table 3), RQ-RAG (table 2) and
    BlendFilter (table 2); 5 passages per follow-up as in MIGRES, table 4.

    A repeated follow-up ends the search. If none is needed, the question itself is looked up. Departures:
    docs/methods/baselines.md.
    """

    name = "self_ask"
    adds: ClassVar = {"sub_answers": []}
    calls = "2 to 11"

    iterations = Integer(5, "follow-up questions at most", low=1, high=10)
    top_k = Integer(5, "passages read per follow-up question", low=1, high=50)

    def __init__(self, retriever: RetrieverLike | None = None, **hyperparameters: Any):
        super().__init__(retriever, **hyperparameters)
        self.follow_up = dspy.Predict(FollowUp)
        self.intermediate = dspy.Predict(AnswerFromPassages)
        self.final = dspy.Predict(Synthesise)

    def forward(self, question: str) -> dspy.Prediction:
        """Answer `question`; the prediction adds `sub_answers`."""
        sub_answers: list[SubAnswer] = []
        read: list[Passage] = []
        reason = "iterations"
        for step in range(1, self.iterations + 1):
            self.begin_iteration(step)
            output = self.ask(self.follow_up, question=question, sub_answers=list(sub_answers))
            needed = output is not None and bool(output.needed)
            self.record(Judged(what="follow-up needed", value=needed))
            if not needed:
                reason = "no follow-up needed" if output is not None else "unreadable follow-up"
                break
            asked = [sub.question for sub in sub_answers]
            queries, repeated = clean_lines([text_of(output, "query")], 1, asked)
            self.record(Queried(queries=queries, repeated=repeated))
            if not queries:
                reason = "no new follow-up"
                break
            looked_up = self._look_up(queries[0], STYLES["short"])
            read += looked_up.passages
            sub_answers.append(SubAnswer(question=queries[0], answer=known_text(looked_up)))
        self.record(Stopped(reason=reason))
        if not sub_answers:
            return self._look_up(question, self.wording, last=True)
        output = self.ask(self.final, last=True, question=question, sub_answers=sub_answers, style=self.wording)
        return self.conclude(text_of(output), distinct(read), sub_answers=sub_answers)

    def _look_up(self, question: str, style: str, *, last: bool = False) -> dspy.Prediction:
        """Retrieve for a question, follow-up or original, and answer it from the passages."""
        passages = self.retrieve_passages(question, self.top_k)
        output = self.ask(self.intermediate, last=last, question=question, passages=passages, style=style)
        return self.conclude(text_of(output), passages)
