"""SKR: retrieve only for questions like those that the model could not answer by itself."""

from __future__ import annotations

import contextvars
import functools
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import dspy
from dspy.predict.parameter import Parameter
from pydantic import BaseModel, ConfigDict

from knowgap.programs.base import Program
from knowgap.programs.baselines.direct import Direct
from knowgap.programs.baselines.rag import RAG
from knowgap.programs.hyperparameters import Integer
from knowgap.programs.replies.outputs import text_of
from knowgap.programs.trace.steps import Judged
from knowgap.retrieval.bm25 import BM25Index
from knowgap.retrieval.passage import Passage, Retriever, RetrieverLike
from knowgap.signatures import AnswerDirectly, AnswerFromPassages


class LabelledQuestion(BaseModel):
    """A question, and whether the model answered it rightly without and with retrieval."""

    model_config = ConfigDict(strict=True, frozen=True)

    question: str
    direct: bool
    retrieved: bool


class LabelledQuestions(Parameter):
    """The questions that SKR compares with: saved with the program, left alone by optimizers.

    Questions that were answered wrongly both ways say nothing about retrieval and are left out. `index` makes the
    retriever that finds a question's neighbours.
    """

    def __init__(
        self,
        examples: Iterable[LabelledQuestion | Mapping[str, Any]],
        index: Callable[[Sequence[Passage]], Retriever],
    ):
        self.index = index
        labelled = [LabelledQuestion.model_validate(example) for example in examples]
        self.examples = [example for example in labelled if example.direct or example.retrieved]
        passages = [Passage(str(number), "", example.question) for number, example in enumerate(self.examples)]
        self.retriever = index(passages) if passages else None

    def nearest(self, question: str, k: int) -> list[LabelledQuestion]:
        """The `k` labelled questions most similar to `question`."""
        if self.retriever is None:
            return []
        return [self.examples[int(hit.passage.id)] for hit in self.retriever.search([question], k)[0]]

    def reset(self) -> None:
        """Do nothing: an optimizer that clears demonstrations must not clear labelled questions."""

    def dump_state(self, json_mode: bool = True) -> dict[str, Any]:
        """The labelled questions, for `program.save`."""
        return {"examples": [example.model_dump() for example in self.examples]}

    def load_state(self, state: dict[str, Any]) -> None:
        """Take the labelled questions of a saved program."""
        self.__init__(state["examples"], self.index)


class SKR(Program):
    """Tell from the nearest labelled questions whether the model knows the answer; retrieve only if it does not.

    Source: Wang et al., "Self-Knowledge Guided Retrieval Augmentation for Large Language Models" (Findings of EMNLP
    2023), the nearest-neighbour variant: of the k labelled questions nearest to the new one, let l be the number of
    those that the model answered rightly without retrieval; it knows the answer if l / (k - l) is at least the same
    ratio over all labelled questions. A baseline of RA-ISF (table 1, SKR_knn).

    Labelled questions come from `examples`, or from `fit`, which answers training questions both ways and scores
    them. Without any, every question is retrieved for. Departures: docs/methods/baselines.md.

    Args:
        examples: labelled questions: `question`, and whether it was answered rightly without (`direct`) and with
            retrieval (`retrieved`).
        index: makes a retriever over passages; each labelled question becomes a passage.
    """

    name = "skr"
    calls = "1"
    needs = "labelled questions (SKR.fit)"

    neighbours = Integer(5, "labelled questions compared with (k)", low=1, high=50)
    top_k = Integer(5, "passages retrieved and read", low=1, high=50)

    def __init__(
        self,
        retriever: RetrieverLike | None = None,
        *,
        examples: Iterable[LabelledQuestion | Mapping[str, Any]] = (),
        index: Callable[[Sequence[Passage]], Retriever] = BM25Index.from_passages,
        **kwargs: Any,
    ):
        super().__init__(retriever, **kwargs)
        self.labelled = LabelledQuestions(examples, index)
        self.direct = dspy.Predict(AnswerDirectly)
        self.read = dspy.Predict(AnswerFromPassages)

    def fit(
        self, trainset: Sequence[dspy.Example], metric: Callable[..., float | bool], *, num_threads: int = 4
    ) -> SKR:
        """Label training questions by answering each without and with retrieval; return the program.

        Args:
            trainset: examples with `question` and what the metric needs.
            metric: `(example, prediction) -> score`; an answer is right from a score of 0.5.
            num_threads: questions answered at the same time.
        """
        direct, rag = Direct(style=self.style), RAG(self.retriever, top_k=self.top_k, style=self.style)
        direct.answer, rag.answer = self.direct, self.read

        def label(example: dspy.Example) -> LabelledQuestion:
            right = [float(metric(example, program(question=example.question))) >= 0.5 for program in (direct, rag)]
            return LabelledQuestion(question=example.question, direct=right[0], retrieved=right[1])

        with ThreadPoolExecutor(max_workers=num_threads, thread_name_prefix="knowgap-skr") as pool:
            tasks = [functools.partial(contextvars.copy_context().run, label, example) for example in trainset]
            self.labelled = LabelledQuestions(pool.map(lambda task: task(), tasks), self.labelled.index)
        return self

    def forward(self, question: str) -> dspy.Prediction:
        """Answer `question`; the prediction adds `knows`: whether the model answers without retrieval."""
        knows = self._knows(question)
        passages: list[Passage] = []
        if knows:
            output = self.ask(self.direct, question=question, style=self.wording)
        else:
            self.begin_iteration(1)
            passages = self.retrieve_passages(question, self.top_k)
            output = self.ask(self.read, question=question, passages=passages, style=self.wording)
        return self.conclude(text_of(output), passages, knows=knows)

    def _knows(self, question: str) -> bool:
        nearest, labelled = self.labelled.nearest(question, self.neighbours), self.labelled.examples
        right, overall = (sum(example.direct for example in group) for group in (nearest, labelled))
        # right / (nearest - right) >= overall / (labelled - overall), without dividing by zero
        knows = right > 0 and right * (len(labelled) - overall) >= (len(nearest) - right) * overall
        reason = f"{right} of the {len(nearest)} nearest labelled questions and {overall} of all {len(labelled)}"
        self.record(Judged(what="knows", value=knows, reason=f"{reason} were answered rightly without retrieval"))
        return knows
