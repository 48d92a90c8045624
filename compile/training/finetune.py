"""Finetune a program's local model on its own right answers, by DSPy's `BootstrapFinetune` with our own provider.

DSPy runs the program on training questions, keeps the calls of the runs that end in the right answer, and passes the
prompts and replies to the provider of the language model, which trains it by `fit`.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import dspy
from dspy.clients.provider import Provider

from knowgap.compiling.demonstrations.optimizers import reporting
from knowgap.compiling.evaluation.metrics import Metric, named_metrics
from knowgap.compiling.evaluation.quiet import quiet
from knowgap.compiling.evaluation.runner import check_examples
from knowgap.compiling.training.config import FinetuneConfig, LanguageModelConfig
from knowgap.compiling.training.fit import TrainingResult, fit
from knowgap.compiling.training.language_model import conversation_row, language_model_job
from knowgap.errors import KnowgapError, UsageError
from knowgap.lms.local.engine import HFEngine
from knowgap.lms.local.loading import load_model
from knowgap.lms.metering import without_history
from knowgap.lms.providers import make_lm
from knowgap.programs.base import Program
from knowgap.programs.replies.adapter import adapter_in_use
from knowgap.storage.files import json_digest
from knowgap.storage.progress import Progress

Message = Mapping[str, str]


@dataclass(frozen=True)
class FinetunedProgram:
    """A program and the model that was finetuned for it.

    Attributes:
        program: a copy of the program without demonstrations; its predictors have no language model of their own.
        lm: the finetuned model.
        training: the result of its training.
    """

    program: Program
    lm: dspy.LM
    training: TrainingResult


def local_engine(lm: Any) -> HFEngine:
    """The engine of a language model that runs in this process.

    Raises:
        UsageError: it is another kind of model.
    """
    engine = getattr(lm, "_engine_spec", None)
    if not isinstance(engine, HFEngine):
        raise UsageError(f"{getattr(lm, 'model', lm)}: only a local model (hf/PATH) can be finetuned")
    return engine


def finetune_program(
    program: Program,
    trainset: Sequence[dspy.Example],
    output: str | Path,
    *,
    metric: Metric | str,
    lm: dspy.LM,
    teacher_lm: dspy.BaseLM | None = None,
    config: LanguageModelConfig | None = None,
    num_threads: int = 4,
    progress: Progress | None = None,
) -> FinetunedProgram:
    """Finetune the language model of a program on the calls of the runs that end in the right answer.

    Args:
        program: the program, which is not changed.
        trainset: questions with answers.
        output: the folder of the finetuned model.
        metric: a function or the name of a metric.
        lm: the local model to finetune.
        teacher_lm: the model that runs the program; None for `lm` itself.
        config: the settings; a call longer than `max_length` tokens is left out.
        num_threads: how many questions are asked at a time.
        progress: called after every question, and with every loss.

    Raises:
        UsageError: `lm` is no local model, or no answer is right.

    Warns:
        UserWarning: some calls were too long.
    """
    engine, config = local_engine(lm), config or FinetuneConfig()
    check_examples(trainset, "trainset")
    measure = reporting(next(iter(named_metrics(metric).values())), progress)
    provider = LocalProvider(engine.path_or_id, Path(output), config, progress)
    trained = lm.copy(provider=provider)
    student, teacher = program.deepcopy(), program.deepcopy()
    for each, model in ((student, trained), (teacher, teacher_lm or lm)):
        each._compiled = False
        each.concurrent = False  # the order of the calls is then that of the algorithm
        each.set_lm(model)
    optimizer = dspy.BootstrapFinetune(
        metric=lambda example, prediction, trace=None: measure(example, prediction, trace) >= 1.0,
        adapter=adapter_in_use(),
        exclude_demos=True,
        num_threads=num_threads,
    )
    with quiet(), without_history():
        try:
            compiled: Any = optimizer.compile(student, trainset=list(trainset), teacher=teacher)
        except RuntimeError as error:
            if isinstance(error.__cause__, KnowgapError):
                raise error.__cause__ from None
            raise
    own = dict(program.named_predictors())
    for name, predictor in compiled.named_predictors():
        predictor.lm = own[name].lm
    compiled.concurrent = program.concurrent
    assert provider.result is not None
    settings = {name: value for name, value in engine.dump_state().items() if name != "path_or_id"}
    options = {name: value for name, value in lm.kwargs.items() if value is not None}
    return FinetunedProgram(
        compiled, make_lm(f"hf/{provider.result.folder}", **{**settings, **options}), provider.result
    )


class LocalProvider(Provider):
    """Finetunes a model of Transformers in this process, for DSPy.

    Attributes:
        result: the result of the training; None before it.
    """

    def __init__(self, base: str, output: Path, config: LanguageModelConfig, progress: Progress | None) -> None:
        super().__init__()
        self.finetunable = True
        self._base, self._output, self._config = base, output.resolve(), config
        self._progress = progress
        self.result: TrainingResult | None = None

    @staticmethod
    def kill(lm: Any, launch_kwargs: dict[str, Any] | None = None) -> None:
        """Release the memory of the model before another copy of it is trained."""
        local_engine(lm).close()

    def finetune(  # pyright: ignore[reportIncompatibleMethodOverride]  # DSPy calls it on the instance, with names
        self, *, train_data: list[dict[str, Any]], **_: Any
    ) -> str:
        """Train the model on conversations; return the name of the finetuned model."""
        if not train_data:
            raise UsageError("no training question is answered rightly, so there is nothing to finetune on")
        conversations: list[list[Message]] = [row["messages"] for row in train_data]
        local = load_model(self._base, "cpu", "float32")
        rows = [conversation_row(local, conversation) for conversation in conversations]
        short = [row for row in rows if len(row["input_ids"]) <= self._config.max_length]
        if len(short) < len(rows):
            left_out = f"{len(rows) - len(short)} of {len(rows)} calls are longer than {self._config.max_length} tokens"
            warnings.warn(f"{left_out}: left out", stacklevel=2)
        training = language_model_job(
            short,
            self._output,
            self._base,
            config=self._config,
            facts={"kind": "finetune", "data": json_digest(conversations)},
        )
        self.result = fit(training, self._progress)
        return f"hf/{self._output}"
