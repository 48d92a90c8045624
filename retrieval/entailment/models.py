"""Entailment: does a premise say that a hypothesis is true? A probability for each pair."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from knowgap.errors import CheckpointError
from knowgap.retrieval.lexical import Stemmed, content_words, names, numbers
from knowgap.retrieval.lru_cache import Memory
from knowgap.retrieval.rerankers.cross_encoder import check_model_name, load_cross_encoder, predict
from knowgap.retrieval.sentences import split_sentences

__all__ = ["EmbeddedEntailment", "EntailmentModel", "NLICrossEncoder", "T5TrueNLI", "make_entailment"]

_KEPT_PAIRS = 65_536
_PAIRS_AT_ONCE = 16
_WORDS, _SIMILARITY, _BIAS = 8.4, 5.1, -4.9
_ABSENT, _OTHER_NEGATION = 9.0, 3.0
_NEGATION = re.compile(r"\b(?:not|no|never|none|neither|nor|without|cannot)\b|n't\b", re.IGNORECASE)


class EntailmentModel(Protocol):
    """What a program needs of an entailment model.

    Attributes:
        name: which model it is.
        default_threshold: the probability from which a hypothesis counts as entailed.
    """

    name: str
    default_threshold: float

    def entails(self, pairs: Sequence[tuple[str, str]]) -> list[float]:
        """The probability, 0 to 1, that each (premise, hypothesis) is an entailment."""
        ...


class NLICrossEncoder:
    """A cross-encoder trained on natural language inference, such as `cross-encoder/nli-deberta-v3-base`.

    Args:
        model: a folder, or a name on the Hugging Face hub. Its labels must name entailment, or it must have one only.
        device: where to compute; None takes a GPU where there is one.

    Raises:
        CheckpointError: no such model, or one whose labels do not say which of them is entailment.
    """

    def __init__(self, model: str | Path, *, device: str | None = None) -> None:
        self.name = str(model)
        self.default_threshold = 0.5
        self._model = load_cross_encoder(model, device=device)
        labels = {int(i): str(label).lower() for i, label in self._model.config.id2label.items()}
        found = [i for i, label in labels.items() if label.startswith("entail")]
        if len(labels) > 1 and len(found) != 1:
            raise CheckpointError(f"{self.name}: none of its labels is entailment: {', '.join(labels.values())}")
        self._entailment = found[0] if found else 0
        self._memory: Memory[tuple[str, str], float] = Memory(_KEPT_PAIRS)

    def entails(self, pairs: Sequence[tuple[str, str]]) -> list[float]:
        """The probability of the label entailment for each (premise, hypothesis)."""
        return self._memory.get(pairs, self._entails)

    def _entails(self, pairs: Sequence[tuple[str, str]]) -> list[float]:
        logits = predict(self._model, pairs)
        if logits.shape[1] == 1:
            return (1 / (1 + np.exp(-logits[:, 0]))).tolist()
        odds = np.exp(logits - logits.max(axis=1, keepdims=True))
        return (odds[:, self._entailment] / odds.sum(axis=1)).tolist()

    def __deepcopy__(self, memo: dict[int, Any]) -> NLICrossEncoder:
        return self


class T5TrueNLI:
    """A T5 that answers 1 or 0: TRUE (Honovich et al. 2022), `google/t5_xxl_true_nli_mixture`; MIGRES and ALCE use it.

    The probability is that of "1" against "0" as the first token of its answer. The model of the papers has eleven
    billion parameters, which take 45 GB in 32 bits: they are loaded in bfloat16 where the processor computes in it.
    Smaller ones of the same form work alike.

    Args:
        model: a folder, or a name on the Hugging Face hub.
        device: where to compute; None takes a GPU where there is one.

    Raises:
        CheckpointError: no such model.
    """

    def __init__(self, model: str | Path, *, device: str | None = None) -> None:
        import torch

        from knowgap.retrieval.colbert.stock_runtime import quiet_transformers
        from knowgap.retrieval.device import bfloat16_on, choose_device

        self.name = check_model_name(model)
        self.default_threshold = 0.5
        self._device = choose_device(device)
        if not _config(self.name).is_encoder_decoder:
            raise CheckpointError(f"{self.name}: not a T5; its config.json names a model of another kind")
        with quiet_transformers():
            from transformers import AutoModelForSeq2SeqLM, AutoTokenizer

            try:
                self._tokenizer: Any = AutoTokenizer.from_pretrained(self.name)
                dtype = torch.bfloat16 if bfloat16_on(self._device) else torch.float32
                self._model: Any = AutoModelForSeq2SeqLM.from_pretrained(self.name, dtype=dtype)
            except (OSError, ValueError, KeyError, RuntimeError) as error:
                raise CheckpointError(f"{self.name}: cannot be loaded ({_reason(error)})") from error
        self._model.to(self._device).eval()
        answers = [self._tokenizer(answer, add_special_tokens=False)["input_ids"] for answer in ("0", "1")]
        if not all(answers) or answers[0][0] == answers[1][0]:
            raise CheckpointError(f"{self.name}: its tokenizer does not tell the answers 0 and 1 apart")
        self._answers = [ids[0] for ids in answers]
        self._memory: Memory[tuple[str, str], float] = Memory(_KEPT_PAIRS)

    def entails(self, pairs: Sequence[tuple[str, str]]) -> list[float]:
        """The probability of the answer 1 for each (premise, hypothesis)."""
        return self._memory.get(pairs, self._entails)

    def _entails(self, pairs: Sequence[tuple[str, str]]) -> list[float]:
        import torch

        order = sorted(range(len(pairs)), key=lambda i: sum(map(len, pairs[i])))
        result = [0.0] * len(pairs)
        for start in range(0, len(order), _PAIRS_AT_ONCE):
            batch = order[start : start + _PAIRS_AT_ONCE]
            texts = [f"premise: {pairs[i][0]} hypothesis: {pairs[i][1]}" for i in batch]
            inputs = self._tokenizer(texts, padding=True, truncation=True, max_length=2048, return_tensors="pt")
            begin = torch.full((len(batch), 1), self._model.config.decoder_start_token_id, device=self._device)
            with torch.inference_mode():
                logits = self._model(**inputs.to(self._device), decoder_input_ids=begin).logits[:, 0, self._answers]
            for i, probability in zip(batch, logits.float().softmax(-1)[:, 1].tolist(), strict=True):
                result[i] = probability
        return result

    def __deepcopy__(self, memo: dict[int, Any]) -> T5TrueNLI:
        return self


class EmbeddedEntailment:
    """The check that needs no download: does the premise have what the hypothesis says, word by word?

    It is no model of inference. A hypothesis passes if the premise has its content words, all its names and numbers,
    and as much negation; what its words leave open is settled by MiniLM's similarity to the nearest sentence of the
    premise. It knows nothing of roles: "A beat B" and "B beat A" are the same to it. The weights are those of a
    logistic regression on sentences and triples of 2WikiMultihopQA's training questions, true ones and altered ones.
    """

    def __init__(self) -> None:
        self.name = "embedded word coverage with MiniLM similarity"
        self.default_threshold = 0.5
        self._memory: Memory[tuple[str, str], float] = Memory(_KEPT_PAIRS)
        self._stemmed = Stemmed()

    def entails(self, pairs: Sequence[tuple[str, str]]) -> list[float]:
        """A figure between 0 and 1 for each (premise, hypothesis); 0 for a blank one."""
        return self._memory.get(pairs, self._entails)

    def _entails(self, pairs: Sequence[tuple[str, str]]) -> list[float]:
        from knowgap.retrieval.minilm import sentence_encoder

        premises = {premise: [premise, *split_sentences(premise)] for premise, _ in pairs}
        texts = list(dict.fromkeys([t for parts in premises.values() for t in parts] + [h for _, h in pairs]))
        row = {text: i for i, text in enumerate(texts)}
        vectors = sentence_encoder().encode(texts).astype(np.float64)
        result = []
        for premise, hypothesis in pairs:
            parts = premises[premise]
            similarities = vectors[[row[text] for text in parts]] @ vectors[row[hypothesis]]
            nearest = parts[int(similarities.argmax())]
            odds = _WORDS * self._lexical(premise, hypothesis) + _SIMILARITY * float(similarities.max()) + _BIAS
            new_names = {self._stemmed.word(name) for name in names(hypothesis)} - self._stemmed(premise)
            if new_names or numbers(hypothesis) - numbers(premise):
                odds -= _ABSENT
            if _negated(hypothesis) != _negated(nearest):
                odds -= _OTHER_NEGATION
            blank = not premise.strip() or not hypothesis.strip()
            result.append(0.0 if blank else round(float(1 / (1 + np.exp(-odds))), 4))
        return result

    def _lexical(self, premise: str, hypothesis: str) -> float:
        """The share of the hypothesis' content words that the premise has, weighed by their rarity."""
        from knowgap.retrieval.minilm import sentence_encoder

        claimed = content_words(hypothesis)
        weights = [0.2 + weight for weight in sentence_encoder().rarity(claimed)]
        had = self._stemmed(premise)
        held = sum(w for w, word in zip(weights, claimed, strict=True) if self._stemmed.word(word) in had)
        return held / sum(weights) if weights else 0.0

    def __deepcopy__(self, memo: dict[int, Any]) -> EmbeddedEntailment:
        return self


def _negated(text: str) -> bool:
    return _NEGATION.search(text) is not None


def make_entailment(name: str | Path, *, device: str | None = None) -> EntailmentModel:
    """The entailment model of a name: `embedded`, or the folder or hub name of a T5 or of a cross-encoder.

    Raises:
        CheckpointError: no such model.
    """
    if str(name) == "embedded":
        return EmbeddedEntailment()
    model = check_model_name(name)
    kind = T5TrueNLI if _config(model).is_encoder_decoder else NLICrossEncoder
    return kind(model, device=device)


def _config(name: str) -> Any:
    from transformers import AutoConfig

    try:
        return AutoConfig.from_pretrained(name)
    except (OSError, ValueError, KeyError) as error:
        raise CheckpointError(f"{name}: no such model ({_reason(error)})") from error


def _reason(error: Exception) -> str:
    return next(iter(str(error).strip().splitlines()), type(error).__name__)
