"""Names from outside the package, `module:Name`, and artifacts of such programs: what is imported, and when."""

import linecache
import sys
import warnings
from pathlib import Path
from typing import Any

import dspy
import pytest

from knowgap import plugins
from knowgap.compiling import load, save
from knowgap.compiling.evaluation.metrics import get_metric, named_metrics
from knowgap.compiling.evaluation.provenance import provenance_of
from knowgap.errors import ArtifactError, DataError, UsageError
from knowgap.programs import get_program
from knowgap.programs.base import Program
from knowgap.programs.baselines.rag import RAG
from knowgap.programs.modules import wrap
from knowgap.retrieval import make_entailment, make_reranker
from knowgap.retrieval.indexes import as_retriever

MINE = '''
import knowgap
from knowgap.errors import DataError
from knowgap.programs.baselines.rag import RAG


class Again(RAG):
    """Plain retrieval under another name."""


def half(example, prediction):
    """Always one half."""
    return 0.5


class Whole:
    def __call__(self, example, prediction, trace=None):
        return 1.0


def undefined(example, prediction, trace=None):
    raise DataError("is not defined here")


class Finder:
    def __init__(self, word="nothing"):
        self.word = word

    def __len__(self):
        return 0

    def search(self, queries, k):
        return [[] for query in queries]


finder = Finder("made before")


class Scorer:
    name, default_threshold, scale = "scorer", 0.5, "from 0 to 1"

    def score(self, pairs):
        return [1.0 for pair in pairs]

    entails = score

    def __bool__(self):
        return False
'''


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """A folder outside the package, from which plugins are imported, as the command line would."""
    monkeypatch.setattr(sys, "path", [*sys.path, str(tmp_path)])
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine.py").write_text(MINE)
    yield tmp_path
    for name in ("mine", "unsound"):
        sys.modules.pop(name, None)


def test_what_own_code_raises_passes(folder):
    (folder / "unsound.py").write_text("import absent\n")
    with pytest.raises(ModuleNotFoundError):
        get_program("unsound:X")


def test_metrics_are_functions_or_what_a_class_makes(folder):
    example, prediction = {"question": "Who?"}, {"answer": "x"}
    assert [get_metric(f"mine:{name}")(example, prediction) for name in ("half", "Whole")] == [0.5, 1.0]
    assert list(named_metrics(["f1", "mine:half"])) == ["f1", "mine:half"]
    with pytest.raises(DataError, match="is not defined here"):
        get_metric("mine:undefined")(example, prediction)


def test_retrievers_and_models_stand_there_or_are_made(folder):
    assert as_retriever("mine:finder").word == "made before"
    assert as_retriever("mine:Finder").word == "nothing"
    assert RAG("mine:Finder:http://host/x").retriever.word == "http://host/x"
    assert make_reranker("mine:Scorer").score([("a", "b")]) == [1.0]
    assert make_entailment("mine:Scorer").entails([("a", "b")]) == [1.0]
    with pytest.raises(UsageError, match=r"Finder is of type Finder, which has no default_threshold and no name"):
        make_reranker("mine:Finder")


def test_results_say_what_came_from_outside(folder):
    program = get_program("mine:Again")("mine:Finder")
    facts = provenance_of(program, [], None).outside
    named = {role: (each["name"], len(each["sha256"])) for role, each in facts.items()}
    assert named == {"program": ("mine:Again", 64), "retriever": ("mine:Finder", 64)}
    assert provenance_of(RAG(), [], None).outside == {}


IN_A_NOTEBOOK = """
class Mine(Base):
    def forward(self, question):
        return self.conclude("Ada" if question in {"Who?", "Whom?"} else "ANSWER", [])

class Steps(Module):
    def forward(self, question):
        return [word for word in ("ANSWER", question)]

def metric(example, prediction, trace=None):
    return max([prediction], key=lambda each: each.answer == "ANSWER")
"""


def test_code_without_a_file_is_told_apart_by_what_it_does():
    def define(text):
        made = {"__name__": "a_notebook", "Base": Program, "Module": dspy.Module}
        cell = f"cell {len(text)}"
        linecache.cache[cell] = (len(text), None, text.splitlines(keepends=True), cell)  # as a notebook does
        exec(compile(text, cell, "exec"), made)
        parts = {"program": made["Mine"], "module": wrap(made["Steps"]), "metric": made["metric"]}
        return {role: facts["sha256"] for role, facts in plugins.outside_facts(parts).items()}

    first = define(IN_A_NOTEBOOK)
    assert define("# the same in another cell\n\n" + IN_A_NOTEBOOK) == first
    changed = define(IN_A_NOTEBOOK.replace("ANSWER", "Bo"))
    assert {role for role in first if changed[role] != first[role]} == {"program", "module", "metric"}


@pytest.fixture
def artifact(folder: Path) -> Path:
    """A saved `mine:Again`; its module is forgotten."""
    place = save(get_program("mine:Again")(top_k=9), folder / "artifact", lm="test/scripted")
    del sys.modules["mine"]
    return place


def opened(artifact: Path, **options: Any) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return load(artifact, **options)


def test_an_artifact_alone_imports_no_module(artifact, folder):
    (folder / "mine.py").write_text("raise SystemExit('it ran')\n")
    with pytest.raises(ArtifactError, match=r"holds the program mine:Again.* as well: --program mine:Again:FOLDER"):
        opened(artifact)
    assert "mine" not in sys.modules


def test_an_artifact_is_loaded_where_its_program_is_named_or_imported(artifact):
    assert opened(artifact, expect="mine:Again").top_k == 9
    assert opened(artifact).top_k == 9  # the module is imported now
    assert opened(artifact, expect=get_program("mine:Again")).top_k == 9
    with pytest.raises(ArtifactError, match="holds the program 'mine:Again', not 'rag'"):
        opened(artifact, expect=RAG)


@pytest.mark.parametrize("named", ["mine:half", "mine:Finder"])
def test_an_artifact_makes_nothing_but_programs(named, artifact, folder):
    config = (artifact / "config.json").read_text()
    (artifact / "config.json").write_text(config.replace("mine:Again", named))
    with pytest.raises(ArtifactError):
        opened(artifact, expect=named)


def test_another_version_of_the_module_is_warned_of(artifact, folder):
    with (folder / "mine.py").open("a") as file:
        file.write("# changed\n")
    with pytest.warns(UserWarning, match="was compiled with another file of the program"):
        load(artifact, expect="mine:Again")


def test_a_class_of_the_script_that_runs_is_not_saved(folder, monkeypatch):
    again = get_program("mine:Again")
    monkeypatch.setattr(again, "__module__", "__main__")
    with pytest.raises(UsageError, match="Again could not be loaded again"):
        save(again(), folder / "artifact", lm="test/scripted")
    assert not (folder / "artifact").exists()
