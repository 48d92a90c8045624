"""Shared results: the same as without sharing, and nothing searched, scored or asked twice."""

import copy

import dspy
from compile_helpers import make_examples, make_retriever
from compile_worker import plain, study, study_arguments
from support import TableEntailment, TableReranker

from knowgap.compiling import Run, StudyConfig
from knowgap.compiling.evaluation.shared_cache import Cached, share_results
from knowgap.programs.baselines.rag import RAG


class Counting:
    """A retriever that counts its searches."""

    def __init__(self, retriever, **facts):
        self.retriever, self.asked = retriever, []
        vars(self).update(facts)

    def search(self, queries, k):
        self.asked += [(query, k) for query in queries]
        return self.retriever.search(queries, k)


def test_each_query_is_searched_once_for_each_number_of_hits():
    retriever, queries = Counting(make_retriever(make_examples(8))), ["house q1", "house q2"]
    cached = Cached(retriever)
    for _ in range(2):
        assert [cached.search(queries, k) for k in (3, 1)] == [retriever.retriever.search(queries, k) for k in (3, 1)]
    assert retriever.asked == [(query, k) for k in (3, 1) for query in queries]
    assert cached.search([], 3) == []
    assert cached.asked is retriever.asked
    assert copy.deepcopy(cached) is cached


def test_programs_share_what_the_same_index_finds_and_nothing_else():
    index = make_retriever(make_examples(8))
    one, same, other = (Counting(index, digest=digest) for digest in ("d", "d", "e"))
    apart = Counting(index)  # without a digest
    programs = {str(n): RAG(each) for n, each in enumerate((one, same, other, apart))}
    for program in share_results(programs).values():
        program.retriever.search(["house q1"], 3)
    assert [len(each.asked) for each in (one, same, other, apart)] == [1, 0, 1, 1]


def test_every_pair_is_scored_once_by_the_same_weights():
    reranker, entailment = TableReranker(lambda q, t: len(q) + len(t) / 8), TableEntailment(lambda p, h: 0.0)
    pairs, cached, judge = [("a", "b"), ("a", "c"), ("a", "b")], Cached(reranker), Cached(entailment)
    for _ in range(2):
        assert cached.score(pairs) == [1.125, 1.125, 1.125]
        assert judge.entails(pairs) == [0.0] * 3
    assert (cached.default_threshold, cached.name, cached.score([])) == (0.0, "table", [])
    assert reranker.pairs == entailment.pairs == [("a", "b"), ("a", "c")]
    trained = TableReranker(lambda q, t: 0.0)
    trained.digest = "other"
    assert Cached(trained).identity != cached.identity == Cached(TableReranker(lambda q, t: 0.0)).identity


def test_a_study_pays_once_and_finds_the_same():
    def run(reuse):
        arguments, engine = study_arguments()
        lm, config = arguments.pop("lm"), StudyConfig(reuse=reuse, prune=False, n_trials=12)
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
