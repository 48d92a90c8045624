"""Studies: every hyperparameter and demonstration counts, nothing is run twice, and what was killed goes on."""

import json
from pathlib import Path

import dspy
import optuna
import pytest
from compile_helpers import Tunable, make_examples
from compile_worker import plain, run_mortal, study_arguments
from compile_worker import study as run_study
from processes import PROCESSES

from knowgap.compiling import StudyConfig, evaluate
from knowgap.compiling.run import Run
from knowgap.compiling.study.trials import TrialResult, choose
from knowgap.errors import LanguageModelUnreachable, StudyError, UnknownName, UsageError, ValueOutOfBounds
from knowgap.lms.metering import dollars, token_prices


def run(n_trials=8, n_dev=10, **more):
    """A study; settings of `StudyConfig` may be given by name."""
    arguments, engine = study_arguments(n_dev)
    config = {name: more.pop(name) for name in StudyConfig.model_fields if name in more}
    arguments["config"] = StudyConfig(**{"reuse": False, **config})
    return run_study(n_trials=n_trials, **{**arguments, **more}), engine


@pytest.fixture(scope="module")
def study():
    return run(20, n_dev=30, num_threads=2)


def test_the_paper_comes_first_and_is_never_undercut(study):
    tuning, _ = study
    assert tuning.stopped == "trials"
    assert len(tuning.trials) == 20
    assert [t.label for t in tuning.trials[:2]] == ["default", "bootstrapped"]
    assert tuning.default.values == Tunable().values()
    assert tuning.default.demonstrations == {}
    assert tuning.default.score == 0.3
    assert tuning.trials[1].score == 0.4  # the same settings with demonstrations
    assert tuning.best.complete
    assert tuning.best.score == max(t.score for t in tuning.trials if t.complete) >= 0.9
    assert tuning.changes()["top_k"] == ("1", "4")
    assert "mode" not in tuning.changes()
    assert tuning.gain().difference == pytest.approx(tuning.best.score - 0.3)


def test_the_chosen_program_does_what_its_trial_did(study):
    tuning, _ = study
    arguments, engine = study_arguments(30)
    again = evaluate(tuning.program, arguments["devset"], "exact_match", run=Run(lm=arguments["lm"]))
    assert [again.scores()[q] for q in tuning.questions] == tuning.best.scores
    assert tuning.program.values() == tuning.best.values
    assert {*engine.demonstrations} == {len(tuning.program.answer.demos)}
    assert tuning.base.values() == Tunable().values()  # the original is as it was
    assert not any(p.demos for p in tuning.base.predictors())


def test_every_trial_scores_what_its_settings_deserve(study):
    """A hyperparameter or a demonstration that did not reach the program would show here."""
    for trial in study[0].trials:
        values = trial.values
        quality = 3 + 3 * (values["top_k"] == 4) + 2 * values["careful"]
        quality += (values["careful"] and values["weight"] >= 0.5) + (trial.demonstrations.get("answer", 0) > 0)
        deserved = [float(int(question[1:]) % 10 < quality) for question in study[0].questions]
        assert trial.scores == deserved[: len(trial.scores)], trial


def test_pruned_trials_stop_early_and_are_never_chosen(study):
    tuning, _ = study
    pruned = [t for t in tuning.trials if not t.complete]
    assert pruned
    assert all(len(t.scores) < len(tuning.questions) for t in pruned)
    lucky = TrialResult(number=99, label="sampled", values={}, complete=False, scores=[1.0], costs={"lm_calls": 0})
    assert choose([*tuning.trials, lucky]).number == tuning.best.number
    with pytest.raises(StudyError, match="no trial was completed"):
        choose([lucky])


