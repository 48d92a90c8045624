"""What the training of a language model takes in memory and on disk, from the configuration of the model alone.

A model without weights reads a batch, and what its layers keep for their gradients is counted. The states of training
are the usual ones of AdamW. What a process takes is, in bytes, for P weights of which T are trained:

- Weights, gradients and the optimizer's two states take 16 P in float32 and 8 P in bfloat16. With LoRA, the frozen
  weights take 2 P (4 P where the checkpoint is in float32, and with FSDP), with QLoRA 0.516 for each weight of a linear
  layer, and the matrices 16 T. Processes that each keep a copy need room for the gradients that they exchange, 4 T.
- With FSDP, the states are divided by the number of processes; two layers and what is outside of layers stand whole.
- With gradient checkpointing, activations are the input of each layer, one layer that is computed again, and what is
  kept outside of layers, with the logits and their gradient; without, they are those of all layers.
"""

from __future__ import annotations

import copy
import time
from dataclasses import dataclass
from typing import Any

from knowgap.compiling.training.config import LanguageModelConfig
from knowgap.errors import UsageError, shorten
from knowgap.lms.local.loading import read_config
from knowgap.retrieval.device import bfloat16_on, choose_device

_DEPTHS = ("num_hidden_layers", "num_layers", "num_decoder_layers", "encoder_layers", "decoder_layers")
_FOUR_BITS = (4 + 8 / 64 + 32 / (64 * 256)) / 8  # bytes a weight, with its share of the scales of QLoRA
_CUDA = 1.5e9  # CUDA itself, its libraries, and what the allocator cannot use
_UTILIZATION = 0.4  # the share of a matrix product's speed that a training reaches
_USUAL_RANK = 16


@dataclass(frozen=True)
class _Count:
    """What a model of some layers has and keeps.

    Attributes:
        weights: all of them.
        linear: the weights of its linear layers, without the last one, which gives the logits.
        widths: the inputs and outputs of these layers, which each weight of a LoRA matrix of rank 1 stands for.
        logits: numbers in the logits of a batch.
        kept: bytes that are kept for gradients.
    """

    weights: int
    linear: int
    widths: int
    logits: int
    kept: int


@dataclass(frozen=True)
class MemoryNeed:
    """What a way to train takes, in GB (10^9 bytes) for each GPU.

    Attributes:
        method: `full`, `LoRA` or `QLoRA`, with what the trained weights are kept in.
        fsdp: whether the states are divided among the GPUs.
        states: weights, gradients and states of the optimizer, and what is exchanged or stands whole for a moment.
        checkpointed: in all, with gradient checkpointing.
        whole: in all, without it.
        disk: two checkpoints, the trained model, and the untrained copy that is measured, for all GPUs together.
    """

    method: str
    fsdp: bool
    states: float
    checkpointed: float
    whole: float
    disk: float


def memory_needs(
    base: str, config: LanguageModelConfig, *, processes: int = 1, cuda: bool = True, trains_head: bool = False
) -> list[MemoryNeed]:
    """What each way to train a language model takes; its configuration is read, and no weights.

    Args:
        base: the model, by folder or hub name; a folder with a `config.json` is enough.
        config: `batch_size` and `max_length` say how much a process reads at once, `lora_rank` how wide the matrices
            are (16 if it is None).
        processes: how many train together.
        cuda: whether to add what CUDA itself takes, and to compute in bfloat16 as GPUs do.
        trains_head: whether the last layer is trained beside the matrices of LoRA, where it is not the embeddings.

    Raises:
        LanguageModelError: the configuration cannot be read.
        UsageError: the model cannot be counted.
    """
    shape = read_config(base)
    half = cuda or (bfloat16_on("cpu") and str(getattr(shape, "dtype", "")).endswith("float16"))
    batch = (config.divided(processes)[0], config.max_length)
    narrow, wide = (_Model(shape, batch, half=half, dtype=dtype) for dtype in ("bfloat16", "float32"))
    frozen = narrow if half and str(getattr(shape, "dtype", "")).endswith("float16") else wide
    rank, total = config.lora_rank or _USUAL_RANK, wide.total
    head = shape.vocab_size * shape.hidden_size if trains_head and not shape.tie_word_embeddings else 0
    matrices, held = rank * total.widths + head, frozen.size
    rest, shared = total.weights - total.linear, 4 if processes > 1 else 0
    ways = [
        ("full, float32", wide, (16 + shared) * total.weights, 16 * total.weights, total.weights),
        ("full, bfloat16", narrow, (8 + shared / 2) * total.weights, 8 * total.weights, total.weights),
        ("LoRA", frozen, held * total.weights + (16 + shared) * matrices, 4 * total.weights + 16 * matrices, matrices),
        ("QLoRA", frozen, _FOUR_BITS * total.linear + 2 * rest + (16 + shared) * matrices, None, matrices),
    ]
    needs: list[MemoryNeed] = []
    for method, model, alone, divided, trained in ways:
        saved = 2 * (4 if method == "full, bfloat16" else 8) * trained + 2 * trained * model.size
        disk = saved + 2 * (2 if str(getattr(shape, "dtype", "")).endswith("float16") else 4) * total.weights
        for fsdp in (False, True) if processes > 1 and divided is not None else (False,):
            run = narrow if fsdp and half else model
            states = alone
            if fsdp and divided is not None:
                whole = total.weights - (wide.depth - 2) * wide.layer.weights  # two layers, and what is outside
                states = divided / processes + run.size * whole + 4 * wide.layer.weights
            states += _CUDA * cuda
            casts = 2 * total.weights if model is wide and run is wide and half else 0
            sums = (states + run.activations(checkpointing, casts) for checkpointing in (True, False))
            checkpointed, all_layers = (each / 1e9 for each in sums)
            needs.append(MemoryNeed(method, fsdp, states / 1e9, checkpointed, all_layers, disk / 1e9))
    return needs


