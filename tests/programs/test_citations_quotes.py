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


@pytest.mark.parametrize(
    ("statement", "kept"),
    [
        ("It hangs in Tarn. Ada Moor painted it in 1911.", True),  # sentences of the passage in another order
        ("It hangs in Tarn. She died in 1920.", True),  # one that stands there, one that the model finds entailed
        ("It hangs in Tarn. She died in 1930.", False),
    ],
)
def test_a_statement_of_several_sentences_is_entailed_if_each_of_them_is(statement, kept):
    model = TableEntailment(lambda premise, hypothesis: float(hypothesis == "She died in 1920."))
    assert bool(entailed_claims(model, {statement: [FERRY]}, 0.5)) is kept


def test_a_statement_is_put_down_to_the_passage_that_entails_it_best():
    tarn, port = Passage("tarn", "Tarn", "Tarn has a museum."), Passage("port", "Port", "Port has a museum, too.")
    sure = {str(tarn): 0.6, str(port): 0.9}
    model = TableEntailment(lambda premise, hypothesis: sure.get(premise, 0.0))
    claims = {"There is a museum.": [FERRY], "Ada Moor painted it in 1911.": [FERRY], "It is large.": []}
    assert entailed_claims(model, claims, 0.5).keys() == {"Ada Moor painted it in 1911."}
    assert entailed_claims(model, claims, 0.5, [FERRY, tarn, port]) == {
        "There is a museum.": [port],
        "Ada Moor painted it in 1911.": [FERRY],
        "It is large.": [port],
    }
