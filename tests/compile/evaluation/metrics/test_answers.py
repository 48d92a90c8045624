"""The metrics of answers, worked out by hand."""

import dspy
import pytest
from support import by_output, scripted_lm

from knowgap.compiling.evaluation.metrics import METRICS, get_metric, named_metrics
from knowgap.compiling.evaluation.metrics.answers import exact_match, f1, judged_accuracy, str_em, str_hit
from knowgap.errors import DataError, UnknownName, UsageError, ValueOutOfBounds


def ask(answer, *aliases):
    return dspy.Example(question="?", answer=answer, aliases=[answer, *aliases]).with_inputs("question")


def said(answer, **more):
    return dspy.Prediction(answer=answer, **more)


@pytest.mark.parametrize(
    ("gold", "answer", "em", "overlap"),
    [
        ("The Müller's end", "müllers END.", 1, 1),
        ("U.S.", "us", 1, 1),
        ("“the” film", "“film”", 0, 0),  # quotation marks outside ASCII stay
        ("May 1961", "1961", 0, 2 / 3),
        ("March 4, 1921", "March 1921", 0, 4 / 5),  # 2 of 2 words right, 2 of 3 given
        ("yes", "Yes!", 1, 1),
        ("yes", "yes it is", 0, 0),  # closed answers are right or wrong
        ("it is no", "no", 0, 0),
        ("...", "the", 1, 0),  # no words on either side
    ],
)
def test_em_and_f1_by_hand(gold, answer, em, overlap):
    assert (exact_match(ask(gold), said(answer)), f1(ask(gold), said(answer))) == (em, pytest.approx(overlap))


B = ["B", "(b) photosynthesis", "B. photosynthesis", "The answer is B", "photosynthesis", "Answer: B", "Option B"]


@pytest.mark.parametrize(
    ("metric", "golds", "right", "wrong"),
    [
        ("cover_em", ["May 1961"], ["He came in May 1961."], []),
        ("cover_em", ["1961"], ["In 19615"], []),  # letters are covered, not words
        ("cover_em", ["..."], [], ["the"]),  # a reference without words is covered by none
        ("cover_em", ["Tarn", "Orle"], ["in Orle"], []),  # the best alias counts
        ("exact_match", ["4 March 1921", "March 4, 1921"], ["March 4 1921"], []),
        ("popqa_match", ["politician"], ["She was a politician.", "Politician"], ["POLITICIAN", ""]),
        ("popqa_match", ["U.S."], [], ["in the US"]),
        ("accuracy", ["yes"], ["Yes.", "The answer is yes, since no river is longer."], ["I know nothing"]),
        ("accuracy", ["no"], ["No, it is not true.", "It is false"], ["Norway"]),
        ("accuracy", ["B", "photosynthesis"], B, ["The answer is (C), not (B)", "respiration", "Answer: C"]),
        ("accuracy", ["Paris"], ["paris"], []),
    ],
)
def test_by_hand(metric, golds, right, wrong):
    scores = {answer: get_metric(metric)(ask(*golds), said(answer)) for answer in [*right, *wrong]}
    assert scores == {**dict.fromkeys(right, 1.0), **dict.fromkeys(wrong, 0.0)}


@pytest.mark.parametrize("metric", ["exact_match", "f1", "accuracy", "cover_em"])
@pytest.mark.parametrize("prediction", [dspy.Prediction(), said(None), said("  "), said([3])])
def test_a_prediction_without_an_answer_scores_0(metric, prediction):
    assert get_metric(metric)(ask("a"), prediction) == get_metric(metric)(ask("no"), prediction) == 0.0


@pytest.mark.parametrize(
    ("gold", "answer", "score"),
    [
        (True, True, 1),
        ("no", False, 1),
        (42, "42", 1),
        (42, 42.0, 1),
        (1.5, 1.5, 1),
        (["Orle", "Tarn"], "tarn", 1),
        (7, 8, 0),
    ],
)
def test_numbers_booleans_and_lists_are_compared_as_text(gold, answer, score):
    example = dspy.Example(question="?", answer=gold)
    assert [get_metric(name)(example, said(answer)) for name in ("exact_match", "f1", "accuracy")] == [score] * 3


@pytest.mark.parametrize("value", [float("nan"), 1.5, -0.1, "0.5", None, [1]])
def test_a_score_that_is_no_number_from_0_to_1_is_refused(value):
    mine = named_metrics({"mine": lambda example, prediction, trace: value})["mine"]
    with pytest.raises(UsageError, match=r"metric mine gave .* for the question 'Who\?'"):
        mine(dspy.Example(question="Who?"), said("a"))
    forms = (
        lambda example, prediction: dspy.Prediction(score=1, feedback="good"),
        lambda example, prediction, *, strict=False: not strict,
        lambda example, prediction, **options: not options,
    )
    for form in forms:
        assert named_metrics({"mine": form})["mine"](ask("a"), said("a")) == 1.0


def test_metrics_are_found_by_name():
    assert [get_metric(name) for name in METRICS] == list(METRICS.values())
    assert get_metric("recall@5").__name__ == "recall@5"
    for error, names in ((UnknownName, ("exact-match", "f1@5")), (ValueOutOfBounds, ("recall@0", "recall@", "mrr@x"))):
        for name in names:
            with pytest.raises(error):
                get_metric(name)


def test_metrics_in_every_form():
    def mine(example, prediction, trace=None):
        return 1.0

    for given, named in (("f1", ["f1"]), (["f1", mine], ["f1", "mine"]), ({"ours": mine}, ["ours"]), (mine, ["mine"])):
        assert list(named_metrics(given)) == named
    for refused in ([mine, mine], []):
        with pytest.raises(UsageError):
            named_metrics(refused)


@pytest.mark.parametrize(
    ("prediction", "right"),
    [
        ({"answer": "Tarn", "supported": False}, 1),
        ({"answer": "Tarn", "supported": True}, 0),
        ({"answer": "Tarn", "supported": None}, 0),
        ({"answer": "Tarn"}, 0),
        ({"answer": "unknown"}, 1),
        ({"answer": "It is not mentioned in the passages."}, 1),
        ({"answer": ""}, 0),
    ],
)
def test_to_refuse_is_right_where_nothing_answers_the_question_and_wrong_elsewhere(prediction, right):
    prediction = dspy.Prediction(**prediction)
    for name in ("exact_match", "f1", "accuracy", "cover_em", "upper_bound"):
        assert get_metric(name)(ask("unanswerable", "noanswer"), prediction) == right, name
        assert get_metric(name)(ask("Tarn"), prediction) == (prediction.answer == "Tarn"), name


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
        refused = [judged_accuracy(ask("unanswerable"), said("Tarn", supported=verdict)) for verdict in (False, True)]
    assert (scores, refused) == ([1.0, 0.0, 0.0, 0.0], [1.0, 0.0])
    assert engine.calls[0][1] == {"question": "Who?", "prediction": "A. Venn", "reference": "Ada Venn or Venn"}
    assert len(engine.calls) == 4  # neither no answer nor one to an unanswerable question is shown


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
