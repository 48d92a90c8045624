"""A program's score as an objective, in a study of the user's own, and when a trial is pruned."""

import optuna
import pytest
from compile_helpers import Tunable, make_examples, make_retriever, quality_lm
from support import UNREADABLE, scripted_lm

import knowgap
from knowgap.compiling.study.objective import LEAST_GAIN, GainPruner, expected_gain
from knowgap.errors import LanguageModelError, LanguageModelUnreachable

PRUNED, COMPLETE, FAILED = (getattr(optuna.trial.TrialState, name) for name in ("PRUNED", "COMPLETE", "FAIL"))

EXAMPLES = make_examples(20)


def objective(lm=None):
    run = knowgap.Run(lm=lm or quality_lm(EXAMPLES)[0], num_threads=2)
    return knowgap.Objective(Tunable(make_retriever(EXAMPLES)), EXAMPLES, "exact_match", run=run)


def test_a_lost_question_fails_its_trial_and_the_study_may_go_on():
    def rule(outputs, inputs):
        if inputs["question"] == EXAMPLES[7].question:
            raise LanguageModelUnreachable("connection reset")
        return {"answer": "Ada", "questions": []}

    asked, study = objective(scripted_lm(rule)[0]), optuna.create_study(direction="maximize")
    study.optimize(asked, n_trials=1, catch=(LanguageModelUnreachable,))
    assert [trial.state for trial in study.trials] == [FAILED]
    with pytest.raises(LanguageModelUnreachable, match=r"question q7: .*connection reset"):
        study.optimize(asked, n_trials=1)


def test_replies_that_cannot_be_read_end_the_study_at_once():
    study = optuna.create_study(direction="maximize")
    with pytest.raises(LanguageModelError):
        study.optimize(objective(scripted_lm(lambda *_: UNREADABLE)[0]), n_trials=3)
    assert len(study.trials) == 1


@pytest.mark.filterwarnings("ignore::optuna.exceptions.ExperimentalWarning")
@pytest.mark.parametrize("pruner", [lambda: optuna.pruners.WilcoxonPruner(p_threshold=0.1), GainPruner])
def test_a_pruner_that_compares_question_by_question_stops_a_worse_trial(pruner):
    study = optuna.create_study(direction="maximize", pruner=pruner())
    study.enqueue_trial({"top_k": 4, "limit.set": False, "careful": True, "weight": 0.9})
    study.enqueue_trial({"top_k": 1, "limit.set": False, "careful": False})
    study.optimize(objective(), n_trials=2)
    assert [trial.state for trial in study.trials] == [COMPLETE, PRUNED]
    best, worse = (trial.intermediate_values for trial in study.trials)
    assert best == {n: float((n - 1) % 10 < 9) for n in range(1, 21)}
    assert {*worse} == {*range(1, len(worse) + 1)}
    assert len(worse) in (5, 10, 15)


def test_costs_can_be_further_objectives_of_a_study_of_ones_own():
    asked, study = objective(), optuna.create_study(directions=["maximize", "minimize"])
    study.optimize(lambda trial: (asked(trial), trial.user_attrs["costs"]["lm_calls"]), n_trials=4)
    assert all(trial.values[1] == 1.0 + trial.params["careful"] for trial in study.trials)
    assert study.best_trials


BEST = [float(n % 4 != 0) for n in range(100)]  # 0.75


@pytest.mark.parametrize(
    ("scores", "best", "pruned"),
    [
        ([0.0] * 100, BEST, [5]),  # loses everywhere
        (BEST, BEST, range(30, 61)),  # answers alike
        ([0.0] * 20, BEST[:20], [5, 10]),  # loses everywhere, among few questions
        ([1.0 if n % 8 == 0 else score for n, score in enumerate(BEST)], BEST, [None]),  # is better
        ([0.0 if n in (1, 2) else 1.0 for n in range(100)], BEST, [None]),  # falls back at first, then wins
    ],
)
def test_what_has_nothing_to_gain_ends_and_what_may_win_never(scores, best, pruned):
    gains = {n: expected_gain(scores[:n], best) for n in range(5, len(best), 5)}
    assert next((n for n, gain in gains.items() if gain < LEAST_GAIN), None) in pruned


def test_the_expected_gain_by_hand():
    # One win and one loss are added to what was seen. All ties: variance 2 / 4, spread sqrt(2 * 0.5 * 1.5), which
    # is 1.224745; gain 1.224745 * 0.398942 / 4.
    assert expected_gain([0.5, 0.5], [0.5] * 4) == pytest.approx(0.122151, abs=1e-6)
