import copy
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext

import numpy as np
import pytest

import knowgap.retrieval.rerankers.cross_encoder as cross_encoder_module
from knowgap.errors import CheckpointError
from knowgap.retrieval import (
    CandidateRetriever,
    ColBERTIndex,
    CrossEncoderReranker,
    EmbeddedReranker,
    MaxSimReranker,
    make_reranker,
)
from tests.retrieval.conformance import QUERIES, RetrieverConformance, corpus
from tests.retrieval.tiny import write_colbert, write_cross_encoder

TEXTS = [str(passage) for passage in corpus(12)]
PAIRS = [(query, text) for query in QUERIES for text in TEXTS]


@pytest.fixture(scope="module")
def cross_encoder(tmp_path_factory):
    return write_cross_encoder(tmp_path_factory.mktemp("models") / "cross", TEXTS + QUERIES)


@pytest.fixture(scope="module")
def colbert(tmp_path_factory):
    folder = tmp_path_factory.mktemp("colbert")
    return ColBERTIndex.build(
        corpus(12), folder / "index", checkpoint=write_colbert(folder / "checkpoint", TEXTS + QUERIES)
    )


@pytest.fixture(params=["cross-encoder", "embedded", "maxsim"])
def reranker(request):
    if request.param == "embedded":
        return EmbeddedReranker()
    if request.param == "maxsim":
        return MaxSimReranker(request.getfixturevalue("colbert"))
    return CrossEncoderReranker(request.getfixturevalue("cross_encoder"))


class TestEveryReranker:
    def test_one_score_for_each_pair(self, reranker):
        scores = reranker.score(PAIRS)
        assert len(scores) == len(PAIRS)
        assert all(isinstance(score, float) for score in scores)
        assert reranker.score([]) == []

    def test_order_and_batch_do_not_matter(self, reranker):
        scores = dict(zip(PAIRS, reranker.score(PAIRS), strict=True))
        fresh = copy.copy(reranker)
        fresh._memory = type(reranker._memory)(1000)
        some = PAIRS[::-7]
        assert fresh.score(some) == pytest.approx([scores[pair] for pair in some], abs=2e-3)

    def test_repeated_pairs(self, reranker):
        first, second, third = reranker.score([PAIRS[0], PAIRS[1], PAIRS[0]])
        assert first == third != second

    def test_blank_texts(self, reranker):
        assert len(reranker.score([("", ""), (" ", "text"), ("query", " ")])) == 3

    def test_threads(self, reranker):
        with ThreadPoolExecutor(6) as pool:
            parts = list(pool.map(reranker.score, [PAIRS[i : i + 9] for i in range(0, 54, 3)]))
        for start, part in zip(range(0, 54, 3), parts, strict=True):
            assert part == reranker.score(PAIRS[start : start + 9])

    def test_says_what_it_is(self, reranker):
        assert reranker.name
        assert reranker.scale
        assert reranker.default_threshold is None or isinstance(reranker.default_threshold, float)
        assert copy.deepcopy(reranker) is reranker


@pytest.fixture
def single_precision(monkeypatch):
    monkeypatch.setattr(cross_encoder_module, "half_precision", lambda device: nullcontext())


def test_cross_encoder_scores_are_the_logits_of_the_model(cross_encoder, single_precision):
    import torch
    from transformers import AutoModelForSequenceClassification, AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(cross_encoder)
    model = AutoModelForSequenceClassification.from_pretrained(cross_encoder).eval()
    with torch.inference_mode():
        expected = [
            float(model(**tokenizer(query, text, return_tensors="pt")).logits[0, 0]) for query, text in PAIRS[:15]
        ]
    assert CrossEncoderReranker(cross_encoder).score(PAIRS[:15]) == pytest.approx(expected, abs=1e-4)
    assert len(set(np.round(expected, 3))) > 5


