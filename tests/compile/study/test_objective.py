"""A study of the user's own, with Optuna's functions."""

import optuna
import pytest
from compile_helpers import Tunable, make_examples, make_retriever, quality_lm, reading_rule
from support import UNREADABLE, scripted_lm

import knowgap
from knowgap.compiling import StudyConfig
from knowgap.errors import LanguageModelError, LanguageModelUnreachable, StudyError, UnknownName, UsageError


@pytest.fixture
def examples():
    return make_examples(20)


def objective(examples, **options):
    lm, engine = quality_lm(examples)
    return knowgap.Objective(Tunable(make_retriever(examples)), examples, "exact_match", lm=lm, **options), engine


@pytest.mark.parametrize("block", [1, 5])
def test_one_question_in_a_block_that_fails_does_not_end_the_study(examples, block, caplog):
    def rule(outputs, inputs):
        if inputs["question"] == examples[5].question:
            return UNREADABLE
        if inputs["question"] == examples[10].question:
            raise LanguageModelUnreachable("connection reset")
        return reading_rule(outputs, inputs) if "answer" in outputs else {"questions": []}

    program = Tunable(make_retriever(examples))
    asked = knowgap.Objective(program, examples[:11], "exact_match", lm=scripted_lm(rule)[0], block=block)
    study = optuna.create_study(direction="maximize")
    study.optimize(asked, n_trials=1)
    assert study.trials[0].state == optuna.trial.TrialState.COMPLETE
    assert [*study.trials[0].intermediate_values] == [*range(block, 11, block), 11]
    assert "1 of 11 questions could not reach the language model" in caplog.text


@pytest.mark.parametrize("block", [1, 10])
def test_a_model_that_cannot_be_read_or_reached_ends_the_study(examples, block):
    def gone(*_):
        raise LanguageModelUnreachable("connection reset")

    for rule, error in ((lambda *_: UNREADABLE, LanguageModelError), (gone, LanguageModelUnreachable)):
        lm, engine = scripted_lm(rule)
        asked = knowgap.Objective(Tunable(make_retriever(examples)), examples, lm=lm, num_threads=1, block=block)
        with pytest.raises(error):
            optuna.create_study(direction="maximize").optimize(asked, n_trials=1)
        assert len({inputs.get("question") for _, inputs in engine.calls}) <= 3


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


def test_questions_without_ids_all_count(examples):
    unnamed = [example.copy(id="") for example in examples]
    trial = optuna.trial.FixedTrial({"top_k": 4, "limit.set": False, "careful": False})
    scores = {objective(every, block=block)[0](trial) for every in (examples, unnamed) for block in (5, 8, 20)}
    assert scores == {0.6}


def test_only_what_was_named_is_searched(examples):
    asked, _ = objective(examples, config=StudyConfig(include=("top_k",), ranges={"top_k": (3, 4)}))
    study = optuna.create_study(direction="maximize")
    study.optimize(asked, n_trials=3)
    assert {(*trial.params,) for trial in study.trials} == {("top_k",)}
    with pytest.raises(UnknownName, match="did you mean 'lm_calls'"):
        objective(examples, costs=["lm_call"])


def compiled(examples, **options):
    lm, engine = quality_lm([*examples, *options.get("trainset", ())])
    program, defaults = Tunable(make_retriever(examples)), {"demos": "none", "hold_out": 0, "n_trials": 6}
    return knowgap.compile(program, examples, "exact_match", lm=lm, **{**defaults, **options}), engine


class Remembering(optuna.samplers.RandomSampler):
    """Keeps the numbers of the trials for which it was asked."""

    def __init__(self):
        super().__init__(seed=1)
        self.asked = []

    def before_trial(self, study, trial):
        self.asked.append(trial.number)
        super().before_trial(study, trial)


def test_compile_takes_a_study_of_the_users(examples):
    sampler = Remembering()
    study = optuna.create_study(study_name="mine", direction="maximize", sampler=sampler)
    study.set_user_attr("whose", "mine")
    found, _ = compiled(examples, study=study)
    assert found.study.study is study
    assert len(study.trials) == len(found.study.trials) == 6
    assert sampler.asked == [*range(6)]
    assert study.sampler is sampler
    assert study.best_value == found.study.best.score
    again, engine = compiled(examples, study=study)
    assert again.study.best == found.study.best
    assert engine.calls == []
    with pytest.raises(StudyError, match=r"study 'mine' is about something else \(it differs in: seed\)"):
        compiled(examples, study=study, seed=5)


def test_compile_takes_a_storage_a_sampler_and_a_pruner(examples):
    storage, sampler = optuna.storages.InMemoryStorage(), Remembering()
    pruner = optuna.pruners.ThresholdPruner(lower=2.0)
    found, _ = compiled(examples, storage=storage, sampler=sampler, pruner=pruner, study_name="theirs")
    [kept] = optuna.get_all_study_summaries(storage)
    assert (kept.study_name, kept.n_trials) == ("theirs", 6)
    assert sampler.asked == [*range(6)]
    assert found.study.best.label == "default"  # which no pruner stops
    pruned = [trial for trial in found.study.trials if not trial.complete]
    assert pruned
    assert {len(trial.scores) for trial in pruned} == {5}


def test_a_sampler_of_the_users_shows_the_bootstrapped_demonstrations(examples):
    found, _ = compiled(examples, trainset=make_examples(8, "t"), demos="search", sampler=Remembering())
    [bootstrapped] = [trial for trial in found.study.trials if trial.label == "bootstrapped"]
    assert bootstrapped.demonstrations["answer"] == 1


def test_several_costs_are_objectives_of_a_study_of_compile(examples):
    config = StudyConfig(mode="pareto", costs=["passages", "prompt_tokens"])
    study = optuna.create_study(directions=["maximize", *["minimize"] * 3])
    found, _ = compiled(examples, study=study, config=config)
    assert study.metric_names == ["score", "lm_calls", "passages", "prompt_tokens"]
    for trial, frozen in zip(found.study.trials, study.trials, strict=True):
        costs = [trial.costs[name] for name in study.metric_names[1:]]
        assert frozen.values == [trial.score, *costs]
    with pytest.raises(StudyError, match="differs in: costs"):
        compiled(examples, study=study, config=StudyConfig(mode="pareto", costs=["passages", "tokens"]))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"study": optuna.create_study()}, r"create it with directions=\['maximize'\]"),
        (
            {"pruner": optuna.pruners.NopPruner(), "config": StudyConfig(prune=False)},
            "a pruner cannot be used in a study",
        ),
    ],
)
def test_what_does_not_fit_a_study_of_the_users_is_said(examples, options, message):
    with pytest.raises(UsageError, match=message):
        compiled(examples, **options)


def test_names_may_have_commas_between_them():
    config = StudyConfig.model_validate({"mode": "pareto", "costs": "passages, prompt_tokens", "include": "top_k"})
    assert (config.minimized, config.include) == (["lm_calls", "passages", "prompt_tokens"], ["top_k"])
