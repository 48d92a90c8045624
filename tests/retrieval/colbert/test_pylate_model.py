"""ColBERT checkpoints in the layout of PyLate."""

import json

import numpy as np
import pytest

from knowgap.errors import CheckpointError
from knowgap.retrieval import ColBERTIndex
from knowgap.retrieval.colbert.checkpoint import checkpoint_window
from knowgap.retrieval.colbert.encoder import TokenEncoder
from tests.retrieval.conformance import QUERIES, corpus
from tests.retrieval.tiny import write_pylate


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return write_pylate(tmp_path_factory.mktemp("pylate") / "modern", [str(passage) for passage in corpus()])


def test_vectors_are_those_of_sentence_transformers(folder):
    from sentence_transformers import MultiVectorEncoder

    encoder, expected = TokenEncoder(folder, device="cpu"), MultiVectorEncoder(str(folder), device="cpu")
    texts = [str(passage) for passage in corpus(4)]
    vectors, lengths = encoder.encode_passages(texts)
    wanted = [np.asarray(each) for each in expected.encode_document(texts)]
    assert [*lengths] == [len(each) for each in wanted]
    assert vectors == pytest.approx(np.concatenate(wanted), abs=1e-3)
    query = encoder.encode_query(QUERIES[0])
    assert len(query) == 32
    assert query == pytest.approx(np.asarray(expected.encode_query(QUERIES[0])), abs=1e-5)


def test_it_makes_an_index(folder, tmp_path):
    index = ColBERTIndex.build(corpus(12), tmp_path / "index", checkpoint=folder)
    [found] = index.search([str(corpus(12)[5])], 1)
    assert found[0].passage == corpus(12)[5]
    assert ColBERTIndex.open(tmp_path / "index").search(QUERIES, 3) == index.search(QUERIES, 3)
    assert checkpoint_window(folder).size == 300


@pytest.mark.parametrize(
    ("name", "change", "reason"),
    [
        ("modules.json", [{"idx": 0, "name": "0", "path": "", "type": "own.Own"}], "asks to run code from elsewhere"),
        ("config_sentence_transformers.json", {"document_length": None}, "document_length of config_sentence"),
        ("config_sentence_transformers.json", {"document_prefix": "a word: "}, "is no token of its tokenizer"),
    ],
)
def test_what_is_no_such_checkpoint_is_refused(folder, name, change, reason):
    file = folder / name
    kept = file.read_text(encoding="utf-8")
    file.write_text(json.dumps(change if isinstance(change, list) else json.loads(kept) | change), encoding="utf-8")
    with pytest.raises(CheckpointError, match=reason):
        TokenEncoder(folder)
    file.write_text(kept, encoding="utf-8")