def test_half_precision_changes_little_and_ties_no_scores(cross_encoder, request):
    half = CrossEncoderReranker(cross_encoder).score(PAIRS)
    request.getfixturevalue("single_precision")
    single = CrossEncoderReranker(cross_encoder).score(PAIRS)
    assert np.corrcoef(half, single)[0, 1] > 0.99
    assert len(set(half)) >= len({round(score, 3) for score in single})


def test_pairs_of_one_length_are_batched(cross_encoder, monkeypatch):
    reranker = CrossEncoderReranker(cross_encoder)
    batches = []
    predict = reranker._model.predict
    monkeypatch.setattr(reranker._model, "predict", lambda pairs, **kw: batches.append(pairs) or predict(pairs, **kw))
    pairs = [("who", "word " * n) for n in (3, 40, 4, 41, 5)]
    reranker.score(pairs)
    assert sorted(batches, key=len) == [[pairs[1], pairs[3]], [pairs[0], pairs[2], pairs[4]]]


def test_each_pair_is_scored_once(cross_encoder, monkeypatch):
    import knowgap.retrieval.rerankers.reranker as module

    asked = []
    predict = module.predict
    monkeypatch.setattr(module, "predict", lambda model, pairs: asked.extend(pairs) or predict(model, pairs))
    reranker = CrossEncoderReranker(cross_encoder)
    reranker.score([PAIRS[0], PAIRS[1], PAIRS[0]])
    reranker.score([PAIRS[1], PAIRS[2]])
    assert asked == [PAIRS[0], PAIRS[1], PAIRS[2]]


def test_default_thresholds(cross_encoder, tmp_path):
    assert CrossEncoderReranker(cross_encoder).default_threshold == 0.0
    assert CrossEncoderReranker(cross_encoder, default_threshold=1.5).default_threshold == 1.5
    bge = write_cross_encoder(tmp_path / "bge-reranker-base", TEXTS)
    assert CrossEncoderReranker(bge).default_threshold == 3.0


def test_models_that_are_no_rerankers(tmp_path):
    with pytest.raises(CheckpointError, match="no such model folder"):
        CrossEncoderReranker(tmp_path / "absent")
    with pytest.raises(CheckpointError, match=r"no config\.json"):
        CrossEncoderReranker(tmp_path)
    three = write_cross_encoder(tmp_path / "nli", TEXTS, labels=3)
    with pytest.raises(CheckpointError, match="gives 3 scores"):
        CrossEncoderReranker(three)


def test_embedded_reranker_prefers_what_answers():
    query = "Who directed the film Silver Harbour?"
    relevant, related, unrelated = EmbeddedReranker().score(
        [
            (query, "Silver Harbour: Silver Harbour is a 1961 drama film directed by Ida Brenner."),
            (query, "Golden Valley: Golden Valley is a 1975 comedy film directed by Tom Hale."),
            (query, "Mount Kerrin: Mount Kerrin is a mountain in the north of the island."),
        ]
    )
    assert relevant > EmbeddedReranker().default_threshold > related > unrelated


def test_maxsim_reranker_agrees_with_its_index(colbert):
    hits = colbert.search(QUERIES[:1], 12)[0]
    scores = MaxSimReranker(colbert).score([(QUERIES[0], str(hit.passage)) for hit in hits])
    assert scores == pytest.approx([hit.score for hit in hits], abs=0.05)


def test_make_reranker(cross_encoder):
    assert isinstance(make_reranker("embedded"), EmbeddedReranker)
    assert isinstance(make_reranker(cross_encoder), CrossEncoderReranker)


class TestCandidateRetriever(RetrieverConformance):
    @classmethod
    def make(cls, passages, folder):
        return CandidateRetriever(passages)


def test_candidates_within_an_index(colbert):
    ids = [passage.id for passage in corpus(12)[:5]] + ["elsewhere"]
    restricted = CandidateRetriever.within(colbert, ids)
    assert restricted.search(QUERIES, 3) == colbert.search(QUERIES, 3, ids=ids)
    assert {hit.passage.id for hit in restricted.search(QUERIES, 9)[0]} == set(ids[:5])
    assert copy.deepcopy(restricted) is restricted
