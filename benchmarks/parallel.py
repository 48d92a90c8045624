"""Trainings of a tiny generator in several processes, and the memory that a training takes beside its estimate.

Every training has the same eleven examples, in steps of eight. It is run on the CPU in one, two and four processes;
with FSDP, which divides the weights; with LoRA; with weights in 4 bits; and killed and started again.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from itertools import product
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from local_models import write_model
from table import Table, note, seconds

SMALL = {"epochs": 2, "learning_rate": 1e-3, "batch_size": 2, "gradient_accumulation": 4, "max_length": 512, "seed": 1}
RUNS: dict[str, tuple[int, dict[str, Any], tuple[int, int] | None]] = {
    "one process": (1, {}, None),
    "two": (2, {}, None),
    "four": (4, {}, None),
    "two, FSDP": (2, {"fsdp": True}, None),
    "two, one killed at step 3": (2, {}, (1, 3)),
    "two, FSDP, one killed at step 3": (2, {"fsdp": True}, (1, 3)),
    "LoRA, one process": (1, {"lora_rank": 4}, None),
    "LoRA, two, FSDP": (2, {"lora_rank": 4, "fsdp": True}, None),
    "QLoRA, one process": (1, {"lora_rank": 4, "load_in_4bit": True}, None),
}
"""By name: the processes, further settings, and the rank and step at which one is killed."""
SHAPES = ((2, 128), (8, 512), (12, 768))
"""Layers and width of the models whose memory is measured; each has 32,000 words."""
WAYS: dict[str, dict[str, Any]] = {"full": {}, "LoRA": {"lora_rank": 16}}


def add_arguments(group: Any) -> None:
    """Add the options of this benchmark."""
    group.add_argument("--parallel-runs", default=";".join(RUNS), help="which trainings, with ; between them")
    group.add_argument("--parallel-sizes", type=int, default=len(SHAPES), help="of models whose memory is measured (3)")
    group.add_argument("--parallel-tokens", type=int, default=512, help="of an example whose memory is measured (512)")


def measure(options: argparse.Namespace) -> Iterator[Table]:
    """Train, and measure memory."""
    with TemporaryDirectory(prefix="knowgap-benchmark-") as name:
        folder = Path(name)
        names = [run for run in options.parallel_runs.split(";") if run]
        if names:
            yield _processes(folder, ["one process", "two"] if options.quick else names)
        for shape in SHAPES[: 1 if options.quick else options.parallel_sizes]:
            yield _memory(folder, 128 if options.quick else options.parallel_tokens, shape)


def train_together(
    folder: Path, base: Path, processes: int, settings: dict[str, Any], killed: tuple[int, int] | None = None
) -> dict[str, Any]:
    """Train in so many processes, and return what the first one did; `killed` is a rank and a step.

    Returns:
        The steps, the final loss, the losses as they were reported, the step that the run continued from, and the exit
        code of the launcher.
    """
    launcher = ["-m", "torch.distributed.run", "--nproc_per_node", str(processes)] if processes > 1 else []
    words = ["train", str(folder), str(base), json.dumps({**SMALL, **settings}), json.dumps(killed)]
    lines, code, said = _run([*launcher, __file__, *words])
    if not lines and not killed:
        raise SystemExit(said)
    return {**(json.loads(lines[-1]) if lines else {}), "code": code}


def write_base(folder: Path, layers: int = 2, width: int = 32, **shape: int) -> Path:
    """A causal model with random weights, and a tokenizer of 450 words."""
    shape = {"num_attention_heads": max(4, width // 64), "intermediate_size": 3 * width, **shape}
    return write_model(folder, "causal", ["How old is Orle? It is old."] * 4, layers, width, vocabulary=450, **shape)


def largest_difference(one: Path, other: Path) -> float:
    """The largest difference between the weights of two models."""
    from safetensors.numpy import load_file

    weights, others = (load_file(folder / "model.safetensors") for folder in (one, other))
    return max(float(abs(weights[name] - others[name]).max()) for name in {*weights, *others})


def _run(words: list[str]) -> tuple[list[str], int, str]:
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    run = subprocess.run([sys.executable, *words], capture_output=True, text=True, env=environment, check=False)
    return [line for line in run.stdout.splitlines() if line.startswith("{")], run.returncode, run.stderr[-3000:]


def _processes(folder: Path, names: list[str]) -> Table:
    base, rows = write_base(folder / "base"), list[list[str]]()
    for number, name in enumerate(names):
        processes, settings, killed = RUNS[name]
        output, begin = folder / str(number), time.perf_counter()
        if killed:
            assert train_together(output, base, processes, settings, killed)["code"] != 0
        done = train_together(output, base, processes, settings)
        note(f"{name}: {seconds(time.perf_counter() - begin)}")
        same = [
            i for i, each in enumerate(names[:number]) if RUNS[each][1].get("lora_rank") == settings.get("lora_rank")
        ]
        difference = f"{largest_difference(folder / str(same[0]), output):.1e}" if same else ""
        continued = f"{done['resumed_from']}" if killed else ""
        rows.append([name, str(done["steps"]), f"{done['final_loss']:.6f}", difference, continued])
    remark = "The difference is the largest between weights, against the first training of the same kind above it."
    columns = ["training", "steps", "loss at the end", "difference of weights", "continued from step"]
    return Table("the same training in several processes", columns, rows, [remark])


def _memory(folder: Path, tokens: int, shape: tuple[int, int]) -> Table:
    layers, width = shape
    base = write_base(folder / f"{layers}-{width}", layers, width, vocab_size=32_000)
    rows, weights = list[list[str]](), 0.0
    for way, checkpointing in product(WAYS, (True, False)):
        settings = {**WAYS[way], "gradient_checkpointing": checkpointing}
        lines, _, said = _run([__file__, "memory", str(base), str(tokens), json.dumps(settings)])
        if not lines:
            raise SystemExit(said)
        found = json.loads(lines[-1])
        note(f"{layers} layers, {width} wide, {way}, checkpointing {checkpointing}: {found}")
        figures = [f"{found[part] / 1e6:.0f}" for part in ("own", "measured", "estimated")]
        share, weights = f"{found['estimated'] / found['measured']:.2f}", found["weights"] / 1e6
        rows.append([way, "checkpointed" if checkpointing else "whole", *figures, share])
    title = f"memory measured and estimated: {layers} layers, {width} wide, {weights:.1f} million weights"
    remark = (
        f"Float32 on the CPU, two batches a step, each of 2 examples of {tokens} tokens; a vocabulary of 32,000 words. "
        "The largest anonymous memory of the process, looked at fifty times a second, with what is in memory of the "
        "model's mapped file; and what is estimated before it loads the model; both with what the process held at that "
        "time, which is the column before them."
    )
    columns = ["way", "kept", "MB before", "MB measured", "MB estimated", "estimated/measured"]
    return Table(title, columns, rows, [remark])


def _main(what: str, *words: str) -> None:
    show = {"train": _train_script, "memory": _memory_script}[what](*words)
    if show is not None:
        sys.stdout.write(json.dumps(show) + "\n")


def _train_script(folder: str, base: str, settings: str, killed: str) -> dict[str, Any] | None:
    """One process of a training."""
    from knowgap.compiling.training import GeneratorConfig
    from knowgap.compiling.training.fit import fit
    from knowgap.compiling.training.generator import generator_job
    from knowgap.compiling.training.transcripts import SearchStep, TranscriptRecord
    from knowgap.storage.processes import is_main_process

    rank, losses, end = int(os.environ.get("RANK", "0")), dict[int, str](), json.loads(killed)

    def progress(done: int, total: int | None = None, text: str = "") -> None:
        losses[done] = text
        if end == [rank, done]:
            os.kill(os.getpid(), signal.SIGKILL)

    records = [
        TranscriptRecord(
            id=str(number),
            kind="single_hop",
            question=f"How old is {'Orle ' * number}?",
            steps=[SearchStep(action="rewrite", query="age", passages=[{"id": "o", "title": "Orle", "text": "Old."}])],
            answer="old",
        )
        for number in range(1, 12)
    ]
    job, _ = generator_job(records, folder, base=base, config=GeneratorConfig(**json.loads(settings)))
    result = fit(job, progress)
    figures = {"steps": result.steps, "final_loss": result.final_loss, "resumed_from": result.resumed_from}
    return {**figures, "losses": list(losses.values())} if is_main_process() else None


def _memory_script(base: str, tokens: str, settings: str) -> dict[str, Any]:
    """A training of two steps in this process."""
    from engines import Anonymous

    from knowgap.compiling.training import GeneratorConfig
    from knowgap.compiling.training.fit import fit
    from knowgap.compiling.training.language_model import language_model_job
    from knowgap.compiling.training.memory import memory_needs, own_memory

    fixed = {"batch_size": 2, "gradient_accumulation": 2, "max_length": int(tokens), "learning_rate": 1e-5}
    config = GeneratorConfig(**fixed, **json.loads(settings))
    rows = [{"input_ids": [number + 5] * int(tokens), "labels": [number + 5] * int(tokens)} for number in range(8)]
    with TemporaryDirectory() as name:  # a small training first loads the libraries
        tiny = write_base(Path(name) / "tiny")
        fit(language_model_job(rows[:1], Path(name) / "model", str(tiny), config=config, facts={}))
        needs = {need.method: need for need in memory_needs(base, config, cuda=False)}
        own, need = own_memory(), needs["full, float32" if config.lora_rank is None else "LoRA"]
        job = language_model_job(rows, Path(name) / "trained", base, config=config, facts={})
        with Anonymous(mapped="model.safetensors") as memory:
            fit(job)
        with (Path(base) / "model.safetensors").open("rb") as file:
            header = json.loads(file.read(int.from_bytes(file.read(8), "little")))
    estimated = (need.checkpointed if config.gradient_checkpointing else need.whole) * 1e9
    weights = sum(math.prod(each["shape"]) for name, each in header.items() if name != "__metadata__")
    return {"weights": weights, "own": own, "measured": memory.peak * 2**20, "estimated": estimated}


if __name__ == "__main__":
    _main(*sys.argv[1:])
