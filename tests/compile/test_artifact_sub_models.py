"""Artifacts of programs with trained sub-models: named by folder and digest, and taken again when they are the same."""

import json

import pytest
from support import OverlapRetriever

from knowgap.compiling import evaluate, load, save
from knowgap.lms.ra_isf.sub_models import load_sub_model
from knowgap.lms.rq_rag.generator import TranscriptGenerator
from knowgap.programs.ra_isf import RAISF
from knowgap.programs.rq_rag import RQRAG
from knowgap.retrieval.passage import Passage
from tests.hub_recorder import recorded_hub
from tests.lms.ra_isf.tiny import write_sub_model

KINDS = {"know": "causal", "relevant": "cross_encoder", "decompose": "seq2seq"}
CORPUS = [Passage("moor", "Ada Moor", "Ada Moor was born in Wick.")]


@pytest.fixture
def models(tmp_path):
    return {task: load_sub_model(task, write_sub_model(tmp_path / task, task, kind)) for task, kind in KINDS.items()}


@pytest.fixture
def artifact(models, tmp_path):
    return save(RAISF(OverlapRetriever(CORPUS), **models), tmp_path / "artifact", lm="openai/any")


def test_the_models_are_taken_again(artifact, models, recwarn):
    config = json.loads((artifact / "config.json").read_text())
    expected = {task: {"path": str(model.folder), "digest": model.digest} for task, model in models.items()}
    assert config["sub_models"] == expected
    assert all(model.digest[:16] in (artifact / "card.md").read_text() for model in models.values())
    loaded = load(artifact)
    assert [getattr(loaded, name).digest for name in loaded.sub_models.values()] == [m.digest for m in models.values()]
    assert [str(w.message) for w in recwarn if "sub-model" in str(w.message)] == []


def test_models_that_are_given_go_over_those_recorded(artifact, models, tmp_path):
    other = write_sub_model(tmp_path / "other", "know", "causal", seed=2)
    with pytest.warns(UserWarning, match="compiled with another sub-model know"):
        loaded = load(artifact, know=str(other))
    assert loaded.know_model.digest == load_sub_model("know", other).digest != models["know"].digest
    assert load(artifact, relevant=models["relevant"]).relevance_model is models["relevant"]


def test_a_model_that_has_changed_or_is_gone_is_not_taken(artifact, models):
    model = models["know"]
    model.card.model_copy(update={"threshold": 0.9}).write(model.folder)
    (models["decompose"].folder / "sub_model.json").unlink()
    with pytest.warns(UserWarning, match="missing or has changed") as warned:
        loaded = load(artifact)
    said = [str(w.message) for w in warned if "has changed" in str(w.message)]
    assert [text.partition("the sub-model ")[2].split()[0] for text in said] == ["know", "decompose"]
    assert (loaded.know_model, loaded.decomposition_model) == (None, None)
    assert loaded.relevance_model.digest == models["relevant"].digest


def test_results_name_the_models(models, examples, lm):
    program = RAISF(OverlapRetriever(CORPUS), know=models["know"], decompose=lm)
    origin = evaluate(program, examples[:1], ["exact_match"], lm=lm).provenance
    assert origin.sub_models["know"]["digest"] == models["know"].digest
    assert origin.sub_models["decompose"] == {"name": lm.model}


def test_a_generator_on_the_hub_is_taken_if_it_is_allowed(tmp_path):
    folder = save(
        RQRAG(OverlapRetriever(CORPUS), generator=TranscriptGenerator("someone/model")), tmp_path / "artifact"
    )
    config = json.loads((folder / "config.json").read_text())
    assert config["sub_models"] == {"generator": {"path": "someone/model", "digest": "someone/model"}}
    with recorded_hub() as asked:
        with pytest.warns(UserWarning, match="add --allow-hub someone/model to fetch it"):
            assert load(folder).parts().get("generator") is None
        assert load(folder, allow_hub=["someone/model"]).generator.name == "someone/model"
        assert load(folder, generator="someone/model").generator.name == "someone/model"
    assert asked == []  # it is fetched at the first question
