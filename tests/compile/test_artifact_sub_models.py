"""Artifacts of programs with trained sub-models: named by folder and digest, and taken again when they are the same."""

import json

import dspy
import pytest
from support import OverlapRetriever

from knowgap.compiling import evaluate, load, save
from knowgap.compiling.run import Run
from knowgap.lms.trained import load_trained
from knowgap.programs.ra_isf import RAISF
from knowgap.retrieval.passage import Passage
from knowgap.storage.files import folder_digest
from tests.lms.local.tiny_models import TEXTS, write_language_model
from tests.retrieval.tiny import write_cross_encoder

CORPUS = [Passage("moor", "Ada Moor", "Ada Moor was born in Wick.")]


@pytest.fixture
def folders(tmp_path):
    write_cross_encoder(tmp_path / "relevant", TEXTS)
    kinds = {"know": "causal", "decompose": "seq2seq"}
    made = {task: write_language_model(tmp_path / task, kind) for task, kind in kinds.items()}
    return {**made, "relevant": tmp_path / "relevant"}


@pytest.fixture
def models(folders):
    return {task: load_trained(task, folder) for task, folder in folders.items()}


@pytest.fixture
def artifact(models, tmp_path):
    return save(RAISF(OverlapRetriever(CORPUS), **models), tmp_path / "artifact", lm="openai/any")


def name_of(program, task):
    part = program.cross_encoder if task == "relevant" else getattr(program, task).lm
    return getattr(part, "name", None) or getattr(part, "model", None)


def test_the_models_are_taken_again(artifact, folders, recwarn):
    config = json.loads((artifact / "config.json").read_text())
    digests = {task: folder_digest(folder) for task, folder in folders.items()}
    assert config["sub_models"] == {task: {"path": str(folders[task]), "digest": digests[task]} for task in folders}
    assert all(each[:16] in (artifact / "card.md").read_text() for each in digests.values())
    loaded = load(artifact, lm=dspy.LM("openai/any"))
    named = {"know": f"hf/{folders['know']}", "decompose": f"hf/{folders['decompose']}"}
    assert {task: name_of(loaded, task) for task in folders} == {**named, "relevant": str(folders["relevant"])}
    assert loaded.answer.lm.model == loaded.relevant.lm.model == "openai/any"
    assert [str(w.message) for w in recwarn if "sub-model" in str(w.message)] == []


def test_models_that_are_given_go_over_those_recorded(artifact, models, tmp_path):
    other = write_language_model(tmp_path / "other", "causal", seed=2)
    with pytest.warns(UserWarning, match="compiled with another sub-model know"):
        loaded = load(artifact, know=str(other))
    assert name_of(loaded, "know") == f"hf/{other}"
    assert load(artifact, relevant=models["relevant"]).cross_encoder is models["relevant"]


def test_a_model_that_has_changed_or_is_gone_is_not_taken(artifact, folders):
    write_language_model(folders["know"], "causal", seed=3)
    (folders["decompose"] / "config.json").unlink()
    with pytest.warns(UserWarning, match="missing or has changed") as warned:
        loaded = load(artifact)
    said = [str(w.message) for w in warned if "has changed" in str(w.message)]
    assert [text.partition("the sub-model ")[2].split()[0] for text in said] == ["know", "decompose"]
    assert (loaded.know.lm, loaded.decompose.lm) == (None, None)
    assert name_of(loaded, "relevant") == str(folders["relevant"])


def test_results_name_the_models(models, folders, examples, lm):
    program = RAISF(OverlapRetriever(CORPUS), relevant=models["relevant"], decompose=lm)
    origin = evaluate(program, examples[:1], ["exact_match"], run=Run(lm=lm)).provenance
    assert origin.sub_models["relevant"]["digest"] == folder_digest(folders["relevant"])
    assert origin.sub_models["decompose"] == {"name": lm.model}
