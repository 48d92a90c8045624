"""PopQA match, str-em, the judge and the upper bound, worked out by hand."""

import dspy
import pytest
from support import by_output, scripted_lm

from knowgap.compiling.evaluation.metrics import get_metric
from knowgap.compiling.evaluation.metrics.answers import judged_accuracy, popqa_match, str_em, str_hit
from knowgap.errors import DataError


def said(answer, **more):
    return dspy.Prediction(answer=answer, **more)


@pytest.mark.parametrize(
    ("aliases", "answer", "score"),
    [
        (["politician"], "She was a politician.", 1.0),
        (["Politician"], "a politician", 1.0),
        (["politician"], "Politician", 1.0),
        (["politician"], "POLITICIAN", 0.0),
        (["film director", "director"], "a theatre director", 1.0),
        (["U.S."], "in the US", 0.0),
        (["politician"], "", 0.0),
    ],
)
def test_popqa_match(aliases, answer, score):
    assert popqa_match(dspy.Example(question="?", answer=aliases[0], aliases=aliases), said(answer)) == score


def test_asqa_exact_match():
    example = dspy.Example(question="When?", answer="long", short_answers=[["1900", "the year 1900"], ["1950"]])
    scores = {
        "Built in 1900, rebuilt in 1950.": 1.0,
        "Built in 1900 [1][2].": 0.5,
        "Built in 1900.\nRebuilt in 1950.": 0.5,  # only the first paragraph counts
        "Nobody knows [1950].": 0.0,  # a citation is no answer
        "": 0.0,
    }
    assert {answer: str_em(example, said(answer)) for answer in scores} == scores
    assert [str_hit(example, said(answer)) for answer in scores] == [1.0, 0.0, 0.0, 0.0, 0.0]
    with pytest.raises(DataError, match="no short answers"):
        str_em(dspy.Example(question="?", answer="a"), said("a"))


def test_a_judged_answer():
    example = dspy.Example(question="Who?", answer="Ada Venn", aliases=["Ada Venn", "Venn"])
    # The third verdict cannot be read, also when it is asked for again.
    lm, engine = scripted_lm(by_output({"correct": [{"correct": True}, {"correct": False}, "[[ mumble", "[[ mumble"]}))
    with dspy.context(lm=lm, trace=[]):
        scores = [judged_accuracy(example, said(answer)) for answer in ("A. Venn", "A. Venn", "A. Venn", "")]
        assert dspy.settings.trace == []
    assert scores == [1.0, 0.0, 0.0, 0.0]
    assert engine.calls[0][1] == {"question": "Who?", "prediction": "A. Venn", "reference": "Ada Venn or Venn"}
    assert len(engine.calls) == 4  # no answer is not shown


@pytest.mark.parametrize(
    ("answer", "answers", "right"),
    [
        ("Bo", ["Bo", "Bo Reed"], 0.0),
        ("Bo", ["Bo", "Ada Venn"], 1.0),
        ("Bo", ["Bo", "the Venn!"], 1.0),  # an alias, after normalisation
        ("Ada Venn", ["Bo"], 0.0),  # what was chosen is none of those that were weighed
        ("Venn", [], 1.0),
        ("Venn", None, 1.0),
        ("", ["", "  "], 0.0),
    ],
)
def test_the_upper_bound_is_the_best_of_all_answers(answer, answers, right):
    example = dspy.Example(question="Who?", answer="Ada Venn", aliases=["Ada Venn", "Venn"])
    prediction = said(answer) if answers is None else said(answer, answers=answers)
    assert get_metric("upper_bound")(example, prediction) == right
