import copy

from knowgap.retrieval import CandidateRetriever, ColBERTIndex
from tests.retrieval.conformance import QUERIES, RetrieverConformance, corpus
from tests.retrieval.tiny import write_colbert


class TestCandidateRetriever(RetrieverConformance):
    @classmethod
    def make(cls, passages, folder):
        return CandidateRetriever(passages)


def test_candidates_within_an_index(tmp_path):
    texts = [str(passage) for passage in corpus(12)] + QUERIES
    colbert = ColBERTIndex.build(corpus(12), tmp_path / "index", checkpoint=write_colbert(tmp_path / "tiny", texts))
    ids = [passage.id for passage in corpus(12)[:5]] + ["elsewhere"]
    restricted = CandidateRetriever.within(colbert, ids)
    assert restricted.search(QUERIES, 3) == colbert.search(QUERIES, 3, ids=ids)
    assert {hit.passage.id for hit in restricted.search(QUERIES, 9)[0]} == set(ids[:5])
    assert copy.deepcopy(restricted) is restricted
