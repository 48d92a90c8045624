"""Shared results: the same as without sharing, and nothing searched, scored or asked twice."""

import copy

from compile_helpers import Tunable, make_examples, make_retriever, plain, study_arguments
from support import TableEntailment, TableReranker

from knowgap.compiling import Run, StudyConfig
from knowgap.compiling.evaluation.shared_cache import share_results
from knowgap.compiling.study.run import run_study
from knowgap.retrieval.grounding import GroundingEntailment


def test_programs_share_what_the_same_index_finds_and_what_the_same_weights_say():
    queries = ["house q1", "house q2"]
    index, one, other = (make_retriever(make_examples(8)) for _ in range(3))
    first, twin, trained = (TableReranker(lambda q, t: len(q) + len(t) / 8) for _ in range(3))
    trained.digest = "other"
    entailment = TableEntailment(lambda p, h: 0.0)
    parts = {"a": (one, first), "b": (one, twin), "c": (other, trained)}
    programs = {name: Tunable(a, reranker=b, entailment=entailment) for name, (a, b) in parts.items()}
    pairs = [("a", "b"), ("a", "c"), ("a", "b")]
    for program in share_results(programs).values():
        cached = program.retriever
        assert [cached.search(queries, k) for k in (3, 1)] == [index.search(queries, k) for k in (3, 1)]
        assert cached.search([], 3) == []
        assert copy.deepcopy(cached) is cached
        assert program.reranker.score(pairs) == [1.125] * 3
        assert program.entailment.entails(pairs) == [0.0] * 3
        assert (program.reranker.default_threshold, program.reranker.name) == (0.0, "table")
    rule = GroundingEntailment()  # by which `cite_answer` cites, if it is not wrapped
    assert share_results({"a": Tunable(one, entailment=rule)})["a"].entailment is rule
    assert one.searched == other.searched == [(query, k) for k in (3, 1) for query in queries]
    assert [len(each.pairs) for each in (first, twin, trained, entailment)] == [2, 0, 2, 2]


def test_a_study_searches_and_pays_once_and_finds_the_same():
    def run(cache):
        arguments, engine = study_arguments()
        lm, config = arguments.pop("lm").copy(cache=cache), StudyConfig(prune=False, n_trials=12)
        retriever = arguments["program"].retriever
        found = run_study(**arguments, config=config, run=Run(lm))
        assert found.program.retriever is retriever
        assert len(retriever.searched) == len({*retriever.searched})
        assert found.spent.calls == len(engine.calls)
        return found

    apart, shared = run(False), run(True)
    assert plain(apart) == plain(shared)
    assert shared.spent.calls < apart.spent.calls == shared.spent.asked
