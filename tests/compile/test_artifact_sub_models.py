"""Artifacts of programs with trained parts: named by folder and digest, and taken again."""

import json

import dspy
import pytest
from support import OverlapRetriever

from knowgap.compiling import evaluate, load, save
from knowgap.errors import ArtifactError, CheckpointError, UsageError
from knowgap.lms.providers import load_trained
from knowgap.programs.ra_isf import RAISF
from knowgap.programs.rq_rag import RQRAG
from knowgap.retrieval.passage import Passage
from knowgap.storage.files import folder_digest
from tests.tiny import TEXTS, write_base_model, write_cross_encoder, write_language_model

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
    assert {task: config["models"][task] for task in folders} == {
        task: {"path": str(folders[task]), "digest": digests[task]} for task in folders
    }
    assert all(each[:16] in (artifact / "card.md").read_text() for each in digests.values())
    loaded = load(artifact, lm=dspy.LM("openai/any"))
    named = {"know": f"hf/{folders['know']}", "decompose": f"hf/{folders['decompose']}"}
    assert {task: name_of(loaded, task) for task in folders} == {**named, "relevant": str(folders["relevant"])}
    assert loaded.answer.lm.model == loaded.relevant.lm.model == "openai/any"
    assert [str(w.message) for w in recwarn if "another know" in str(w.message)] == []


def test_models_that_are_given_go_over_those_recorded_and_what_differs_is_told(artifact, models, folders, tmp_path):
    other = write_language_model(tmp_path / "other", "causal", seed=2)
    with pytest.warns(UserWarning, match="compiled with another know"):
        loaded = load(artifact, know=str(other), relevant=models["relevant"])
    assert (name_of(loaded, "know"), loaded.cross_encoder) == (f"hf/{other}", models["relevant"])
    write_language_model(folders["know"], "causal", seed=3)
    with pytest.warns(UserWarning, match="compiled with another know"):
        load(artifact)


@pytest.mark.parametrize("path", ["no/such/folder", "meta-llama/Llama-2-7b-hf", "model@http://evil.example"])
def test_a_model_that_is_gone_is_refused_and_a_file_names_none_on_the_hub_and_no_server(artifact, path):
    config = json.loads((artifact / "config.json").read_text())
    config["models"]["know"]["path"] = path
    (artifact / "config.json").write_text(json.dumps(config))
    with pytest.raises(ArtifactError, match="know=FOLDER"):
        load(artifact)


def test_a_generator_needs_no_other_language_model_and_is_taken_again(tiny_generator, examples, tmp_path):
    program = RQRAG(OverlapRetriever(CORPUS), generator=load_trained("generator", tiny_generator), depth=1)
    result = evaluate(program, examples[:2], ["exact_match"], output=tmp_path / "answers.jsonl")
    assert result.provenance.lm == f"hf/{tiny_generator}"
    assert result.provenance.models["generator"]["digest"] == folder_digest(tiny_generator)
    assert all(record.cost.lm_calls >= 1 for record in result.records)
    loaded = load(save(program, tmp_path / "artifact", lm=program.generator), lm=program.generator)
    assert (loaded.generator.model, loaded.depth) == (f"hf/{tiny_generator}", 1)


@pytest.mark.parametrize("where", ["nothing", "./base", "base"])
def test_what_is_no_generator_is_refused(tmp_path, monkeypatch, where):
    monkeypatch.chdir(tmp_path)
    write_base_model(tmp_path / "base")
    with pytest.raises(CheckpointError if "base" in where else UsageError):
        load_trained("generator", where)
