"""The engines of indexes in folders, and what each one's scores are."""

import math
import pickle
import random
import re
import zlib

import dspy
import numpy as np
import pytest

from knowgap.errors import CheckpointError, DataError, UsageError, ValueOutOfBounds
from knowgap.retrieval import BM25Index, ColBERTIndex, DenseIndex, Hit, HybridIndex, Passage, open_index
from knowgap.retrieval.index.snapshot import SHARE
from knowgap.retrieval.passage import fuse
from knowgap.retrieval.postings import K1, B, Postings, WeighedWords
from tests.retrieval.conformance import QUERIES, IndexConformance, UpdateConformance, corpus
from tests.tiny import write_bi_encoder


class TestBM25Index(IndexConformance, UpdateConformance):
    index_class = BM25Index


class TestDenseIndex(IndexConformance, UpdateConformance):
    index_class = DenseIndex


class TestColBERTIndex(IndexConformance, UpdateConformance):
    index_class = ColBERTIndex

    @pytest.fixture(scope="class", autouse=True)
    @classmethod
    def with_checkpoint(cls, checkpoint):
        cls.options = {"encoder": checkpoint}


class TestHybridIndex(TestColBERTIndex):
    index_class = HybridIndex


# Words.


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


def test_a_share_is_of_the_squares_of_rarities(monkeypatch):
    monkeypatch.setattr("knowgap.retrieval.postings.K1", 0.0)  # repetitions and lengths do not count
    texts = [["common"]] * 8 + [["common", "rare"], ["rare"], []]
    words = WeighedWords([Postings.count(texts)], np.ones(len(texts), dtype=bool))
    common, rare = (np.log(1 + (len(texts) - n + 0.5) / (n + 0.5)) ** 2 for n in (9, 2))
    expected = [common / (common + rare)] * 8 + [1, rare / (common + rare), 0]
    assert words.shares(["common", "rare", "absent"]) == pytest.approx(expected)


def test_segments_and_deletions_weigh_as_one_index_of_what_is_left():
    rng, vocabulary = random.Random(5), [f"word{n}" for n in range(80)]
    weights = [1 / (rank + 1) for rank in range(len(vocabulary))]
    texts = [rng.choices(vocabulary, weights, k=rng.randint(0, 30)) for _ in range(200)]
    alive = np.arange(len(texts)) % 3 > 0
    left = [text for text, kept in zip(texts, alive, strict=True) if kept]
    whole = WeighedWords([Postings.count(left)], np.ones(len(left), dtype=bool))
    for cuts in ([200], [1, 199], [0, 80, 90, 200]):
        parts = [Postings.count(part) for part in np.split(np.array(texts, dtype=object), cuts)]
        segments = WeighedWords(parts, alive)
        for query in (["word0", "word5", "word5"], ["word79", "absent"], ["absent"], []):
            for find in ("scores", "shares"):
                scores = getattr(segments, find)(query)
                assert scores[alive].tolist() == getattr(whole, find)(query).tolist()
                assert not scores[~alive].any()


def test_the_folder_of_an_index_of_passages_goes_with_it():
    index = BM25Index.from_passages(corpus())
    again = pickle.loads(pickle.dumps(index))
    assert again.search(QUERIES, 5) == index.search(QUERIES, 5)
    folder = index.path
    del index
    assert not folder.parent.exists()


def test_a_build_that_fails_leaves_no_folder(monkeypatch, tmp_path):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    with pytest.raises(DataError, match="no passages"):
        BM25Index.from_passages([])
    assert [*tmp_path.iterdir()] == []


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


def test_settings_that_are_refused(tmp_path):
    with pytest.raises(ValueOutOfBounds, match="klingon"):
        BM25Index.from_passages(corpus(), stemmer="klingon")
    with pytest.raises(UsageError, match="bm25 takes no encoder"):
        BM25Index.build(corpus(), tmp_path / "index", encoder=count_words)
    with pytest.raises(UsageError, match="dense takes no stemmer"):
        DenseIndex.build(corpus(), tmp_path / "index", stemmer=None)


# Vectors.


