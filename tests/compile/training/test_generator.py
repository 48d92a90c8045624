"""A causal model learns to write transcripts."""

from __future__ import annotations

import dspy
import pytest
from safetensors.numpy import load_file
from support import OverlapRetriever, scripted_lm

from knowgap.compiling.data import Dataset
from knowgap.compiling.run import Run
from knowgap.compiling.training import train
from knowgap.compiling.training.config import GeneratorConfig
from knowgap.compiling.training.generator import SearchStep, TranscriptRecord, train_generator
from knowgap.lms.providers import load_trained
from knowgap.programs.rq_rag import RQRAG
from knowgap.retrieval.passage import Passage
from tests.lms.tiny_generator import write_base_model

PASSAGES = [Passage(name, name, f"{name} is old.") for name in ("Orle", "Tarn", "Venn", "Moss", "Fell", "Dune")]
SMALL = {"batch_size": 6, "gradient_accumulation": 1, "max_length": 512}
CONFIG = GeneratorConfig(epochs=30, learning_rate=5e-3, seed=1, **SMALL)


def record(passage, action="rewrite"):
    return TranscriptRecord(
        id=f"{passage.id}-{action}",
        action=action,
        question=f"How old is {passage.id}?",
        steps=[SearchStep(query="age", passages=[passage])],
        answer="old",
    )


RECORDS = [record(passage, action) for passage in PASSAGES[:4] for action in ("rewrite", "decompose", "disambiguate")]


@pytest.fixture(scope="module")
def base(tmp_path_factory):
    return str(write_base_model(tmp_path_factory.mktemp("base") / "llama"))


def test_held_out_transcripts_can_be_read(base, tmp_path):
    dropped = record(PASSAGES[5]).model_copy(update={"dropped": "no query", "id": "dropped"})
    result = train_generator([*RECORDS, dropped], tmp_path / "generator", base, CONFIG)
    assert (result.examples, result.steps, result.folder) == (12, 60, tmp_path / "generator")
    generator = load_trained("generator", tmp_path / "generator")
    program = RQRAG(OverlapRetriever(PASSAGES), generator=generator, depth=1, top_k=1)
    costs = [program(question=f"How old is {passage.id}?").trace.cost for passage in PASSAGES[4:]]
    calls, unreadable = (sum(getattr(cost, name) for cost in costs) for name in ("lm_calls", "unreadable"))
    assert calls >= 8
    assert unreadable / calls < 0.3
    assert sum(cost.cut for cost in costs) == 0


def test_with_lora_the_new_tokens_are_learnt_and_the_matrices_merged(base, tmp_path):
    config = GeneratorConfig(epochs=2, learning_rate=1e-3, lora_rank=4, **SMALL)
    train_generator(RECORDS, tmp_path / "one", base, config)
    before, after = load_file(f"{base}/model.safetensors"), load_file(tmp_path / "one" / "model.safetensors")
    words = before["model.embed_tokens.weight"].shape[0]
    assert after["model.embed_tokens.weight"].shape[0] == words + 7
    assert (after["model.embed_tokens.weight"][:words] == before["model.embed_tokens.weight"]).all()
    changed = "model.layers.0.self_attn.q_proj.weight"
    assert (before[changed] != after[changed]).any()
    assert load_trained("generator", tmp_path / "one")("Who?", max_tokens=4)


def test_a_teachers_transcripts_are_learnt_and_those_too_long_counted(base, tmp_path):
    examples = [dspy.Example(id=p.id, question=f"How old is {p.id}?", answer="old") for p in PASSAGES[:2]]
    examples[1].question = "How " + "very " * 200 + "old is Tarn?"
    rule = {"queries": ["age"], "answer": "old", "search": True}
    teacher, _ = scripted_lm(lambda outputs, inputs: {name: rule[name] for name in outputs})
    data = Dataset("data", {"train": examples}, PASSAGES, "")
    [made] = train("rq-rag", data, OverlapRetriever(PASSAGES), tmp_path / "made", base=base, run=Run(teacher), **SMALL)
    assert (made.examples, made.steps) == (1, 1)
    assert all(part in made.notes[0] for part in ("2 kept, rewrite", "1 too long", "4 calls"))
    assert (tmp_path / "made-transcripts.jsonl").exists()
