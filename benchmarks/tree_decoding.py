"""Tree decoding of RQ-RAG's generator, with prefixes read once, against decoding each path from scratch.

A Llama with random weights writes whole trees of depth two: 12 queries of 16 tokens with three passages each, and 13
answers. Decoded from scratch, each of the 25 texts is written after its whole path is read, with keys and values of
that path alone; with shared decoding, one by one or in batches, what the paths have in common is read once.
Trajectories must be the same, and log-probabilities must differ by less than 1e-4.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator
from typing import Any

from table import Table, ratio, seconds

from knowgap.compiling.data import load_dataset
from knowgap.lms.rq_rag.layout import TranscriptLayout, add_control_tokens
from knowgap.lms.rq_rag.tree import TranscriptTree, Written

_ACTIONS = ("rewrite", "decompose", "disambiguate")
_SIZES = {"2 layers, 128 wide": (2, 128), "4 layers, 512 wide": (4, 512)}


def add_arguments(group: Any) -> None:
    """Add the arguments of this benchmark."""
    group.add_argument("--tree-new-tokens", type=int, default=16, help="tokens of a query or an answer (16)")


def measure(options: argparse.Namespace) -> Iterator[Table]:
    """Write the same tree in three ways."""
    ways = {
        "from scratch": {"share": False},
        "shared, one by one": {"share": True, "batch_size": 1},
        "shared, in batches of 16": {"share": True, "batch_size": 16},
    }
    for name, (layers, width) in list(_SIZES.items())[: 1 if options.quick else None]:
        model, layout = _random_model(layers, width)
        rows, first, base = [], {}, None
        for way, settings in ways.items():
            tree = TranscriptTree(
                model,
                layout,
                layout.prompt("a few words", "Who directed the film?"),
                max_new_tokens=options.tree_new_tokens,
                **settings,
            )
            started = time.perf_counter()
            written = _grow(tree)
            took = time.perf_counter() - started
            base = base or (tree.counts.read + tree.counts.written, took)
            first = first or written
            same = all(len(written[b].logprobs) == len(first[b].logprobs) for b in first)
            apart = max(
                abs(one - other)
                for branch in first
                for one, other in zip(written[branch].logprobs, first[branch].logprobs, strict=False)
            )
            counts = tree.counts
            tokens = counts.read + counts.written
            verdict = "yes" if same and apart < 1e-4 else "NO"
            row = [way, f"{counts.read:,}", f"{counts.written:,}", f"{counts.padding:,}", ratio(tokens, base[0])]
            rows.append([*row, seconds(took), ratio(took, base[1]), verdict, f"{apart:.0e}"])
        columns = ["decoding", "tokens read", "written", "padding", "computed / from scratch", "wall"]
        columns += ["wall / from scratch", "same", "largest difference"]
        yield Table(f"a tree of 25 texts: {name}", columns, rows)


def _grow(tree: TranscriptTree) -> dict[tuple[str, str], Written]:
    """Write two levels of queries, each of which finds three passages of the sample, and all answers."""
    corpus, written, paths = load_dataset("sample").corpus, {}, [""]
    everywhere = [""]
    for depth in (1, 2):
        branches = [(path, action) for path in paths for action in _ACTIONS]
        written |= dict(zip(branches, tree.write(branches), strict=True))
        paths = [f"{path}/{action}".strip("/") for path, action in branches]
        for place, path in enumerate(paths):
            tree.read(path, corpus[30 * depth + 3 * place :][:3])
        everywhere += paths
    answers = [(path, "answer") for path in everywhere]
    return written | dict(zip(answers, tree.write(answers), strict=True))


class _EndlessLayout(TranscriptLayout):
    """Takes every text as readable, since a model with random weights does not write the end."""

    def read(self, ids: Any) -> tuple[str, str]:
        return str(self.tokenizer.decode(ids)), ""


def _random_model(layers: int, width: int) -> tuple[Any, TranscriptLayout]:
    import torch
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
    from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

    raw = Tokenizer(models.BPE())
    raw.pre_tokenizer, raw.decoder = pre_tokenizers.ByteLevel(add_prefix_space=False), decoders.ByteLevel()
    alphabet, special = pre_tokenizers.ByteLevel.alphabet(), ["<s>", "</s>"]
    trainer = trainers.BpeTrainer(
        vocab_size=4000, special_tokens=special, initial_alphabet=alphabet, show_progress=False
    )
    raw.train_from_iterator(map(str, load_dataset("sample").corpus), trainer)
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=raw, bos_token="<s>", eos_token="</s>")
    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=len(tokenizer),
        hidden_size=width,
        intermediate_size=2 * width,
        num_hidden_layers=layers,
        num_attention_heads=width // 64,
        initializer_range=0.1,
        bos_token_id=0,
        eos_token_id=1,
    )
    model = LlamaForCausalLM(config)
    add_control_tokens(tokenizer, model)
    return model.eval(), _EndlessLayout(tokenizer)
