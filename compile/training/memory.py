"""Estimate what training a language model takes in memory and on disk, from the configuration of the model alone.

A model without weights, of two and of three layers, reads a batch and computes the gradients of its loss, as the
training does. The bytes of live tensors are added up at any time; each further layer is assumed to add what the third
layer adds. A process takes the sum of:

- Weights, gradients and the optimizer's two states, in the dtype of the weights: for P weights, 16 P bytes in float32
  and 8 P in bfloat16. With LoRA, the frozen weights take 2 P (4 P if the checkpoint is in float32, and with FSDP), with
  QLoRA 0.516 bytes for each weight of a linear layer, and one linear layer in 16 bits while it is multiplied. Processes
  that each keep a copy also hold the gradients that they exchange.
- With FSDP, these are divided by the number of processes; two layers, and what is outside of layers, are held whole.
- The largest sum of all other tensors during the forward and during the backward pass: what layers keep, weights that
  are cast to 16 bits, logits in 32 bits, their logarithms and their gradients, and the gradient of a weight before it
  is added. If a step has only one batch, the gradients of all weights do not exist at that time. Without a GPU, LoRA
  loads the base once more at the end, to add the matrices to it, which counts instead if it takes more.
- CUDA, or without a GPU, what Python and the libraries take in this process.
"""

from __future__ import annotations

import ctypes
import functools
import json
import sys
import time
import warnings
from dataclasses import dataclass
from typing import Any, NamedTuple

from knowgap.compiling.training.config import LanguageModelConfig
from knowgap.compiling.training.lora import add_lora
from knowgap.errors import UsageError, shorten
from knowgap.lms.local.loading import read_config
from knowgap.retrieval.device import bfloat16_on, choose_device

_DEPTHS = ("num_hidden_layers", "num_layers", "num_decoder_layers", "encoder_layers", "decoder_layers")
_FOUR_BITS = (4 + 8 / 64 + 32 / (64 * 256)) / 8  # bytes a weight, with its share of the scales of QLoRA
_CUDA = 1.5e9  # CUDA itself, its libraries, and what the allocator cannot use
_UTILIZATION = 0.4  # the share of a matrix product's speed that a training reaches
_USUAL_RANK = 16
_MMAP_THRESHOLD = -3  # M_MMAP_THRESHOLD of malloc.h
_COUNTED = (2, 3)  # layers: with one, the largest sum may be reached in another place


class _Count(NamedTuple):
    """The weights of a model with some number of layers, and the bytes that it takes.

    Attributes:
        weights: the number of weights of the base.
        linear: the weights of its linear layers, without the last one, which gives the logits.
        frozen: bytes of the weights that are not trained.
        trained: bytes of the weights that are trained.
        forward: the most bytes of other tensors during the forward pass.
        backward: the same during the backward pass.
        widest: weights of the largest of its linear layers.
    """

    weights: float
    linear: float
    frozen: float
    trained: float
    forward: float
    backward: float
    widest: float


