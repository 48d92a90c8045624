"""A study of the user's own, with Optuna's functions."""

import optuna
import pytest
from compile_helpers import Tunable, make_examples, make_retriever, quality_lm

import knowgap
from knowgap.compiling import StudyConfig
from knowgap.errors import UnknownName


@pytest.fixture
def examples():
    return make_examples(20)


def objective(examples, **options):
    lm, engine = quality_lm(examples)
    return knowgap.Objective(Tunable(make_retriever(examples)), examples, "exact_match", lm=lm, **options), engine


def test_the_users_sampler_finds_good_settings(examples):
    asked, _ = objective(examples)
    study = optuna.create_study(direction="maximize", sampler=optuna.samplers.RandomSampler(seed=1))
    study.optimize(asked, n_trials=15)
    assert study.best_value > study.trials[0].value or study.best_trial.number == 0
    best = asked.program_of(study.best_trial)
    assert best.values()["top_k"] == study.best_trial.params["top_k"]
    assert best.values()["careful"] == study.best_trial.params["careful"]


def test_the_users_pruner_stops_a_trial_after_a_block(examples):
    asked, engine = objective(examples, block=5)
    study = optuna.create_study(direction="maximize", pruner=optuna.pruners.ThresholdPruner(lower=2.0))
    study.optimize(asked, n_trials=1)
    assert study.trials[0].state == optuna.trial.TrialState.PRUNED
    assert [*study.trials[0].intermediate_values] == [5]
    assert {inputs["question"] for outputs, inputs in engine.calls if "answer" in outputs} <= {
        example.question for example in examples[:5]
    }


def test_costs_are_objectives(examples):
    asked, _ = objective(examples, costs=["lm_calls", "passages"])
    study = optuna.create_study(directions=["maximize", "minimize", "minimize"])
    study.optimize(asked, n_trials=4)
    assert all(len(trial.values) == 3 and trial.values[1] >= 1.0 for trial in study.trials)
    assert study.best_trials


def test_only_what_was_named_is_searched(examples):
    asked, _ = objective(examples, config=StudyConfig(include=("top_k",), ranges={"top_k": (3, 4)}))
    study = optuna.create_study(direction="maximize")
    study.optimize(asked, n_trials=3)
    assert {(*trial.params,) for trial in study.trials} == {("top_k",)}
    with pytest.raises(UnknownName, match="did you mean 'lm_calls'"):
        objective(examples, costs=["lm_call"])
