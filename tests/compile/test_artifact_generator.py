"""RQ-RAG with a generator: evaluated, saved, and taken again when the generator is the same."""

import json
import shutil

import pytest
from dspy.utils.exceptions import LMError
from support import OverlapRetriever

from knowgap.compiling import evaluate, load, save
from knowgap.errors import CheckpointError
from knowgap.lms.rq_rag.generator import TranscriptGenerator
from knowgap.programs.rq_rag import RQRAG
from knowgap.retrieval.passage import Passage
from tests.lms.rq_rag.tiny import write_base_model

CORPUS = [Passage("moor", "Ada Moor", "Ada Moor was born in Wick."), Passage("tarn", "Tarn", "Tarn is a town.")]


@pytest.fixture
def program(tiny_generator):
    generator = TranscriptGenerator(tiny_generator, device="cpu", max_new_tokens=24)
    return RQRAG(OverlapRetriever(CORPUS), generator=generator, depth=1)


def test_an_evaluation_needs_no_language_model_and_names_the_generator(program, tiny_generator, examples, tmp_path):
    result = evaluate(program, examples[:2], ["exact_match"], output=tmp_path / "answers.jsonl")
    assert result.provenance.lm == f"generator/{tiny_generator.name}"
    assert result.provenance.sub_models["generator"]["digest"] == program.generator.digest
    assert all(record.cost.lm_calls >= 1 for record in result.records)
    identity = json.loads((tmp_path / "answers.jsonl").read_text().splitlines()[0])["about"]
    assert identity["sub_models"]
    with pytest.raises(LMError, match="cannot answer prompts"):
        program.generator.lm("Who?")


def test_the_generator_is_taken_again_while_it_is_the_same(program, tiny_generator, tmp_path, recwarn):
    place = shutil.copytree(tiny_generator, tmp_path / "model")
    program.generator = TranscriptGenerator(place, device="cpu")
    artifact = save(program, tmp_path / "artifact")
    assert json.loads((artifact / "config.json").read_text())["sub_models"] == {
        "generator": {"path": str(place), "digest": program.generator.digest}
    }
    loaded = load(artifact)
    assert loaded.generator.digest == program.generator.digest
    assert loaded.depth == 1
    assert load(artifact, generator=tiny_generator).generator.name == str(tiny_generator)
    assert [str(w.message) for w in recwarn if "sub-model" in str(w.message)] == []
    (place / "config.json").write_text((place / "config.json").read_text() + "\n")
    with pytest.warns(UserWarning, match="generator in .* missing or has changed"):
        assert load(artifact).generator is None


def test_what_is_no_generator_is_refused(tmp_path):
    with pytest.raises(CheckpointError, match="the folder must hold"):
        TranscriptGenerator(tmp_path / "nothing")
    base = write_base_model(tmp_path / "base")
    with pytest.raises(
        CheckpointError, match=r"lacks the control tokens; make one from it with `knowgap train rq-rag`"
    ):
        TranscriptGenerator(base)
