"""The search space: every declared hyperparameter within its range, and nothing else."""

import optuna
import pytest
from compile_helpers import Tunable

from knowgap.compiling.study.config import StudyConfig
from knowgap.compiling.study.space import SearchSpace
from knowgap.programs.baselines.rag import RAG
from knowgap.programs.hyperparameters import Integer, Switch


def drawn(space, n=200, seed=0, enqueue=()):
    study = optuna.create_study(sampler=optuna.samplers.RandomSampler(seed=seed))
    for parameters in enqueue:
        study.enqueue_trial(parameters)
    return [space.suggest(study.ask()) for _ in range(n)], study


def test_every_hyperparameter_is_searched_within_its_range():
    found, study = drawn(SearchSpace(Tunable(mode="fancy"), StudyConfig(ranges={"max_calls": (1, 3)})))
    tried = {name: {values[name] for values, _ in found} for name in Tunable().values()}
    assert tried["max_calls"] == {None, 1, 2, 3}
    assert tried["top_k"] == {1, 2, 3, 4, 5}
    assert tried["careful"] == {True, False}
    assert tried["mode"] == {"fancy"}  # not to be tuned: as the program has it
    assert None in tried["limit"]
    assert all(0 <= limit <= 1 for limit in tried["limit"] - {None})
    assert {values["weight"] for values, _ in found if not values["careful"]} == {0.5}
    assert len(tried["weight"]) > 50
    for trial in study.trials:
        assert ("weight" in trial.params) == trial.params["careful"]
        assert ("limit" in trial.params) == trial.params["limit.set"]


@pytest.mark.parametrize(
    ("program", "ranges", "name", "searched"),
    [
        (Tunable(limit=7.5), {}, "limit", (0.0, 7.5)),  # the current value is in it
        (Tunable(), {"top_k": (2, 3)}, "top_k", (1, 3)),  # and the default
        (RAG(), {}, "top_k", (1, 20)),  # four times the default: fifty passages are permitted, and not searched
        (RAG(), {"top_k": (5, 50)}, "top_k", (5, 50)),
        (RAG(top_k=30), {}, "top_k", (1, 30)),
    ],
)
def test_the_range_of_a_number(program, ranges, name, searched):
    space = SearchSpace(program, StudyConfig(ranges=ranges))
    assert space.ranges[name] == searched
    found, _ = drawn(space, n=1, enqueue=[space.parameters(program.values())])
    assert found[0][0] == program.values()


def test_choice_of_what_to_search():
    found, study = drawn(SearchSpace(Tunable(), StudyConfig(include=["top_k", "mode"])), n=40)
    assert {v["mode"] for v, _ in found} == {"plain", "fancy"}
    assert {v["careful"] for v, _ in found} == {False}
    assert {*study.trials[0].params} == {"top_k", "mode"}
    assert "weight" in SearchSpace(Tunable(careful=True), StudyConfig(include=["weight"])).parameters({})
    assert "weight" not in SearchSpace(Tunable(careful=False), StudyConfig(include=["weight", "top_k"])).parameters({})


def test_conditions_in_any_order():
    class Late(Tunable):
        first = Integer(1, "depends on what comes later", low=1, high=3, when={"later": (True,)})
        later = Switch(True, "comes later")

    found, _ = drawn(SearchSpace(Late()), n=60)
    assert all(v["first"] == 1 for v, _ in found if not v["later"])
    assert {v["first"] for v, _ in found if v["later"]} == {1, 2, 3}
