"""The gold passages that an answer rests on, and those found and shown on the way, counted by hand."""

from collections.abc import Sequence

import dspy
import pytest
from compile_helpers import make_examples, reading_lm

from knowgap.compiling import compile, evaluate
from knowgap.compiling.evaluation.metrics import EVIDENCE, get_metric
from knowgap.compiling.run import Run
from knowgap.errors import DataError
from knowgap.programs.baselines.rag import RAG
from knowgap.programs.trace.steps import Answered, Retrieved, Step
from knowgap.programs.trace.trace import Trace
from knowgap.retrieval import BM25Index
from knowgap.retrieval.passage import Hit, Passage

EXAMPLE = dspy.Example(question="?", answer="a", gold_ids=["g1", "g2"])


def found(*ids):
    trace = Trace(program="p", question="q", steps=[])
    return dspy.Prediction(answer="a", passages=[Passage(id=i, title="", text=i) for i in ids], trace=trace)


RANKED, PARTS = found("x", "g2", "y", "g1", "z"), found("x", "g1#0123456789", "g1#abcdef0123")


@pytest.mark.parametrize(
    ("ranking", "scores"),
    [
        ([Hit(Passage(id="g1", title="", text="t"), 1.0, 1), "x"], {"recall": 1 / 2, "precision": 1 / 2}),
        (RANKED, {"recall": 1, "precision": 2 / 5, "mrr": 1 / 2, "recall@2": 1 / 2, "precision@2": 1 / 2, "mrr@1": 0}),
        (RANKED, {"precision@4": 1 / 2, "recall@100": 1}),
        (PARTS, {"recall": 1 / 2, "precision": 2 / 3, "mrr": 1 / 2}),  # parts of a document, which count as one
        (["g1", "g1", "x"], {"precision": 1 / 2}),  # passages count once
    ],
)
def test_by_hand(ranking, scores):
    assert {name: get_metric(name)(EXAMPLE, ranking) for name in scores} == scores
    assert get_metric("recall")(dspy.Example(gold_ids=[7]), [Passage(7, "", "text")]) == 1.0  # ids may be numbers


@pytest.mark.parametrize("name", ["recall", "precision", "mrr", *EVIDENCE])
def test_nothing_found_scores_0_and_no_gold_passages_are_refused(name):
    metric = get_metric(name)
    for prediction in (found(), found("x", "y")):
        assert metric(EXAMPLE, prediction) == 0.0
    for example in (dspy.Example(question="why?"), dspy.Example(question="why?", gold_ids=[])):
        with pytest.raises(DataError, match=r"gold_ids.*'why\?'"):
            metric(example, found("x"))


def prediction(*hits: str, used: Sequence[str] = (), **shown: int) -> dspy.Prediction:
    steps: list[Step] = [Retrieved(queries=["q"], k=5, hits=[list(ids)]) for ids in hits]
    steps.append(Answered(answer="x", passages=list(used)))
    return dspy.Prediction(answer="x", trace=Trace(program="p", question="q", steps=steps, shown=shown))


@pytest.mark.parametrize(
    ("gold", "made", "scores"),
    [
        ("abc", prediction("axy", "bz", used="ax", a=1, x=9, y=9, z=9), (2 / 3, 1 / 3, 1 / 3, 1 / 4)),
        ("ab", prediction("ab", used="b", a=1, b=1), (1, 1, 1 / 2, 1)),
        ("ab", prediction("abc", used="ab"), (1, 0, 0, 0)),
        ("ab", prediction(), (0, 0, 0, 0)),
        ("ab", prediction("a", used=["model:1"], a=1, **{"model:1": 5}), (1 / 2, 1 / 2, 0, 1)),
    ],
)
def test_found_shown_and_used_by_hand(gold: str, made: dspy.Prediction, scores: tuple[float, float, float, float]):
    example = dspy.Example(question="q", gold_ids=list(gold))
    found = {name: get_metric(name)(example, made) for name in EVIDENCE}
    assert found == pytest.approx(dict(zip(("found", "shown", "used", "shown_precision"), scores, strict=True)))


@pytest.fixture
def partial() -> tuple[RAG, list[dspy.Example]]:
    """Eight questions, and an index of the passages of six of them."""
    examples = make_examples(8)
    passages = [Passage(e.id, f"house {e.id}", f"{e.answer} lives in house {e.id}.") for e in examples[:6]]
    return RAG(BM25Index.from_passages(passages), top_k=6), examples


def test_they_are_not_scored_by_their_passages_and_that_is_said(partial):
    program, examples = partial
    with pytest.warns(UserWarning, match="2 gold ids, of 2 of 8 questions, are not in the index, such as 'q6'") as said:
        result = evaluate(program, examples, ["exact_match", "recall"], run=Run(lm=reading_lm()[0]))
    assert len(said) == 1
    assert [result.interval(name).n for name in ("exact_match", "recall", "found")] == [8, 6, 6]
    assert result.mean("recall") == result.mean("found") == result.evidence()["used for the answer"] == 1.0
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
