"""The bundled sample. `tests/benchmarks/test_fictional.py` tests that its files are what the generator writes."""

from collections import Counter
from importlib.resources import files

import pytest

from knowgap.compile.data import SPLITS, load_dataset

# Every published figure on the sample rests on this content.
FINGERPRINT = "5d0dd80642dcc5253eef23a710735c99bc5bca3d9310bde79dfde63ee3422a82"
MIX = {
    "compositional": 26, "comparison": 16, "bridge_comparison": 14, "inference": 10, "single_hop": 12, "yes_no": 12,
    "ambiguous": 5, "unanswerable": 5,
}  # fmt: skip


@pytest.fixture(scope="module")
def data():
    return load_dataset()


def test_the_sample_is_the_default_and_comes_with_the_package(data):
    other = load_dataset("sample", seed=5)
    assert data.name == other.name == "sample"
    assert data.fingerprint == other.fingerprint == FINGERPRINT
    assert sum(len(file.read_bytes()) for file in files("knowgap.compile.data").joinpath("sample").iterdir()) < 2**20


def test_size_and_mix(data):
    assert 900 <= len(data.corpus) <= 1100
    for split in SPLITS:
        assert Counter(e.type for e in data.splits[split]) == MIX
        closed = Counter(e.answer for e in data.splits[split] if e.type == "yes_no")
        assert abs(closed["yes"] - closed["no"]) <= 1
    questions = [e for split in SPLITS for e in data.splits[split]]
    assert len({e.id for e in questions}) == len({e.question for e in questions}) == len(questions) == 300
    assert len({p.id for p in data.corpus}) == len({p.text for p in data.corpus}) == len(data.corpus)


def test_splits_share_no_passage(data):
    gold = [{id for e in data.splits[split] for id in e.gold_ids} for split in SPLITS]
    assert len(set.union(*gold)) == sum(map(len, gold))


def test_gold_passages_hold_the_answer(data):
    texts = {p.id: str(p) for p in data.corpus}
    for example in (e for split in SPLITS for e in data.splits[split]):
        gold = [texts[id] for id in example.gold_ids]
        assert len(example.evidences) == len(example.decomposition)
        if example.type == "unanswerable":
            assert (example.answer, example.evidences) == ("unanswerable", [])
        elif example.type != "yes_no":
            sources = [*gold, example.question] if "comparison" in example.type else gold
            assert any(example.answer in text for text in sources), example
        if example.type == "ambiguous":
            assert len(example.gold_ids) == 2
            assert example.decomposition[1]["answer"] in example.aliases
        for step in example.decomposition:
            assert any(step["answer"] in text for text in gold), example
    hops = {len(e.decomposition) for e in data.splits["test"] if e.type == "compositional"}
    assert hops == {2, 3, 4}
