"""Statements are made of training sets, and the entailment model is fitted to them."""

from __future__ import annotations

import random
from pathlib import Path

import numpy as np
import pytest

from knowgap.compiling.training.embedded.entailment import fit_weights, train_entailment
from knowgap.compiling.training.embedded.statements import edits, read_statements, shortened, statement_of
from knowgap.errors import DataError
from knowgap.retrieval import EmbeddedEntailment
from knowgap.retrieval.entailment.features import FEATURES
from tests.compile.training.embedded.public_data import write_public_data


@pytest.mark.parametrize(
    ("question", "answer", "statement"),
    [
        ("Who painted The Grey Ferry?", "Ada Moor", "Ada Moor painted The Grey Ferry."),
        ("Which town lies on the Orne?", "Wick.", "Wick lies on the Orne."),
        ("How many boats were sold?", "nine", "nine were sold."),
        ("Where did Ada Moor live?", "Wick", "Ada Moor live Wick."),
        ("What is the capital?", "Tarn", "Tarn is the capital."),
    ],
)
def test_a_question_and_its_answer_become_a_statement(question: str, answer: str, statement: str) -> None:
    assert statement_of(question, answer) == statement


@pytest.mark.parametrize(
    ("sentence", "said"),
    [
        ("She painted boats in Wick (now Tarn), which sold well.", "Ada Moor painted boats in Wick."),
        ("Her boats were painted in Wick.", "Ada Moor's boats were painted in Wick."),
        ("there were many of them around.", None),
    ],
)
def test_a_sentence_names_its_subject(sentence: str, said: str | None) -> None:
    assert shortened(sentence, "Ada Moor (painter)") == said


def test_each_edit_changes_the_statement_or_the_premise() -> None:
    premise = "The Grey Ferry: The Grey Ferry was painted by Ada Moorland in 1891. Bo Reedham owned it."
    statement = "The Grey Ferry was painted by Ada Moorland in 1891."
    made = {s.kind: s for s in edits(premise, statement, ["Bo Reedham"], "x", "g", random.Random(0))}
    assert set(made) == {"said", "surname", "name", "number", "roles", "negation"}
    assert made["surname"].text == statement
    assert "Ada" not in made["surname"].premise
    assert "Bo Reedham" in made["name"].text
    assert "1891" not in made["number"].text
    assert made["roles"].text == "The Ada Moorland was painted by Grey Ferry in 1891."
    assert [kind for kind, s in made.items() if s.true] == ["said", "surname"]
    assert all((s.text, s.premise) != (statement, premise) for kind, s in made.items() if kind != "said")


def test_weights_tell_what_can_be_told() -> None:
    rng = np.random.default_rng(0)
    features = rng.normal(size=(400, len(FEATURES)))
    true = features[:, 3] > 0
    weights = fit_weights(features, true, np.array(["a", "b"] * 200))
    assert ((weights.probabilities(features) >= 0.5) == true).mean() > 0.95
    assert int(np.argmax(np.abs(weights.coefficients))) == 3


def test_training_writes_weights_and_measures_each_set_held_out(tmp_path: Path) -> None:
    data = write_public_data(tmp_path / "data", 4)
    statements = read_statements(data, per_source=6)
    assert {s.source for s in statements} == {"2wiki", "hotpot", "new_wiki"}
    training = train_entailment(data, tmp_path / "out", per_source=6)
    assert training.statements == len(statements)
    assert {own.source for own in training.held_out} == {"2wiki", "hotpot", "new_wiki"}
    assert all(0 <= own.accuracy <= 1 for own in training.held_out)
    (value,) = EmbeddedEntailment(tmp_path / "out").entails([("Wick: Wick is a town.", "Wick is a town.")])
    assert 0 <= value <= 1


def test_a_folder_without_training_sets_is_refused(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="no training file"):
        train_entailment(tmp_path, tmp_path / "out")
