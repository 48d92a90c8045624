"""Several data sets become one, with a part of the questions of each."""

from __future__ import annotations

import pytest

from knowgap.compiling.data import Dataset, mix
from knowgap.compiling.data.dataset import make_example
from knowgap.errors import ValueOutOfBounds
from knowgap.retrieval.passage import Passage


def dataset(name: str, count: int, text: str) -> Dataset:
    examples = [
        make_example(id=f"q{n}", question=f"{name} {n}?", answers=["x"], type="bridge", gold_ids=["A", name])
        for n in range(count)
    ]
    corpus = [Passage("A", "A", text), Passage(name, name, "The same.")]
    return Dataset(name, {"train": examples, "dev": [], "test": examples[:2]}, corpus, name)


def test_shares_numbers_and_ids():
    one, other = dataset("one", 10, "First."), dataset("other", 40, "Second.")
    mixed = mix([(one, 1), (other, 0.25), (one, 3)], seed=1)
    assert {split: len(part) for split, part in mixed.splits.items()} == {"train": 23, "dev": 0, "test": 4}
    assert len({example.id for example in mixed.splits["train"] + mixed.splits["test"][:0]}) == 23
    texts = {passage.id: passage.text for passage in mixed.corpus}
    assert len(texts) == 4
    second = next(example for example in mixed.splits["train"] if example.question.startswith("other"))
    assert [texts[id] for id in second.gold_ids] == ["Second.", "The same."]
    assert second.inputs().keys() == ["question"]
    questions = [example.question for example in mixed.splits["train"]]
    assert questions == [example.question for example in mix([(one, 1), (other, 0.25), (one, 3)], 1).splits["train"]]
    assert questions != [example.question for example in mix([(one, 1), (other, 0.25), (one, 3)], 2).splits["train"]]


@pytest.mark.parametrize("amount", [0, -1, 1.5, 2.5])
def test_an_amount_is_a_share_or_a_number(amount: float):
    with pytest.raises(ValueOutOfBounds, match="must be a share above 0 and up to 1, or a whole number of at least 2"):
        mix([(dataset("one", 4, "First."), amount)])
