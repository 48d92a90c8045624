"""Keys and values of a tree of token sequences: each token's are computed and kept once, and joined for each path."""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any


def cache_of(output: Any) -> tuple[str, Any]:
    """The name of the cache in a model's output and input, and the cache; no name and None if there is none.

    The name is `cache` from transformers 5.24 on.
    """
    names = ("cache", "past_key_values", "cache_params")
    return next(((name, found) for name in names if (found := getattr(output, name, None)) is not None), ("", None))


@dataclass
class Segment:
    """Tokens on a path of the tree, after those of the parent.

    Attributes:
        parent: the segment before it; None at the root.
        ids: its tokens.
        states: keys and values per layer, each of shape (heads, tokens, width); empty until they are computed.
    """

    parent: Segment | None
    ids: list[int]
    states: list[tuple[Any, Any]] = field(default_factory=list)

    @property
    def path(self) -> list[Segment]:
        """The segments from the root to this one."""
        return [*(self.parent.path if self.parent else ()), self]

    @property
    def length(self) -> int:
        """Tokens from the root to the end of this segment."""
        return len(self.ids) + (self.parent.length if self.parent else 0)


def can_share(model: Any) -> bool:
    """Whether a model's cache is plain keys and values of full attention, which can be cut and joined."""
    import torch
    from transformers.cache_utils import DynamicCache, DynamicLayer

    with torch.inference_mode():
        token = torch.zeros((1, 1), dtype=torch.long, device=model.device)
        _, cache = cache_of(model(input_ids=token, use_cache=True))
    return type(cache) is DynamicCache and all(type(layer) is DynamicLayer for layer in cache.layers)


class Batch:
    """Several paths that a model continues in one batch.

    The joined states are padded on the right to the longest path. The padding is masked and tokens have their positions
    in their own paths, so that each row is computed as it would be alone.

    Args:
        model: a model for which `can_share` is true.
        segments: the last segment of each row's path; None for an empty path.
    """

    def __init__(self, model: Any, segments: Sequence[Segment | None]):
        import torch

        self.model, self._parameters = model, inspect.signature(model.forward).parameters
        self.lengths = torch.tensor([segment.length if segment else 0 for segment in segments], device=model.device)
        self.prefix = int(self.lengths.max())
        steps = torch.arange(self.prefix, device=model.device)
        self.mask = (steps < self.lengths[:, None]).long()
        self.cache = self._join(segments)

    def _join(self, segments: Sequence[Segment | None]) -> Any:
        """The states of all rows, of shape (rows, heads, longest path, width) per layer."""
        from transformers.cache_utils import DynamicCache

        cache = DynamicCache()
        paths = [segment.path if segment else [] for segment in segments]
        if not self.prefix:
            return cache
        for layer in range(len(paths[0][0].states)):
            joined = []
            for part in (0, 1):
                first = paths[0][0].states[layer][part]
                full = first.new_zeros((len(paths), first.shape[0], self.prefix, first.shape[2]))
                for row, path in enumerate(paths):
                    begin = 0
                    for segment in path:
                        end = begin + len(segment.ids)
                        full[row, :, begin:end] = segment.states[layer][part]
                        begin = end
                joined.append(full)
            cache.update(joined[0], joined[1], layer)
        return cache

    def feed(self, tokens: Any, real: Any) -> Any:
        """Let the model read further tokens; returns the logits after the last column, of shape (rows, vocabulary).

        Args:
            tokens: of shape (rows, tokens), padded on the right.
            real: of the same shape, 1 for a token and 0 for padding.
        """
        import torch

        counts = real.sum(dim=1)
        steps = torch.arange(tokens.shape[1], device=tokens.device).minimum(counts[:, None] - 1)
        self.mask = torch.cat([self.mask, real], dim=1)
        name = "cache" if "cache" in self._parameters else "past_key_values"
        options = {"position_ids": self.lengths[:, None] + steps, "logits_to_keep": 1}
        output = self.model(
            input_ids=tokens,
            attention_mask=self.mask,
            use_cache=True,
            **{name: self.cache},
            **{option: value for option, value in options.items() if option in self._parameters},
        )
        self.lengths = self.lengths + counts
        return output.logits[:, -1]

    def states(self, row: int, count: int) -> list[tuple[Any, Any]]:
        """The states of the first `count` tokens that a row has read in this batch."""
        span = slice(self.prefix, self.prefix + count)
        return [(layer.keys[row, :, span].clone(), layer.values[row, :, span].clone()) for layer in self.cache.layers]

    def keep(self, rows: Any) -> None:
        """Continue with these rows only."""
        self.cache.batch_select_indices(rows)
        self.mask, self.lengths = self.mask[rows], self.lengths[rows]