@dataclass(frozen=True)
class MemoryNeed:
    """What a way to train takes, in GB (10^9 bytes) for each GPU.

    Attributes:
        method: `full, float32`, `full, bfloat16`, `LoRA` or `QLoRA`.
        fsdp: whether the states are divided among the GPUs.
        states: weights, gradients and states of the optimizer, what is exchanged or temporarily held whole, and CUDA.
        checkpointed: the total with gradient checkpointing.
        whole: the total without gradient checkpointing.
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
    """What each way to train a language model takes; only its configuration is read, and no weights.

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
    half_base = str(getattr(shape, "dtype", "")).endswith("float16")
    half = cuda or (bfloat16_on("cpu") and half_base)
    size, batches = config.divided(processes)
    batch, rank = (size, config.max_length), config.lora_rank or _USUAL_RANK
    wide, narrow = _Model(shape, batch, "float32", half=half), _Model(shape, batch, "bfloat16", half=False)
    adapted = _Model(shape, batch, "bfloat16" if half and half_base else "float32", half, rank, trains_head)
    full, layer = wide.total(True), wide.layer(True)
    own, copies, base_size = _CUDA if cuda else own_memory(), 5 if processes > 1 else 4, 2 if half_base else 4
    needs: list[MemoryNeed] = []
    for method, model in (("full, float32", wide), ("full, bfloat16", narrow), ("LoRA", adapted), ("QLoRA", adapted)):
        total, four_bits = model.total(True), method == "QLoRA"
        frozen = _FOUR_BITS * total.linear + 2 * (full.weights - full.linear) if four_bits else total.frozen
        disk = 2 * 3 * total.trained + 2 * base_size * full.weights
        for fsdp in (False, True) if processes > 1 and not four_bits else (False,):
            run, states, gradients = model, own + frozen + copies * total.trained, total.trained
            if fsdp:
                run = narrow if half and model is wide else model
                divided = 4 * total.trained + 4 * full.weights * (model is adapted)  # FSDP needs one dtype for all
                whole = full.weights - (wide.depth - 2) * layer.weights  # two layers, and what is outside
                states = own + divided / processes + (2 if half else 4) * whole + 4 * layer.weights
                gradients /= processes
            sums = list[float]()
            for checkpointing in (True, False):
                found = run.total(checkpointing)
                most = max(found.forward, found.backward) + (2 * total.widest if four_bits else 0)
                if batches == 1:
                    most = max(most - gradients, run.layer(False).backward)
                if model is adapted and not cuda:  # the base is loaded again, and the matrices are added to it
                    most = max(most, base_size * full.weights - gradients)
                sums.append((states + most) / 1e9)
            needs.append(MemoryNeed(method, fsdp, states / 1e9, sums[0], sums[1], disk / 1e9))
    return needs


