"""Run a trainer of Transformers or sentence-transformers to the end, and resume it if the process was killed.

While a model `NAME` is trained, the trainer's checkpoints are kept beside it, in `.NAME.training`. The same job
continues from the last one, and ends with the same weights as a job that was not interrupted. The finished model is
written atomically, with a `training.json` that says how it was made.

Under `accelerate launch`, every process calls `fit`; the main process writes the files.
"""

from __future__ import annotations

import json
import math
import shutil
import time
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from knowgap.compiling.evaluation.provenance import versions
from knowgap.compiling.training.config import TrainingConfig
from knowgap.compiling.training.memory import MemoryNeed, return_freed_memory
from knowgap.errors import MissingDependency, UsageError
from knowgap.retrieval.colbert.stock_runtime import quiet_transformers
from knowgap.storage.files import acquire_lock, json_digest, write_folder, write_json
from knowgap.storage.processes import is_main_process, main_process_first, process_count
from knowgap.storage.progress import Progress, no_progress

if TYPE_CHECKING:
    from transformers import Trainer

RECORD = "training.json"
"""The file in a trained model's folder that says how it was made."""

_LOGS, _SAVES = 100, 10  # losses and checkpoints of a run
_TIMED = 3  # steps of a job that is planned


@dataclass(frozen=True, kw_only=True)
class Job:
    """A model to train.

    Attributes:
        output: the folder of the finished model.
        config: the settings.
        build: makes model and trainer from settings by the names of Transformers' `TrainingArguments`. Random numbers
            are seeded before it is called.
        examples: how many examples the trainer has.
        facts: what else determines the weights, as JSON values: the kind of model, its base, digests of the data.
        save: writes the trained model into a folder.
    """

    output: Path
    config: TrainingConfig
    build: Callable[[dict[str, Any]], Trainer]
    examples: int
    facts: Mapping[str, Any]
    save: Callable[[Any, Path], None]


@dataclass(frozen=True)
class TrainingResult:
    """The result of a training run.

    Attributes:
        folder: the folder of the model.
        examples: how many examples it was trained on.
        steps: steps of the optimizer, those before an interruption included.
        final_loss: mean training loss of the last tenth of the steps.
        seconds: how long the last call trained.
        resumed_from: the step that this call continued from; 0 if it began at the first.
        trained_before: whether the folder already held the same model, so that nothing was done.
    """

    folder: Path
    examples: int
    steps: int
    final_loss: float
    seconds: float
    resumed_from: int = 0
    trained_before: bool = False


@dataclass(frozen=True)
class TrainingPlan:
    """What a training run takes, as `--dry-run` shows it.

    Attributes:
        examples: examples that are trained on.
        steps: steps of the optimizer.
        hours: estimated time of these steps on this machine.
        teacher_calls: calls of a language model that labels the examples, at most.
        memory: for a language model, the memory that each way to train it takes.
        gpus: for a language model, how many GPUs train, and the GB of each; None without a GPU.
        tokens_per_second: for a language model, the tokens that this machine trains on, from which `hours` follows.
    """

    examples: int
    steps: int
    hours: float
    teacher_calls: int = 0
    memory: Sequence[MemoryNeed] = ()
    gpus: tuple[int, float] | None = None
    tokens_per_second: float | None = None


def fit(job: Job, progress: Progress | None = None) -> TrainingResult:
    """Train a model, or resume its training, and write it to its folder; `progress` gets the steps done and all steps.

    Raises:
        UsageError: there are no examples, the folder holds something else, another process trains this model, or the
            loss is no longer a number.
        MissingDependency: a package of the extra `train` is not installed.
    """
    _require_packages(job.config)
    output = job.output if job.output.name else job.output.resolve()  # "." has no name
    decisive = {*TrainingConfig.model_fields, "dtype", "load_in_4bit", "fsdp"}
    settings = job.config.model_dump(mode="json", include=decisive)
    facts = json.loads(json.dumps({**settings, **job.facts, "examples": job.examples, "processes": process_count()}))
    if job.examples < 1:
        raise UsageError(f"{output}: there is nothing to train on")
    with main_process_first():
        before = _trained_before(output, facts)
    if before is not None:
        return before
    work = output.with_name(f".{output.name}.training")
    work.parent.mkdir(parents=True, exist_ok=True)
    taken = UsageError(f"{work}: another process is training this model; wait for it to finish")
    with _quiet(), acquire_lock(work, taken=taken) if is_main_process() else nullcontext():
        checkpoints = work / json_digest(facts)[:16]
        trainer = _build(job, job.examples, progress, output_dir=str(checkpoints))
        if trainer.args.world_size != process_count():
            raise UsageError("the processes do not train together: start them with `torchrun` or `accelerate launch`")
        with trainer.args.main_process_first(local=False):
            checkpoint = _last_checkpoint(checkpoints)
        started = time.perf_counter()
        trainer.train(resume_from_checkpoint=checkpoint)
        done = {
            "steps": trainer.state.global_step,
            "final_loss": _final_loss(trainer.state.log_history),
            "seconds": round(time.perf_counter() - started, 1),
        }
        if is_main_process():
            with write_folder(output) as folder:
                job.save(trainer, folder)
                write_json(folder / RECORD, {"made_from": facts, **done, "versions": versions() | _trainer_versions()})
            shutil.rmtree(work, ignore_errors=True)
        trainer.accelerator.wait_for_everyone()
    resumed_from = 0 if checkpoint is None else int(checkpoint.rpartition("-")[2])
    return TrainingResult(output, job.examples, **done, resumed_from=resumed_from)