def tokens_per_second(base: str, *, lora: bool, checkpointing: bool) -> float:
    """How many tokens this machine trains a second, estimated from how fast it multiplies matrices.

    Forward and backward pass take 6 operations a weight and token, two less where most weights are frozen, and two more
    with gradient checkpointing; of the speed of a product, a training is taken to reach two fifths.
    """
    import torch

    device = choose_device(None)
    half = bfloat16_on(device)
    matrix = torch.randn(2048, 2048, device=device, dtype=torch.bfloat16 if half else torch.float32)
    begin, products = time.perf_counter(), 0
    while time.perf_counter() - begin < 1:
        matrix = matrix @ matrix / 64
        if device == "cuda":
            torch.cuda.synchronize()
        products += 1
    speed = products * 2 * 2048**3 / (time.perf_counter() - begin)
    weights = _Model(read_config(base), (1, 8), half=False, dtype="float32").total.weights
    return _UTILIZATION * speed / ((6 - 2 * lora + 2 * checkpointing) * weights)


class _Model:
    """A model of which one and two layers are counted, and the rest is taken to be like the second.

    Args:
        shape: its configuration.
        batch: examples and tokens of each.
        half: whether computations are in bfloat16.
        dtype: of the weights.
    """

    def __init__(self, shape: Any, batch: tuple[int, int], *, half: bool, dtype: str) -> None:
        self.size = 2 if dtype == "bfloat16" else 4
        self.depth = max(int(getattr(shape, name, 0) or 0) for name in _DEPTHS)
        self.input = batch[0] * batch[1] * shape.hidden_size * self.size * (2 if shape.is_encoder_decoder else 1)
        try:
            one, two = (_count(shape, depth, batch, half, dtype) for depth in (1, 2))
        except (RuntimeError, TypeError, ValueError, AttributeError) as error:
            raise UsageError(f"the memory of {type(shape).__name__} cannot be counted: {shorten(error)}") from error
        names = ("weights", "linear", "widths", "logits", "kept")
        self.layer = _Count(*(getattr(two, name) - getattr(one, name) for name in names))
        self.outside = _Count(*(getattr(one, name) - getattr(self.layer, name) for name in names))
        self.total = _Count(*(getattr(one, name) + (self.depth - 1) * getattr(self.layer, name) for name in names))

    def activations(self, checkpointing: bool, casts: int) -> float:
        """Bytes at the peak, where `casts` are copies of all weights in half precision during the forward pass."""
        logits = self.outside.kept + 4 * self.total.logits  # the gradient of the logits
        if checkpointing:
            return logits + self.depth * self.input + max(self.layer.kept, casts)
        return logits + self.depth * self.layer.kept


def _count(shape: Any, depth: int, batch: tuple[int, int], half: bool, dtype: str) -> _Count:
    import torch
    from torch._subclasses.fake_tensor import FakeTensorMode
    from transformers import AutoModelForCausalLM, AutoModelForSeq2SeqLM

    shape = copy.deepcopy(shape)
    for name in _DEPTHS:
        if getattr(shape, name, None) is not None:
            setattr(shape, name, depth)
    if getattr(shape, "layer_types", None):
        shape.layer_types = shape.layer_types[:depth]
    shape.use_cache = False
    kind: Any = AutoModelForSeq2SeqLM if shape.is_encoder_decoder else AutoModelForCausalLM
    storages: dict[int, Any] = {}

    def keep(tensor: Any) -> Any:
        storage = tensor.untyped_storage()
        storages[storage._cdata] = storage
        return tensor

    with FakeTensorMode(allow_non_fake_inputs=True):
        model = kind.from_config(shape, dtype=getattr(torch, dtype)).train()
        ids = torch.zeros(batch, dtype=torch.long)
        given = {"input_ids": ids, **({"labels": ids} if shape.is_encoder_decoder else {})}
        hooks = torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor)
        with hooks, torch.autocast("cpu", torch.bfloat16, enabled=half):
            logits = model(**given).logits
            torch.nn.functional.cross_entropy(logits.flatten(0, 1).float(), ids.flatten(), reduction="sum")
        own = {parameter.untyped_storage()._cdata for parameter in model.parameters()}
        kept = sum(storage.nbytes() for place, storage in storages.items() if place not in own)
        head = model.get_output_embeddings()
        linear = [each for each in model.modules() if isinstance(each, torch.nn.Linear) and each is not head]
        return _Count(
            sum(parameter.numel() for parameter in model.parameters()),
            sum(each.weight.numel() for each in linear),
            sum(each.in_features + each.out_features for each in linear),
            logits.numel(),
            kept,
        )


def parse_gpus(text: str) -> tuple[int, float]:
    """The number of GPUs and the GB of each, from a text such as `8x80`.

    Raises:
        UsageError: it is none.
    """
    number, _, size = text.lower().partition("x")
    if not (number.isdecimal() and size.replace(".", "", 1).isdecimal() and int(number) > 0 and float(size) > 0):
        raise UsageError(f"--gpus {text}: write their number and the GB of each, such as 8x80")
    return int(number), float(size)
