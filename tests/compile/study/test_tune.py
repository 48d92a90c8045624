"""Studies: every hyperparameter and demonstration counts, nothing is tried twice, and what was killed goes on."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import optuna
import pytest
from compile_helpers import Tunable, make_examples, make_retriever, quality_lm
from compile_worker import plain, study_arguments

from knowgap.compile import Budget, tune
from knowgap.compile.study.trials import CONFIG, PAPER, RESULT, TrialResult, choose, front
from knowgap.errors import LanguageModelUnreachable, StudyError, UnknownName, UsageError, ValueOutOfBounds

TESTS = Path(__file__).parents[2]


def run(n_trials=8, n_dev=10, **more):
    arguments, engine = study_arguments(n_dev)
    program = arguments.pop("program")
    return tune(program, n_trials=n_trials, **{**arguments, **more}), engine


@pytest.fixture(scope="module")
def study():
    found, engine = run(20, n_dev=30, num_threads=2)
    return found, engine


def test_the_paper_comes_first_and_is_never_undercut(study):
    found, _ = study
    assert found.stopped == "trials"
    assert len(found.trials) == 20
    assert [t.label for t in found.trials[:2]] == ["paper", "bootstrapped"]
    assert found.paper.values == Tunable().values()
    assert found.paper.demonstrations == {"answer": 0}
    assert found.paper.score == 0.3
    assert found.trials[1].score == 0.4  # the same settings with demonstrations
    assert found.best.complete
    assert found.best.score == max(t.score for t in found.trials if t.complete) >= 0.9
    assert found.changes()["top_k"] == ("1", "4")
    assert "mode" not in found.changes()
    gain = found.gain()
    assert gain.difference == pytest.approx(found.best.score - 0.3)


def test_the_chosen_program_does_what_its_trial_did(study):
    found, _ = study
    from knowgap.compile import evaluate

    arguments, engine = study_arguments(30)
    again = evaluate(found.program, arguments["devset"], "exact_match", lm=arguments["lm"])
    assert [again.scores()[q] for q in found.questions] == found.best.scores
    assert found.program.values() == found.best.values
    shown = {len(p.demos) for name, p in found.program.named_predictors() if name == "answer"}
    assert {*engine.demonstrations} == shown
    assert found.base.values() == Tunable().values()  # the original is as it was
    assert not any(p.demos for p in found.base.predictors())


def test_every_trial_scores_what_its_settings_deserve(study):
    """A hyperparameter or a demonstration that did not reach the program would show here."""
    found, _ = study
    for trial in found.trials:
        values = trial.values
        quality = 3 + 3 * (values["top_k"] == 4) + 2 * values["careful"]
        quality += (values["careful"] and values["weight"] >= 0.5) + (trial.demonstrations["answer"] > 0)
        deserved = [float(int(question[1:]) % 10 < quality) for question in found.questions]
        assert trial.scores == deserved[: len(trial.scores)], trial


def test_pruned_trials_stop_early_and_are_never_chosen(study):
    found, _ = study
    pruned = [t for t in found.trials if not t.complete]
    assert pruned
    assert all(len(t.scores) < len(found.questions) for t in pruned)
    lucky = TrialResult(number=99, label="sampled", values={}, complete=False, scores=[1.0], costs={"lm_calls": 0})
    assert choose([*found.trials, lucky]).number == found.best.number
    with pytest.raises(StudyError, match="no trial was completed"):
        choose([lucky])


def test_the_same_settings_are_never_asked_twice(study):
    found, engine = study
    tried = [json.dumps([t.values, t.demonstrations]) for t in found.trials if t.same_as is None]
    assert len({*tried}) == len(tried)
    again = [t for t in found.trials if t.same_as is not None]
    for trial in again:
        original = next(t for t in found.trials if t.number == trial.same_as)
        assert (trial.scores, trial.complete) == (original.scores, original.complete)
        assert trial.spent.asked == 0
    asked = sum(len(t.scores) * (1 + t.values["careful"]) for t in found.trials if t.same_as is None)
    ahead = 3 * 2 * sum(not t.complete for t in found.trials)  # begun before the trial was given up
    assert found.setup.calls + asked <= found.spent.calls == len(engine.calls) <= found.setup.calls + asked + ahead
    assert found.setup.calls == 4
    assert found.calls.without_pruning > found.calls.without_sharing >= found.calls.spent


def test_a_small_space_is_exhausted_without_asking_again():
    found, _ = run(9, include=["careful"], demos=None)
    assert len(found.trials) == 9
    assert sum(t.same_as is None for t in found.trials) == 2
    assert found.calls.spent == 10 * 1 + 10 * 2
    assert found.calls.without_sharing > found.calls.spent


def test_seeds_decide_and_threads_do_not():
    first, second, other = (plain(run(10, seed=s, num_threads=n)[0]) for s, n in ((3, 1), (3, 4), (4, 2)))
    assert first == second != other


@pytest.mark.parametrize(("suffix", "deadly"), [("db", (3, 23)), ("journal", (40,))])
def test_a_killed_study_continues_as_if_nothing_had_happened(tmp_path, suffix, deadly):
    def worker(storage, die_after):
        command = [sys.executable, str(TESTS / "compile_worker.py"), str(storage), "7", str(die_after)]
        return subprocess.run(command, capture_output=True, text=True, timeout=120, cwd=TESTS, check=False)

    storage = tmp_path / f"study.{suffix}"
    for die_after in deadly:  # in the set-up, in the second trial, in a drawn one
        assert worker(storage, die_after).returncode == -9
    (tmp_path / "elsewhere").mkdir()
    moved = storage.rename(tmp_path / "elsewhere" / storage.name)
    ended = worker(moved, 0)
    assert ended.returncode == 0, ended.stderr
    result = json.loads(ended.stdout)
    whole, engine = run(7, num_threads=2)
    assert result["trials"] == json.loads(json.dumps(plain(whole)))
    assert result["calls"] < len(engine.calls)  # what was finished was not asked again
    again, engine = run(7, storage=moved, study_name="killed")
    assert json.loads(json.dumps(plain(again))) == result["trials"]
    assert engine.calls == []


def test_more_trials_continue_the_study(tmp_path):
    storage = tmp_path / "study.db"
    first, _ = run(3, storage=storage)
    then, engine = run(6, storage=storage)
    assert plain(then)[:3] == plain(first)
    assert len(then.trials) == 6
    assert plain(then) == plain(run(6)[0])
    assert len(engine.calls) < then.calls.spent


def test_another_study_of_that_name_is_refused(tmp_path):
    storage = tmp_path / "study.journal"
    run(2, storage=storage)
    with pytest.raises(StudyError, match="differs in: metric"):
        run(2, storage=storage, metric="f1")
    with pytest.raises(StudyError, match=r"differs in: dev questions, seed"):
        run(2, storage=storage, devset=make_examples(5), seed=1)
    with pytest.raises(StudyError, match="made otherwise"):
        run(2, storage=storage, mode="pareto")
    run(2, storage=storage, metric="f1", study_name="another")


def test_a_lost_language_model_loses_the_running_trial_alone(tmp_path):
    storage = tmp_path / "study.db"
    arguments, engine = study_arguments()
    program = arguments.pop("program")
    complete, calls = engine.complete, [0]

    def leaving(request):
        calls[0] += 1
        if calls[0] >= 20:
            raise LanguageModelUnreachable("connection refused")
        return complete(request)

    engine.complete = leaving
    with pytest.raises(LanguageModelUnreachable, match="connection refused"):
        tune(program, n_trials=6, storage=storage, num_threads=1, **arguments)
    engine.complete = complete
    found = tune(program, n_trials=6, storage=storage, num_threads=1, **arguments)
    assert plain(found) == plain(run(6)[0])


def test_failed_questions_score_nothing_but_count():
    arguments, engine = study_arguments()
    complete = engine.complete

    def stumbling(request):
        if "house q7?" in (request.messages[-1].text or ""):
            raise RuntimeError("stumbled")
        return complete(request)

    engine.complete = stumbling
    program = arguments.pop("program")
    found = tune(program, n_trials=3, prune=False, **arguments)
    for trial in found.trials:
        assert trial.failed == 1
        assert len(trial.scores) == 10
        assert trial.scores[found.questions.index("q7")] == 0.0


def test_limits_end_a_study_cleanly(tmp_path):
    storage = tmp_path / "study.db"
    stopped, engine = run(20, storage=storage, budget=Budget(calls=40), num_threads=1)
    assert stopped.stopped == "budget of 40 calls"
    assert len(engine.calls) <= 41
    assert stopped.best.complete
    more, _ = run(4, storage=storage, num_threads=1)
    assert len(more.trials) == 4
    with pytest.raises(StudyError, match="no trial was completed"):
        run(20, budget=Budget(calls=1))
    priced, _ = run(20, budget=Budget(money=0.01, prices=(1.0, 2.0)), num_threads=1)
    assert priced.stopped == "budget of 0.01 money"
    assert priced.spent.money == pytest.approx((priced.spent.prompt_tokens + 2 * priced.spent.completion_tokens) / 1e6)


def test_what_other_workers_spend_counts_while_a_trial_runs(tmp_path):
    storage, calls = tmp_path / "study.db", []

    def spend_elsewhere(done, total, text):
        if "(paper)" in text and not calls:  # a worker of another process is at a trial of its own
            [other] = optuna.study.get_all_study_names(f"sqlite:///{storage}")
            elsewhere = optuna.load_study(study_name=other, storage=f"sqlite:///{storage}").ask()
            elsewhere.set_user_attr("spent", {"calls": 1000})
            calls.append(elsewhere.number)

    # Demonstrations are left alone: whatever is spent is spent in trials.
    with pytest.raises(StudyError, match="no trial was completed"):
        run(20, 30, storage=storage, budget=Budget(calls=500), num_threads=1, demos=None, progress=spend_elsewhere)
    assert calls


def test_pareto_weighs_score_against_cost():
    found, _ = run(14, mode="pareto", cost="lm_calls", rule="best")
    assert all(t.complete for t in found.trials)
    costs = [t.costs["lm_calls"] for t in found.front]
    scores = [t.score for t in found.front]
    assert costs == sorted(costs)
    assert scores == sorted(scores)
    assert len(found.study.best_trials) >= len(found.front)
    cheap = found.choose("under 1")
    assert cheap.careful is False
    with pytest.raises(StudyError, match="the cheapest costs 1"):
        found.choose("under 0.5")


def test_rules_choose_as_they_say():
    def trial(number, score, cost, label="sampled", complete=True):
        scores = [1.0] * round(score * 100) + [0.0] * (100 - round(score * 100))
        return TrialResult(
            number=number, label=label, values={}, complete=complete, scores=scores, costs={"lm_calls": cost}
        )

    trials = [trial(0, 0.50, 4, "paper"), trial(1, 0.50, 2), trial(2, 0.60, 9), trial(3, 0.60, 8), trial(4, 0.59, 5)]
    assert choose(trials).number == 3  # the cheaper of the best
    assert choose(trials[:2]).number == 0  # an equal one does not replace the paper's settings
    assert choose(trials, "within 0.01").number == 4
    assert choose(trials, "within 0.5").number == 1
    assert choose(trials, "under 5").number == 4
    assert choose(trials, "under 4").number == 0
    assert [t.number for t in front(trials)] == [1, 4, 3]
    for rule in ("bust", "within", "under -1", "within x", "best 3"):
        with pytest.raises(UsageError, match="rule"):
            choose(trials, rule)


def test_given_and_calibrated_settings_are_tried():
    found, _ = run(4, start=[{"top_k": 4}, {"limit": 3.0}], demos=None)
    assert [(t.label, t.values["top_k"], t.values["limit"]) for t in found.trials[:3]] == [
        ("paper", 1, None),
        ("given", 4, None),
        ("given", 1, 3.0),
    ]
    arguments, _ = study_arguments()
    arguments["program"].configure(careful=True)
    program = arguments.pop("program")
    found = tune(program, n_trials=2, demos=None, **arguments)
    assert [(t.label, t.values["careful"]) for t in found.trials] == [("paper", False), ("current", True)]


def test_refusals(tmp_path):
    for wrong, error, message in (
        ({"n_trials": 0}, UsageError, "at least one trial"),
        ({"mode": "both"}, UnknownName, "unknown mode 'both'"),
        ({"cost": "lm_call"}, UnknownName, "did you mean 'lm_calls'"),
        ({"cost": "seconds", "mode": "pareto", "share": True}, UsageError, "seconds mean nothing"),
        ({"demos": "all"}, UsageError, "demos='all'"),
        ({"rule": "worst"}, UsageError, "rule 'worst'"),
        ({"include": ["topk"]}, UnknownName, "did you mean 'top_k'"),
        ({"start": [{"top_k": 77}]}, ValueOutOfBounds, "top_k=77"),
        ({"storage": tmp_path / "study.txt"}, UsageError, "name a SQLite file"),
        ({"storage": tmp_path}, UsageError, "is a folder"),
    ):
        with pytest.raises(error, match=message):
            run(2, **wrong) if "n_trials" not in wrong else run(**wrong)


def test_foreign_files_are_not_storages(tmp_path):
    for name in ("study.db", "study.journal"):
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
    found, _ = run(3, storage=path)
    assert len(found.trials) == 3
    assert len(run(3, storage=path)[0].trials) == 3


def test_importances_name_what_matters(study):
    found, _ = study
    importances = found.importances()
    assert {*importances} <= {"top_k", "careful", "weight", "limit", "limit.set", "demos.answer"}
    assert next(iter(importances)) in ("top_k", "careful", "demos.answer")


def test_optuna_is_left_as_it_was(study, capfd):
    assert optuna.logging.get_verbosity() == optuna.logging.INFO
    run(2)
    assert capfd.readouterr() == ("", "")


def test_progress_counts_trials():
    seen = []
    run(3, progress=lambda *a: seen.append(a))
    assert {total for _, total, _ in seen} == {3}
    assert [done for done, _, _ in seen] == sorted(done for done, _, _ in seen)
    assert any(text.startswith("bootstrapping demonstrations") for _, _, text in seen)
    assert seen[-1][2].startswith("trial 2 (sampled): exact_match")


def test_quality_engine_is_what_it_says():
    dev = make_examples(10)
    lm, _ = quality_lm(dev)
    from knowgap.compile import evaluate

    program = Tunable(make_retriever(dev), top_k=4, careful=True, weight=0.2)
    assert evaluate(program, dev, "exact_match", lm=lm).mean() == 0.8


def test_no_trial_sees_a_test_question():
    from knowgap.compile.data.dataset import Dataset

    arguments, engine = study_arguments()
    test = make_examples(5, "secret")
    data = Dataset("houses", {"train": arguments["trainset"], "dev": arguments["devset"], "test": test}, [], "digest")
    program = arguments.pop("program")
    found = tune(program, n_trials=5, **arguments)
    asked = {inputs["question"] for _, inputs in engine.calls}
    assert asked == {e.question for name in ("train", "dev") for e in data.splits[name]}
    assert {*found.questions} == {e.id for e in data.splits["dev"]}
    assert "secret" not in str(found.study.trials)


def test_a_trial_from_before_a_cost_was_counted_has_none_of_it():
    found = {"scores": [1.0, 0.0], "costs": {"lm_calls": 2.0}, "failed": 0, "spent": {}, "same_as": None}
    config = {"label": PAPER, "values": {}, "demonstrations": {}}
    trial = TrialResult.of(optuna.trial.create_trial(value=0.5, user_attrs={CONFIG: config, RESULT: found}))
    assert (trial.costs["lm_calls"], trial.costs["knowledge_tokens"]) == (2.0, 0.0)
    assert choose([trial], "under 1", "knowledge_tokens") == trial
