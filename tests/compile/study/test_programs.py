"""A study of several programs: each starts with its defaults, weak ones lose their share, all share results."""

from collections import Counter

import pytest
from compile_helpers import Tunable, make_examples, make_retriever, quality_lm
from compile_worker import plain
from compile_worker import study as run_study

from knowgap.compiling.study.config import StudyConfig
from knowgap.compiling.study.racing import in_race
from knowgap.compiling.study.trials import TrialResult
from knowgap.errors import StudyError, UnknownName, UsageError
from knowgap.programs.hyperparameters import Integer, OptionalReal, Real, Switch


class Weak(Tunable):
    """Right on 3 of ten questions, whatever its settings; on 4 with demonstrations."""

    name = "weak"
    top_k = Integer(1, "passages read", low=1, high=3)
    careful = Switch(False, "whether to be careful", tune=False)


class Twin(Weak):
    """The same under another name."""

    name = "twin"


class Fixed(Weak):
    """Has nothing to tune."""

    name = "fixed"
    top_k = Integer(1, "passages read", low=1, high=5, tune=False)
    limit = OptionalReal(None, "a threshold", low=-10.0, high=10.0, tune=False)
    weight = Real(0.5, "only read when careful", low=0.0, high=1.0, tune=False)


CLASSES = (Weak, Tunable, Twin, Fixed)


def run(n_trials=20, n_dev=30, classes=CLASSES, **more):
    """A study of several programs; settings of `StudyConfig` may be given by name."""
    dev, train = make_examples(n_dev), make_examples(4, "t")
    lm, engine = quality_lm(dev + train)
    retriever = make_retriever(dev + train)
    config = {name: more.pop(name) for name in StudyConfig.model_fields if name in more}
    tuning = run_study(
        program=[each(retriever) for each in classes],
        devset=dev,
        trainset=train,
        metric="exact_match",
        lm=lm,
        n_trials=n_trials,
        config=StudyConfig(**{"reuse": False, **config}),
        **more,
    )
    return tuning, engine


@pytest.fixture(scope="module")
def study():
    return run()


def test_the_papers_come_first_then_the_strong_get_the_trials(study):
    tuning, _ = study
    assert [(t.label, t.program) for t in tuning.trials[:4]] == [("default", each.name) for each in CLASSES]
    assert tuning.best.program == tuning.program.name == tuning.base.name == "tunable"
    assert type(tuning.program) is Tunable
    assert tuning.best.score >= 0.9
    counts = Counter(trial.program for trial in tuning.trials)
    assert counts["tunable"] >= 12
    assert counts["fixed"] == 1  # nothing to draw
    assert tuning.study.trials[-1].params["program"] == "tunable"
    assert all(name.startswith("tunable.") for name in tuning.study.trials[-1].params if name != "program")
    assert next(each.name for each in tuning.by_program()) == "tunable"
    assert sum(each.n_trials for each in tuning.by_program()) == len(tuning.trials) == 20


def test_demonstrations_are_made_for_programs_in_the_race_only(study):
    tuning, engine = study
    assert "tunable" in tuning.demos
    assert len(tuning.demos) == 2  # the better half of four
    assert tuning.setup.calls == 2 * 4
    assert tuning.spent.calls == len(engine.calls)
    first = next(trial for trial in tuning.trials if trial.label == "bootstrapped" and trial.program == "tunable")
    assert first.demonstrations == tuning.pool_of("tunable").bootstrapped
    assert first.score == 0.4
    assert tuning.unfinished == 0


def test_one_process_follows_from_its_seed_and_continues(tmp_path):
    whole = plain(run(12, 10)[0])
    storage = tmp_path / "study.db"
    run(12, 10, storage=storage, max_calls=60, num_threads=1)
    assert plain(run(12, 10, storage=storage)[0]) == whole
    with pytest.raises(StudyError, match="differs in: programs, state"):
        run(12, 10, storage=storage, classes=CLASSES[:3])


def test_the_best_within_a_price():
    """Being careful takes a second call."""
    free, _ = run(14, 30)
    assert free.best.costs["lm_calls"] == 2
    cheap, _ = run(14, 30, max_calls_per_question=1)
    assert {trial.costs["lm_calls"] for trial in cheap.trials} == {1}
    assert cheap.program.max_calls == 1
    price = {"prices": (1.0, 1.0), "cost": "tokens"}
    least = min(trial.costs["tokens"] for trial in free.trials) / 1e6
    within, _ = run(14, 30, max_cost_per_question=1.2 * least, **price)
    assert within.best.costs["lm_calls"] == 1
    with pytest.raises(StudyError, match=r"no trial costs .* US dollars a question or less: the cheapest, .* costs"):
        run(4, 10, max_cost_per_question=least / 2, **price)
    with pytest.raises(UsageError, match=r"--prices"):
        run(4, 10, max_cost_per_question=0.5)
    priced, _ = run(4, 10, max_cost_per_question=1.0, prices=(1.0, 1.0))
    assert priced.config.permits(priced.best.costs)


