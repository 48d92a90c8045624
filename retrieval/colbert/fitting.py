"""Making the embedded ColBERT checkpoint from MiniLM and a corpus.

The embedded checkpoint is not trained as a ColBERT. Instead, two things are fitted to the corpus: a linear projection
of its token vectors onto their principal directions, with the strongest of these damped; and a weight for each token of
a query, higher for tokens that are rarer in the corpus.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt

from knowgap.retrieval.colbert.embedded import PROJECTION, SETTINGS, TOKEN_WEIGHTS, EmbeddedModel
from knowgap.retrieval.minilm import CLS, MINILM_DIGEST
from knowgap.retrieval.passage import Passage
from knowgap.retrieval.window import EMBEDDED
from knowgap.storage.files import write_json

WIDTH, PROJECTED, FULL_WIDTH = 384, 128, 20_000
"""Widths of the embedded checkpoint's token vectors up to `FULL_WIDTH` passages, and for more passages."""

_DAMPING = 0.25
_PASSAGES_FOR_PROJECTION = 400
_PASSAGES_FOR_WEIGHTS = 20_000


def fit_checkpoint(
    passages: Sequence[Passage], folder: str | Path, *, dim: int | None = None, corpus: str = ""
) -> None:
    """Fit the embedded checkpoint to an evenly spaced sample of passages, and write it to a folder, which is created.

    Args:
        passages: the corpus.
        folder: where it is written; if the same checkpoint is there already, as a killed build left it, it is kept.
        dim: the width of a token vector; None takes 384, which retrieves best, for up to 20,000 passages, and 128, as
            in a trained ColBERT, for more.
        corpus: the digest of the passages. Together with MiniLM's it identifies the checkpoint instead of its own
            digest, since the last bits of its weights depend on the machine.

    Raises:
        CheckpointError: the MiniLM encoder is absent or altered.
    """
    folder, dim = Path(folder), dim or (WIDTH if len(passages) <= FULL_WIDTH else PROJECTED)
    settings = {"encoder": EMBEDDED, "fitted": [MINILM_DIGEST, corpus], "dim": dim}
    done = folder / SETTINGS  # is written last
    if done.is_file() and json.loads(done.read_bytes()) == settings:
        return
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    model = EmbeddedModel(np.eye(WIDTH, dtype=np.float32), np.ones(0, np.float32), "cpu")
    vectors = model.passages([str(passage) for passage in _spread(passages, _PASSAGES_FOR_PROJECTION)])
    np.save(folder / PROJECTION, fit_projection(np.concatenate(vectors), dim))
    sample = _spread(passages, _PASSAGES_FOR_WEIGHTS)
    weights = fit_token_weights((model.token_ids([str(passage)])[0] for passage in sample), model.vocabulary)
    weights[CLS] = 1.0  # it represents the whole query, and is in every passage
    np.save(folder / TOKEN_WEIGHTS, weights)
    write_json(done, settings)


def _spread(passages: Sequence[Passage], limit: int) -> list[Passage]:
    step = max(1, len(passages) // limit)
    return [passages[i] for i in range(0, len(passages), step)][:limit]


def fit_projection(vectors: npt.NDArray[np.floating], dim: int) -> npt.NDArray[np.float32]:
    """The principal directions of token vectors about the origin, each scaled by its eigenvalue to the power -1/4.

    The vectors are [tokens, width], and `dim` directions are kept. The power -1/2 would whiten the vectors. The power
    -1/4 keeps the few directions that all tokens share from dominating every cosine, without amplifying the noise of
    the weak directions.

    Returns:
        The matrix of a linear layer without bias, [dim, width]. If all directions are kept, it is the symmetric one,
        which turns the projection back to the axes of the vectors: the last digits of the vectors hardly change it,
        whereas they decide which are the principal directions of nearly equal strength.
    """
    vectors = np.asarray(vectors, dtype=np.float64)
    values, directions = np.linalg.eigh(vectors.T @ vectors / max(len(vectors), 1))
    values, directions = values[::-1][:dim], directions[:, ::-1][:, :dim]
    # The sign of an eigenvector is arbitrary; it is fixed so that a corpus always gives the same checkpoint.
    directions = directions * np.sign(directions[np.abs(directions).argmax(axis=0), np.arange(dim)])
    scale = (np.maximum(values, 1e-6 * values[0]) / values[0]) ** -_DAMPING
    scaled = directions * scale
    return (scaled @ directions.T if dim == len(directions) else scaled.T).astype(np.float32)


def fit_token_weights(texts: Iterable[Sequence[int]], vocabulary: int) -> npt.NDArray[np.float32]:
    """Inverse document frequencies (Robertson's, as in BM25) of token ids, the highest scaled to 1. [vocabulary]."""
    frequency, count = np.zeros(vocabulary, dtype=np.int64), 0
    for ids in texts:
        frequency[np.unique(ids)] += 1
        count += 1
    weights = np.log1p((count - frequency + 0.5) / (frequency + 0.5))
    return (weights / weights.max()).astype(np.float32)
