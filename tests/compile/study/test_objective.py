"""A program's score as an objective, in a study of the user's own, and when a trial is pruned."""

import optuna
import pytest
from compile_helpers import Tunable, make_examples, make_retriever, quality_lm

import knowgap

EXAMPLES = make_examples(20)


def objective():
    run = knowgap.Run(lm=quality_lm(EXAMPLES)[0], num_threads=2)
    return knowgap.Objective(Tunable(make_retriever(EXAMPLES)), EXAMPLES, "exact_match", run=run)


@pytest.mark.filterwarnings("ignore::optuna.exceptions.ExperimentalWarning")
def test_a_pruner_that_compares_question_by_question_stops_a_worse_trial():
    study = optuna.create_study(direction="maximize", pruner=optuna.pruners.WilcoxonPruner(p_threshold=0.1))
    study.enqueue_trial({"top_k": 4, "limit.set": False, "careful": True, "weight": 0.9})
    study.enqueue_trial({"top_k": 1, "limit.set": False, "careful": False})
    study.optimize(objective(), n_trials=2)
    assert [trial.state.name for trial in study.trials] == ["COMPLETE", "PRUNED"]
    best, worse = (trial.intermediate_values for trial in study.trials)
    assert best == {n: float((n - 1) % 10 < 9) for n in range(1, 21)}
    assert {*worse} == {*range(1, len(worse) + 1)}
    assert len(worse) in (5, 10, 15)


def test_costs_can_be_further_objectives_of_a_study_of_ones_own():
    asked, study = objective(), optuna.create_study(directions=["maximize", "minimize"])
    study.optimize(lambda trial: (asked(trial), trial.user_attrs["costs"]["lm_calls"]), n_trials=4)
    assert all(trial.values[1] == 1.0 + trial.params["careful"] for trial in study.trials)
    assert study.best_trials
