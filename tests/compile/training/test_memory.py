"""What a training takes is told from the configuration of its model."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
import torch

from knowgap.compiling.training import GeneratorConfig
from knowgap.compiling.training.live_tensors import LiveTensors
from knowgap.compiling.training.memory import memory_needs, own_memory, parse_gpus, return_freed_memory
from knowgap.errors import LanguageModelError, UsageError

LLAMA = {
    "architectures": ["LlamaForCausalLM"], "model_type": "llama", "vocab_size": 32000, "hidden_size": 4096,
    "intermediate_size": 11008, "num_hidden_layers": 32, "num_attention_heads": 32, "num_key_value_heads": 32,
    "max_position_embeddings": 4096, "dtype": "float16", "tie_word_embeddings": False,
}  # fmt: skip
WEIGHTS = 6_738_415_616


@pytest.fixture(scope="module")
def llama(tmp_path_factory: pytest.TempPathFactory) -> str:
    folder = tmp_path_factory.mktemp("llama")
    (folder / "config.json").write_text(json.dumps(LLAMA))
    return str(folder)


def test_seven_billion_weights(llama):
    ways = {(need.method, need.fsdp): need for need in memory_needs(llama, GeneratorConfig(), processes=8)}
    assert list(ways) == [
        ("full, float32", False), ("full, float32", True), ("full, bfloat16", False), ("full, bfloat16", True),
        ("LoRA", False), ("LoRA", True), ("QLoRA", False),
    ]  # fmt: skip
    full, divided = ways["full, float32", False], ways["full, float32", True]
    assert full.states == pytest.approx((16 + 4) * WEIGHTS / 1e9 + 1.5, rel=1e-6)
    assert full.disk == pytest.approx((2 * 12 + 2 * 2) * WEIGHTS / 1e9, rel=1e-6)
    assert 16 * WEIGHTS / 8e9 < divided.states < 16 * WEIGHTS / 8e9 + 5
    assert all(need.states < need.checkpointed < need.whole for need in ways.values())
    assert full.checkpointed > 80 > divided.whole
    assert ways["QLoRA", False].checkpointed < 24 < ways["LoRA", False].whole
    # With one process, and where a step is one batch: no gradients are there while activations are.
    [alone, *_] = memory_needs(llama, GeneratorConfig(gradient_accumulation=1))
    assert alone.states == pytest.approx(16 * WEIGHTS / 1e9 + 1.5, rel=1e-6)
    assert full.whole - full.states > alone.whole - alone.states + 1


def test_tensors_that_are_alive_are_counted():
    with LiveTensors() as alive:
        one = torch.ones(100)
        other = one.view(10, 10)
        kept = other * 2
        assert alive.take_most() == 2 * 400
        del one, other
        assert alive.take_most() == 2 * 400
        kept = torch.cat([kept, kept])
        assert alive.take_most() == 400 + 800
        before = torch.ones(10)
    with LiveTensors([before]) as alive:
        before.view(2, 5)
        assert alive.take_most() == 0
    assert kept.shape == (20, 10)


def test_the_logits_of_a_large_vocabulary_count(llama, tmp_path: Path):
    """In 16 and in 32 bits, as logarithms of probabilities, and the gradients of these."""
    (tmp_path / "config.json").write_text(json.dumps(LLAMA | {"vocab_size": 64_000}))
    fewer, more = (memory_needs(folder, GeneratorConfig())[1] for folder in (llama, str(tmp_path)))
    logits, last = 4096 * 32_000 / 1e9, 32_000 * 4096 / 1e9
    added = (more.checkpointed - more.states) - (fewer.checkpointed - fewer.states)
    assert 2 * 4 * logits < added < 6 * 4 * logits + 2 * last


def test_without_a_gpu_the_memory_of_this_process_counts(llama):
    full, _, lora, _ = memory_needs(llama, GeneratorConfig(lora_rank=16), cuda=False)
    assert own_memory() / 1e9 < full.states < full.checkpointed
    assert lora.states < full.states


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere, there is no glibc")
def test_freed_tensors_are_given_back():
    """On Linux, the C library would keep those of some MB, since a smaller one lies behind each."""
    return_freed_memory()
    torch.ones(4_000_000)
    tensors = [torch.ones(500_000 if number % 2 else 10) for number in range(200)]
    before = own_memory()
    del tensors[1::2]
    assert before - own_memory() > 0.5 * 100 * 2e6


def test_a_last_layer_that_is_trained_counts(llama):
    plain, with_head = (memory_needs(llama, GeneratorConfig(), trains_head=head)[2] for head in (False, True))
    copied = 8 * 32000 * 4096  # the copy that is trained, its gradient and states, in 16 bits
    assert with_head.states - plain.states == pytest.approx(copied / 1e9)


def test_what_cannot_be_told_is_one_line(tmp_path: Path):
    assert parse_gpus("8x80") == (8, 80.0)
    for text in ("80", "0x80", "8xbig"):
        with pytest.raises(UsageError, match=f"--gpus {text}: write the number of GPUs and the GB of each"):
            parse_gpus(text)
    with pytest.raises(LanguageModelError, match=r"configuration of .* cannot be read"):
        memory_needs(str(tmp_path), GeneratorConfig())
