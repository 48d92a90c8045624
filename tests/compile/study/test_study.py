"""Studies: every hyperparameter and demonstration counts, limits hold, and what was stopped goes on."""

from dataclasses import replace

import dspy
import optuna
import pytest
from compile_helpers import Tunable
from compile_worker import plain, study_arguments
from compile_worker import study as run_study
from support import around_the_meter

from knowgap.compiling import StudyConfig, evaluate
from knowgap.compiling.run import Run
from knowgap.compiling.study.result import choose
from knowgap.errors import LanguageModelUnreachable, StudyError, UnknownName, UsageError


def run(n_trials=8, n_dev=10, num_threads=1, seed=0, progress=None, arguments=None, **config):
    """A study; settings of `StudyConfig` may be given by name."""
    given, engine = arguments or study_arguments(n_dev)
    lm = given["lm"]
    settings = StudyConfig(**{"n_trials": n_trials, **config})
    own = {name: value for name, value in given.items() if name != "lm"}
    return run_study(**own, config=settings, run=Run(lm, num_threads, seed, progress)), engine


@pytest.fixture(scope="module")
def study():
    return run(24, n_dev=30, num_threads=2)


def demos_shown(trial):
    return trial.params["demos.answer"] > 0


def test_the_defaults_come_first_and_are_never_undercut(study):
    found, engine = study
    assert found.stopped == "trials"
    assert len(found.trials) == 24
    assert [trial.user_attrs.get("label") for trial in found.trials[:3]] == ["default", "bootstrapped", None]
    assert found.default.values == [0.3]
    assert found.trials[1].values == [0.4]  # the same settings with demonstrations
    assert found.best.values[0] == max(trial.values[0] for trial in found.complete) >= found.default.values[0]
    assert "mode" not in found.changes()
    assert found.objective.demos.spent.calls == 4
    assert found.spent.calls == len(engine.calls)


def test_the_chosen_program_does_what_its_trial_did(study):
    found, _ = study
    arguments, engine = study_arguments(30)
    again = evaluate(found.program, arguments["devset"], "exact_match", run=Run(arguments["lm"]))
    scores = [again.scores()[question] for question in found.objective.questions]
    assert scores == [*found.best.intermediate_values.values()]
    assert {*engine.demonstrations} == {len(found.program.answer.demos)}
    assert found.objective.program.values() == Tunable().values()  # the original is as it was
    assert not any(predictor.demos for predictor in found.objective.program.predictors())


def test_every_trial_scores_what_its_settings_deserve(study):
    """A hyperparameter or a demonstration that did not reach the program would show here."""
    for trial in study[0].trials:
        careful, weight = trial.params["careful"], trial.params.get("weight", 0.0)
        quality = 3 + 3 * (trial.params["top_k"] == 4) + 2 * careful + (careful and weight >= 0.5) + demos_shown(trial)
        deserved = [float(int(question[1:]) % 10 < quality) for question in study[0].objective.questions]
        scores = [*trial.intermediate_values.values()]
        assert scores == deserved[: len(scores)], trial


def test_seeds_decide_and_threads_do_not():
    first, second, other = (plain(run(8, seed=s, num_threads=n)[0]) for s, n in ((3, 1), (3, 4), (4, 2)))
    assert first == second != other


def test_another_study_of_that_name_is_refused(tmp_path):
    storage = tmp_path / "study.db"
    run(1, storage=storage)
    given, engine = study_arguments()
    for other, message in (
        ({"n_dev": 5, "seed": 1}, "data, seed"),
        ({"include": ["top_k"], "prune": False}, "include, prune"),
        ({"demos": "none"}, "demonstrations"),
        ({"arguments": ({**given, "metric": "f1"}, engine)}, "metrics"),
    ):
        with pytest.raises(StudyError, match=rf"differs in: {message}\)"):
            run(1, storage=storage, **other)
    _, engine = run(1, storage=storage, tolerance=0.1)  # which does not change what trials do
    assert engine.calls == []
    assert len(run(1, storage=storage, name="another", include=["top_k"])[0].trials) == 1


