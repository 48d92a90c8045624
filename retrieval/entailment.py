"""The interface of entailment models, loading them by name, and the models that Transformers loads."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

from knowgap.errors import CheckpointError
from knowgap.plugins import make
from knowgap.retrieval.grounding import GroundingEntailment
from knowgap.retrieval.hub import bfloat16_on, check_trained, choose_device, loading_model
from knowgap.retrieval.rerankers import reranker
from knowgap.retrieval.rerankers.reranker import PairScorer

_BATCH_SIZE = 16
_MAX_TOKENS = 2048


@runtime_checkable
class EntailmentModel(Protocol):
    """Judges whether a premise says that a hypothesis is true.

    Attributes:
        name: the model.
        default_threshold: the probability from which a hypothesis counts as entailed.
    """

    name: str
    default_threshold: float

    def entails(self, pairs: Sequence[tuple[str, str]]) -> list[float]:
        """The probability, 0 to 1, that the premise entails the hypothesis, for each (premise, hypothesis) pair."""
        ...


def make_entailment(name: str | Path) -> EntailmentModel:
    """Load an entailment model by name.

    Args:
        name: `grounding`, the rule of words; the folder or hub name of a T5 or of a cross-encoder; or `module:Name` of
            a plugin.

    Raises:
        CheckpointError: no such model.
        UsageError: a plugin cannot be imported or made, or is not an entailment model.
    """
    if str(name) == GroundingEntailment.name:
        return GroundingEntailment()
    if (outside := make("entailment model", name, EntailmentModel)) is not None:
        return outside
    with loading_model(name) as (source, arguments):
        from transformers import AutoConfig

        is_t5 = AutoConfig.from_pretrained(source, **arguments).is_encoder_decoder
    return T5TrueNLI(name) if is_t5 else NLICrossEncoder(name)


class _Entailment(PairScorer):
    default_threshold = 0.5

    def entails(self, pairs: Sequence[tuple[str, str]]) -> list[float]:
        """The probability of entailment, 0 to 1, for each (premise, hypothesis) pair."""
        return self.score(pairs)


class NLICrossEncoder(_Entailment):
    """A cross-encoder trained on natural language inference, such as `cross-encoder/nli-deberta-v3-base`.

    Args:
        model: a folder, or a name on the Hugging Face hub. One of its labels must be called entailment, or it must
            have a single label.

    Raises:
        CheckpointError: no such model, one that lacks weights, or its labels do not say which of them is entailment.
    """

    def __init__(self, model: str | Path) -> None:
        super().__init__(model)
        self._model = reranker.load_cross_encoder(model)
        labels = {int(i): str(label).lower() for i, label in self._model.config.id2label.items()}
        entailment = [i for i, label in labels.items() if label.startswith("entail") or len(labels) == 1]
        if len(entailment) != 1:
            raise CheckpointError(f"{self.name}: none of its labels is entailment: {', '.join(labels.values())}")
        [self._entailment_label] = entailment

    def _score(self, pairs: Sequence[tuple[str, str]]) -> list[float]:
        import torch

        logits = torch.from_numpy(reranker.predict_logits(self._model, pairs))
        probabilities = logits.sigmoid() if logits.shape[1] == 1 else logits.softmax(-1)
        return probabilities[:, self._entailment_label].tolist()


class T5TrueNLI(_Entailment):
    """TRUE (Honovich et al. 2022), `google/t5_xxl_true_nli_mixture`: a T5 that answers 1 or 0. MIGRES and ALCE use it.

    The probability is that of "1" against "0" as the first token of the answer. The published model has eleven billion
    parameters, 45 GB in 32 bits; it is loaded in bfloat16 if the processor computes in it. Smaller models of the same
    form work too.

    Args:
        model: a folder, or a name on the Hugging Face hub.

    Raises:
        CheckpointError: no such model, or one that lacks weights.
    """

    def __init__(self, model: str | Path) -> None:
        import torch

        super().__init__(model)
        self._device = choose_device()
        with loading_model(model) as (source, arguments):
            from transformers import AutoModelForSeq2SeqLM, AutoTokenizer

            dtype = torch.bfloat16 if bfloat16_on(self._device) else torch.float32
            self._tokenizer: Any = AutoTokenizer.from_pretrained(source, **arguments)
            arguments |= {"dtype": dtype, "output_loading_info": True}
            network, report = AutoModelForSeq2SeqLM.from_pretrained(source, **arguments)
            check_trained(model, type(network), report)
        self._model: Any = network.to(self._device).eval()
        self._answer_ids = [self._tokenizer(answer, add_special_tokens=False)["input_ids"][0] for answer in ("0", "1")]

    def _score(self, pairs: Sequence[tuple[str, str]]) -> list[float]:
        import torch

        texts, probabilities = [f"premise: {premise} hypothesis: {hypothesis}" for premise, hypothesis in pairs], []
        for batch in (texts[start : start + _BATCH_SIZE] for start in range(0, len(texts), _BATCH_SIZE)):
            inputs = self._tokenizer(batch, padding=True, truncation=True, max_length=_MAX_TOKENS, return_tensors="pt")
            first = torch.full((len(batch), 1), self._model.config.decoder_start_token_id, device=self._device)
            with torch.inference_mode():
                logits = self._model(**inputs.to(self._device), decoder_input_ids=first).logits[:, 0, self._answer_ids]
            probabilities += logits.float().softmax(-1)[:, 1].tolist()
        return probabilities
