"""LoRA: matrices of a low rank beside frozen weights, trained in their place (arXiv:2106.09685)."""

from __future__ import annotations

from typing import Any


def add_lora(model: Any, rank: int | None, **settings: Any) -> Any:
    """A model of Transformers with LoRA matrices beside all of its linear layers; the model itself if `rank` is None.

    `settings` are further arguments of `peft.LoraConfig`, such as `modules_to_save`.
    """
    if rank is None:
        return model
    from peft import get_peft_model

    return get_peft_model(model, _config(rank, **settings))


def merge_lora(model: Any, weights: dict[str, Any]) -> Any:
    """Add trained LoRA matrices to the weights of a model of `add_lora`, and return the model.

    Args:
        model: the model before the training; its weights may have another dtype, and need not be in 4 bits.
        weights: the weights of the trained model, of which only the trained ones are used.
    """
    from peft import get_peft_model_state_dict, set_peft_model_state_dict

    set_peft_model_state_dict(model, get_peft_model_state_dict(model, state_dict=weights))
    return model.merge_and_unload()


def add_adapter(model: Any, rank: int | None) -> None:
    """Add LoRA matrices to the Transformers model inside a model of sentence-transformers; none if `rank` is None."""
    if rank is not None:
        model.add_adapter(_config(rank))


def merge_adapters(model: Any) -> None:
    """Add the LoRA matrices inside a model of sentence-transformers, if there are any, to its weights."""
    inner = model.transformers_model
    if not getattr(inner, "_hf_peft_config_loaded", False):
        return
    from peft.tuners.tuners_utils import BaseTunerLayer
    from peft.utils import ModulesToSaveWrapper

    for name, module in list(inner.named_modules()):
        if isinstance(module, BaseTunerLayer):
            module.merge()
            inner.set_submodule(name, module.get_base_layer())
        elif isinstance(module, ModulesToSaveWrapper):
            inner.set_submodule(name, module.modules_to_save[module.active_adapters[0]])
    inner._hf_peft_config_loaded = False


def _config(rank: int, **settings: Any) -> Any:
    from peft import LoraConfig

    return LoraConfig(r=rank, lora_alpha=2 * rank, target_modules="all-linear", **settings)