def test_results_are_shared_between_programs():
    """Weak and Twin ask the same prompts and search for the same questions."""
    searched = Counter()

    class Counting(type(make_retriever([]))):
        def search(self, queries, k):
            searched.update((query, k) for query in queries)
            return super().search(queries, k)

    dev = make_examples(10)
    lm, engine = quality_lm(dev, cache=True)
    retriever = Counting(make_retriever(dev).passages)
    arguments = {"devset": dev, "metric": "exact_match", "lm": lm, "demos": "none"}
    tuning = run_study(program=[Weak(retriever), Twin(retriever)], n_trials=2, **arguments)
    assert [trial.score for trial in tuning.trials] == [0.3, 0.3]
    assert len(engine.calls) == 10
    assert set(searched.values()) == {1}
    assert [trial.spent.calls for trial in tuning.trials] == [10, 0]
    assert [trial.spent.cached_calls for trial in tuning.trials] == [0, 10]
    assert (tuning.calls.spent, tuning.calls.without_sharing) == (10, 20)


def test_names_of_settings_begin_with_the_program():
    tuning, _ = run(6, 10, classes=(Weak, Tunable), demos="none", start=[{"tunable.top_k": 4}])
    assert [(t.label, t.program, t.values["top_k"]) for t in tuning.trials[:3]] == [
        ("default", "weak", 1),
        ("default", "tunable", 1),
        ("given", "tunable", 4),
    ]
    with pytest.raises(UnknownName, match="top_k"):
        run(6, 10, exclude=["top_k"])
    with pytest.raises(UnknownName, match="did you mean 'top_k'"):
        run(6, 10, exclude=["weak.topk"])


def test_refusals():
    still = type("Still", (Fixed,), {"name": "still"})
    for classes, message in (
        ((Weak, Weak), "name of its own: given are weak, weak"),
        ((), "given are none"),
        (CLASSES, "at least one trial for each of 4 programs"),
        ((Fixed, still), "nothing to search over: fixed, still"),
    ):
        with pytest.raises(UsageError, match=message):
            run(3, 10, classes=classes, demos="none")


def test_pareto_keeps_all_programs_in_the_race():
    tuning, _ = run(14, 10, mode="pareto", demos="none")
    assert all(trial.complete for trial in tuning.trials)
    assert tuning.front[-1].score == max(trial.score for trial in tuning.trials)


def trial(number, program, scores, complete=True, calls=1.0):
    costs = {"lm_calls": calls, "prompt_tokens": calls, "completion_tokens": 0.0}
    return TrialResult(
        number=number, label="sampled", program=program, values={}, complete=complete, scores=scores, costs=costs
    )


def test_half_of_the_programs_leave_after_each_round():
    names = [*"abcde"]
    papers = [trial(n, name, [1.0] * n + [0.0] * (10 - n)) for n, name in enumerate(names)]
    assert in_race(names, papers[:4], 5, 23) == names
    assert in_race(names, papers, 5, 23) == ["e", "d", "c"]
    later = [trial(5 + n, "c", [1.0] * 9 + [0.0]) for n in range(12)]
    assert in_race(names, [*papers, *later[:5]], 5, 23) == ["e", "d", "c"]
    assert in_race(names, [*papers, *later[:6]], 5, 23) == ["c", "e"]  # 18 trials in three rounds
    assert in_race(names, [*papers, *later], 5, 23) == ["c"]
    assert in_race(["a"], [], 1, 5) == ["a"]
    assert in_race(names, papers, 5, 23, StudyConfig(max_cost_per_question=1.0, prices=(1e6, 1e6))) == ["e", "d", "c"]
    papers[4] = trial(4, "e", [1.0] * 10, calls=3.0)
    assert in_race(names, papers, 5, 23, StudyConfig(max_cost_per_question=1.0, prices=(1e6, 1e6))) == ["d", "c", "b"]


def test_a_trial_that_was_stopped_early_is_placed_by_the_questions_that_both_were_asked():
    best = trial(0, "a", [1.0, 1.0, 0.0, 0.0])
    worse, better = trial(1, "b", [0.0, 1.0], complete=False), trial(2, "c", [1.0, 0.0, 0.0, 0.0])
    assert in_race([*"abc"], [best, worse, better], 3, 10) == ["a", "c"]
    assert in_race([*"abcd"], [best, worse, better, trial(3, "d", [1.0, 1.0, 0.0], complete=False)], 4, 8) == ["a", "d"]
