"""Run a trainer of Transformers or sentence-transformers to the end, also after the process was killed.

While a model `NAME` is trained, the folder `.NAME.training` beside it holds checkpoints and, in `run.json`, what the
run was started with. The same call continues from the last checkpoint and ends with the same weights as a run that was
not interrupted; a call with other settings or data is refused. The finished model is put in its place in one step,
with `training.json`, which says how it was made.

Under `accelerate launch`, every process calls `train`; the first one writes the files.
"""

from __future__ import annotations

import json
import math
import os
import shutil
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from knowgap.compiling.evaluation.provenance import versions
from knowgap.compiling.training.config import TrainingConfig
from knowgap.errors import MissingDependency, UsageError
from knowgap.retrieval.colbert.stock_runtime import quiet_transformers
from knowgap.storage.files import acquire_lock, release_lock, write_folder, write_json
from knowgap.storage.progress import Progress, no_progress

if TYPE_CHECKING:
    from transformers import Trainer, TrainingArguments

__all__ = ["RECORD", "TrainingResult", "is_main_process", "measure_step", "process_count", "require_packages", "train"]

RECORD = "training.json"
"""The file in a trained model's folder that says how it was made."""

_RUN, _COMPLETE = "run.json", "complete.json"
_LOGS, _SAVES = 100, 10  # losses and checkpoints of a run

Build = Callable[["TrainingArguments"], "Trainer"]
"""Makes model and trainer. Random numbers are seeded before it is called."""


@dataclass(frozen=True)
class TrainingResult:
    """What a training run did.

    Attributes:
        folder: where the model is.
        steps: steps of the optimizer, those before an interruption included.
        final_loss: mean training loss of the last tenth of the steps.
        seconds: time of these steps and checkpoints, those before the last checkpoint of an interrupted run included.
        resumed_from: the step that this call continued from; 0 if it started anew.
        trained_before: whether the folder already held the same model, so that nothing was done.
    """

    folder: Path
    steps: int
    final_loss: float
    seconds: float
    resumed_from: int = 0
    trained_before: bool = False


def require_packages(config: TrainingConfig | None = None) -> None:
    """Check that the packages of the extra `train` are installed.

    Raises:
        MissingDependency: one that this run needs is not.
    """
    names = ["accelerate", "datasets", *(["peft"] if config and config.lora_rank is not None else [])]
    missing = [name for name in names if find_spec(name) is None]
    if missing:
        raise MissingDependency(f"{', '.join(missing)} not installed: pip install 'knowgap[train]'")


def process_count() -> int:
    """How many processes train together."""
    return int(os.environ.get("WORLD_SIZE", "1"))


def is_main_process() -> bool:
    """Whether this process is the one that writes files, of those that train together."""
    return os.environ.get("RANK", "0") == "0"


def train(
    output: str | Path,
    config: TrainingConfig,
    build: Build,
    *,
    examples: int,
    made_from: Mapping[str, Any],
    save: Callable[[Trainer, Path], None] | None = None,
    arguments: type[TrainingArguments] | None = None,
    overwrite: bool = False,
    progress: Progress | None = None,
    **more: Any,
) -> TrainingResult:
    """Train a model, or continue to, and write it to a folder.

    Args:
        output: the folder of the finished model.
        config: the settings.
        build: makes the trainer from its arguments.
        examples: how many examples the trainer has.
        made_from: what else decides the result, as JSON values: the kind of model, its base, digests of the data.
        save: writes the trained model into a folder; None takes the trainer's own `save_model`.
        arguments: the class of arguments that the trainer takes; None is Transformers' `TrainingArguments`.
        overwrite: replace another model in the folder, and discard another run that was interrupted.
        progress: is called with (steps done, steps in all, text).
        more: further arguments of the trainer.

    Raises:
        UsageError: there are no examples; the folder has another model; an interrupted run has other settings or data;
            another process trains this model; or the loss is no longer a number.
        MissingDependency: a package of the extra `train` is not installed.
    """
    require_packages(config)
    output = Path(output) if Path(output).name else Path(output).resolve()  # "." has no name
    facts = json.loads(json.dumps({**made_from, **asdict(config), "examples": examples, "processes": process_count()}))
    if examples < 1:
        raise UsageError(f"{output}: there is nothing to train on")
    if (before := _trained_before(output, facts, overwrite)) is not None:
        return before
    work = output.with_name(f".{output.name}.training")
    with quiet_transformers(), _locked(work):
        arguments_made = _arguments(work, config, examples, arguments, more)
        if arguments_made.world_size != process_count():
            raise UsageError("the processes do not train together: start them with `accelerate launch`")
        with arguments_made.main_process_first(local=False):
            checkpoint = _last_checkpoint(work, facts, overwrite)
        watch = _watch(work, progress or no_progress)
        trainer = _build(build, arguments_made, watch)
        trainer.train(resume_from_checkpoint=None if checkpoint is None else str(checkpoint))
        steps, seconds = trainer.state.global_step, watch.seconds()
        result = TrainingResult(output, steps, _final_loss(trainer.state.log_history), seconds, watch.resumed_from)
        if is_main_process():
            with write_folder(output) as folder:
                (save or _save)(trainer, folder)
                record = {"steps": steps, "final_loss": result.final_loss, "seconds": round(seconds, 1)}
                write_json(
                    folder / RECORD, {"made_from": facts, **record, "versions": versions() | _trainer_versions()}
                )
            shutil.rmtree(work, ignore_errors=True)
        trainer.accelerator.wait_for_everyone()
    return result


