"""An index of dense vectors that count words, for tests of its changes."""

import shutil

import pytest

from knowgap.retrieval import DenseIndex
from tests.retrieval.conformance import QUERIES, corpus
from tests.retrieval.test_dense import count_words


def build(passages, folder):
    return DenseIndex.build(passages, folder, encoder=count_words)


def reopen(index):
    return DenseIndex.open(index.path, encoder=count_words)


@pytest.fixture
def index(tmp_path):
    return build(corpus(), tmp_path / "index")


def assert_same(index, passages, tmp_path):
    """The index, and the index on disk, search as one does that was built from these passages."""
    folder = tmp_path / "rebuilt"
    shutil.rmtree(folder, ignore_errors=True)
    rebuilt = build(passages, folder)
    for each in (index, reopen(index)):
        for k in (1, 7, 1000):
            assert each.search(QUERIES, k) == rebuilt.search(QUERIES, k)
        assert sorted(map(str, each)) == sorted(map(str, passages))
        assert len(each) == len(passages)
