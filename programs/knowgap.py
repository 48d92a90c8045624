"""KnowGap: read, keep the passages that help, name the gap and search for it, and say so if it is not there."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import zip_longest
from typing import Any, ClassVar

import dspy

from knowgap.programs.base import Program
from knowgap.programs.filtering import rerank
from knowgap.programs.hyperparameters import Integer, Real
from knowgap.programs.passages import cited, distinct
from knowgap.programs.replies.text import clean_lines, fits_style, known_text, text_of
from knowgap.programs.trace.recorder import RECORDER
from knowgap.programs.trace.steps import Filtered, Missing, Queried, Stopped
from knowgap.retrieval.grounding import grounded
from knowgap.retrieval.passage import Passage, RetrieverLike
from knowgap.retrieval.rerankers.reranker import Reranker
from knowgap.retrieval.words import words
from knowgap.signatures import UNKNOWN, LastReading, ReadAndPlan

_GAP = re.compile(r"[\s:=(\[*–—,;-]*\b(?:MISSING|REMEMBERED)\b[\W_]*\Z")
"""The end of a step that no passage fills."""
_SOURCE = re.compile(r"\[[\d,\s]+\]|\bCOMMON KNOWLEDGE\b")
"""Where a step says that its fact comes from."""


class KnowGap(Program):
    """Read passages and, in the same call, answer or write queries for what they lack, until nothing is missing.

    Memory is passages: those that the model names as useful are shown again in each round and never dropped. A question
    that the first passages settle costs one call. The last round reads what was found and not used once more and says
    whether the passages support the answer. With `iterations=1`, this is plain retrieval with a verdict.

    The prediction adds `steps`, the facts that the question needs, as the last planning reply wrote them.

    Args:
        retriever: as for `Program`.
        reranker: orders what each search finds; without one, the order is the index's own.
        **hyperparameters: values for the declared hyperparameters.

    >>> import knowgap
    >>> knowgap.KnowGap(iterations=2).iterations
    2
    """

    name = "knowgap"
    calls = "1 to 3"
    part_names: ClassVar[tuple[str, ...]] = ("retriever", "reranker")

    iterations = Integer(3, "rounds of searching and reading at most; 1 retrieves once", low=1, high=10)
    top_k = Integer(5, "passages found for a query, and new passages shown in a round", low=1, high=20)
    max_queries = Integer(5, "queries at most in a round", low=1, high=8)
    patience = Integer(2, "rounds in a row without a useful passage, after which the search ends", low=1, high=5)
    keep = Integer(10, "useful passages kept at most", low=1, high=30)
    retrieve_k = Integer(20, "passages found for a query before the reranker orders them", low=1, high=200, tune=False)
    delta = Real(
        None, "score below which the reranker drops a passage; none drops no passage", low=-20, high=20, tune=False
    )

    def __init__(
        self, retriever: RetrieverLike | None = None, *, reranker: Reranker | None = None, **hyperparameters: Any
    ):
        super().__init__(retriever, **hyperparameters)
        self.reranker = reranker
        self.read = dspy.Predict(ReadAndPlan)
        self.last = dspy.Predict(LastReading)

    def forward(self, question: str) -> dspy.Prediction:
        """Answer `question`; the prediction adds `steps`."""
        found: list[Passage] = []  # by all searches, in the order in which they are read
        kept: list[Passage] = []
        new: list[Passage] = []
        shown: set[str] = set()
        queries, asked, dry = [question], [question], 0
        steps, answer, missing, doubted = list[str](), "", "", False
        for iteration in range(1, self.iterations + 1):
            self.begin_iteration(iteration)
            hits = self._search(queries, len(shown))
            found = distinct([*found, *hits])
            unread = [passage for passage in distinct([*hits, *found]) if passage.id not in shown]
            new = unread[: max(self.top_k, 2 * len(queries))]
            if doubted or iteration == self.iterations or RECORDER.get().calls_left <= 1:
                out = "iterations" if iteration == self.iterations else "calls"
                self.record(Stopped(reason="the answer is in no passage" if doubted else out))
                break
            passages = [*kept, *new]
            shown |= {passage.id for passage in new}
            inputs = {"max_queries": self.max_queries, "style": self.wording, "question": question}
            reply = self.ask(self.read, **inputs, passages=passages, searched=asked)
            if reply is None:
                break
            steps = [str(step) for step in reply.steps or ()]
            answer, useful = known_text(reply), self._useful(reply, passages)
            added = [passage for passage in useful if passage not in kept][: self.keep - len(kept)]
            kept, dry = [*kept, *added], 0 if added else dry + 1
            missing = _missing(steps)
            claimed = bool(reply.answerable and answer and useful and not missing)
            fits = fits_style(answer, self.style, question)
            if claimed and _stands(answer, [question, *map(str, useful)]):
                self.record(Stopped(reason="answered" if fits else "not in the asked form"))
                if fits:
                    return self.conclude(answer, kept, supported=True, steps=steps)
                break
            doubted = claimed
            self.record(Missing(missing=missing or question))
            leads = [missing] if missing else [_SOURCE.sub("", step).strip() for step in steps[-2:]] or [answer]
            proposed = reply.queries or (leads if doubted or iteration == 1 else [])
            queries, repeated = clean_lines(proposed, self.max_queries, asked)
            if not doubted and (not queries or dry == self.patience):
                self.record(Stopped(reason="no new query" if not queries else "nothing new"))
                if fits:
                    return self.conclude(answer, kept or new, supported=False, missing=missing, steps=steps)
                break
            self.record(Queried(queries=queries, repeated=repeated))
            asked = [*asked, *queries]
        passages = distinct([*kept, *new, *found])[: self.keep + self.top_k]
        return self._read_again(question, passages, answer, missing, steps)

    def _search(self, queries: Sequence[str], shown: int) -> list[Passage]:
        """What the queries find: the first of each, then the second of each, or best first for the reranker.

        The search goes deeper by the number of passages that were `shown`, so that it finds `top_k` others.
        """
        if self.reranker is None:
            results = self.retrieve(queries, self.top_k + shown)
            return distinct(hit.passage for hits in zip_longest(*results) for hit in hits if hit is not None)
        results = self.retrieve(queries, max(self.retrieve_k, self.top_k))
        ranked = rerank(self, self.reranker, queries, results, self.delta)
        return [scored.passage for scored in ranked[: self.top_k * len(queries)]]

    def _useful(self, reply: dspy.Prediction, passages: Sequence[Passage]) -> list[Passage]:
        """The passages that a reply names; if it names none, those that contain its answer, but for a yes or no."""
        useful = cited(passages, reply.relevant_ids or ())
        answer = _words(known_text(reply))
        if not useful and answer.strip() not in ("", "yes", "no"):
            useful = [passage for passage in passages if answer in _words(str(passage))]
        dropped = [passage.id for passage in passages if passage not in useful]
        self.record(Filtered(kept=[passage.id for passage in useful], dropped=dropped))
        return useful

    def _read_again(
        self, question: str, passages: Sequence[Passage], guess: str, missing: str, steps: Sequence[str]
    ) -> dspy.Prediction:
        """The last answer, from all that helped and what was found besides, with a verdict whether they support it.

        Without one, it is the guess of the reading before.
        """
        reply = self.ask(self.last, last=True, style=self.wording, question=question, passages=passages)
        useful = self._useful(reply, passages) if reply is not None else []
        supported = bool(reply is not None and reply.supported and useful)
        return self.conclude(
            known_text(reply) or guess or UNKNOWN,
            useful or passages,
            supported=supported,
            missing="" if supported else missing,
            explanation=text_of(reply, "explanation"),
            steps=list(steps),
        )


def _missing(steps: Sequence[str]) -> str:
    """The facts that no passage fills, by the steps of a reply."""
    return "; ".join(_GAP.sub("", step).strip() for step in steps if _GAP.search(step))


def _stands(answer: str, texts: Sequence[str]) -> bool:
    """Whether an answer stands in one of the texts, or they have its names, its numbers and most of its words."""
    said = _words(answer)
    if said.strip() in ("yes", "no") or any(said in _words(text) for text in texts):
        return True
    return grounded(answer, texts).holds


def _words(text: str) -> str:
    """A text's words with spaces around them, in which those of another can be found."""
    return f" {' '.join(words(text))} "
