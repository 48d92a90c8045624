"""What a training takes is told from the configuration of its model."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from knowgap.compiling.training import GeneratorConfig
from knowgap.compiling.training.memory import memory_needs, parse_gpus
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
    [alone, *_] = memory_needs(llama, GeneratorConfig())
    assert alone.states == pytest.approx(16 * WEIGHTS / 1e9 + 1.5, rel=1e-6)


def test_a_last_layer_that_is_trained_counts(llama):
    plain, with_head = (memory_needs(llama, GeneratorConfig(), trains_head=head)[2] for head in (False, True))
    assert with_head.states - plain.states == pytest.approx(16 * 32000 * 4096 / 1e9)


def test_what_cannot_be_told_is_one_line(tmp_path: Path):
    assert parse_gpus("8x80") == (8, 80.0)
    for text in ("80", "0x80", "8xbig"):
        with pytest.raises(UsageError, match=f"--gpus {text}: write their number and the GB of each"):
            parse_gpus(text)
    with pytest.raises(LanguageModelError, match=r"configuration of .* cannot be read"):
        memory_needs(str(tmp_path), GeneratorConfig())
