import math
import pickle

import pytest

from knowgap.errors import DataError, ValueOutOfBounds
from knowgap.retrieval import BM25Index, Passage
from knowgap.retrieval.postings import K1, B
from tests.retrieval.conformance import QUERIES, IndexConformance, UpdateConformance, corpus


class TestBM25Index(IndexConformance, UpdateConformance):
    index_class = BM25Index


def test_score_is_the_formula():
    texts = ["storm over storm harbour", "quiet harbour", "storm", "a boat in the bay of gulls"]
    index = BM25Index.from_passages([Passage(str(i), "", text) for i, text in enumerate(texts)])
    average = sum(len(text.split()) for text in texts) / len(texts)

    def expected(term, words):
        n, tf = sum(term in text.split() for text in texts), words.count(term)
        idf = math.log(1 + (len(texts) - n + 0.5) / (n + 0.5))
        return idf * tf / (tf + K1 * (1 - B + B * len(words) / average))

    scores = {hit.passage.id: hit.score for hit in index.search(["harbour storms"], 4)[0]}
    words = [text.split() for text in texts[:3]]
    formula = {str(i): expected("storm", text) + expected("harbour", text) for i, text in enumerate(words)}
    assert scores == pytest.approx(formula, abs=1e-4)


def test_the_folder_of_an_index_of_passages_goes_with_it():
    index = BM25Index.from_passages(corpus())
    again = pickle.loads(pickle.dumps(index))
    assert again.search(QUERIES, 5) == index.search(QUERIES, 5)
    folder = index.path
    del index
    assert not folder.parent.exists()
    with pytest.raises(DataError, match="no passages"):
        BM25Index.from_passages([])


def test_a_title_counts_twice():
    passages = [Passage("title", "Harbour", "boats and gulls"), Passage("text", "", "harbour boats and gulls, harbour")]
    one, other = BM25Index.from_passages(passages).search(["harbour"], 2)[0]
    assert one.score == other.score


@pytest.mark.parametrize(
    ("texts", "query", "options", "expected"),
    [
        (["the who of all", "a harbour"], "who is in the harbour", {}, {"1"}),
        (["the who of all", "a harbour"], "The Who", {}, {"0"}),
        (["the who of all", "a harbour"], "who is in the harbour", {"stemmer": None}, {"0", "1"}),
        (["singers sing", "the song"], "singer", {}, {"0"}),
        (["singers sing", "the song"], "singer", {"stemmer": None}, set()),
        (["北京是中国的首都", "上海在海边"], "中国首都", {}, {"0"}),
        (["a storm", "a harbour"], "xylophone zebra", {}, set()),
        (["", "…"], "anything", {}, set()),
    ],
)
def test_words_that_count(texts, query, options, expected):
    index = BM25Index.from_passages([Passage(str(n), "", text) for n, text in enumerate(texts)], **options)
    assert {hit.passage.id for hit in index.search([query], 2)[0]} == expected


def test_an_unknown_language_is_refused():
    with pytest.raises(ValueOutOfBounds, match="klingon"):
        BM25Index.from_passages(corpus(), stemmer="klingon")
