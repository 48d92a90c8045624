"""Studies: every hyperparameter and demonstration counts, limits hold, and what was stopped goes on."""

from dataclasses import replace

import dspy
import optuna
import pytest
from compile_helpers import Tunable, plain, study_arguments
from support import AroundTheMeter

from knowgap.compiling import StudyConfig, evaluate
from knowgap.compiling.run import Run
from knowgap.compiling.study.objective import Objective
from knowgap.compiling.study.result import choose
from knowgap.compiling.study.run import run_study
from knowgap.errors import LanguageModelUnreachable, StudyError, UsageError


def run(n_trials=8, n_dev=10, num_threads=1, seed=0, progress=None, arguments=None, changed=None, **config):
    """A study and its engine; `changed` are other arguments, and settings of `StudyConfig` may be given by name."""
    given, engine = arguments or study_arguments(n_dev)
    own = {**given, **(changed or {})}
    running = Run(own.pop("lm"), num_threads, seed, progress)
    return run_study(**own, config=StudyConfig(**{"n_trials": n_trials, **config}), run=running), engine


@pytest.fixture(scope="module")
def study():
    return run(24, n_dev=30, num_threads=2)


def test_the_defaults_come_first_and_are_never_undercut(study):
    found, engine = study
    assert (found.stopped, len(found.trials)) == ("trials", 24)
    assert [trial.user_attrs.get("label") for trial in found.trials[:3]] == ["default", "bootstrapped", None]
    assert (found.trials[0].values, found.trials[1].values) == ([0.3], [0.4])  # without and with demonstrations
    assert found.best.values[0] == max(trial.values[0] for trial in found.complete) >= found.trials[0].values[0]
    stopped = [trial for trial in found.trials if trial not in found.complete]
    assert stopped
    assert {max(trial.intermediate_values) % 5 for trial in stopped} == {0}  # it is decided every five questions
    with pytest.raises(StudyError, match="no trial was completed"):
        choose(stopped)
    assert (found.objective.demos.spent.calls, found.spent.calls) == (4, len(engine.calls))


def test_every_trial_scores_what_its_settings_deserve_and_the_chosen_program_does_it_again(study):
    """A hyperparameter or a demonstration that did not reach the program would show here."""
    found, _ = study
    for trial in found.trials:
        careful, weight = trial.params["careful"], trial.params.get("weight", 0)
        quality = 3 + 3 * (trial.params["top_k"] == 4) + (trial.params["demos.answer"] > 0)
        quality += 2 * careful + (careful and weight >= 0.5)
        deserved = [float(int(question[1:]) % 10 < quality) for question in found.objective.questions]
        scores = [*trial.intermediate_values.values()]
        assert scores == deserved[: len(scores)], trial
    arguments, engine = study_arguments(30)
    again = evaluate(found.program, arguments["devset"], "exact_match", run=Run(arguments["lm"])).scores()
    assert [again[question] for question in found.objective.questions] == [*found.best.intermediate_values.values()]
    assert {*engine.demonstrations} == {len(found.program.answer.demos)}
    assert found.objective.program.values() == Tunable().values()  # the original is as it was
    assert not any(predictor.demos for predictor in found.objective.program.predictors())


def test_seeds_decide_and_threads_do_not():
    first, second, other = (plain(run(6, seed=s, num_threads=n)[0]) for s, n in ((3, 1), (3, 4), (4, 2)))
    assert first == second != other


def test_another_study_of_that_name_is_refused(tmp_path):
    storage = tmp_path / "study.db"
    run(1, storage=storage)
    for other, message in (
        ({"n_dev": 5, "seed": 1}, "data, seed"),
        ({"include": ["top_k"], "prune": False}, "include, prune"),
        ({"demos": "none"}, "demonstrations"),
        ({"changed": {"metric": "f1"}}, "metrics"),
    ):
        with pytest.raises(StudyError, match=rf"differs in: {message}\)"):
            run(1, storage=storage, **other)
    _, engine = run(1, storage=storage, tolerance=0.1)  # which does not change what trials do
    assert engine.calls == []


def test_a_study_in_a_storage_and_with_limits_continues(tmp_path):
    storage, whole = tmp_path / "study.db", plain(run(5)[0])
    stopped, engine = run(5, storage=storage, max_calls=20)
    assert stopped.stopped == "limit of 20 calls"
    assert 20 <= len(engine.calls) < 20 + 2 * 10  # the trial that had begun is finished
    assert plain(run(5, storage=storage)[0]) == whole
    again, engine = run(5, storage=storage)
    assert (plain(again), engine.calls) == (whole, [])


def test_limits_of_money_and_time_and_what_a_teacher_costs():
    given, engine = study_arguments(2)
    unknown, priced = (
        dspy.LM(f"openai/{name}", engine=engine, num_retries=0, cache=False) for name in ("unheard-of", "gpt-4o")
    )
    with pytest.raises(UsageError, match="prices of openai/unheard-of"):
        run(2, max_money=1.0, changed={"lm": unknown})
    assert engine.calls == []
    found, _ = run(20, max_money=0.001, demos="none", arguments=(given, engine), changed={"lm": priced})
    assert found.stopped == "limit of 0.001 US dollars"
    assert found.spent.money >= 0.001
    assert run(2, n_dev=2, changed={"teacher_lm": priced})[0].objective.demos.spent.money > 0


def losing(losses):
    """Arguments whose calls with these numbers fail, and the function that answers them."""
    given, engine = study_arguments()
    complete, calls = engine.complete, [0]

    def answer(request):
        calls[0] += 1
        if calls[0] in losses:
            raise LanguageModelUnreachable("connection reset")
        return complete(request)

    engine.complete = answer
    return given, engine


