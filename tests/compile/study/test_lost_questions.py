"""Questions that are lost or fail: the study goes on, and says so; replies that nobody can read stop it."""

import optuna
import pytest
from compile_helpers import Tunable, make_retriever
from compile_worker import plain, study_arguments
from compile_worker import study as run_study
from support import UNREADABLE, around_the_meter

from knowgap.compiling import StudyConfig
from knowgap.errors import LanguageModelError, LanguageModelUnreachable, StudyError


def test_a_study_whose_first_replies_are_all_unreadable_stops():
    arguments, engine = study_arguments()
    arguments["config"] = StudyConfig(reuse=False)
    engine.rule = lambda *_: UNREADABLE
    with pytest.raises(LanguageModelError, match="none of 8 replies"):
        run_study(n_trials=2, **arguments)


@pytest.mark.parametrize(("losses", "failing"), [([7], 0), ([2, 3, 4], 1), ([61, 62, 63, 71, 72, 73], 2)])
def test_a_study_goes_on_after_lost_questions(caplog, losses, failing):
    arguments, engine = study_arguments()
    arguments["config"] = StudyConfig(reuse=False)
    arguments["demos"] = "none"
    complete, calls = engine.complete, [0]

    def losing(request):
        calls[0] += 1
        if calls[0] in losses:
            raise LanguageModelUnreachable("connection reset")
        return complete(request)

    expected = run_study(n_trials=8, num_threads=1, **arguments)
    engine.complete = losing
    tuning = run_study(n_trials=8, num_threads=1, **arguments)
    assert plain(tuning) == plain(expected)
    failed = [t for t in tuning.study.trials if t.state == optuna.trial.TrialState.FAIL]
    assert len(failed) == failing
    said = [record.getMessage() for record in caplog.records if record.name == "knowgap"]
    assert len(said) == failing
    assert all("connection reset; the study goes on" in text for text in said)


def test_failed_questions_score_nothing_but_count():
    arguments, engine = study_arguments()
    complete = engine.complete

    def stumbling(request):
        if "house q7?" in (request.messages[-1].text or ""):
            raise RuntimeError("stumbled")
        return complete(request)

    engine.complete = stumbling
    tuning = run_study(n_trials=3, **{**arguments, "config": StudyConfig(prune=False, reuse=False)})
    for trial in tuning.trials:
        assert trial.failed == 1
        assert len(trial.scores) == 10
        assert trial.scores[tuning.questions.index("q7")] == 0.0


class AsksAnother(Tunable):
    """Calls a model of its own, around the meter."""

    own = around_the_meter()

    def forward(self, question):
        self.own(question=question)
        return super().forward(question)


@pytest.mark.parametrize(
    "limit", [{"max_cost_per_question": 3.0, "prices": (1.0, 1.0)}, {"max_tokens": 10_000}, {"mode": "pareto"}]
)
def test_what_nobody_counted_is_not_free(limit):
    arguments, _ = study_arguments()
    arguments["program"] = AsksAnother(make_retriever(arguments["devset"]))
    arguments["demos"] = "none"
    tuning = run_study(n_trials=2, **arguments)
    assert tuning.spent.uncounted_calls > 0
    assert {trial.costs["lm_calls"] for trial in tuning.trials} == {None}
    assert tuning.front == []
    with pytest.raises(StudyError, match="its cost, which this study limits or minimises, is not known"):
        run_study(n_trials=2, **arguments | {"config": StudyConfig(reuse=False, **limit)})
