"""A small world for the tests of the compiler: a program, a retriever and a language model whose scores are known."""

import os
import re
import signal
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar

import dspy
from support import OverlapRetriever, ScriptedEngine, by_output, scripted_lm

from knowgap.compiling import StudyConfig, StudyResult
from knowgap.compiling.run import Run
from knowgap.compiling.study.run import run_study
from knowgap.programs.base import Program
from knowgap.programs.hyperparameters import Choice, Integer, Real, Switch
from knowgap.retrieval.passage import Passage
from knowgap.signatures import AnswerFromPassages, Decompose

NAMES = ["Ada", "Bo", "Cy", "Di", "Ed", "Flo", "Gus", "Hal", "Ida", "Jo", "Kim", "Lou", "Max", "Ned", "Oz", "Pia"]


def make_examples(n: int = 8, prefix: str = "q") -> list[dspy.Example]:
    """Questions "Who lives in house i?" whose answers are names."""
    return [
        dspy.Example(
            id=f"{prefix}{i}",
            question=f"Who lives in house {prefix}{i}?",
            answer=NAMES[i % len(NAMES)],
            aliases=[NAMES[i % len(NAMES)]],
            gold_ids=[f"{prefix}{i}"],
            type="even" if i % 2 == 0 else "odd",
        ).with_inputs("question")
        for i in range(n)
    ]


def make_retriever(examples: list[dspy.Example]) -> OverlapRetriever:
    """A passage for each question, and one that says nothing."""
    passages = [Passage(e.id, f"house {e.id}", f"{e.answer} lives in house {e.id}.") for e in examples]
    return OverlapRetriever([*passages, Passage("noise", "noise", "Nothing lives here.")])


class Tunable(Program):
    """A program whose score depends on its hyperparameters in a way that the tests know."""

    name: ClassVar[str] = "tunable"

    top_k = Integer(1, "passages read", low=1, high=5)
    limit = Real(None, "a threshold", low=-10.0, high=10.0, search=(0.0, 1.0))
    careful = Switch(False, "whether to be careful")
    weight = Real(0.5, "only read when careful", low=0.0, high=1.0, when={"careful": (True,)})
    mode = Choice("plain", "how", choices=("plain", "fancy"), tune=False)
    part_names = ("retriever", "reranker", "entailment")

    def __init__(self, retriever: Any = None, *, reranker: Any = None, entailment: Any = None, **kwargs: Any):
        super().__init__(retriever, **kwargs)
        self.reranker, self.entailment = reranker, entailment
        self.split = dspy.Predict(Decompose)
        self.answer = dspy.Predict(AnswerFromPassages)

    def forward(self, question: str) -> dspy.Prediction:
        self.begin_iteration(1)
        if self.careful:
            self.ask(self.split, question=question)
        passages = self.retrieve_passages(question, self.top_k)
        style = f"k={self.top_k} limit={self.limit} careful={self.careful} weight={self.weight:.3f}"
        output = self.ask(self.answer, question=question, passages=passages, style=style)
        answer = (output.answer or "").strip() if output is not None else ""
        return self.conclude(answer, passages)


def reading_rule(outputs: tuple[str, ...], inputs: dict[str, Any]) -> dict[str, Any]:
    """Answer with the first word of the first passage that names the question's house."""
    house = inputs["question"].rstrip("?").split()[-1]
    texts = [p["text"] for p in inputs.get("passages", []) if f"house {house}." in p["text"]]
    return {"answer": texts[0].split()[0] if texts else "nobody"}


def failing_on(*questions: str):
    """A rule that reads, but fails on some questions."""

    def rule(outputs, inputs):
        if any(word in inputs["question"] for word in questions):
            raise RuntimeError("the reader fell asleep")
        return reading_rule(outputs, inputs)

    return rule


def reading_lm(**kwargs: Any):
    """A language model that reads, and decomposes into nothing."""
    return scripted_lm(by_output({"questions": lambda o, i: {"questions": []}, "answer": reading_rule}), **kwargs)


class QualityEngine(ScriptedEngine):
    """Answers so many of the questions rightly as the settings in the prompt's style deserve.

    Of every ten questions: 3, and 3 more for k = 4, 2 more when careful (1 more with a weight of 0.5 or above), and 1
    more where demonstrations are shown.
    """

    def __init__(self, answers: Mapping[str, str]):
        super().__init__(self._rule)
        self.answers, self._shown = answers, threading.local()
        self.demonstrations: list[int] = []

    def complete(self, request):
        self._shown.messages = len(request.messages)
        return super().complete(request)

    def _rule(self, outputs, inputs):
        if "questions" in outputs:
            return {"questions": []}
        style = dict(part.split("=") for part in inputs["style"].split())
        shown = (self._shown.messages - 1) // 2
        self.demonstrations.append(shown)
        quality = 3 + 3 * (style["k"] == "4") + 2 * (style["careful"] == "True") + (shown > 0)
        quality += style["careful"] == "True" and float(style["weight"]) >= 0.5
        number = int(re.findall(r"\d+", inputs["question"])[-1])
        return {"answer": self.answers[inputs["question"]] if number % 10 < quality else "nobody"}


def quality_lm(examples: list[dspy.Example], **kwargs: Any) -> tuple[dspy.LM, QualityEngine]:
    """A language model whose scores follow from the settings of `Tunable` as `QualityEngine` says."""
    engine = QualityEngine({e.question: e.answer for e in examples})
    return dspy.LM("test/quality", engine=engine, num_retries=0, **{"cache": False, **kwargs}), engine


def study_arguments(n_dev: int = 10) -> tuple[dict[str, Any], QualityEngine]:
    """The arguments of a study, the language model among them, and its engine."""
    dev, train = make_examples(n_dev), make_examples(4, "t")
    lm, engine = quality_lm(dev + train)
    program = Tunable(make_retriever(dev + train))
    return {"program": program, "devset": dev, "trainset": train, "metric": "exact_match", "lm": lm}, engine


def plain(found: StudyResult[Any]) -> list[Any]:
    """What a study found, without numbers that count failed trials or measure time."""
    return [[t.user_attrs.get("label"), t.params, t.state.name, t.intermediate_values] for t in found.trials]


def work(storage: str, n_trials: int, deadline: float, chosen: str) -> None:
    """A study in a process of its own, which dies after so many seconds, or with 0 writes which trial it has chosen."""
    if deadline:
        threading.Timer(deadline, os.kill, (os.getpid(), signal.SIGKILL)).start()
    arguments, _ = study_arguments()
    run = Run(arguments.pop("lm"), 2)
    found = run_study(**arguments, config=StudyConfig(n_trials=n_trials, storage=storage, heartbeat=1), run=run)
    Path(chosen).write_text(f"{found.best.number} of {len(found.trials)}", encoding="utf-8")
