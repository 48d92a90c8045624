"""EM, F1 and accuracy against oracles written from their definitions, not from the code."""

import random
import re
import string

import dspy
import pytest

from knowgap.compile.evaluation.metrics import METRICS, accuracy, exact_match, f1, get_metric
from knowgap.errors import UnknownName, ValueOutOfBounds


def ask(answer, *aliases):
    return dspy.Example(question="?", answer=answer, aliases=[answer, *aliases]).with_inputs("question")


def said(answer):
    return dspy.Prediction(answer=answer)


def oracle_tokens(text):
    kept = "".join(letter for letter in text.lower() if letter not in string.punctuation)
    words = re.split(r"(\W+)", kept)  # an article is one between word boundaries, wherever white space stands
    return "".join(" " if word in {"a", "an", "the"} else word for word in words).split()


def oracle_f1(left, right):
    first, second = oracle_tokens(left), oracle_tokens(right)
    closed = (["yes"], ["no"], ["noanswer"])
    if (first in closed or second in closed) and first != second:
        return 0.0
    shared = sum(min(first.count(token), second.count(token)) for token in set(first))
    # The harmonic mean of shared/len(first) and shared/len(second).
    return 2 * shared / (len(first) + len(second)) if shared else 0.0


def generated_pairs(count):
    dice = random.Random(20)
    words = ["the", "a", "an", "yes", "no", "noanswer", "Müller's", "rock'n'roll", "U.S.", "1961", "May", "Straße",
             "東京", "New-York", "—", "...", "(film)", "Anna", "the\u00a0end", "ångström", "THE", "café", "cafe\u0301",
             "and", "“the”", "Theatre"]  # fmt: skip

    def text():
        return " ".join(dice.choice(words) for _ in range(dice.randint(1, 5)))

    for _ in range(count):
        gold = text()
        yield gold, dice.choice([gold, gold.upper(), gold + ".", text(), text(), "yes", "no"])


def test_em_and_f1_equal_the_oracle_on_ten_thousand_pairs():
    hits = partial = 0
    for gold, answer in generated_pairs(10_000):
        em, score = exact_match(ask(gold), said(answer)), f1(ask(gold), said(answer))
        assert em == float(oracle_tokens(gold) == oracle_tokens(answer)), (gold, answer)
        assert score == pytest.approx(oracle_f1(answer, gold)), (gold, answer)
        hits += em == 1
        partial += 0 < score < 1
    assert hits > 2000
    assert partial > 500


def test_the_best_alias_counts():
    example = ask("4 March 1921", "March 4, 1921")
    assert exact_match(example, said("March 4 1921")) == 1.0
    assert f1(example, said("March 1921")) == pytest.approx(4 / 5)  # 2 of 2 words right, 2 of 3 given
    assert f1(ask("somebody else", "no"), said("no")) == 1.0
    assert exact_match(dspy.Example(question="?", answer="x"), said("X")) == 1.0


@pytest.mark.parametrize("metric", [exact_match, f1, accuracy])
@pytest.mark.parametrize("prediction", [dspy.Prediction(), said(None), said(""), said("  "), said(3)])
def test_a_prediction_without_an_answer_scores_0(metric, prediction):
    assert metric(ask("a"), prediction) == 0.0
    assert metric(ask("no"), prediction) == 0.0


@pytest.mark.parametrize(
    ("gold", "right", "wrong"),
    [
        ("yes", ["Yes.", "The answer is yes, since no river is longer."], ["I know nothing"]),
        ("no", ["No, it is not true.", "It is false"], ["Norway"]),
        (
            "B",
            ["B", "(b) photosynthesis", "B. photosynthesis", "The answer is B", "photosynthesis"],
            ["The answer is (C), not (B)", "respiration"],
        ),
        ("A", [], ["A plant makes it"]),
        ("Paris", ["paris"], []),
    ],
)
def test_accuracy_by_hand(gold, right, wrong):
    example = ask(gold, *["photosynthesis"] * (gold == "B"))
    assert {text: accuracy(example, said(text)) for text in right + wrong} == dict.fromkeys(right, 1) | dict.fromkeys(
        wrong, 0
    )


def test_metrics_are_found_by_name():
    assert [get_metric(name) for name in METRICS] == list(METRICS.values())
    assert get_metric("recall@5").__name__ == "recall@5"
    for name, problem in (("exact-match", "did you mean 'exact_match'"), ("f1@5", "known are")):
        with pytest.raises(UnknownName, match=problem):
            get_metric(name)
    for name in ("recall@0", "recall@", "recall@x", "mrr@-1"):
        with pytest.raises(ValueOutOfBounds, match="cut-off"):
            get_metric(name)