def measure_step(
    config: TrainingConfig,
    build: Build,
    *,
    arguments: type[TrainingArguments] | None = None,
    steps: int = 3,
    **more: Any,
) -> float:
    """Seconds that a step takes, measured on a few; the model that `build` makes is trained by them."""
    require_packages(config)
    with quiet_transformers(), TemporaryDirectory() as folder:
        short = {"save_strategy": "no", "max_steps": steps + 1, **more}  # the first step is slower
        watch = _watch(Path(folder), no_progress)
        _build(build, _arguments(Path(folder), config, steps + 1, arguments, short), watch).train()
    return (watch.times[-1] - watch.times[0]) / max(1, len(watch.times) - 1)


def _arguments(
    folder: Path, config: TrainingConfig, examples: int, kind: type[TrainingArguments] | None, more: Mapping[str, Any]
) -> TrainingArguments:
    """The arguments of a trainer: quiet, offline, with checkpoints between which whole intervals of losses lie."""
    import torch
    from transformers import TrainingArguments

    steps = config.steps(examples, process_count())
    logging_steps = max(1, steps // _LOGS)
    cuda = torch.cuda.is_available()
    settings: dict[str, Any] = {
        "output_dir": str(folder),
        "num_train_epochs": config.epochs,
        "learning_rate": config.learning_rate,
        "per_device_train_batch_size": config.batch_size,
        "gradient_accumulation_steps": config.gradient_accumulation,
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
        "push_to_hub": False,
        "disable_tqdm": True,
    }
    return (kind or TrainingArguments)(**{**settings, **more})


def _build(build: Build, arguments: TrainingArguments, watch: Any) -> Trainer:
    from transformers import PrinterCallback, set_seed

    set_seed(arguments.seed)
    trainer = build(arguments)
    trainer.remove_callback(PrinterCallback)
    trainer.add_callback(watch)
    return trainer


def _watch(work: Path, progress: Progress) -> Any:
    """A callback that reports progress and losses, measures time, and marks checkpoints that are whole."""
    from transformers import TrainerCallback

    class Watch(TrainerCallback):
        def __init__(self) -> None:
            self.times, self.started, self.seconds_before, self.resumed_from = [], 0.0, 0.0, 0

        def seconds(self) -> float:
            return self.seconds_before + time.perf_counter() - self.started

        def on_train_begin(self, args: Any, state: Any, control: Any, **_: Any) -> None:
            self.started, self.resumed_from = time.perf_counter(), state.global_step
            if state.global_step:
                self.seconds_before = _read(work / f"checkpoint-{state.global_step}" / _COMPLETE)["seconds"]

        def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
            self.times.append(time.perf_counter())
            if state.global_step >= state.max_steps:
                control.should_log = True

        def on_log(self, args: Any, state: Any, control: Any, logs: Any = None, **_: Any) -> None:
            loss = (logs or {}).get("loss")
            if loss is None:
                return
            if not math.isfinite(loss):
                raise UsageError(
                    f"the loss is {loss} at step {state.global_step}: a learning rate lower than "
                    f"{args.learning_rate:g} may help"
                )
            progress(state.global_step, state.max_steps, f"loss {loss:.4f}")

        def on_save(self, args: Any, state: Any, control: Any, **_: Any) -> None:
            if args.should_save:
                write_json(work / f"checkpoint-{state.global_step}" / _COMPLETE, {"seconds": self.seconds()})

    return Watch()


def _trainer_versions() -> dict[str, str]:
    packages = ("accelerate", "peft", "sentence-transformers")
    return {package: version(package) for package in packages if find_spec(package.replace("-", "_"))}


def _save(trainer: Trainer, folder: Path) -> None:
    trainer.save_model(str(folder))
    (folder / "training_args.bin").unlink(missing_ok=True)  # a pickle, and of no use here


def _final_loss(log: list[dict[str, float]]) -> float:
    """The mean loss of the last tenth of the steps; an entry is the mean of the steps since the one before it."""
    entries = [(int(entry["step"]), entry["loss"]) for entry in log if "loss" in entry]
    total = losses = last = 0
    for step, loss in entries:
        weight = max(0, step - max(last, 0.9 * entries[-1][0]))
        total, losses, last = total + weight, losses + weight * loss, step
    return losses / total


@contextmanager
def _locked(work: Path) -> Iterator[None]:
    """Hold the lock of a run."""
    from filelock import Timeout

    work.parent.mkdir(parents=True, exist_ok=True)
    if not is_main_process():
        yield
        return
    try:
        lock = acquire_lock(work, timeout=0)
    except Timeout:
        raise UsageError(f"{work}: another process trains this model") from None
    try:
        yield
    finally:
        release_lock(lock)


def _trained_before(output: Path, facts: dict[str, Any], overwrite: bool) -> TrainingResult | None:
    """The result of the same run, if it is finished."""
    if not output.exists():
        return None
    record = _read(output / RECORD)
    record = record if isinstance(record.get("made_from"), dict) else {}  # else it is someone else's
    if record.get("made_from") == facts:
        times = {"steps": record["steps"], "final_loss": record["final_loss"], "seconds": record["seconds"]}
        return TrainingResult(output, **times, trained_before=True)
    if not record and (not output.is_dir() or any(output.iterdir())):
        raise UsageError(f"{output}: is there already, and no model that knowgap trained; name another folder")
    if not overwrite and record:
        raise UsageError(
            f"{output}: a model with other settings ({_difference(record['made_from'], facts)}); "
            "name another folder, or replace it with --overwrite"
        )
    return None


def _last_checkpoint(work: Path, facts: dict[str, Any], overwrite: bool) -> Path | None:
    """The last whole checkpoint of an interrupted run; what a killed process left unfinished is removed."""
    run = _read(work / _RUN)
    if run and run != facts and not overwrite:
        raise UsageError(
            f"{work}: an interrupted run with other settings ({_difference(run, facts)}); give those, name another "
            "folder, or discard it with --overwrite"
        )
    if run != facts:
        if is_main_process():
            shutil.rmtree(work, ignore_errors=True)
            work.mkdir()
            write_json(work / _RUN, facts)
        return None
    checkpoints = {int(folder.name.rpartition("-")[2]): folder for folder in work.glob("checkpoint-*")}
    whole = [step for step, folder in checkpoints.items() if _read(folder / _COMPLETE)]
    for step, folder in checkpoints.items():
        if step not in whole and is_main_process():
            shutil.rmtree(folder, ignore_errors=True)
    return checkpoints[max(whole)] if whole else None


def _difference(one: Mapping[str, Any], other: Mapping[str, Any]) -> str:
    """The first thing in which two runs differ."""
    name = next((name for name in {**other, **one} if one.get(name) != other.get(name)), "")
    return f"{name} {one.get(name)}, now {other.get(name)}"


def _read(path: Path) -> dict[str, Any]:
    """A JSON object; empty if there is none that can be read."""
    try:
        value = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return value if isinstance(value, dict) else {}