def test_the_same_settings_are_never_asked_twice(study):
    tuning, engine = study
    ran = [t for t in tuning.trials if t.same_as is None]
    assert len({json.dumps([t.values, t.demonstrations]) for t in ran}) == len(ran)
    for trial in tuning.trials:
        if trial.same_as is not None:
            original = next(t for t in tuning.trials if t.number == trial.same_as)
            assert (trial.scores, trial.complete) == (original.scores, original.complete)
            assert trial.spent.asked == 0
    asked = sum(len(t.scores) * (1 + t.values["careful"]) for t in ran)
    ahead = 3 * 2 * sum(not t.complete for t in tuning.trials)  # begun before the trial was pruned
    assert tuning.setup.calls == 4
    assert 4 + asked <= tuning.spent.calls == len(engine.calls) <= 4 + asked + ahead
    assert tuning.calls.without_pruning > tuning.calls.without_sharing >= tuning.calls.spent


def test_a_small_space_is_exhausted_without_asking_again():
    tuning, _ = run(9, include=["careful"], demos="none")
    assert len(tuning.trials) == 9
    assert sum(t.same_as is None for t in tuning.trials) == 2
    assert tuning.calls.spent == 10 * 1 + 10 * 2
    assert tuning.calls.without_sharing > tuning.calls.spent


def test_seeds_decide_and_threads_do_not():
    first, second, other = (plain(run(10, seed=s, num_threads=n)[0]) for s, n in ((3, 1), (3, 4), (4, 2)))
    assert first == second != other


@pytest.mark.parametrize(("suffix", "deadly"), [("db", (13, 23)), ("journal", (40,))])
def test_a_killed_study_continues_as_if_nothing_had_happened(tmp_path, suffix, deadly):
    def worker(storage, die_after):
        process = PROCESSES.Process(target=run_mortal, args=(str(storage), 7, die_after, str(tmp_path / "found")))
        process.start()
        process.join(120)
        return process.exitcode

    storage = tmp_path / f"study.{suffix}"
    for die_after in deadly:  # while demonstrations are bootstrapped, and in a drawn trial
        assert worker(storage, die_after) == -9
    (tmp_path / "elsewhere").mkdir()
    moved = storage.rename(tmp_path / "elsewhere" / storage.name)
    assert worker(moved, 0) == 0
    result = json.loads((tmp_path / "found").read_text())
    whole, engine = run(7, num_threads=2)
    assert result["trials"] == json.loads(json.dumps(plain(whole)))
    assert result["calls"] < len(engine.calls)  # what was finished was not asked again
    again, engine = run(7, storage=moved, study_name="killed")
    assert json.loads(json.dumps(plain(again))) == result["trials"]
    assert engine.calls == []


def test_another_study_of_that_name_is_refused(tmp_path):
    storage = tmp_path / "study.journal"
    run(2, storage=storage)
    for other, message in (
        ({"metric": "f1"}, "differs in: metric"),
        ({"devset": make_examples(5), "seed": 1}, "differs in: dev questions, seed"),
        ({"exclude": ["limit"], "prune": False}, "differs in: exclude, prune"),
        ({"max_demos": 2, "demos": "none"}, "differs in: demonstrations, max_demos"),
        ({"mode": "pareto"}, "differs in: cost, mode, prune"),
    ):
        with pytest.raises(StudyError, match=message):
            run(2, storage=storage, **other)
    run(2, storage=storage, rule="within 0.1", heartbeat=5)  # which do not change what trials do
    run(2, storage=storage, metric="f1", study_name="another")


def test_a_study_is_not_continued_with_another_reranker_or_entailment_model(tmp_path):
    class Model:
        def __init__(self, name):
            self.name = name

        def score(self, pairs):
            return [0.0 for _ in pairs]

    arguments, _ = study_arguments(2)
    program, models, common = arguments.pop("program"), [Model("one"), Model("two")], {"storage": tmp_path / "study.db"}
    for part, what in (("reranker", "reranker"), ("entailment", "entailment model")):
        first, second = (type(program)(program.retriever, **{part: model}) for model in models)
        run_study(first, n_trials=1, study_name=part, **common, **arguments)
        run_study(first, n_trials=1, study_name=part, **common, **arguments)
        with pytest.raises(StudyError, match=f"it differs in: {what}\\)"):
            run_study(second, n_trials=1, study_name=part, **common, **arguments)