def test_a_trial_that_lost_a_question_is_run_again_and_a_lost_language_model_ends_the_study(tmp_path, caplog):
    whole, storage = plain(run(4, demos="none")[0]), tmp_path / "study.db"
    found, _ = run(4, demos="none", arguments=losing((2,)))
    assert plain(found) == whole
    assert [trial.state.name for trial in found.study.trials].count("FAIL") == 1
    assert "connection reset" in caplog.text
    with pytest.raises(LanguageModelUnreachable, match=r"3 trials in a row failed: .*question q\d: .*connection reset"):
        run(4, demos="none", storage=storage, arguments=losing(range(15, 100)))
    assert plain(run(4, demos="none", storage=storage)[0]) == whole


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt, SystemExit])
def test_an_error_ends_the_study_at_once_and_the_next_call_runs_its_trial_again(tmp_path, error):
    asked, wrong = [0], {15}

    def scored(example, prediction):
        asked[0] += 1
        if asked[0] in wrong:
            raise error
        return float(example.answer == prediction.answer)

    def study(**storage):
        return run(4, demos="none", changed={"metric": scored}, **storage)[0]

    with pytest.raises(error):
        study(storage=tmp_path / "study.db")
    assert asked == [15]
    wrong.clear()
    assert plain(study(storage=tmp_path / "study.db")) == plain(study())


def test_what_nobody_counted_is_not_free():
    program = study_arguments()[0]["program"]
    program.answer.lm = AroundTheMeter("openai/around")
    found, _ = run(5, demos="none", changed={"program": program}, max_calls=10)
    assert (found.stopped, found.spent.uncounted_calls) == ("limit of 10 calls", 10)
    assert found.best.user_attrs["costs"]["lm_calls"] is None


def trial(number, score, calls, label="sampled", tokens=0.0):
    costs = {"lm_calls": calls, "tokens": tokens}
    return optuna.trial.FrozenTrial(
        number, optuna.trial.TrialState.COMPLETE, score, None, None, {}, {}, {"label": label, "costs": costs}, {}, {}, 0
    )


MANY = [trial(0, 0.50, 4, "default"), trial(1, 0.50, 2), trial(2, 0.60, 9), trial(3, 0.60, 8), trial(4, 0.59, 5)]


@pytest.mark.parametrize(
    ("trials", "tolerance", "chosen"),
    [
        (MANY, 0, 3),  # the cheaper of the best
        (MANY[:2], 0, 1),  # even if the dearer one has the defaults
        ([trial(0, 0.5, 4, tokens=90), trial(1, 0.5, 4, tokens=80)], 0, 1),  # as many calls: fewer tokens
        ([trial(0, 0.5, 4), trial(1, 0.5, 4, "default")], 0, 1),  # as dear: the defaults
        ([trial(1, 0.5, 4), trial(0, 0.5, 4)], 0, 0),
        (MANY, 0.01, 4),
        (MANY, 0.5, 1),
    ],
)
def test_the_best_is_chosen_and_the_cheapest_of_equals_or_of_those_within_a_tolerance(trials, tolerance, chosen):
    assert choose(trials, tolerance).number == chosen


def test_the_programs_own_settings_and_demonstrations_are_tried():
    given, engine = study_arguments()
    given["program"].configure(careful=True)
    given["program"].answer.demos = [dspy.Example(question="Who?", style="s", answer="Ada", passages=[])]
    found, _ = run(3, arguments=(given, engine))
    tried = [
        (trial.user_attrs["label"], trial.params["careful"], trial.params["demos.answer"]) for trial in found.trials
    ]
    assert tried == [("default", False, 0), ("current", True, 1), ("bootstrapped", True, 2)]
    assert found.changes(found.trials[0]) == {"careful": (True, False), "demonstrations of answer": (1, 0)}


def test_importances_are_told_from_twenty_complete_trials_on_unless_they_are_equal():
    found = run(2, n_dev=4, prune=False)[0]

    def importances(trials, value):
        own = optuna.create_study(direction="maximize")
        spaces = {name: optuna.distributions.FloatDistribution(0, 1) for name in ("matters", "does_not")}
        for number in range(trials):
            params = {"matters": value(number), "does_not": 0.5}
            own.add_trial(optuna.create_trial(value=float(number > 14), params=params, distributions=spaces))
        return replace(found, study=own).importances()

    told = importances(20, lambda number: number / 25)
    assert [*told] == ["matters", "does_not"]
    assert told["matters"] > 0.5
    assert importances(19, lambda number: number / 25) == importances(20, lambda number: 0.5) == {}


def test_costs_can_be_further_objectives_of_a_study_of_ones_own():
    given, _ = study_arguments()
    objective = Objective(given["program"], given["devset"], "exact_match", run=Run(given["lm"]))
    study = optuna.create_study(directions=["maximize", "minimize"])
    study.optimize(lambda trial: (objective(trial), trial.user_attrs["costs"]["lm_calls"]), n_trials=4)
    assert all(trial.values[1] == 1.0 + trial.params["careful"] for trial in study.trials)
    assert study.best_trials


def test_nothing_is_printed_and_progress_counts_trials(capfd):
    seen = []
    run(3, progress=lambda *told: seen.append(told))
    trials = [told for told in seen if told[2].startswith("trial")]
    assert {total for _, total, _ in trials} == {3}
    assert [done for done, _, _ in trials] == sorted(done for done, _, _ in trials)
    assert seen[0][2].startswith("making demonstrations")
    assert optuna.logging.get_verbosity() == optuna.logging.INFO
    assert capfd.readouterr() == ("", "")
