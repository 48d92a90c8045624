"""One function compiles: it runs a study or an optimizer, scores before and after, and saves the artifact."""

import importlib
import sys

import pytest
from compile_helpers import make_examples, make_retriever, reading_lm

from knowgap.compiling import StudyConfig, compile, estimate_compile, load
from knowgap.compiling.data.dataset import Dataset
from knowgap.compiling.evaluation.metrics import get_metric
from knowgap.errors import StudyError, UnknownName, UsageError
from knowgap.programs.baselines.direct import Direct
from knowgap.programs.baselines.rag import RAG


@pytest.mark.parametrize("optimizer", ["study", "bootstrap"])
def test_everything_is_written_to_the_output(tmp_path, optimizer):
    examples = make_examples(6)
    program, lm = RAG(make_retriever(examples), top_k=2), reading_lm()[0]
    arguments = {"trainset": examples, "lm": lm, "optimizer": optimizer, "n_trials": 3, "output": tmp_path}
    found = compile(program, examples, "exact_match", **arguments)
    assert {*found.evaluations} == {"before", "after"}
    assert (tmp_path / "study.db").exists() == (optimizer == "study")
    assert found.artifact == tmp_path / "artifact"
    loaded = load(found.artifact, retriever=program.retriever)
    assert loaded.values() == found.program.values()
    assert [len(p.demos) for p in loaded.predictors()] == [len(p.demos) for p in found.program.predictors()]
    assert found.before is program
    assert found.summary.startswith("StudyResult(rag: 3 trials" if optimizer == "study" else "4 demonstrations")


def test_a_split_without_questions_is_not_scored_and_the_program_is_saved(tmp_path):
    examples = make_examples(6)
    data = Dataset("own", {"train": examples[:3], "dev": examples[3:], "test": []}, [], "own")
    program, lm = RAG(make_retriever(examples), top_k=2), reading_lm()[0]
    found = compile(program, data, "exact_match", lm=lm, n_trials=2, output=tmp_path)
    assert {*found.evaluations} == {"dev before", "dev after"}
    assert load(tmp_path / "artifact", retriever=program.retriever).values() == found.program.values()


def test_refusals():
    examples = make_examples(4)
    program, lm = RAG(make_retriever(examples)), reading_lm()[0]
    for wrong, error, message in (
        ({"optimizer": "bootstrop"}, UnknownName, "did you mean 'bootstrap'"),
        ({"share": 0.5}, UnknownName, "unknown argument of compile with the optimizer study 'share'"),
        ({"optimizer": "bootstrap", "config": StudyConfig(max_calls=9)}, UsageError, "bootstrap would ignore config"),
        ({"optimizer": "labeled", "hold_out": 0}, UsageError, "labeled would ignore hold_out"),
        ({"optimizer": "labeled", "storage": "s.db"}, UsageError, "labeled would ignore storage"),
        ({"demos": "some"}, UnknownName, "unknown kind of demonstrations 'some'"),
    ):
        with pytest.raises(error, match=message):
            compile(program, examples, "f1", lm=lm, **wrong)
    with pytest.raises(UsageError, match="bootstrap compiles exactly one program, not 2"):
        compile([program, Direct()], examples, "f1", optimizer="bootstrap", lm=lm)


def test_what_could_not_be_saved_is_refused_before_anything_is_asked(tmp_path):
    class Nested(RAG):
        name = "nested"

    examples, (lm, engine) = make_examples(4), reading_lm()
    retriever = make_retriever(examples)
    (tmp_path / "taken" / "artifact").mkdir(parents=True)
    (tmp_path / "taken" / "artifact" / "notes.txt").write_text("mine")
    for program, output, options, message in (
        (Nested(retriever), "new", {}, "could not be loaded again"),
        (RAG(retriever), "taken", {}, "is not an artifact"),
        (RAG(retriever), "new", {"optimizer": "knn"}, "a program compiled by knn cannot be saved"),
    ):
        with pytest.raises(UsageError, match=message):
            compile(program, examples, "f1", trainset=examples, lm=lm, output=tmp_path / output, **options)
    assert engine.calls == []
    assert not (tmp_path / "new").exists()


def test_a_study_is_not_continued_with_a_metric_that_has_changed(tmp_path, monkeypatch):
    code = "def right(example, prediction, trace=None):\n    return float(prediction.answer == example.answer)\n"
    monkeypatch.syspath_prepend(tmp_path)
    examples, lm = make_examples(4), reading_lm()[0]
    arguments = {"lm": lm, "hold_out": 0, "demos": "none", "storage": tmp_path / "study.db"}

    def trials(n_trials, text):
        (tmp_path / "scoring_of_ours.py").write_text(text)
        monkeypatch.delitem(sys.modules, "scoring_of_ours", raising=False)
        importlib.invalidate_caches()
        metric = get_metric("scoring_of_ours:right")
        study = compile(RAG(make_retriever(examples)), examples, metric, n_trials=n_trials, **arguments).study
        return study and len(study.trials)

    assert trials(2, code) == 2
    assert trials(3, f"more = 1  # something else in the file\n\n{code}") == 3
    with pytest.raises(StudyError, match=r"it differs in: code of the metric"):
        trials(4, code.replace("==", "!=") + "\n# a file of another size is compiled again\n")


def test_an_estimate_multiplies_questions_by_trials_and_calls():
    examples, lm = make_examples(10), reading_lm()[0]
    rag, common = RAG(make_retriever(examples)), {"devset": examples, "trainset": examples[:4], "lm": lm}
    alone = estimate_compile([rag], n_trials=3, **common)["rag"]
    assert (alone.calls, alone.questions) == (3 * 10, 3 * 10)  # demonstrations of rag take no call
    taught = estimate_compile([rag], n_trials=3, teacher_lm=lm, **common)["rag"]
    assert taught.calls == 3 * 10 + 4  # a teacher runs the program on the training questions
    plain = estimate_compile([rag], n_trials=3, demos="none", scoring=5, **common)["rag"]
    assert plain.calls == 3 * 10 + 5
    several = estimate_compile([rag, Direct()], n_trials=6, demos="none", **common)
    assert sorted(each.calls for each in several.values()) == [10, 10 + 4 * 10]
    with pytest.raises(UsageError, match="at least one trial for each of 2 programs"):
        estimate_compile([rag, Direct()], n_trials=1, **common)
    assert estimate_compile([rag], optimizer="bootstrap", **common)["rag"].calls == 4
    assert estimate_compile([rag], optimizer="calibrate", **common)["rag"].calls == 0
    with pytest.raises(UsageError, match="depends on what the language model writes"):
        estimate_compile([rag], optimizer="gepa", **common)
