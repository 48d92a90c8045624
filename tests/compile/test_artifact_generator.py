"""RQ-RAG with a generator: evaluated, saved, and taken again when the generator is the same."""

import json
import shutil

import pytest
from support import OverlapRetriever

from knowgap.compiling import evaluate, load, save
from knowgap.errors import CheckpointError
from knowgap.lms.trained import load_trained
from knowgap.programs.rq_rag import RQRAG
from knowgap.retrieval.passage import Passage
from knowgap.storage.files import folder_digest
from tests.lms.tiny_generator import write_base_model

CORPUS = [Passage("moor", "Ada Moor", "Ada Moor was born in Wick."), Passage("tarn", "Tarn", "Tarn is a town.")]


def test_an_evaluation_needs_no_other_language_model_and_names_the_generator(tiny_generator, examples, tmp_path):
    program = RQRAG(OverlapRetriever(CORPUS), generator=load_trained("generator", tiny_generator), depth=1)
    result = evaluate(program, examples[:2], ["exact_match"], output=tmp_path / "answers.jsonl")
    assert result.provenance.lm == f"hf/{tiny_generator}"
    assert result.provenance.sub_models["generator"]["digest"] == folder_digest(tiny_generator)
    assert all(record.cost.lm_calls >= 1 for record in result.records)


def test_the_generator_is_taken_again_while_it_is_the_same(tiny_generator, tmp_path, recwarn):
    place = shutil.copytree(tiny_generator, tmp_path / "model")
    program = RQRAG(OverlapRetriever(CORPUS), generator=load_trained("generator", place), depth=1)
    artifact = save(program, tmp_path / "artifact", lm=program.generator)
    assert json.loads((artifact / "config.json").read_text())["sub_models"] == {
        "generator": {"path": str(place), "digest": folder_digest(place)}
    }
    loaded = load(artifact, lm=program.generator)
    assert (loaded.generator.model, loaded.depth) == (f"hf/{place}", 1)
    assert load(artifact, generator=tiny_generator).generator.model == f"hf/{tiny_generator}"
    assert [str(w.message) for w in recwarn if "missing or has changed" in str(w.message)] == []
    (place / "config.json").write_text((place / "config.json").read_text() + "\n")
    with pytest.warns(UserWarning, match="generator in .* missing or has changed"):
        assert load(artifact).generator is None


@pytest.mark.parametrize("where", ["nothing", "./base", "base"])
def test_what_is_no_generator_is_refused(tmp_path, monkeypatch, where):
    monkeypatch.chdir(tmp_path)
    write_base_model(tmp_path / "base")
    with pytest.raises(CheckpointError, match="control tokens" if "base" in where else "must hold a config"):
        load_trained("generator", where)