def test_a_lost_language_model_loses_the_running_trial_only(tmp_path):
    storage = tmp_path / "study.db"
    arguments, engine = study_arguments()
    complete, calls = engine.complete, [0]

    def leaving(request):
        calls[0] += 1
        if calls[0] >= 25:
            raise LanguageModelUnreachable("connection refused")
        return complete(request)

    engine.complete = leaving
    with pytest.raises(LanguageModelUnreachable, match="connection refused"):
        run_study(n_trials=6, storage=storage, num_threads=1, **arguments)
    engine.complete = complete
    tuning = run_study(n_trials=6, storage=storage, num_threads=1, **arguments)
    assert plain(tuning) == plain(run(6)[0])


def test_a_study_that_was_stopped_in_its_first_trial_runs_it_again_without_demonstrations(tmp_path):
    storage = tmp_path / "study.db"

    def stop(done, total, text):
        if "after 5 of" in text:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run(3, storage=storage, num_threads=1, progress=stop)
    tuning, _ = run(3, storage=storage, num_threads=1)
    assert [t.label for t in tuning.trials] == ["bootstrapped", "default", "sampled"]
    assert (tuning.default.demonstrations, tuning.default.score) == ({}, 0.3)


def test_the_defaults_are_asked_to_the_end_even_if_a_trial_that_tried_them_was_stopped():
    own = optuna.create_study(direction="maximize", sampler=optuna.samplers.RandomSampler(seed=1))
    common = {"study": own, "include": ["careful"], "demos": "none"}
    with pytest.raises(StudyError, match="no trial was completed"):
        run(4, 20, max_calls=0, **common)
    own.enqueue_trial({"careful": False}, user_attrs={"initial": 0})
    own.ask()  # another process runs the trial with the defaults, and dies
    tuning, _ = run(4, 20, pruner=optuna.pruners.ThresholdPruner(lower=0.35), **common)
    assert {t.values["careful"] for t in tuning.trials if not t.complete} == {False}
    assert (tuning.default.complete, tuning.default.same_as) == (True, None)


def test_limits_end_a_study_cleanly(tmp_path):
    storage = tmp_path / "study.db"
    stopped, engine = run(20, storage=storage, max_calls=40, num_threads=1)
    assert stopped.stopped == "limit of 40 calls"
    assert len(engine.calls) <= 41
    assert stopped.best.complete
    more, _ = run(4, storage=storage, num_threads=1)
    assert plain(more) == plain(run(4)[0])
    assert plain(stopped.reread()) == plain(more)
    with pytest.raises(StudyError, match="no trial was completed"):
        run(20, max_calls=1)
    priced, _ = run(20, max_money=0.01, prices=(1.0, 2.0), num_threads=1)
    assert priced.stopped == "limit of 0.01 US dollars"
    assert priced.spent.money == pytest.approx((priced.spent.prompt_tokens + 2 * priced.spent.completion_tokens) / 1e6)


def test_limits_also_hold_while_demonstrations_are_made(tmp_path):
    storage = tmp_path / "study.db"
    stopped, engine = run(20, storage=storage, max_calls=12, num_threads=1)
    assert (stopped.stopped, len(engine.calls)) == ("limit of 12 calls", 12)  # ten of the first trial
    assert [t.label for t in stopped.trials] == ["default"]
    again, engine = run(20, storage=storage, max_calls=12, num_threads=1)
    assert (plain(again), engine.calls) == (plain(stopped), [])
    more, _ = run(4, storage=storage, num_threads=1)
    assert plain(more) == plain(run(4)[0])


