"""Questions whose gold passages the index lacks: said in one line, and no failure of the program."""

from __future__ import annotations

from pathlib import Path

import dspy
import pytest
from compile_helpers import make_examples, reading_lm

from knowgap.compiling import compile, evaluate
from knowgap.compiling.run import Run
from knowgap.errors import DataError
from knowgap.programs.baselines.rag import RAG
from knowgap.retrieval import BM25Index, HybridIndex, Passage


def passages(examples: list[dspy.Example]) -> list[Passage]:
    return [Passage(e.id, f"house {e.id}", f"{e.answer} lives in house {e.id}.") for e in examples]


@pytest.fixture
def partial() -> tuple[RAG, list[dspy.Example]]:
    """Eight questions, and an index of the passages of six of them."""
    examples = make_examples(8)
    return RAG(BM25Index.from_passages(passages(examples[:6])), top_k=6), examples


def test_they_are_not_scored_by_their_passages_and_that_is_said(partial):
    program, examples = partial
    with pytest.warns(UserWarning, match="gold ids") as said:
        result = evaluate(program, examples, ["exact_match", "recall"], run=Run(lm=reading_lm()[0]))
    [warning] = said
    assert "2 gold ids, of 2 of 8 questions, are not in the index, such as 'q6'" in str(warning.message)
    assert result.interval("exact_match").n == 8
    assert result.interval("recall").n == result.interval("found").n == 6
    assert result.mean("recall") == result.mean("found") == 1.0
    assert result.evidence()["used for the answer"] == 1.0
    assert all(example.gold_ids for example in examples)


def test_a_metric_of_passages_is_refused_before_anything_is_asked(partial):
    program, examples = partial
    lm, engine = reading_lm()
    with pytest.raises(DataError, match="2 gold ids"):
        evaluate(program, examples, ["recall@5"], run=Run(lm=lm))
    for optimizer in ("study", "bootstrap"):
        with pytest.raises(DataError, match="2 gold ids"):
            compile(program, examples, "recall@5", trainset=examples, optimizer=optimizer, run=Run(lm))
    examples[5].gold_ids = []
    for metric in ("recall@5", "found"):
        with pytest.raises(DataError, match="q5"):
            evaluate(program, examples[:6], metric, run=Run(lm=lm))
    assert engine.calls == []


def test_a_hybrid_index_knows_what_its_parts_lack(tmp_path: Path):
    index = HybridIndex.build(passages(make_examples(3)), tmp_path / "index")
    assert index.missing_ids(["q0", "other", "q2"]) == ["other"]
