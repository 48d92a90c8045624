"""A training run ends with the same model whether it was interrupted or not, and says what it does not do."""

from __future__ import annotations

import json
import math
import subprocess
import sys
from pathlib import Path

import pytest
from filelock import FileLock
from safetensors.numpy import load_file
from training_helpers import CONFIG, SENTENCES, build_tiny_trainer, train_tiny

from knowgap.compiling.training import trainer
from knowgap.compiling.training.config import TrainingConfig
from knowgap.compiling.training.plan import plan_training
from knowgap.errors import MissingDependency, UsageError, ValueOutOfBounds

HELPERS = Path(__file__).parents[2] / "training_helpers.py"


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory):
    """A run that is not interrupted."""
    return train_tiny(tmp_path_factory.mktemp("whole") / "model")


def kill_at(folder: Path, step: int) -> None:
    run = subprocess.run([sys.executable, str(HELPERS), str(folder), str(step)], capture_output=True, text=True)
    assert run.returncode == -9, run.stderr


def test_a_killed_run_that_continues_ends_with_the_same_loss_and_weights(whole, tmp_path: Path):
    folder = tmp_path / "model"
    kill_at(folder, 13)
    assert not folder.exists()
    continued = train_tiny(folder)
    assert 0 < continued.resumed_from <= 13
    assert (continued.steps, continued.final_loss) == (whole.steps, whole.final_loss)
    one, other = (load_file(result.folder / "model.safetensors") for result in (whole, continued))
    assert one.keys() == other.keys()
    assert all((one[name] == other[name]).all() for name in one)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["model"]


def test_a_checkpoint_that_was_cut_off_is_not_used(whole, tmp_path: Path):
    folder = tmp_path / "model"
    kill_at(folder, 13)
    last = max((tmp_path / ".model.training").glob("checkpoint-*"), key=lambda path: int(path.name[11:]))
    (last / "complete.json").unlink()
    (last / "model.safetensors").write_bytes(b"")
    continued = train_tiny(folder)
    assert 0 < continued.resumed_from < int(last.name[11:])
    assert continued.final_loss == whole.final_loss


def test_several_processes_train_together_and_one_writes(tmp_path: Path):
    command = [sys.executable, "-m", "torch.distributed.run", "--nproc_per_node", "2", str(HELPERS)]
    folder = tmp_path / "model"
    run = subprocess.run([*command, str(folder), "999"], capture_output=True, text=True)
    assert run.returncode == 0, run.stderr
    record = json.loads((folder / "training.json").read_text(encoding="utf-8"))
    assert record["made_from"]["processes"] == 2
    assert record["steps"] == CONFIG.steps(len(SENTENCES), processes=2) == 10
    assert sorted(path.name for path in tmp_path.iterdir()) == ["model"]


def test_processes_that_do_not_train_together_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(trainer, "process_count", lambda: 2)
    with pytest.raises(UsageError, match="start them with `accelerate launch`"):
        train_tiny(tmp_path / "model")


def test_it_says_what_it_did(whole, tmp_path: Path):
    assert whole.steps == CONFIG.steps(len(SENTENCES)) == 20
    assert math.log(50) * 0.5 < whole.final_loss < math.log(50) * 1.1
    record = json.loads((whole.folder / "training.json").read_text(encoding="utf-8"))
    assert record["final_loss"] == whole.final_loss
    assert record["made_from"]["learning_rate"] == 1e-3
    assert not (whole.folder / "training_args.bin").exists()
    lines = []
    train_tiny(tmp_path / "model", progress=lambda done, total, text: lines.append((done, total, text)))
    assert [(done, total) for done, total, _ in lines] == [(step, 20) for step in range(1, 21)]
    assert all(text.startswith("loss ") for *_, text in lines)


def test_the_same_run_is_not_done_twice_and_another_one_is_refused(whole):
    again = train_tiny(whole.folder, progress=pytest.fail)
    assert again.trained_before
    assert (again.steps, again.final_loss) == (whole.steps, whole.final_loss)
    other = TrainingConfig(epochs=1, learning_rate=2e-3, batch_size=4, max_length=12, seed=3)
    with pytest.raises(UsageError, match=r"model with other settings \(epochs 2, now 1\)"):
        train_tiny(whole.folder, config=other)