def test_a_study_in_a_storage_and_with_limits_continues(tmp_path):
    storage, whole = tmp_path / "study.db", plain(run(5)[0])
    stopped, engine = run(5, storage=storage, max_calls=20)
    assert stopped.stopped == "limit of 20 calls"
    assert 20 <= len(engine.calls) < 20 + 2 * 10  # the trial that had begun is finished
    assert plain(run(5, storage=storage)[0]) == whole
    again, engine = run(5, storage=storage)
    assert (plain(again), engine.calls) == (whole, [])


def test_limits_of_money_and_time():
    given, engine = study_arguments(2)
    given["lm"] = dspy.LM("openai/unheard-of", engine=engine, num_retries=0, cache=False)
    with pytest.raises(UsageError, match="prices of openai/unheard-of"):
        run(2, max_money=1.0, arguments=(given, engine))
    assert engine.calls == []
    given["lm"] = dspy.LM("openai/gpt-4o", engine=engine, num_retries=0, cache=False)
    priced, _ = run(20, max_money=0.001, demos="none", arguments=(given, engine))
    assert priced.stopped == "limit of 0.001 US dollars"
    assert priced.spent.money >= 0.001
    with pytest.raises(StudyError, match="no trial was completed"):
        run(1, timeout=1e-9)


def test_a_teacher_makes_demonstrations_unless_there_are_none():
    given, engine = study_arguments(2)
    teacher = dspy.LM("openai/gpt-4o", engine=engine, num_retries=0, cache=False)
    assert run(2, arguments=({**given, "teacher_lm": teacher}, engine))[0].objective.demos.spent.money > 0
    with pytest.raises(UsageError, match="openai/gpt-4o is not used"):
        run(2, demos="none", arguments=({**given, "teacher_lm": teacher}, engine))


def losing(losses, engine):
    """Let the calls with these numbers fail."""
    complete, calls = engine.complete, [0]

    def answer(request):
        calls[0] += 1
        if calls[0] in losses:
            raise LanguageModelUnreachable("connection reset")
        return complete(request)

    engine.complete = answer


def test_a_trial_that_lost_a_question_is_run_again(caplog):
    expected = plain(run(6, demos="none")[0])
    given, engine = study_arguments()
    losing((2,), engine)
    found, _ = run(6, demos="none", arguments=(given, engine))
    assert plain(found) == expected
    assert [trial.state.name for trial in found.study.trials].count("FAIL") == 1
    assert "connection reset" in caplog.text


def test_a_lost_language_model_ends_the_study_and_the_same_call_goes_on(tmp_path):
    given, engine = study_arguments()
    complete = engine.complete
    losing(range(15, 100), engine)
    with pytest.raises(LanguageModelUnreachable, match=r"3 trials in a row failed: .*connection reset"):
        run(4, storage=tmp_path / "study.db", arguments=(given, engine))
    engine.complete = complete
    assert plain(run(4, storage=tmp_path / "study.db", arguments=(given, engine))[0]) == plain(run(4)[0])


def test_an_error_in_the_code_ends_the_study_at_once():
    def broken(example, prediction):
        return 1 / 0

    given, engine = study_arguments()
    with pytest.raises(ZeroDivisionError):
        run(3, demos="none", arguments=({**given, "metric": broken}, engine))
    assert len(engine.calls) == 1


class AsksAnother(Tunable):
    """Calls a model of its own, around the meter."""

    own = around_the_meter()

    def forward(self, question):
        self.own(question=question)
        return super().forward(question)


def test_what_nobody_counted_is_not_free():
    given, engine = study_arguments()
    given["program"] = AsksAnother(given["program"].retriever)
    found, _ = run(5, demos="none", arguments=(given, engine), max_calls=20)
    assert found.stopped == "limit of 20 calls"
    assert found.spent.uncounted_calls == 10
    assert found.best.user_attrs["costs"]["lm_calls"] is None


def finished_trial(number, score, calls, label="sampled", tokens=0.0):
    costs = {"lm_calls": calls, "tokens": tokens}
    return optuna.trial.FrozenTrial(
        number, optuna.trial.TrialState.COMPLETE, score, None, None, {}, {}, {"label": label, "costs": costs}, {}, {}, 0
    )


