"""One function compiles: it runs a study or an optimizer, scores before and after, and saves the artifact."""

import optuna
import pytest
from compile_helpers import Tunable, make_examples, make_retriever, quality_lm, reading_lm

from knowgap.compiling import Run, StudyConfig, compile, load
from knowgap.compiling.data.dataset import Dataset
from knowgap.errors import DataError, UsageError
from knowgap.programs.baselines.rag import RAG
from knowgap.programs.hyperparameters import Integer, Switch


@pytest.mark.parametrize("optimizer", ["study", "bootstrap"])
def test_everything_is_written_to_the_output(tmp_path, optimizer):
    examples = make_examples(6)
    program, lm = RAG(make_retriever(examples), top_k=2), reading_lm()[0]
    study = StudyConfig(n_trials=3) if optimizer == "study" else None
    arguments = {"trainset": examples, "run": Run(lm), "optimizer": optimizer, "study": study, "output": tmp_path}
    found = compile(program, examples, "exact_match", **arguments)
    assert {*found.evaluations} == {"dev before", "dev after"}
    assert (tmp_path / "study.db").exists() == (optimizer == "study")
    assert found.artifact == tmp_path / "artifact"
    loaded = load(found.artifact, retriever=program.retriever)
    assert loaded.values() == found.program.values()
    assert loaded.dump_state() == found.program.dump_state()
    assert found.before is program
    assert found.summary.startswith(
        "StudyResult(rag: trial" if optimizer == "study" else "demonstrations of answer: 0 → 4"
    )


def test_a_study_takes_no_option_of_another_optimizer():
    examples = make_examples(4)
    with pytest.raises(UsageError, match="share"):
        compile(RAG(make_retriever(examples)), examples, "f1", run=Run(reading_lm()[0]), share=0.5)


def test_what_could_not_be_saved_or_scored_is_refused_before_anything_is_asked(tmp_path):
    class Nested(RAG):
        name = "nested"

    examples, (lm, engine) = make_examples(60), reading_lm()
    retriever = make_retriever(examples)
    half_gold = {"dev": examples, "test": [examples[0].copy(gold_ids=[])]}
    (tmp_path / "taken" / "artifact").mkdir(parents=True)
    (tmp_path / "taken" / "artifact" / "notes.txt").write_text("mine")
    for program, questions, output, message in (
        (Nested(retriever), examples, "new", "could not be loaded again"),
        (RAG(retriever), examples, "taken", "is not an artifact"),
        (RAG(retriever), examples, "new", "held-out questions: the id 'q.+' is used twice"),  # by both splits
        (RAG(retriever), Dataset("mine", half_gold, [], ""), "new", "names no gold passages"),
    ):
        with pytest.raises((UsageError, DataError), match=message):
            compile(program, questions, "recall", trainset=examples, run=Run(lm), output=tmp_path / output)
    assert engine.calls == []
    assert not (tmp_path / "new").exists()


class Weak(Tunable):
    """Right on 3 of ten questions, whatever its settings."""

    name = "weak"
    top_k = Integer(1, "passages read", low=1, high=3)
    careful = Switch(False, "whether to be careful", tune=False)


class Twin(Weak):
    name = "twin"


@pytest.fixture
def several():
    examples = make_examples(30)
    lm, engine = quality_lm(examples)
    retriever = make_retriever(examples)
    tunable = Tunable(retriever, top_k=4)  # right on 6 of ten
    return [Weak(retriever), tunable, Twin(retriever)], examples, lm, engine


def test_of_several_programs_the_best_two_as_they_are_are_studied(several, caplog, tmp_path):
    programs, examples, lm, _ = several
    study = StudyConfig(n_trials=9, demos="none", hold_out=0, storage=tmp_path / "study.db")
    found = compile(programs, examples, "exact_match", study=study, run=Run(lm))
    assert {name: each.mean() for name, each in found.screening.items()} == {"weak": 0.3, "tunable": 0.6, "twin": 0.3}
    assert "tunable and weak are studied" in caplog.text
    assert (found.before.name, found.program.name) == ("weak", "tunable")
    assert found.study.best.values[0] >= 0.6
    assert len(found.study.trials) == 5  # half of the trials
    kept = optuna.get_all_study_names(f"sqlite:///{tmp_path}/study.db")
    assert sorted(kept) == ["tunable", "weak"]


def test_limits_are_shared_by_the_programs(several):
    programs, examples, lm, engine = several
    study = StudyConfig(n_trials=40, max_calls=120, demos="none", hold_out=0)
    found = compile(programs[:2], examples, "exact_match", study=study, run=Run(lm, num_threads=1))
    assert found.screening is None  # there is nothing to select
    assert found.study.stopped == "limit of 60 calls"
    assert found.study.spent.calls < len(engine.calls) <= 2 * 60 + 2 * 60  # a trial that has begun is finished
