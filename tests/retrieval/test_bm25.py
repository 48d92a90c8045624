import math

import pytest

from knowgap.errors import ValueOutOfBounds
from knowgap.retrieval import BM25Index, Passage
from tests.retrieval.conformance import FilterConformance, IndexConformance, RetrieverConformance, corpus


class TestBM25Index(IndexConformance):
    index_class = BM25Index


class TestBM25InMemory(RetrieverConformance, FilterConformance):
    @classmethod
    def make(cls, passages, folder):
        return BM25Index.from_passages(passages)


def test_score_is_the_formula():
    k1, b = 1.2, 0.75
    texts = ["storm over storm harbour", "quiet harbour", "storm", "a boat in the bay of gulls"]
    index = BM25Index.from_passages([Passage(str(i), "", text) for i, text in enumerate(texts)], k1=k1, b=b)
    average = sum(len(text.split()) for text in texts) / len(texts)

    def expected(term, text):
        n = sum(term in other.split() for other in texts)
        tf, length = text.split().count(term), len(text.split())
        idf = math.log(1 + (len(texts) - n + 0.5) / (n + 0.5))
        return idf * tf / (tf + k1 * (1 - b + b * length / average))

    (hits,) = index.search(["harbour storms"], 4)
    assert {hit.passage.id for hit in hits} == {"0", "1", "2"}
    for hit in hits:
        text = texts[int(hit.passage.id)]
        assert hit.score == pytest.approx(expected("storm", text) + expected("harbour", text), rel=1e-5)


def test_titles_count_as_often_as_they_weigh():
    passages = [Passage("title", "Harbour", "boats and gulls"), Passage("text", "", "harbour boats and gulls")]
    assert BM25Index.from_passages(passages).search(["harbour"], 2)[0][0].passage.id == "title"
    (plain,) = BM25Index.from_passages(passages, title_weight=1).search(["harbour"], 2)
    assert plain[0].score == plain[1].score
    assert len(BM25Index.from_passages(passages, title_weight=0).search(["harbour"], 2)[0]) == 1


def test_function_words_of_a_query_count_only_alone():
    passages = [Passage("a", "", "the who of all"), Passage("b", "", "a harbour")]
    index = BM25Index.from_passages(passages)
    assert [hit.passage.id for hit in index.search(["who is in the harbour"], 2)[0]] == ["b"]
    assert [hit.passage.id for hit in index.search(["The Who"], 2)[0]] == ["a"]
    assert len(BM25Index.from_passages(passages, stemmer=None).search(["who is in the harbour"], 2)[0]) == 2


def test_unknown_words_find_nothing():
    assert BM25Index.from_passages(corpus()).search(["xylophone zebra"], 5) == [[]]


def test_stemming_can_be_left_out():
    passages = [Passage("a", "", "singers sing"), Passage("b", "", "the song")]
    assert len(BM25Index.from_passages(passages).search(["singer"], 2)[0]) == 1
    assert BM25Index.from_passages(passages, stemmer=None).search(["singer"], 2) == [[]]


def test_chinese_is_searched_by_character():
    passages = [Passage("a", "", "北京是中国的首都"), Passage("b", "", "上海在海边")]
    assert [hit.passage.id for hit in BM25Index.from_passages(passages).search(["中国首都"], 2)[0]] == ["a"]


def test_passages_without_words():
    index = BM25Index.from_passages([Passage("empty", "", ""), Passage("dots", "", "…")])
    assert index.search(["anything"], 2) == [[]]


@pytest.mark.parametrize(
    "bad", [{"k1": -0.1}, {"b": 1.1}, {"b": float("nan")}, {"stemmer": "klingon"}, {"title_weight": -1}]
)
def test_settings_out_of_bounds(bad):
    with pytest.raises(ValueOutOfBounds, match=next(iter(bad))):
        BM25Index.from_passages(corpus(), **bad)