def test_what_a_teacher_spends_has_the_prices_of_the_teacher():
    arguments, engine = study_arguments(2)
    student, teacher, unknown = (
        dspy.LM(f"openai/{name}", engine=engine, num_retries=0, cache=False)
        for name in ("gpt-4o-mini", "gpt-4o", "unheard-of")
    )
    arguments |= {"lm": student, "n_trials": 2}
    spent = run_study(teacher_lm=teacher, **arguments).setup
    assert spent.calls == 4
    prices = token_prices("openai/gpt-4o")
    assert spent.money == pytest.approx(dollars(spent.prompt_tokens, spent.completion_tokens, prices))
    arguments["config"] = StudyConfig(reuse=False, max_money=1.0)
    with pytest.raises(UsageError, match="those of openai/unheard-of are not known"):
        run_study(teacher_lm=unknown, **arguments)


def test_what_other_processes_spend_counts_while_a_trial_runs(tmp_path):
    storage, numbers = tmp_path / "study.db", []

    def spend_elsewhere(done, total, text):
        if "(default)" in text and not numbers:  # another process is at a trial of its own
            opened = optuna.storages.RDBStorage(f"sqlite:///{storage}")
            elsewhere = optuna.load_study(study_name="tunable", storage=opened).ask()
            elsewhere.set_user_attr("spent", {"calls": 1000})
            opened.engine.dispose()
            numbers.append(elsewhere.number)

    # Demonstrations are left alone: whatever is spent is spent in trials.
    with pytest.raises(StudyError, match="no trial was completed"):
        run(20, 30, storage=storage, max_calls=500, num_threads=1, demos="none", progress=spend_elsewhere)
    assert numbers


def test_pareto_weighs_score_against_cost():
    tuning, _ = run(14, mode="pareto", cost="lm_calls", rule="best")
    assert all(t.complete for t in tuning.trials)
    costs = [t.costs["lm_calls"] for t in tuning.front]
    scores = [t.score for t in tuning.front]
    assert costs == sorted(costs)
    assert scores == sorted(scores)
    assert len(tuning.study.best_trials) >= len(tuning.front)
    assert tuning.choose("under 1").careful is False
    with pytest.raises(StudyError, match="the cheapest costs 1"):
        tuning.choose("under 0.5")


def test_rules_choose_as_they_say():
    def trial(number, score, cost, label="sampled", tokens=0.0):
        scores = [1.0] * round(score * 100) + [0.0] * (100 - round(score * 100))
        costs = {"lm_calls": cost, "tokens": tokens}
        return TrialResult(number=number, label=label, values={}, complete=True, scores=scores, costs=costs)

    trials = [trial(0, 0.50, 4, "default"), trial(1, 0.50, 2), trial(2, 0.60, 9), trial(3, 0.60, 8), trial(4, 0.59, 5)]
    assert choose(trials).number == 3  # the cheaper of the best
    assert choose(trials[:2]).number == 1  # even if the dearer one has the defaults
    assert choose([trial(0, 0.5, 4, tokens=90), trial(1, 0.5, 4, tokens=80)]).number == 1  # as many calls: fewer tokens
    assert choose([trial(0, 0.5, 4), trial(1, 0.5, 4, "default")]).number == 1  # as dear: the defaults
    assert choose([trial(1, 0.5, 4), trial(0, 0.5, 4)]).number == 0
    assert choose(trials, "within 0.01").number == 4
    assert choose(trials, "within 0.5").number == 1
    assert choose(trials, "under 5").number == 4
    assert choose(trials, "under 4").number == 1
    for rule in ("bust", "within", "under -1", "within x", "best 3"):
        with pytest.raises(UsageError, match="rule"):
            choose(trials, rule)


def test_given_and_current_settings_are_tried():
    tuning, _ = run(4, start=[{"top_k": 4, "mode": "plain"}, {"limit": 3.0}], demos="none")
    assert [(t.label, t.values["top_k"], t.values["limit"]) for t in tuning.trials[:3]] == [
        ("default", 1, None),
        ("given", 4, None),
        ("given", 1, 3.0),
    ]
    arguments, _ = study_arguments()
    arguments["program"].configure(careful=True)
    tuning = run_study(n_trials=2, demos="none", **arguments)
    assert [(t.label, t.values["careful"]) for t in tuning.trials] == [("default", False), ("current", True)]


