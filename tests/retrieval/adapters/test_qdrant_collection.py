"""Collections of Qdrant that others filled, over the store that comes with qdrant-client."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing

import pytest

from knowgap.errors import IndexFolderError, IndexForeign
from knowgap.retrieval.adapters.opening import open_adapter
from knowgap.retrieval.minilm import sentence_encoder

pytest.importorskip("qdrant_client", reason="Qdrant is an extra: pip install 'knowgap[qdrant]'")

from qdrant_client import models

from tests.retrieval.qdrant_server import QdrantServer

TEXTS = ["Tarn is a town on the river Isk.", "The larvae of the moth feed on willow."]
LANGCHAIN = [
    {"page_content": text, "metadata": {"title": title}} for text, title in zip(TEXTS, ("Tarn", "Moth"), strict=True)
]
FASTEMBED = [{"document": text, "id": name} for text, name in zip(TEXTS, ("tarn", "moth"), strict=True)]


@pytest.fixture
def server() -> Iterator[QdrantServer]:
    with closing(QdrantServer()) as server:
        yield server


def fill(server: QdrantServer, payloads: list[dict[str, object]], **vectors: int) -> str:
    """Make a collection with these vectors, by name and width, and tell its address."""
    cosine = models.Distance.COSINE
    params = {name: models.VectorParams(size=size, distance=cosine) for name, size in vectors.items()}
    server.store.create_collection("towns", params.get("only") or params)
    encoded = sentence_encoder().encode(TEXTS).tolist()
    for number, (vector, payload) in enumerate(zip(encoded, payloads, strict=True), 1):
        named = {name: vector[:size] for name, size in vectors.items()}
        server.store.upsert(
            "towns", [models.PointStruct(id=number, vector=named.get("only") or named, payload=payload)]
        )
    return f"qdrant+{server.url}/towns"


@pytest.mark.parametrize(
    ("payloads", "vectors", "passage"),
    [
        (LANGCHAIN, {"only": 384}, {"id": "1", "title": "Tarn", "text": TEXTS[0]}),
        (FASTEMBED, {"short": 8, "dense": 384}, {"id": "tarn", "title": "", "text": TEXTS[0]}),
    ],
)
def test_a_collection_is_searched_by_the_vectors_that_fit(server, payloads, vectors, passage):
    index = open_adapter(fill(server, payloads, **vectors))
    town, nothing, insect = index.search(["Which town is on the Isk?", "", "moth larvae"], k=2)
    assert town[0].passage.to_dict() == passage
    assert town[0].score > town[1].score
    assert nothing == []
    assert insect[0].passage.text == TEXTS[1]
    index.close()


def test_points_without_text_are_said(server):
    with pytest.raises(IndexForeign, match="the document 1 has no text: its fields are none"):
        open_adapter(fill(server, [{}, {}], only=384)).search(["Tarn"], 1)


def test_what_does_not_fit_is_said(server):
    address = fill(server, LANGCHAIN, first=384, second=384)
    with pytest.raises(IndexForeign, match=r"has first of 384 numbers, second of 384 numbers: name the encoder"):
        open_adapter(address)
    assert open_adapter(f"{address}?using=second").search(["moth"], 1)[0][0].passage.title == "Moth"
    with pytest.raises(IndexFolderError, match="there is no such collection"):
        open_adapter(f"qdrant+{server.url}/others")