def test_the_best_is_chosen_and_the_cheapest_of_equals_or_of_those_within_a_tolerance(study):
    trial = finished_trial
    trials = [trial(0, 0.50, 4, "default"), trial(1, 0.50, 2), trial(2, 0.60, 9), trial(3, 0.60, 8), trial(4, 0.59, 5)]
    assert choose(trials).number == 3  # the cheaper of the best
    assert choose(trials[:2]).number == 1  # even if the dearer one has the defaults
    assert choose([trial(0, 0.5, 4, tokens=90), trial(1, 0.5, 4, tokens=80)]).number == 1  # as many calls: fewer tokens
    assert choose([trial(0, 0.5, 4), trial(1, 0.5, 4, "default")]).number == 1  # as dear: the defaults
    assert choose([trial(1, 0.5, 4), trial(0, 0.5, 4)]).number == 0
    assert choose(trials, 0.01).number == 4
    assert choose(trials, 0.5).number == 1
    stopped = [trial for trial in study[0].trials if trial not in study[0].complete]
    assert stopped
    with pytest.raises(StudyError, match="no trial was completed"):
        choose(stopped)


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


@pytest.mark.parametrize(
    ("wrong", "error", "message"),
    [
        ({"n_trials": 0}, UsageError, "n_trials = 0"),
        ({"demos": "some"}, UsageError, "demos = 'some'"),
        ({"include": ["topk"]}, UnknownName, "did you mean 'top_k'"),
        ({"storage": "study.txt"}, UsageError, "name a SQLite file"),
        ({"storage": "nonsense://me:secret@somewhere"}, StudyError, "nonsense://somewhere"),
        ({"timeout_seconds": 3}, UnknownName, "timeout_seconds"),
    ],
)
def test_refusals(wrong, error, message):
    with pytest.raises(error, match=message) as caught:
        run(**wrong)
    assert "\n" not in str(caught.value)
    assert "secret" not in str(caught.value)


def test_a_foreign_file_is_not_a_storage(tmp_path):
    path = tmp_path / "study.db"
    path.write_text("a shopping list\nmilk\n")
    with pytest.raises(StudyError, match=r"study\.db"):
        run(2, storage=path)
    assert path.read_text() == "a shopping list\nmilk\n"


def test_importances_are_told_from_twenty_complete_trials_on():
    found = replace(run(2, n_dev=4, prune=False)[0], study=optuna.create_study(direction="maximize"))
    spaces = {name: optuna.distributions.FloatDistribution(0, 1) for name in ("matters", "does_not")}
    for number in range(25):
        params = {"matters": number / 25, "does_not": number % 5 / 5}
        found.study.add_trial(optuna.create_trial(value=float(number > 20), params=params, distributions=spaces))
    importances = found.importances()
    assert [*importances] == ["matters", "does_not"]
    assert importances["matters"] > 0.5
    assert sum(importances.values()) == pytest.approx(1.0)
    few = optuna.create_study(direction="maximize")
    few.add_trials(found.trials[-19:])
    assert replace(found, study=few).importances() == {}


def test_importances_of_equal_shares_tell_nothing():
    """Optuna gives every parameter the same share if none of them sets the best trials apart."""
    found = replace(run(2, n_dev=4, prune=False)[0], study=optuna.create_study(direction="maximize"))
    spaces = {name: optuna.distributions.FloatDistribution(0, 1) for name in ("a", "b")}
    for number in range(25):
        found.study.add_trial(
            optuna.create_trial(value=float(number > 20), params={"a": 0.5, "b": 0.5}, distributions=spaces)
        )
    assert found.importances() == {}


def test_nothing_is_printed_and_progress_counts_trials(capfd):
    seen = []
    run(3, progress=lambda *told: seen.append(told))
    trials = [told for told in seen if told[2].startswith("trial")]
    assert {total for _, total, _ in trials} == {3}
    assert [done for done, _, _ in trials] == sorted(done for done, _, _ in trials)
    assert seen[0][2].startswith("making demonstrations")
    assert optuna.logging.get_verbosity() == optuna.logging.INFO
    assert capfd.readouterr() == ("", "")
