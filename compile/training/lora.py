"""LoRA: matrices of a low rank beside frozen weights, trained in their place (arXiv:2106.09685)."""

from __future__ import annotations

from typing import Any

__all__ = ["add_lora", "merge_lora"]


def add_lora(model: Any, rank: int | None, **settings: Any) -> Any:
    """A model of Transformers with LoRA matrices beside all of its linear layers; the model itself if `rank` is None.

    Args:
        model: a `PreTrainedModel`.
        rank: the rank of the matrices.
        settings: further arguments of `peft.LoraConfig`, such as `modules_to_save`.
    """
    if rank is None:
        return model
    from peft import LoraConfig, get_peft_model

    defaults = {"lora_alpha": 2 * rank, "target_modules": "all-linear"}
    return get_peft_model(model, LoraConfig(r=rank, **{**defaults, **settings}))


def merge_lora(model: Any) -> Any:
    """The model with its LoRA matrices added to its weights; a model without any is returned as it is."""
    return model.merge_and_unload() if hasattr(model, "merge_and_unload") else model
