"""What batches save when many threads ask a local model of Transformers.

The model and its tokenizer are made on the spot: random weights, and a vocabulary from the texts of the sample. A
request is a question of the sample with passages. Replies are cut off at lengths that differ from request to request,
as those of a trained model would. Both ways answer the same requests at temperature 0.
"""

from __future__ import annotations

import argparse
import random
import tempfile
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from dspy.lm15 import Config, Message, Request, Response
from table import Table, note, ratio, seconds

from knowgap.compiling.data import load_dataset
from knowgap.lms import HFEngine

WAYS = {"one by one": 1, "together, in padded batches": 32}
LONGEST_REPLY = 64


def add_arguments(group: Any) -> None:
    """Add the options of this benchmark."""
    group.add_argument("--requests", type=int, help="requests at once (32; quick 8)")
    group.add_argument("--layers", type=int, default=4, help="layers of the model (4)")
    group.add_argument("--width", type=int, default=256, help="width of the model, a multiple of 64 (256)")
    group.add_argument("--model-device", help="where the model runs (a GPU if there is one)")


def measure(options: argparse.Namespace) -> Iterator[Table]:
    """Measure requests one by one and together, for prompts with one and with five passages."""
    count = options.requests or (8 if options.quick else 32)
    sample = load_dataset()
    with tempfile.TemporaryDirectory(prefix="knowgap-benchmark-") as folder:
        for kind in ("causal", "seq2seq"):
            texts = [passage.text for passage in sample.corpus]
            model = write_model(Path(folder) / kind, kind, texts, options.layers, options.width)
            for passages in (1, 5):
                requests = make_requests(sample, count, passages)
                yield compare(kind, str(model), requests, passages, options)


def write_model(
    folder: Path, kind: str, texts: Sequence[str], layers: int, width: int, *, vocabulary: int = 8000, **changes: Any
) -> Path:
    """Write a Llama or T5 with random weights and a byte-level tokenizer; `changes` are of its configuration."""
    import torch
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
    from transformers import (
        LlamaConfig,
        LlamaForCausalLM,
        PreTrainedTokenizerFast,
        T5Config,
        T5ForConditionalGeneration,
    )

    raw = Tokenizer(models.BPE())
    raw.pre_tokenizer, raw.decoder = pre_tokenizers.ByteLevel(add_prefix_space=False), decoders.ByteLevel()
    trainer: Any = trainers.BpeTrainer(
        vocab_size=vocabulary, special_tokens=["<pad>", "</s>"], show_progress=False,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
    )  # fmt: skip
    raw.train_from_iterator(texts, trainer)
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=raw, pad_token="<pad>", eos_token="</s>")
    tokenizer.save_pretrained(folder)
    torch.manual_seed(1)
    settings: dict[str, Any] = {"vocab_size": len(tokenizer), "pad_token_id": 0, "eos_token_id": 1}
    if kind == "causal":
        settings |= {"hidden_size": width, "intermediate_size": 3 * width, "num_hidden_layers": layers}
        settings |= {"num_attention_heads": width // 64, "max_position_embeddings": 4096, "initializer_range": 0.1}
        model: Any = LlamaForCausalLM(LlamaConfig(bos_token_id=0, **{**settings, **changes}))
    else:
        settings |= {"d_model": width, "d_ff": 3 * width, "d_kv": 64, "num_layers": layers, "num_heads": width // 64}
        model = T5ForConditionalGeneration(T5Config(decoder_start_token_id=0, **{**settings, **changes}))
    model.save_pretrained(folder)
    return folder


def make_requests(sample: Any, count: int, passages: int) -> list[Request]:
    """Questions of the sample with random passages, and a limit of 4 to 64 tokens for each reply."""
    chance = random.Random(5)
    corpus = list(sample.corpus)
    examples = sample.questions("dev")[:count]
    requests = []
    for example in examples:
        text = "\n\n".join([*(passage.text for passage in chance.sample(corpus, passages)), example.question])
        config = Config(max_tokens=chance.randint(4, LONGEST_REPLY))
        requests.append(Request(model="hf/benchmark", messages=(Message.user(text),), config=config))
    return requests


def compare(kind: str, model: str, requests: Sequence[Request], passages: int, options: argparse.Namespace) -> Table:
    """Ask in each way; count the replies that are those of one by one."""
    rows, base, first = [], 0.0, []
    for name, at_once in WAYS.items():
        engine = HFEngine(model, options.model_device)
        engine.complete(requests[0])  # loads it
        note(f"local_models: {kind}, {passages} passages, {name}")
        replies, wall = ask(engine, requests, at_once)
        first, base = first or replies, base or wall
        same = sum(reply.message.text == other.message.text for reply, other in zip(replies, first, strict=True))
        written = sum(reply.usage.output_tokens or 0 for reply in replies)
        rows.append([name, seconds(wall), f"{written / wall:.0f}", ratio(base, wall), f"{same} of {len(replies)}"])
        device = engine.load().model.device.type
        engine.close()
    prompts = sorted(reply.usage.input_tokens or 0 for reply in first)
    return Table(
        f"{len(requests)} requests to a {kind} model, {options.layers} layers, {options.width} wide, "
        f"prompts of {prompts[0]} to {prompts[-1]} tokens, on the {device.upper()}",
        ["requests", "wall", "tokens/s", "one by one / wall", "same reply"],
        rows,
    )


def ask(engine: HFEngine, requests: Sequence[Request], at_once: int) -> tuple[list[Response], float]:
    """Ask with so many threads: the replies, and the seconds that it took."""
    start = time.perf_counter()
    with ThreadPoolExecutor(at_once) as threads:
        replies = list(threads.map(engine.complete, requests))
    return replies, time.perf_counter() - start
