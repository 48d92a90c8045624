"""Sharing: the same results, and nothing searched, scored or asked twice."""

from __future__ import annotations

import copy
import threading

import dspy
import pytest
from compile_helpers import Tunable, make_examples, make_retriever
from compile_worker import plain, study_arguments
from support import TableEntailment, TableReranker

from knowgap.compile import StudyConfig, tune
from knowgap.compile.evaluation.shared_cache import SharedModel, SharedRetriever, SharedValues, share, unshare
from knowgap.errors import UsageError
from knowgap.retrieval import SearchSettings


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


def test_one_search_serves_every_smaller_k(retriever, tmp_path):
    file = SharedValues(tmp_path / "shared.sqlite")
    shared = SharedRetriever(retriever, file, depth=6)
    plain_hits = [make_retriever(make_examples(8)).search(["house q1", "house q2"], k) for k in (1, 3, 6)]
    assert [shared.search(["house q1", "house q2"], k) for k in (3, 1, 6)] == [plain_hits[i] for i in (1, 0, 2)]
    assert retriever.asked == [("house q1", 6), ("house q2", 6)]
    assert len(shared.search(["house q1"], 8)[0]) == 8  # deeper than ever: searched again
    assert retriever.asked[2:] == [("house q1", 8)]
    assert shared.search([], 3) == []
    another = SharedRetriever(retriever, SharedValues(tmp_path / "shared.sqlite"), depth=6)  # as another process would
    assert another.search(["house q2"], 3) == shared.search(["house q2"], 3)
    assert len(retriever.asked) == 3
    assert shared.digest == retriever.digest
    assert copy.deepcopy(shared) is shared


def test_an_index_without_a_digest_is_not_shared_on_disk(tmp_path):
    file = SharedValues(tmp_path / "shared.sqlite")
    first, second = make_retriever(make_examples(3)), make_retriever(make_examples(3, "x"))
    assert SharedRetriever(first, file).search(["house q1"], 1)[0][0].passage.id == "q1"
    assert SharedRetriever(second, file).search(["house x1"], 1)[0][0].passage.id == "x1"
    assert SharedRetriever(second, file).search(["house q1"], 1)[0][0].passage.id != "q1"


def test_every_pair_is_scored_once(tmp_path):
    file = SharedValues(tmp_path / "shared.sqlite")
    reranker, entailment = TableReranker(lambda q, t: len(q) + len(t) / 8), TableEntailment(lambda p, h: 0.25)
    pairs = [("a", "b"), ("a", "c"), ("a", "b")]
    for _ in range(2):
        shared = SharedModel(reranker, file)
        assert shared.score(pairs) == [1.125, 1.125, 1.125]
        assert shared.score(pairs[:1]) == [1.125]
        assert SharedModel(entailment, file).entails(pairs) == [0.25] * 3
        assert shared.default_threshold == 0.0
        assert shared.name == "table"
    assert reranker.pairs == entailment.pairs == [("a", "b"), ("a", "c")]
    assert shared.score([]) == []


def test_many_threads_see_one_truth(tmp_path):
    file = SharedValues(tmp_path / "shared.sqlite")
    shared = SharedModel(TableReranker(lambda q, t: float(len(t))), file)
    wrong = []

    def work(seed):
        for n in range(40):
            texts = [("q", "x" * ((n * seed + i) % 50)) for i in range(20)]
            if shared.score(texts) != [float(len(text)) for _, text in texts]:
                wrong.append(texts)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(1, 7)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong
    file.close()


def test_a_program_is_wrapped_and_unwrapped(retriever, tmp_path):
    program = Tunable(retriever, reranker=TableReranker(lambda q, t: 1.0))
    shared, close = share(program, tmp_path)
    assert isinstance(shared.retriever, SharedRetriever)
    assert isinstance(shared.reranker, SharedModel)
    assert shared.entailment is None
    assert program.retriever is retriever
    again, close_again = share(shared)
    assert again.retriever is shared.retriever
    assert unshare(shared).retriever is retriever
    close()
    close_again()


def test_something_else_is_not_used_as_a_cache(tmp_path):
    (tmp_path / "shared.sqlite").write_text("a shopping list, long enough to be no database header" * 20)
    with pytest.raises(UsageError, match="remove it"):
        SharedValues(tmp_path / "shared.sqlite")


def test_a_study_pays_once_and_finds_the_same(tmp_path):
    results = []
    for sharing in (False, True):
        arguments, engine = study_arguments()
        program = arguments.pop("program")
        program.retriever = Counting(program.retriever)
        before = dspy.settings.lm
        arguments["study"] = StudyConfig(reuse=sharing, cache_dir=tmp_path / "cache")
        found = tune(program, n_trials=12, **arguments)
        results.append((found, len(engine.calls), len(program.retriever.asked)))
        assert dspy.settings.lm is before
        assert found.program.retriever is program.retriever
    (apart, apart_calls, apart_searches), (shared, shared_calls, shared_searches) = results
    assert plain(apart) == plain(shared)
    assert apart.calls.spent == apart_calls
    assert shared.calls.spent == shared_calls < apart_calls
    assert shared.calls.without_sharing == apart.calls.without_sharing >= apart_calls
    assert shared_searches == 14 < apart_searches  # one search for each of ten dev and four train questions
    # a third study, as another process would make it, finds everything in the folder
    arguments, engine = study_arguments()
    program = arguments.pop("program")
    program.retriever = Counting(program.retriever)
    dspy.cache.reset_memory_cache()
    arguments["study"] = StudyConfig(cache_dir=tmp_path / "cache")
    again = tune(program, n_trials=12, **arguments)
    assert plain(again) == plain(apart)
    assert (len(engine.calls), program.retriever.asked) == (0, [])
    assert again.calls.spent == 0
    assert again.calls.without_sharing == apart.calls.without_sharing


def test_each_quality_is_a_search_of_its_own(tmp_path):
    file, asked = SharedValues(tmp_path / "shared.sqlite"), []
    for quality in ("fast", SearchSettings(nprobe=3, n_rescored=90), "fast", SearchSettings(nprobe=3, n_rescored=90)):
        retriever = Counting(make_retriever(make_examples(8)))
        retriever.digest, retriever.quality = "the same index", quality
        SharedRetriever(retriever, file).search(["house q1"], 3)
        asked.append(len(retriever.asked))
    assert asked == [1, 1, 0, 0]
