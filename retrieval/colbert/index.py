"""A ColBERT index: late interaction over the token vectors of passages (Khattab and Zaharia 2020)."""

from __future__ import annotations

from typing import Any, ClassVar

from knowgap.retrieval.colbert.encoder import TokenEncoder
from knowgap.retrieval.index.vector_index import VectorIndex


class ColBERTIndex(VectorIndex):
    """An index of passages by the vectors of their tokens. Made by `build` or `open`.

    Its encoder is a ColBERT checkpoint by folder or hub name (`colbert-ir/colbertv2.0`). None makes one from the
    embedded MiniLM encoder and the corpus, without the network, and saves it inside the index.
    """

    engine: ClassVar[str] = "colbert"
    encoders: ClassVar[Any] = TokenEncoder
