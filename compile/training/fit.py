"""Run a trainer of Transformers or sentence-transformers to the end, and resume it if the process was killed.

While a model `NAME` is trained, the trainer's checkpoints are kept beside it, in `.NAME.training`. The same job
continues from the last one. The finished model is written atomically, with a `training.json` that says how it was made.
Under `accelerate launch`, every process calls `fit`; the main process writes the files.
"""

from __future__ import annotations

import json
import shutil
import time
import warnings
from collections.abc import Callable, Mapping
from contextlib import nullcontext
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from knowgap.compiling.evaluation.provenance import versions
from knowgap.compiling.training.config import TrainingConfig
from knowgap.errors import MissingDependency, UsageError
from knowgap.retrieval.hub import quiet_transformers
from knowgap.storage.files import acquire_lock, folder_digest, json_digest, write_folder, write_json
from knowgap.storage.processes import is_main_process, main_process_first, process_count
from knowgap.storage.progress import Progress, no_progress

if TYPE_CHECKING:
    from transformers import Trainer

RECORD = "training.json"
"""The file in a trained model's folder that says how it was made."""


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
        notes: what the examples were made of, in words.
    """

    folder: Path
    examples: int
    steps: int
    final_loss: float
    seconds: float
    resumed_from: int = 0
    trained_before: bool = False
    notes: tuple[str, ...] = ()


def base_facts(base: str) -> dict[str, str]:
    """What a training run records of the model it starts from, a folder or a name on the hub."""
    return {"base": base, **({"base_digest": folder_digest(Path(base))} if Path(base).is_dir() else {})}


def fit(
    output: str | Path,
    config: TrainingConfig,
    build: Callable[[dict[str, Any]], Trainer],
    save: Callable[[Any, Path], None],
    facts: Mapping[str, Any],
    progress: Progress | None = None,
) -> TrainingResult:
    """Train a model, or resume its training, and write it to its folder.

    Args:
        output: the folder of the finished model.
        config: the settings.
        build: makes model, examples and trainer from settings by the names of Transformers' `TrainingArguments`. Random
            numbers are seeded before it is called.
        save: writes the trained model into a folder; it is given the trainer.
        facts: what else determines the weights, as JSON values: the kind of model, its base, digests of the data.
        progress: called with the steps done and all steps.

    Raises:
        UsageError: there are no examples, the folder holds something else, or another process trains this model.
        MissingDependency: a package of the extra `train` is not installed.
    """
    if missing := [name for name in ("accelerate", "datasets", "peft") if find_spec(name) is None]:
        raise MissingDependency(f"{', '.join(missing)} not installed: pip install 'knowgap[train]'")
    output = Path(output) if Path(output).name else Path(output).resolve()  # "." has no name
    settings = config.model_dump(mode="json", include={*TrainingConfig.model_fields, "lora_rank"})
    made_from = json.loads(json.dumps({**settings, **facts, "processes": process_count()}))
    with main_process_first():
        before = _trained_before(output, made_from)
    if before is not None:
        return before
    work = output.with_name(f".{output.name}.training")
    work.parent.mkdir(parents=True, exist_ok=True)
    taken = UsageError(f"{work}: another process is training this model; wait for it to finish")
    lock = acquire_lock(work, taken=taken) if is_main_process() else nullcontext()
    with lock, quiet_transformers(), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # PEFT and Transformers warn of each other
        checkpoints = work / json_digest(made_from)[:16]
        checkpoint = _last_checkpoint(checkpoints)
        trainer, started = build(_arguments(config, checkpoints)), time.perf_counter()
        _watch(trainer, progress or no_progress)
        trainer.train(resume_from_checkpoint=checkpoint)
        losses = [entry["loss"] for entry in trainer.state.log_history if "loss" in entry]
        last = losses[-max(1, len(losses) // 10) :]
        done = {
            "examples": len(trainer.train_dataset),  # pyright: ignore[reportArgumentType]
            "steps": trainer.state.global_step,
            "final_loss": sum(last) / len(last),
            "seconds": round(time.perf_counter() - started, 1),
        }
        if is_main_process():
            with write_folder(output) as folder:
                save(trainer, folder)
                write_json(folder / RECORD, {"made_from": made_from, **done, "versions": versions()})
            shutil.rmtree(work, ignore_errors=True)
        trainer.accelerator.wait_for_everyone()
    resumed_from = 0 if checkpoint is None else int(checkpoint.rpartition("-")[2])
    return TrainingResult(output, **done, resumed_from=resumed_from)


def _arguments(config: TrainingConfig, checkpoints: Path) -> dict[str, Any]:
    """The settings of a trainer that asks no hub and keeps a checkpoint each tenth; random numbers are seeded."""
    import torch
    from transformers import set_seed

    set_seed(config.seed)
    cuda = torch.cuda.is_available()
    return {
        "output_dir": str(checkpoints),
        "num_train_epochs": config.epochs,
        "learning_rate": config.learning_rate,
        "per_device_train_batch_size": config.batch_size,
        "gradient_accumulation_steps": config.gradient_accumulation,
        "warmup_steps": config.warmup_ratio,  # a share, as the number of steps between checkpoints
        "logging_steps": 1,
        "save_steps": 0.1,
        "save_strategy": "steps",
        "save_total_limit": 2,
        "seed": config.seed,
        "bf16": cuda and torch.cuda.is_bf16_supported(),
        "dataloader_pin_memory": cuda,
        "logging_nan_inf_filter": False,
        "report_to": "none",
        "disable_tqdm": True,
    }


def _watch(trainer: Trainer, progress: Progress) -> None:
    """Report the losses of a trainer."""
    from transformers import PrinterCallback, TrainerCallback

    class Watch(TrainerCallback):
        def on_log(self, args: Any, state: Any, control: Any, logs: Any = None, **_: Any) -> None:
            if (loss := (logs or {}).get("loss")) is not None:
                progress(state.global_step, state.max_steps, f"loss {loss:.4f}")

    trainer.remove_callback(PrinterCallback)
    trainer.add_callback(Watch())


def _trained_before(output: Path, facts: dict[str, Any]) -> TrainingResult | None:
    """The result of the same run, if it is finished."""
    if not (output / RECORD).exists():
        if output.is_file() or (output.exists() and any(output.iterdir())):
            raise UsageError(f"{output} already exists and holds no trained model: name another folder")
        return None
    record = json.loads((output / RECORD).read_text(encoding="utf-8"))
    made = record["made_from"]
    if differing := sorted(name for name in {*made, *facts} if made.get(name) != facts.get(name)):
        what = ", ".join(differing)
        raise UsageError(f"{output} holds another model (it differs in: {what}): name another folder")
    done = {name: record[name] for name in ("examples", "steps", "final_loss", "seconds")}
    return TrainingResult(output, **done, trained_before=True)


def _last_checkpoint(folder: Path) -> str | None:
    """The last complete checkpoint: the trainer writes its own state last."""
    whole = [path for path in folder.glob("checkpoint-*") if (path / "trainer_state.json").exists()]
    return str(max(whole, key=lambda path: int(path.name.rpartition("-")[2]))) if whole else None