def tokens_per_second(base: str, *, lora: bool, checkpointing: bool) -> float:
    """How many tokens this machine trains a second, estimated from how fast it multiplies matrices.

    Forward and backward pass take 6 operations per weight and token, two fewer if most weights are frozen, and two more
    with gradient checkpointing. A training is assumed to reach two fifths of the speed of a matrix product.
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
    weights = sum(parameter.numel() for parameter in _empty_model(read_config(base), "bfloat16").parameters())
    return _UTILIZATION * speed / ((6 - 2 * lora + 2 * checkpointing) * weights)


class _Model:
    """A model that is counted with two and with three layers; the others are assumed to be like the third.

    `batch` has the number of examples and the tokens of each. With `half`, computations are in bfloat16 where the
    weights are not. Without a `rank`, all weights are trained instead of LoRA matrices.
    """

    def __init__(
        self,
        shape: Any,
        batch: tuple[int, int],
        dtype: str,
        half: bool = False,
        rank: int | None = None,
        trains_head: bool = False,
    ) -> None:
        self.depth = max(int(getattr(shape, name, 0) or 0) for name in _DEPTHS)
        self._counts: dict[bool, tuple[_Count, _Count]] = {}
        text = json.dumps(shape.to_dict())
        try:
            for checkpointing in (True, False):
                fewer, more = (
                    _count(text, depth, batch, dtype, half, rank, trains_head, checkpointing) for depth in _COUNTED
                )
                self._counts[checkpointing] = fewer, more
        except (RuntimeError, TypeError, ValueError, AttributeError) as error:
            raise UsageError(f"the memory of {type(shape).__name__} cannot be counted: {shorten(error)}") from error

    def layer(self, checkpointing: bool) -> _Count:
        """What a layer adds."""
        fewer, more = self._counts[checkpointing]
        return _Count(*(with_it - without for without, with_it in zip(fewer, more, strict=True)))

    def total(self, checkpointing: bool) -> _Count:
        """What all of it takes, with gradient checkpointing or without."""
        fewer, more = self._counts[checkpointing]
        further = self.depth - _COUNTED[0]
        total = _Count(*(first + further * each for first, each in zip(fewer, self.layer(checkpointing), strict=True)))
        return total._replace(widest=more.widest)


def _empty_model(shape: Any, dtype: str) -> Any:
    """A model of this configuration without weights."""
    import torch
    from transformers import AutoModelForCausalLM, AutoModelForSeq2SeqLM

    kind: Any = AutoModelForSeq2SeqLM if shape.is_encoder_decoder else AutoModelForCausalLM
    with torch.device("meta"):
        return kind.from_config(shape, dtype=getattr(torch, dtype)).train()


@functools.cache
def _count(
    text: str,
    depth: int,
    batch: tuple[int, int],
    dtype: str,
    half: bool,
    rank: int | None,
    trains_head: bool,
    checkpointing: bool,
) -> _Count:
    """Count a model with `depth` layers and otherwise the configuration in a JSON text."""
    import torch
    from torch._subclasses.fake_tensor import FakeTensorMode
    from transformers import AutoConfig

    from knowgap.compiling.training.live_tensors import LiveTensors
    from knowgap.compiling.training.transformers_trainer import summed_loss

    shape = AutoConfig.for_model(**json.loads(text))
    for name in _DEPTHS:
        if getattr(shape, name, None) is not None:
            setattr(shape, name, depth)
    if getattr(shape, "layer_types", None):
        shape.layer_types = shape.layer_types[:depth]
    shape.use_cache = False
    model = base = _empty_model(shape, dtype)
    with warnings.catch_warnings(), torch.device("meta"):
        warnings.filterwarnings("ignore", message=".*gradient_checkpointing", category=FutureWarning)
        head, parts = base.get_output_embeddings(), [*base.modules()]
        linear = [each.weight.numel() for each in parts if isinstance(each, torch.nn.Linear) and each is not head]
        weights = sum(parameter.numel() for parameter in base.parameters())
        if rank is not None:
            names = [name.rpartition(".")[2] for name, part in base.named_modules() if part is head]
            tied = head is None or head.weight is base.get_input_embeddings().weight
            model = add_lora(base, rank, **({"modules_to_save": names} if trains_head and not tied else {}))
            base.enable_input_require_grads()
        if checkpointing and base.supports_gradient_checkpointing:
            base.gradient_checkpointing_enable({"use_reentrant": False, "preserve_rng_state": False})
    with FakeTensorMode(allow_non_fake_inputs=True):
        model.to_empty(device="cpu")
        base.tie_weights()
        sizes = {True: 0, False: 0}  # of trained weights, and of the others
        for parameter in model.parameters():
            sizes[parameter.requires_grad] += parameter.numel() * parameter.element_size()
            if parameter.requires_grad:
                parameter.register_post_accumulate_grad_hook(_drop_gradient)
        ids = torch.zeros(batch, dtype=torch.long)
        given = {"input_ids": ids, **({"labels": ids} if shape.is_encoder_decoder else {})}
        with LiveTensors([*model.parameters(), *model.buffers()]) as alive:
            with torch.autocast("cpu", torch.bfloat16, enabled=half):
                logits = model(**given).logits
            logits = logits.float() if half else logits  # as Accelerate does
            loss = summed_loss(logits, ids, shifted=not shape.is_encoder_decoder)
            del logits
            forward = alive.take_most()
            loss.backward()
            backward = alive.take_most()
    return _Count(weights, sum(linear), sizes[False], sizes[True], forward, backward, max(linear, default=0))


def _drop_gradient(parameter: Any) -> None:
    parameter.grad = None


def own_memory() -> float:
    """Bytes that this process holds and cannot give back."""
    import psutil

    found = psutil.Process().memory_info()
    return found.rss - getattr(found, "shared", 0)


def return_freed_memory() -> None:
    """Let the C library return the memory of each tensor to the system as soon as the tensor is freed.

    Otherwise, glibc keeps blocks of up to 32 MiB for later and allocates new ones where these do not fit, which can be
    a large part of what a training holds. This matters on the CPU only; other C libraries are left alone.
    """
    if sys.platform == "linux" and hasattr(libraries := ctypes.CDLL(None), "mallopt"):
        libraries.mallopt(_MMAP_THRESHOLD, 2**18)


def parse_gpus(text: str) -> tuple[int, float]:
    """The number of GPUs and the GB of each, from a text such as `8x80`.

    Raises:
        UsageError: the text is not of this form.
    """
    number, _, size = text.lower().partition("x")
    if not (number.isdecimal() and size.replace(".", "", 1).isdecimal() and int(number) > 0 and float(size) > 0):
        raise UsageError(f"--gpus {text}: write the number of GPUs and the GB of each, such as 8x80")
    return int(number), float(size)