@pytest.mark.parametrize(
    ("wrong", "error", "message"),
    [
        ({"n_trials": 0}, UsageError, "at least one trial"),
        ({"mode": "both"}, UsageError, "StudyConfig: mode='both': Input should be 'single' or 'pareto'"),
        ({"cost": "lm_call"}, UnknownName, "did you mean 'lm_calls'"),
        ({"costs": ["tokens"]}, UsageError, "costs other than cost=lm_calls"),
        ({"mode": "pareto", "costs": ["lm_calls"]}, UsageError, "costs other than cost=lm_calls"),
        ({"cost": "seconds", "mode": "pareto", "reuse": True}, UsageError, "seconds mean nothing"),
        ({"rule": "worst"}, UsageError, "rule 'worst'"),
        ({"include": ["topk"]}, UnknownName, "did you mean 'top_k'"),
        ({"start": [{"top_k": 77}]}, ValueOutOfBounds, "top_k=77"),
        ({"include": ["max_calls"], "max_calls_per_question": 3}, UsageError, "max_calls_per_question would not hold"),
        ({"start": [{"mode": "fancy"}]}, UsageError, "start: mode='fancy' cannot be tried"),
        ({"start": [{"top_k": 3}], "exclude": ["top_k"]}, UsageError, "start: top_k=3 cannot be tried"),
        ({"storage": "study.txt"}, UsageError, "name a SQLite file"),
        ({"storage": Path(__file__).parent}, UsageError, "is a folder"),
        ({"max_calls": -1}, UsageError, "StudyConfig: max_calls=-1: Input should be greater than or equal to 0"),
        ({"timeout_seconds": 3}, UnknownName, "argument of compile with the optimizer study 'timeout_seconds'"),
    ],
)
def test_refusals(wrong, error, message):
    with pytest.raises(error, match=message) as caught:
        run(**wrong)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("name", ["study.db", "study.journal"])
def test_foreign_files_are_not_storages(tmp_path, name):
    path = tmp_path / name
    path.write_text("a shopping list\nmilk\n")
    with pytest.raises(StudyError, match="cannot be"):
        run(2, storage=path)
    assert path.read_text() == "a shopping list\nmilk\n"


def test_a_torn_journal_is_mended(tmp_path):
    path = tmp_path / "study.journal"
    run(2, storage=path)
    with path.open("ab") as file:
        file.write(b'{"op_code":4,"worker')
    assert len(run(3, storage=path)[0].trials) == 3
    assert len(run(3, storage=path)[0].trials) == 3


def test_importances_name_what_matters(study):
    importances = study[0].importances()
    assert {*importances} <= {"top_k", "careful", "weight", "limit", "limit.set", "demos.answer"}
    assert next(iter(importances)) in ("top_k", "careful", "weight", "demos.answer")
    assert all(0 <= low <= high <= 1 for _, low, high in importances.values())
    assert any(low < high for _, low, high in importances.values())
    assert run(2, n_dev=30)[0].importances() == {}  # two trials do not tell


def test_optuna_is_left_as_it_was(capfd):
    assert optuna.logging.get_verbosity() == optuna.logging.INFO
    run(2)
    assert capfd.readouterr() == ("", "")


def test_progress_counts_trials():
    seen = []
    run(3, progress=lambda *a: seen.append(a))
    assert {total for _, total, _ in seen} == {3}
    assert [done for done, _, _ in seen] == sorted(done for done, _, _ in seen)
    assert {done for done, _, text in seen if text.startswith("making demonstrations")} == {1}
    assert seen[-1][2].startswith("trial 2 (sampled): exact_match")