def plan(job: Job, *, examples: int | None = None, teacher_calls: int = 0) -> TrainingPlan:
    """Estimate what a job takes, from the time of a few steps; `examples` is how many there will be (the job's)."""
    _require_packages(job.config)
    times: list[float] = []
    with _quiet(), TemporaryDirectory() as folder:
        short = {"save_strategy": "no", "logging_steps": 1, "max_steps": _TIMED + 1}  # the first step is slower
        _build(job, _TIMED + 1, lambda *_: times.append(time.perf_counter()), output_dir=folder, **short).train()
    seconds = (times[-1] - times[0]) / _TIMED
    count = job.examples if examples is None else examples
    needed = job.config.steps(count)
    return TrainingPlan(count, needed, needed * seconds / 3600, teacher_calls)


@contextmanager
def _quiet() -> Iterator[None]:
    """Suppress progress bars, reports, and warnings of PEFT about new tokens and a setting's former name."""
    with quiet_transformers(), warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Setting `save_embedding_layers`")
        warnings.filterwarnings("ignore", message=".*gradient_checkpointing", category=FutureWarning)
        yield


def _require_packages(config: TrainingConfig) -> None:
    names = ["accelerate", "datasets", *(["peft"] if config.lora_rank is not None else [])]
    if missing := [name for name in names if find_spec(name) is None]:
        raise MissingDependency(f"{', '.join(missing)} not installed: pip install 'knowgap[train]'")


def _build(job: Job, examples: int, progress: Progress | None, **more: Any) -> Trainer:
    """Build the trainer, quiet and offline; the steps between checkpoints are a multiple of those between losses."""
    import torch
    from transformers import PrinterCallback, set_seed

    from knowgap.compiling.training.transformers_trainer import Watch

    if not torch.accelerator.is_available():
        return_freed_memory()
    config, cuda = job.config, torch.cuda.is_available()
    size, accumulation = config.divided(process_count())
    steps = config.steps(examples)
    logging_steps = max(1, steps // _LOGS)
    settings: dict[str, Any] = {
        "num_train_epochs": config.epochs,
        "learning_rate": config.learning_rate,
        "per_device_train_batch_size": size,
        "gradient_accumulation_steps": accumulation,
        "warmup_steps": math.ceil(config.warmup_ratio * steps),
        "seed": config.seed,
        "use_cpu": not torch.accelerator.is_available(),
        "bf16": cuda and torch.cuda.is_bf16_supported(),
        "dataloader_pin_memory": cuda,
        "logging_steps": logging_steps,
        "logging_nan_inf_filter": False,
        "save_strategy": "steps",
        "save_steps": max(1, steps // (_SAVES * logging_steps)) * logging_steps,
        "save_total_limit": 2,
        "report_to": "none",
        "disable_tqdm": True,
    }
    set_seed(config.seed)
    trainer = job.build(settings | more)
    trainer.remove_callback(PrinterCallback)
    trainer.add_callback(Watch(progress or no_progress))
    return trainer


def _trainer_versions() -> dict[str, str]:
    packages = ("accelerate", "peft", "sentence-transformers")
    return {package: version(package) for package in packages if find_spec(package.replace("-", "_"))}


def _final_loss(log: list[dict[str, float]]) -> float:
    losses = [entry["loss"] for entry in log if "loss" in entry]
    last = losses[-max(1, len(losses) // 10) :]
    return sum(last) / len(last)


def _trained_before(output: Path, facts: dict[str, Any]) -> TrainingResult | None:
    """The result of the same run, if it is finished."""
    if not output.exists() or (output.is_dir() and not any(output.iterdir())):
        return None
    try:
        record = json.loads((output / RECORD).read_text(encoding="utf-8"))
        made, times = record["made_from"], {name: record[name] for name in ("steps", "final_loss", "seconds")}
        differing = sorted(name for name in {*made, *facts} if made.get(name) != facts.get(name))
    except (OSError, ValueError, LookupError, TypeError, AttributeError):
        raise UsageError(f"{output} already exists and holds no trained model: name another folder") from None
    if differing:
        raise UsageError(
            f"{output} holds a model that was trained with another {', '.join(differing)}: name another folder, or "
            "remove this one"
        )
    return TrainingResult(output, facts["examples"], **times, trained_before=True)


def _last_checkpoint(folder: Path) -> str | None:
    """The last complete checkpoint; those that a killed process left incomplete are removed."""
    whole: dict[int, Path] = {}
    for checkpoint in folder.glob("checkpoint-*"):
        states = len(list(checkpoint.glob("rng_state*.pth")))  # of every process; the main one writes the last file
        if states == process_count() and (checkpoint / "trainer_state.json").exists():
            whole[int(checkpoint.name.rpartition("-")[2])] = checkpoint
        elif is_main_process():
            shutil.rmtree(checkpoint, ignore_errors=True)
    return str(whole[max(whole)]) if whole else None
