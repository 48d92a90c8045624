"""Indexes of colbert-ai: built by it and searched here, and its folder alone."""

import json
import shutil

import numpy as np
import pytest
import torch

from knowgap.errors import CheckpointError, IndexDamaged, IndexForeign, UsageError
from knowgap.retrieval.colbert import TokenEncoder
from knowgap.retrieval.index.vectors import Vectors, fixed_point, maxsim
from knowgap.retrieval.indexes import as_retriever, open_index
from knowgap.retrieval.outside import open_outside
from knowgap.retrieval.passage import Passage
from knowgap.retrieval.plaid import PlaidIndex
from tests.retrieval.conformance import QUERIES, RetrieverConformance, corpus
from tests.tiny import write_colbert

pytestmark = [  # colbert-ai leaves a file open
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]
PASSAGES = [*corpus(40)]


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory):
    """A checkpoint as colbert-ai saves it."""
    return write_colbert(tmp_path_factory.mktemp("saved") / "checkpoint", [*map(str, PASSAGES), *QUERIES], dim=128)


@pytest.fixture(scope="module")
def plaid(checkpoint, tmp_path_factory):
    """The folder that colbert-ai's indexer writes, of a file of tabs beside it."""
    root = tmp_path_factory.mktemp("plaid")
    lines = [f"{number}\t{passage.text}\t{passage.title}\n" for number, passage in enumerate(PASSAGES)]
    (root / "collection.tsv").write_text("".join(lines), encoding="utf-8")
    numbered = [Passage(str(number), passage.title, passage.text) for number, passage in enumerate(PASSAGES)]
    folder = PlaidIndex.build(numbered, root / "index", encoder=checkpoint).path / "plaid"
    metadata = json.loads((folder / "metadata.json").read_text(encoding="utf-8"))
    metadata["config"] |= {"collection": str(root / "collection.tsv"), "checkpoint": str(checkpoint)}
    (folder / "metadata.json").write_text(json.dumps(metadata), encoding="utf-8")
    return folder


def test_the_best_passages_are_those_of_exact_late_interaction(plaid, checkpoint):
    index = as_retriever(f"plaid:{plaid}")
    found = index.search([*QUERIES, " "], 5)
    assert found[-1] == []
    encoder = TokenEncoder(checkpoint)
    vectors, lengths = encoder.encode_passages([str(passage) for passage in PASSAGES])
    exact = Vectors(fixed_point(vectors), lengths)
    for query, hits in zip(QUERIES, found, strict=False):
        assert [hit.score for hit in hits] == sorted((hit.score for hit in hits), reverse=True)
        scores = maxsim([exact], encoder.encode_query(query), np.arange(len(PASSAGES)), np.float64)
        assert len(hits) == 5
        for hit in hits:
            # Two bits a dimension: what is found is nearly as good as the best five.
            assert abs(hit.score - scores[int(hit.passage.id)]) < 0.1 * abs(hit.score)
            assert scores[int(hit.passage.id)] > 0.9 * np.sort(scores)[-5]
            assert hit.passage.to_dict() == {**PASSAGES[int(hit.passage.id)].to_dict(), "id": hit.passage.id}


def test_passages_and_checkpoint_may_lie_in_the_folder(plaid, checkpoint, tmp_path):
    before = as_retriever(f"plaid:{plaid}").search(QUERIES[:1], 3)[0]
    moved = shutil.copytree(plaid, tmp_path / "moved")
    metadata = json.loads((moved / "metadata.json").read_text(encoding="utf-8"))
    metadata["config"] |= {"collection": "gone.tsv", "checkpoint": str(tmp_path / "gone")}
    (moved / "metadata.json").write_text(json.dumps(metadata), encoding="utf-8")
    with pytest.raises(CheckpointError, match="gone"):
        open_outside(f"plaid:{moved}")
    shutil.copytree(checkpoint, moved / "checkpoint")
    with pytest.raises(IndexForeign, match=r"must hold exactly one of \*\.tsv, \*\.jsonl; found: none"):
        open_outside(f"plaid:{moved}")
    rows = [json.dumps(passage.to_dict()) + "\n" for passage in PASSAGES]
    (moved / "passages.jsonl").write_text("".join(rows[:-1]), encoding="utf-8")
    with pytest.raises(IndexForeign, match="its collection has 39"):
        open_outside(f"plaid:{moved}")
    (moved / "passages.jsonl").write_text("".join(rows), encoding="utf-8")
    hits = open_outside(f"plaid:{moved}").search(QUERIES[:1], 3)[0]
    assert [hit.score for hit in hits] == [hit.score for hit in before]
    assert [hit.passage for hit in hits] == [PASSAGES[int(hit.passage.id)] for hit in before]
    for name, content in (("0.codes.pt", b"cos\nsystem\n(S'true'\ntR."), ("metadata.json", b"{}")):
        (moved / name).write_bytes(content)
        with pytest.raises(IndexDamaged):
            open_outside(f"plaid:{moved}")


class TestPlaidIndex(RetrieverConformance):
    @pytest.fixture(scope="class", autouse=True)
    @classmethod
    def with_checkpoint(cls, checkpoint):
        cls.checkpoint = checkpoint

    @classmethod
    def make(cls, passages, folder):
        more = [Passage(f"more {n}", "", f"Filling number {n} {'abcdefg'[n % 7] * 9}.") for n in range(40)]
        few = [] if len(passages) >= 40 else more
        torch.manual_seed(1)  # colbert-ai draws what it clusters
        return PlaidIndex.build([*passages, *few], folder, encoder=cls.checkpoint)

    def test_one_passage(self, tmp_path):
        with pytest.raises(UsageError, match="at least 32 passages, not 1"):
            PlaidIndex.build(corpus(1), tmp_path / "one", encoder=self.checkpoint)


def test_a_build_of_its_own_is_continued_moved_and_opened(checkpoint, tmp_path, monkeypatch):
    encode, asked = TokenEncoder.encode_passages, []

    def stop(self, texts):
        asked.append(len(texts))
        if len(asked) == 1:
            raise KeyboardInterrupt
        return encode(self, texts)

    monkeypatch.setattr(TokenEncoder, "encode_passages", stop)
    with pytest.raises(KeyboardInterrupt):
        PlaidIndex.build(PASSAGES, tmp_path / "index", encoder=checkpoint)
    built = PlaidIndex.build(PASSAGES, tmp_path / "index", encoder=checkpoint)
    assert asked == [40, 40]  # cut off; the sample, which is the only chunk as well
    expected = built.search(QUERIES, 5)
    shutil.move(tmp_path / "index", tmp_path / "moved")
    moved = open_index(tmp_path / "moved")
    assert moved.search(QUERIES, 5) == expected
    assert moved.digest == built.digest
    (tmp_path / "moved" / "plaid" / "0.codes.pt").write_bytes(b"")
    with pytest.raises(IndexDamaged):
        open_index(tmp_path / "moved")