def count_words(texts):
    """A function from texts to vectors: hashed word counts."""
    vectors = np.zeros((len(texts), 256))
    for row, text in enumerate(texts):
        for word in re.findall(r"[^\s.():]+", text.lower()):
            vectors[row, zlib.crc32(word.encode("utf-8", "surrogatepass")) % 256] += 1
        vectors[row, 0] += 0.01
    return vectors


def test_a_bi_encoder_of_sentence_transformers_encodes(tmp_path):
    encoder = write_bi_encoder(tmp_path / "encoder", [*map(str, corpus()), *QUERIES])
    index = DenseIndex.build(corpus(), tmp_path / "index", encoder=encoder)
    assert [hits[0].passage for hits in index.search([*map(str, corpus()[::7])], 1)] == corpus()[::7]
    assert open_index(tmp_path / "index").search(QUERIES, 5) == index.search(QUERIES, 5)


def test_scores_are_cosines(tmp_path):
    index = DenseIndex.build(corpus(), tmp_path / "index", encoder=count_words)
    (hits,) = index.search(QUERIES[:1], 40)
    vectors = count_words([QUERIES[0], *(str(hit.passage) for hit in hits)])
    query, *passages = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    assert [hit.score for hit in hits] == pytest.approx([query @ passage for passage in passages], abs=1e-3)


def test_a_function_is_given_again_at_opening(tmp_path):
    expected = DenseIndex.build(corpus(), tmp_path / "index", encoder=count_words).search(QUERIES, 5)
    assert DenseIndex.open(tmp_path / "index", encoder=count_words).search(QUERIES, 5) == expected
    embedder = dspy.Embedder(count_words)
    assert DenseIndex.build(corpus(), tmp_path / "embedder", encoder=embedder).search(QUERIES, 5) == expected
    with pytest.raises(CheckpointError, match="count_words"):
        DenseIndex.open(tmp_path / "index").search(QUERIES, 5)
    for other in (lambda texts: -count_words(texts), lambda texts: count_words(texts)[:, :9]):
        with pytest.raises(CheckpointError, match="not the encoder"):
            DenseIndex.open(tmp_path / "index", encoder=other).search(QUERIES, 5)


# Both.


def test_a_score_is_the_mean_cosine_and_the_share_of_rare_words(checkpoint, tmp_path):
    index = HybridIndex.build(corpus(), tmp_path / "index", encoder=checkpoint)
    query = index.encoder.encode_query(QUERIES[0])
    words = {"film", "dellow", "direct"}
    for hit in index.search(QUERIES[:1], 40)[0]:
        vectors, _ = index.encoder.encode_passages([str(hit.passage)])
        cosine = (query @ vectors.astype(float).T).max(axis=1).sum() / len(query)
        has = any(word in str(hit.passage).lower() for word in words)
        assert cosine - 0.01 < hit.score < cosine + has * SHARE + 0.01


def test_a_word_that_one_passage_has_comes_first(tmp_path):
    parts = ("pump", "fan", "valve")
    codes = [Passage(str(n), "Errors", f"Error E{n}-{n * 37 % 91}: {parts[n % 3]} {n}") for n in range(90)]
    index = HybridIndex.build([*codes, *corpus()], tmp_path / "index")
    queries = [f"What does the error E{n}-{n * 37 % 91} of the {parts[n % 3]} mean?" for n in range(90)]
    assert [hits[0].passage for hits in index.search(queries, 1)] == codes


def hits(*ids):
    return [Hit(Passage(name, "", ""), 1.0 / rank, rank) for rank, name in enumerate(ids, 1)]


def test_fusion_is_the_formula():
    fused = fuse([hits("a", "b", "c"), hits("c", "d"), hits("c")], 3)
    assert [(hit.passage.id, hit.rank) for hit in fused] == [("c", 1), ("a", 2), ("b", 3)]
    assert [hit.score for hit in fused] == pytest.approx([1 / 63 + 2 / 61, 1 / 61, 1 / 62])
    tied = fuse([hits("b", "a"), hits("a", "b")], 2)
    assert [hit.passage.id for hit in tied] == ["a", "b"]