def test_an_interrupted_run_with_other_settings_is_refused_unless_it_may_be_discarded(tmp_path: Path):
    kill_at(tmp_path / "model", 5)
    other = TrainingConfig(epochs=1, learning_rate=1e-3, batch_size=4, max_length=12, seed=3)
    with pytest.raises(UsageError, match=r"interrupted run with other settings \(epochs 2, now 1\)"):
        train_tiny(tmp_path / "model", config=other)
    assert train_tiny(tmp_path / "model", config=other, overwrite=True).resumed_from == 0


def test_a_folder_of_something_else_is_left_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    (tmp_path / "letters").mkdir()
    (tmp_path / "letters" / "to-mother.txt").write_text("dear")
    with pytest.raises(UsageError, match="no model that knowgap trained"):
        train_tiny(tmp_path / "letters", overwrite=True)
    (tmp_path / "letters" / "training.json").write_text('{"km": 12}')
    with pytest.raises(UsageError, match="no model that knowgap trained"):
        train_tiny(tmp_path / "letters")
    monkeypatch.chdir(tmp_path / "letters")
    with pytest.raises(UsageError, match="no model that knowgap trained"):
        train_tiny(Path("."))
    assert sorted(path.name for path in Path(".").iterdir()) == ["to-mother.txt", "training.json"]


def test_one_process_at_a_time_trains_a_model(tmp_path: Path):
    with FileLock(tmp_path / "..model.training.lock"), pytest.raises(UsageError, match="another process"):
        train_tiny(tmp_path / "model")


def test_a_loss_that_is_no_number_ends_the_run(tmp_path: Path):
    wild = TrainingConfig(epochs=3, learning_rate=1.0, batch_size=4, max_length=12)

    def build(arguments):
        made = build_tiny_trainer(arguments)
        made.model.transformer.wte.weight.data.mul_(math.inf)
        return made

    with pytest.raises(UsageError, match=r"the loss is nan at step 1: a learning rate lower than 1 may help"):
        trainer.train(tmp_path / "model", wild, build, examples=40, made_from={})


def test_nothing_to_train_on(tmp_path: Path):
    with pytest.raises(UsageError, match="nothing to train on"):
        train_tiny(tmp_path / "model", examples=0)


def test_a_missing_package_is_named_with_its_extra(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(trainer, "find_spec", lambda name: None)
    with pytest.raises(MissingDependency, match=r"accelerate, datasets not installed: pip install 'knowgap\[train\]'"):
        train_tiny(tmp_path / "model")


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"epochs": 0}, "epochs = 0: must be a number above 0"),
        ({"learning_rate": float("nan")}, "learning_rate = nan"),
        ({"batch_size": 2.5}, "batch_size = 2.5: must be a whole number from 1"),
        ({"warmup_ratio": 1.5}, "warmup_ratio = 1.5: must be a number from 0 to 1"),
        ({"lora_rank": 0}, "lora_rank = 0"),
        ({"seed": True}, "seed = True"),
    ],
)
def test_a_setting_out_of_bounds_is_refused(values, words: str):
    with pytest.raises(ValueOutOfBounds, match=words):
        TrainingConfig(**values)


def test_a_plan_counts_steps_and_hours():
    config = TrainingConfig(epochs=1.5, batch_size=4, gradient_accumulation=3)
    plan = plan_training(config, 50, seconds_per_step=2.0, teacher_calls=7)
    assert (plan.steps, plan.hours) == (8, 8 * 2 / 3600)  # 13 batches, 5 steps an epoch
    assert plan.rows()[-1] == ["calls of the teacher", "7"]
    assert plan_training(config, 50).rows()[2] == ["hours", "unknown"]


def test_the_time_of_a_step_is_measured():
    assert 0 < trainer.measure_step(CONFIG, build_tiny_trainer) < 10
