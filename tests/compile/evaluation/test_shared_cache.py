"""Shared results: the same as without sharing, and nothing searched, scored or asked twice."""

import copy
import sqlite3
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing

import dspy
import pytest
from compile_helpers import make_examples, make_retriever
from compile_worker import plain, study, study_arguments
from support import TableEntailment, TableReranker

from knowgap.compiling import Run, StudyConfig
from knowgap.compiling.evaluation.provenance import provenance_of
from knowgap.compiling.evaluation.shared_cache import Cached, open_cache
from knowgap.programs.migres import MIGRES
from tests.retrieval.conformance import QUERIES


class Counting:
    """A retriever that counts, with a digest so that its lists may be kept on disk."""

    digest = "d" * 64

    def __init__(self, retriever):
        self.retriever, self.asked = retriever, []

    def search(self, queries, k):
        self.asked += [(query, k) for query in queries]
        return self.retriever.search(queries, k)


@pytest.fixture
def retriever():
    return Counting(make_retriever(make_examples(8)))


@pytest.fixture
def cache(tmp_path):
    with closing(open_cache(tmp_path)) as opened:
        yield opened


def test_each_query_is_searched_once_for_each_number_of_hits(retriever, cache, tmp_path):
    queries = ["house q1", "house q2"]
    cached = Cached(retriever, cache)
    for _ in range(2):
        assert [cached.search(queries, k) for k in (3, 1)] == [retriever.retriever.search(queries, k) for k in (3, 1)]
    assert retriever.asked == [(query, k) for k in (3, 1) for query in queries]
    assert cached.search([], 3) == []
    with closing(open_cache(tmp_path)) as another:  # as another process would open it
        assert Cached(retriever, another).search(["house q2"], 3) == cached.search(["house q2"], 3)
    assert len(retriever.asked) == 4
    assert cached.digest == retriever.digest
    assert copy.deepcopy(cached) is cached


def test_a_model_with_other_weights_is_asked_again(cache):
    pairs, found = [("The Isk is a river.", "The Isk is a river.")], []
    for digest, probability in (("a", 0.9), ("b", 0.1)):
        trained = TableEntailment(lambda *_, probability=probability: probability)
        trained.digest = digest
        model = Cached(trained, cache)
        found.append((model.entails(pairs), provenance_of(MIGRES(entailment=model), [], None).weights["entailment"]))
    assert found == [([0.9], "a"), ([0.1], "b")]


@pytest.mark.long
def test_the_threads_that_search_open_no_databases(retriever, tmp_path, monkeypatch):
    connect, threads, there = sqlite3.connect, set(), {threading.get_ident()}

    def counted(*args, **kwargs):
        threads.add(threading.get_ident())
        return connect(*args, **kwargs)

    monkeypatch.setattr("diskcache.core.sqlite3.connect", counted)
    with closing(open_cache(tmp_path)) as opened, ThreadPoolExecutor(4) as pool:
        cached = Cached(retriever, opened)
        list(pool.map(lambda query: cached.search([query], 2), [f"{query} {n}" for query in QUERIES for n in range(8)]))
    assert len(threads - there) == 1


def test_an_index_without_a_digest_is_not_shared_on_disk(cache):
    first, second = make_retriever(make_examples(3)), make_retriever(make_examples(3, "x"))
    assert Cached(first, cache).search(["house q1"], 1)[0][0].passage.id == "q1"
    assert Cached(second, cache).search(["house x1"], 1)[0][0].passage.id == "x1"
    assert Cached(second, cache).search(["house q1"], 1)[0][0].passage.id != "q1"


def test_every_pair_is_scored_once(cache):
    reranker, entailment = TableReranker(lambda q, t: len(q) + len(t) / 8), TableEntailment(lambda p, h: 0.0)
    pairs = [("a", "b"), ("a", "c"), ("a", "b")]
    for _ in range(2):
        cached = Cached(reranker, cache)
        assert cached.score(pairs) == [1.125, 1.125, 1.125]
        assert cached.score(pairs[:1]) == [1.125]
        assert Cached(entailment, cache).entails(pairs) == [0.0] * 3
        assert cached.default_threshold == 0.0
        assert cached.name == "table"
    assert reranker.pairs == entailment.pairs == [("a", "b"), ("a", "c")]
    assert cached.score([]) == []


def test_a_study_pays_once_and_finds_the_same(tmp_path):
    def run(reuse):
        arguments, engine = study_arguments()
        lm, cache = arguments.pop("lm"), tmp_path / "cache"
        config = StudyConfig(reuse=reuse, cache_dir=cache, prune=False, n_trials=12)
        retriever = arguments["program"].retriever = Counting(arguments["program"].retriever)
        before = dspy.settings.lm
        found = study(**arguments, config=config, run=Run(lm))
        assert dspy.settings.lm is before
        assert found.program.retriever is retriever
        return found, len(engine.calls), retriever.asked

    (apart, apart_calls, apart_searches), (shared, shared_calls, shared_searches) = run(False), run(True)
    assert plain(apart) == plain(shared)
    assert apart.spent.calls == apart_calls
    assert shared.spent.calls == shared_calls < apart_calls
    assert shared.spent.asked == apart.spent.asked == apart_calls
    assert len(shared_searches) == len({*shared_searches}) < len(apart_searches)
    dspy.cache.reset_memory_cache()
    again, calls, searches = run(True)  # as another process would make it: everything is in the folder
    assert plain(again) == plain(apart)
    assert (calls, searches) == (0, [])
    assert again.spent.calls == 0
