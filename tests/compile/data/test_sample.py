"""The bundled sample. `tests/benchmarks/test_fictional.py` tests that its files are what the generator writes."""

from collections import Counter
from importlib.resources import files

import pytest

from knowgap.compiling.data import SPLITS, load_dataset

# Every published figure on the sample rests on this content.
FINGERPRINT = "e5c53de53295adb86fbae512f5ac891784172e125f1e1277c55ed533f7a54985"
MIX = {
    "two_step": 36, "three_step": 20, "candidates": 14, "code": 10, "comparison": 5, "yes_no": 5, "unanswerable": 10,
}  # fmt: skip


@pytest.fixture(scope="module")
def data():
    return load_dataset()


def test_the_sample_is_the_default_and_comes_with_the_package(data):
    other = load_dataset("sample", seed=5)
    assert data.name == other.name == "sample"
    assert data.fingerprint == other.fingerprint == FINGERPRINT
    assert sum(len(file.read_bytes()) for file in files("knowgap.compiling.data").joinpath("sample").iterdir()) < 2**20


def test_each_split_has_the_same_mix_of_questions(data):
    assert [Counter(e.type for e in data.splits[split]) for split in SPLITS] == [MIX, MIX, MIX]


def test_gold_passages_hold_the_answer_and_belong_to_one_split(data):
    texts = {p.id: str(p) for p in data.corpus}
    for example in (e for split in SPLITS for e in data.splits[split]):
        gold = [texts[id] for id in example.gold_ids]
        if example.type not in ("yes_no", "unanswerable"):
            sources = [*gold, example.question] if example.type == "comparison" else gold
            assert any(example.answer in text for text in sources), example
        assert all(any(step["answer"] in text for text in gold) for step in example.decomposition), example
    ids = [{id for e in data.splits[split] for id in e.gold_ids} for split in SPLITS]
    assert len(set.union(*ids)) == sum(map(len, ids))
