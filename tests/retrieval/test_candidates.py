import copy

from knowgap.retrieval import CandidateRetriever, ColBERTIndex
from tests.retrieval.conformance import QUERIES, RetrieverConformance, corpus


class TestCandidateRetriever(RetrieverConformance):
    @classmethod
    def make(cls, passages, folder):
        return CandidateRetriever(passages)


def test_candidates_within_an_index(checkpoint, tmp_path):
    colbert = ColBERTIndex.build(corpus(12), tmp_path / "index", checkpoint=checkpoint)
    ids = [passage.id for passage in corpus(12)[:5]] + ["elsewhere"]
    restricted = CandidateRetriever.within(colbert, ids)
    assert restricted.search(QUERIES, 3) == colbert.search(QUERIES, 3, ids=ids)
    assert {hit.passage.id for hit in restricted.search(QUERIES, 9)[0]} == set(ids[:5])
    assert copy.deepcopy(restricted) is restricted
