"""Several processes train the same model as one, and go on where a killed one left them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from parallel import largest_difference, train_together, write_base
from pydantic import BaseModel

from knowgap.compiling.teacher import write_records
from knowgap.compiling.training import GeneratorConfig, SubModelConfig, TrainingConfig
from knowgap.compiling.training.language_model import language_model_job
from knowgap.errors import MissingDependency, ValueOutOfBounds
from knowgap.storage.record_file import RecordFile

TOLERANCE = 1e-6  # of weights: sums are taken in another order


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_base(tmp_path_factory.mktemp("base") / "llama")


@pytest.fixture(scope="module")
def alone(base: Path, tmp_path_factory: pytest.TempPathFactory):
    """A training in one process, and its folder."""
    folder = tmp_path_factory.mktemp("alone") / "model"
    return train_together(folder, base, 1, {}), folder


@pytest.mark.long
@pytest.mark.parametrize(("processes", "fsdp"), [(2, False), (4, False), (2, True)])
def test_losses_and_weights_are_those_of_one_process(base, alone, tmp_path: Path, processes: int, fsdp: bool):
    done, folder = alone
    together = train_together(tmp_path / "model", base, processes, {"fsdp": fsdp})
    assert (together["steps"], together["losses"]) == (done["steps"], done["losses"])
    assert together["final_loss"] == pytest.approx(done["final_loss"], abs=1e-5)
    assert largest_difference(folder, tmp_path / "model") < TOLERANCE
    record = json.loads((tmp_path / "model" / "training.json").read_text(encoding="utf-8"))
    assert record["made_from"]["processes"] == processes


@pytest.mark.long
@pytest.mark.parametrize("fsdp", [False, True])
def test_a_training_of_which_one_process_is_killed_continues(base, alone, tmp_path: Path, fsdp: bool):
    killed = train_together(tmp_path / "model", base, 2, {"fsdp": fsdp}, (1, 3))
    assert killed["code"] != 0
    assert not (tmp_path / "model").exists()
    shards = list((tmp_path / ".model.training").glob("*/checkpoint-2/pytorch_model_fsdp_0/*.distcp"))
    assert len(shards) == 2 * fsdp
    continued = train_together(tmp_path / "model", base, 2, {"fsdp": fsdp})
    assert continued["resumed_from"] == 2
    assert largest_difference(alone[1], tmp_path / "model") < TOLERANCE


@pytest.mark.long
def test_what_cannot_be_divided_is_one_line(base, tmp_path: Path):
    with pytest.raises(SystemExit, match=r"a step of 8 examples .* cannot be divided among 3 processes"):
        train_together(tmp_path / "model", base, 3, {})


@pytest.mark.parametrize(
    ("size", "accumulation", "processes", "divided"),
    [(1, 32, 8, (1, 4)), (16, 1, 4, (4, 1)), (4, 3, 2, (3, 2)), (2, 4, 1, (2, 4))],
)
def test_a_step_is_divided_among_processes(size, accumulation, processes, divided):
    config = TrainingConfig(batch_size=size, gradient_accumulation=accumulation)
    assert config.divided(processes) == divided


def test_lora_has_its_own_learning_rate():
    assert GeneratorConfig(lora_rank=8).learning_rate == 2e-4
    assert GeneratorConfig(lora_rank=8, learning_rate=1e-5).learning_rate == 1e-5
    assert SubModelConfig(lora_rank=8).learning_rate == 5e-4


def test_the_settings_of_the_papers():
    config = GeneratorConfig.as_in_paper()
    assert (config.learning_rate, config.epochs, config.max_length, config.warmup_ratio) == (2e-5, 1.0, 4096, 0.03)
    assert config == GeneratorConfig(drop_answers=False)  # the other defaults are the paper's
    assert SubModelConfig().learning_rate == 5e-4
    assert GeneratorConfig.as_in_paper(epochs=2).epochs == 2
    assert SubModelConfig.as_in_paper().learning_rate == 5e-4
    assert GeneratorConfig.as_in_paper(lora_rank=8).learning_rate == 2e-4
    assert GeneratorConfig.as_in_paper(lora_rank=8, learning_rate=1e-5).learning_rate == 1e-5


def test_four_bits_need_lora_and_bitsandbytes(base, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    with pytest.raises(ValueOutOfBounds, match="set lora_rank as well"):
        GeneratorConfig(load_in_4bit=True)
    with pytest.raises(ValueOutOfBounds, match="cannot be combined with fsdp"):
        GeneratorConfig(load_in_4bit=True, lora_rank=4, fsdp=True)
    monkeypatch.setattr("knowgap.compiling.training.language_model.find_spec", lambda name: None)
    rows = [{"input_ids": [5], "labels": [5]}]
    config = GeneratorConfig(load_in_4bit=True, lora_rank=4)
    job = language_model_job(rows, tmp_path / "model", str(base), config=config, facts={})
    with pytest.raises(MissingDependency, match=r"pip install 'knowgap\[qlora\]'"):
        job.build({"use_cpu": True, "bf16": False})


class _Line(BaseModel):
    id: str


def test_other_processes_read_what_the_first_one_has_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    def make(id: str) -> _Line:
        return _Line(id=id)

    file, about = tmp_path / "lines.jsonl", {"kind": "test"}
    assert write_records(["a", "b"], make, file, _Line, about, "line").kept == 0
    monkeypatch.setenv("RANK", "1")
    with RecordFile(file, _Line, about, "line"):  # which the first process may still hold
        found = write_records(["b", "a"], make, file, _Line, about, "line")
    assert ([line.id for line in found.records], found.calls, found.kept) == (["b", "a"], 0, 2)
