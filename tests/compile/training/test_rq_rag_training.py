"""A causal model learns to write transcripts; a killed run ends with the weights of one that was not."""

from __future__ import annotations

import pytest
from safetensors.numpy import load_file
from support import OverlapRetriever

from knowgap.compiling.training.config import TrainingConfig
from knowgap.compiling.training.rq_rag.records import SearchStep, TranscriptRecord
from knowgap.compiling.training.rq_rag.train import GENERATOR_CONFIG, GeneratorTraining
from knowgap.errors import LanguageModelError, UsageError
from knowgap.lms.rq_rag.generator import TranscriptGenerator
from knowgap.programs.rq_rag import RQRAG
from knowgap.retrieval.passage import Passage
from tests.lms.rq_rag.tiny import write_base_model

PASSAGES = [Passage(name, name, f"{name} is old.") for name in ("Orle", "Tarn", "Venn", "Moss", "Fell", "Dune")]
CONFIG = TrainingConfig(epochs=30, learning_rate=5e-3, batch_size=6, warmup_ratio=0.03, max_length=512, seed=1)


def record(passage, action="rewrite"):
    return TranscriptRecord(
        id=f"{passage.id}-{action}",
        kind="single_hop",
        question=f"How old is {passage.id}?",
        steps=[SearchStep(action=action, query="age", passages=[passage.to_dict()])],
        answer="old",
    )


RECORDS = [record(passage, action) for passage in PASSAGES[:4] for action in ("rewrite", "decompose", "disambiguate")]


@pytest.fixture(scope="module")
def base(tmp_path_factory):
    return str(write_base_model(tmp_path_factory.mktemp("base") / "llama"))


class Interrupted(Exception):
    """The end of a process, as far as a test can stand it."""


def stop_at(step):
    def progress(done, total=None, text=""):
        if done == step:
            raise Interrupted

    return progress


def test_held_out_transcripts_can_be_read(base, tmp_path):
    dropped = record(PASSAGES[5]).model_copy(update={"dropped": "no query", "id": "dropped"})
    training = GeneratorTraining([*RECORDS, dropped], base, config=CONFIG)
    assert (training.examples, training.too_long) == (12, [])
    result = training.run(tmp_path / "generator")
    assert (result.steps, result.folder) == (60, tmp_path / "generator")
    generator = TranscriptGenerator(tmp_path / "generator", device="cpu", max_new_tokens=24)
    program = RQRAG(OverlapRetriever(PASSAGES), generator=generator, depth=1, top_k=1)
    costs = [program(question=f"How old is {passage.id}?").trace.cost for passage in PASSAGES[4:]]
    calls, unreadable = (sum(getattr(cost, name) for cost in costs) for name in ("lm_calls", "unreadable"))
    assert calls >= 8
    assert unreadable / calls < 0.3
    training.save_untrained(tmp_path / "untrained")
    untrained = RQRAG(program.retriever, generator=TranscriptGenerator(tmp_path / "untrained", max_new_tokens=24))
    cost = untrained(question="How old is Fell?").trace.cost
    assert cost.unreadable == cost.lm_calls


@pytest.mark.parametrize("rank", [None, 4])
def test_a_killed_run_ends_with_the_same_weights(base, tmp_path, rank):
    config = TrainingConfig(epochs=5, learning_rate=1e-3, batch_size=6, max_length=512, lora_rank=rank)
    one = GeneratorTraining(RECORDS, base, config=config).run(tmp_path / "one")
    with pytest.raises(Interrupted):
        GeneratorTraining(RECORDS, base, config=config).run(tmp_path / "two", progress=stop_at(5))
    two = GeneratorTraining(RECORDS, base, config=config).run(tmp_path / "two")
    assert two.resumed_from > 0
    assert two.final_loss == pytest.approx(one.final_loss)
    weights, others = (load_file(tmp_path / name / "model.safetensors") for name in ("one", "two"))
    assert weights.keys() == others.keys()
    assert all((weights[name] == others[name]).all() for name in weights)
    before = load_file(f"{base}/model.safetensors")
    assert weights["model.embed_tokens.weight"].shape[0] == before["model.embed_tokens.weight"].shape[0] + 7
    new, old = (w["model.layers.0.self_attn.q_proj.weight"] for w in (weights, before))
    assert (new != old).any()
    assert TranscriptGenerator(tmp_path / "one", max_new_tokens=4).start("Who?", "short").write([("", "answer")])


def test_the_defaults_are_the_papers():
    assert (GENERATOR_CONFIG.learning_rate, GENERATOR_CONFIG.epochs, GENERATOR_CONFIG.max_length) == (2e-5, 1.0, 4096)
    assert GENERATOR_CONFIG.warmup_ratio == 0.03


def test_what_cannot_be_trained_is_refused(base, tmp_path):
    with pytest.raises(LanguageModelError, match="the base model"):
        GeneratorTraining(RECORDS, str(tmp_path / "nothing"))
    short = TrainingConfig(max_length=4)
    training = GeneratorTraining(RECORDS, base, config=short)
    assert len(training.too_long) == 12
    with pytest.raises(UsageError, match="nothing to train on"):
        training.run(tmp_path / "none")
