"""A training ends with the same model whether it was interrupted or not, and says what it does not do."""

import json
import math
import multiprocessing
import os
import signal
from pathlib import Path
from typing import Any

import pytest
from filelock import FileLock
from pydantic import BaseModel
from safetensors.numpy import load_file
from support import scripted_lm

from knowgap.compiling.run import Run
from knowgap.compiling.teacher import write_records
from knowgap.compiling.training import fit as module
from knowgap.compiling.training.config import TrainingConfig
from knowgap.compiling.training.fit import TrainingResult, fit
from knowgap.errors import MissingDependency, UsageError
from knowgap.storage.files import acquire_lock

SENTENCES = [[(7 * row + 3 * column) % 50 for column in range(12)] for row in range(40)]
CONFIG = TrainingConfig(epochs=2, learning_rate=1e-3, batch_size=4, max_length=12, seed=3)  # 20 steps


def build_tiny_trainer(settings: dict[str, Any]) -> Any:
    from transformers import GPT2Config, GPT2LMHeadModel, Trainer, TrainingArguments

    config = GPT2Config(
        vocab_size=50, n_positions=16, n_embd=16, n_layer=1, n_head=2, bos_token_id=0, eos_token_id=0, resid_pdrop=0.3
    )
    rows = [{"input_ids": row, "labels": row} for row in SENTENCES]
    return Trainer(model=GPT2LMHeadModel(config), args=TrainingArguments(**settings), train_dataset=rows)


def train_tiny(
    output: Path, *, config: TrainingConfig = CONFIG, build: Any = build_tiny_trainer, progress: Any = None
) -> TrainingResult:
    """Train a tiny causal language model."""

    def save(trainer: Any, folder: Path) -> None:
        trainer.model.save_pretrained(str(folder))

    return fit(output, config, build, save, {"kind": "tiny"}, progress)


def train_and_be_killed(output: Path) -> None:
    train_tiny(output, progress=lambda done, total, text: done == 13 and os.kill(os.getpid(), signal.SIGKILL))


def same_weights(one: Path, other: Path) -> bool:
    """Whether two models have the same weights, to the last bit."""
    weights, others = (load_file(folder / "model.safetensors") for folder in (one, other))
    return weights.keys() == others.keys() and all((weights[name] == others[name]).all() for name in weights)


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory):
    """A run that is not interrupted."""
    return train_tiny(tmp_path_factory.mktemp("whole") / "model")


@pytest.mark.long
def test_a_killed_training_continues_before_a_checkpoint_that_was_cut_off(whole, tmp_path: Path):
    folder = tmp_path / "model"
    process = multiprocessing.get_context("spawn").Process(target=train_and_be_killed, args=(folder,))
    process.start()
    process.join()
    assert process.exitcode == -signal.SIGKILL
    assert not folder.exists()
    found = (tmp_path / ".model.training").glob("*/checkpoint-*")
    last = max(found, key=lambda path: int(path.name[11:]))
    (last / "trainer_state.json").unlink()
    (last / "model.safetensors").write_bytes(b"")
    continued = train_tiny(folder)
    assert 0 < continued.resumed_from < int(last.name[11:])
    assert (continued.steps, continued.final_loss) == (whole.steps, whole.final_loss)
    assert same_weights(whole.folder, folder)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["model"]


def test_it_says_what_it_did_and_does_it_once(whole, tmp_path: Path):
    assert whole.steps == 20
    assert math.log(50) * 0.5 < whole.final_loss < math.log(50) * 1.1
    record = json.loads((whole.folder / "training.json").read_text(encoding="utf-8"))
    assert record["final_loss"] == whole.final_loss
    assert record["made_from"]["learning_rate"] == 1e-3
    lines = []
    train_tiny(tmp_path / "model", progress=lambda *report: lines.append(report))
    assert [(done, total) for done, total, _ in lines] == [(step, 20) for step in range(1, 21)]
    assert all(text.startswith("loss ") for *_, text in lines)
    again = train_tiny(whole.folder, progress=pytest.fail)
    assert again.trained_before
    assert (again.steps, again.final_loss) == (whole.steps, whole.final_loss)
    other = CONFIG.model_copy(update={"epochs": 1.0})
    with pytest.raises(UsageError, match="epochs"):
        train_tiny(whole.folder, config=other)


def test_what_cannot_be_trained_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    (tmp_path / "letters").mkdir()
    (tmp_path / "letters" / "dear.txt").write_text("Dear Ada")
    with pytest.raises(UsageError, match="holds no trained model"):
        train_tiny(tmp_path / "letters")
    with FileLock(tmp_path / "..model.training.lock"), pytest.raises(UsageError, match="another process"):
        train_tiny(tmp_path / "model")

    monkeypatch.setattr(module, "find_spec", lambda name: None)
    with pytest.raises(MissingDependency, match="accelerate, datasets, peft not installed"):
        train_tiny(tmp_path / "model")


class _Line(BaseModel):
    id: str


def test_other_processes_read_what_the_first_one_has_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    def make(id: str) -> _Line:
        return _Line(id=id)

    file, about = tmp_path / "lines.jsonl", {"kind": "test"}
    run = Run(scripted_lm(lambda outputs, inputs: {})[0])
    assert [line.id for line in write_records(["a", "b"], make, file, _Line, about, "line", run)[0]] == ["a", "b"]
    monkeypatch.setenv("RANK", "1")
    with acquire_lock(file, taken=UsageError("taken")):  # which the first process may still hold
        found, calls = write_records(["b", "a"], make, file, _Line, about, "line", run)
    assert ([line.id for line in found], calls) == (["b", "a"], 0)
