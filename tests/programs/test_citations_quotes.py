"""A passage entails its own sentences, whatever an entailment model makes of them."""

import pytest
from support import TableEntailment

from knowgap.programs.citations import entailed_claims
from knowgap.retrieval.passage import Passage

FERRY = Passage("ferry", "The Grey Ferry", "It is false that it sank. Ada Moor painted it in 1911. It hangs in Tarn.")


@pytest.mark.parametrize(
    ("statement", "quoted"),
    [
        ("Ada Moor painted it in 1911.", True),
        ("The Grey Ferry: Ada Moor painted it in 1911.", True),
        ("The Grey Ferry: ada moor  painted it in 1911. It hangs in Tarn.", True),
        ("It hangs in Tarn.", True),
        ("it sank.", False),  # part of a sentence
        ("Ada Moor painted it", False),
        ("Ada Moor painted it in 1912.", False),
        ("The Grey Ferry", False),
    ],
)
def test_whole_sentences_need_no_model(statement, quoted):
    asked = []
    model = TableEntailment(lambda premise, hypothesis: asked.append(hypothesis) or 0.0)
    assert bool(entailed_claims(model, {statement: [FERRY]}, 0.5)) is quoted
    assert bool(asked) is not quoted
