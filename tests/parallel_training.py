"""A training of a tiny generator that several processes run together; as a script, one of these processes."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

SMALL = {"epochs": 2, "learning_rate": 1e-3, "batch_size": 2, "gradient_accumulation": 4, "max_length": 512, "seed": 1}


def train_together(
    folder: Path, base: Path, processes: int, *, killed: tuple[int, int] | None = None, **settings: Any
) -> dict[str, Any]:
    """Train in so many processes, and return what the first one did; `killed` is a rank and a step.

    Returns:
        The steps, the final loss, the losses as they were reported, the step that the run continued from, and the exit
        code of the launcher.
    """
    command = [sys.executable, "-m", "torch.distributed.run", "--nproc_per_node", str(processes), __file__]
    words = [str(folder), str(base), json.dumps({**SMALL, **settings}), json.dumps(killed)]
    run = subprocess.run(
        [*(command if processes > 1 else [sys.executable, __file__]), *words],
        capture_output=True,
        text=True,
        env={**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": str(Path(__file__).parents[1])},
        timeout=400,
        check=False,
    )
    lines = [line for line in run.stdout.splitlines() if line.startswith("{")]
    assert lines or killed, run.stderr[-3000:]
    return {**(json.loads(lines[-1]) if lines else {}), "code": run.returncode}


def _main(folder: str, base: str, settings: str, killed: str) -> None:
    from knowgap.compiling.training import GeneratorConfig
    from knowgap.compiling.training.fit import fit
    from knowgap.compiling.training.generator import generator_job
    from knowgap.storage.processes import is_main_process
    from tests.compile.training.test_generator import RECORDS

    rank, losses, end = int(os.environ.get("RANK", "0")), dict[int, str](), json.loads(killed)

    def progress(done: int, total: int | None = None, text: str = "") -> None:
        losses[done] = text
        if end == [rank, done]:
            os.kill(os.getpid(), signal.SIGKILL)

    job, _ = generator_job(RECORDS[:11], folder, base=base, config=GeneratorConfig(**json.loads(settings)))
    result = fit(job, progress)
    if is_main_process():
        figures = {"steps": result.steps, "final_loss": result.final_loss, "resumed_from": result.resumed_from}
        sys.stdout.write(json.dumps({**figures, "losses": list(losses.values())}) + "\n")


if __name__ == "__main__":
    _main(*sys.argv[1:])
