"""A causal model learns to write transcripts."""

from __future__ import annotations

import dspy
import pytest
from dspy.lm15 import Message, Response, Usage
from safetensors.numpy import load_file
from support import OverlapRetriever, scripted_lm

from knowgap.compiling.data import Dataset
from knowgap.compiling.evaluation import evaluator
from knowgap.compiling.run import Run
from knowgap.compiling.training import GeneratorConfig, rq_rag
from knowgap.compiling.training.fit import fit
from knowgap.compiling.training.generator import generator_job
from knowgap.compiling.training.transcripts import SearchStep, TranscriptRecord
from knowgap.errors import LanguageModelError, UsageError
from knowgap.lms.trained import load_trained
from knowgap.programs.rq_rag import RQRAG
from knowgap.programs.trace.steps import Selected
from knowgap.retrieval.passage import Passage
from tests.lms.tiny_generator import write_base_model

PASSAGES = [Passage(name, name, f"{name} is old.") for name in ("Orle", "Tarn", "Venn", "Moss", "Fell", "Dune")]
SMALL = {"batch_size": 6, "gradient_accumulation": 1, "max_length": 512}
CONFIG = GeneratorConfig(epochs=30, learning_rate=5e-3, seed=1, **SMALL)


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


def test_held_out_transcripts_can_be_read(base, tmp_path):
    dropped = record(PASSAGES[5]).model_copy(update={"dropped": "no query", "id": "dropped"})
    job, too_long = generator_job([*RECORDS, dropped], tmp_path / "generator", base=base, config=CONFIG)
    assert (job.examples, too_long) == (12, [])
    result = fit(job)
    assert (result.steps, result.folder) == (60, tmp_path / "generator")
    generator = load_trained("generator", tmp_path / "generator")
    program = RQRAG(OverlapRetriever(PASSAGES), generator=generator, depth=1, top_k=1)
    costs = [program(question=f"How old is {passage.id}?").trace.cost for passage in PASSAGES[4:]]
    calls, unreadable = (sum(getattr(cost, name) for cost in costs) for name in ("lm_calls", "unreadable"))
    assert calls >= 8
    assert unreadable / calls < 0.3
    assert sum(cost.cut for cost in costs) == 0


def test_with_lora_the_new_tokens_are_learnt_and_the_matrices_merged(base, tmp_path):
    config = GeneratorConfig(epochs=2, learning_rate=1e-3, lora_rank=4, **SMALL)
    fit(generator_job(RECORDS, tmp_path / "one", base=base, config=config)[0])
    before, after = load_file(f"{base}/model.safetensors"), load_file(tmp_path / "one" / "model.safetensors")
    words = before["model.embed_tokens.weight"].shape[0]
    assert after["model.embed_tokens.weight"].shape[0] == words + 7
    assert (after["model.embed_tokens.weight"][:words] == before["model.embed_tokens.weight"]).all()
    changed = "model.layers.0.self_attn.q_proj.weight"
    assert (before[changed] != after[changed]).any()
    assert load_trained("generator", tmp_path / "one")("Who?", max_tokens=4)


def test_what_cannot_be_trained_is_refused(base, tmp_path):
    with pytest.raises(LanguageModelError, match="cannot be loaded"):
        generator_job(RECORDS, tmp_path / "none", base=str(tmp_path / "nothing"), config=CONFIG)
    job, too_long = generator_job(RECORDS, tmp_path / "none", base=base, config=GeneratorConfig(max_length=4))
    assert len(too_long) == 12
    with pytest.raises(UsageError, match="nothing to train on"):
        fit(job)


def test_the_trained_generator_is_measured_with_the_papers_tree(base, tmp_path, monkeypatch):
    """Section 2.3: all 1 + 3 + 9 answers, also if the first ones are sure, and the ensemble of them."""
    measured, evaluate = [], evaluator.evaluate

    def recorded(program, *args, **kwargs):
        measured.append(program)
        return evaluate(program, *args, **kwargs)

    monkeypatch.setattr("knowgap.compiling.training.generator.evaluate", recorded)
    examples = [
        dspy.Example(id=p.id, question=f"How old is {p.id}?", answer="old", aliases=["old"]).with_inputs("question")
        for p in PASSAGES
    ]
    rule = {"queries": ["age"], "answer": "old", "supported": True, "search": True}
    teacher, _ = scripted_lm(lambda outputs, inputs: {name: rule[name] for name in outputs})
    made = rq_rag(
        Dataset("data", {"train": examples[:3], "test": examples[3:]}, PASSAGES, ""),
        OverlapRetriever(PASSAGES),
        tmp_path / "made",
        base=base,
        config=GeneratorConfig.as_in_paper(**SMALL),
        limit=1,
        run=Run(teacher),
    )
    assert [*made.scores] == ["trained, no search", "trained"]
    *_, program = measured

    class Sure:
        """Writes another query at every node, and the same answer without a doubt."""

        supported_params = frozenset({"stop", "logprobs"})

        def complete(self, request):
            prompt = request.messages[-1].text
            text = "old" if prompt.endswith("[A_Response]") else f"Orle {prompt.count('[EOS]')} {prompt[-9:-1]}"
            reply = Message.assistant(text)
            return Response(id=None, model="sure", message=reply, finish_reason="stop", usage=Usage(1, 1))

    program.generator = dspy.LM("tests/sure", engine=Sure(), cache=False)
    prediction = program(question="How old is Orle?")
    assert len(prediction.answers) == 13
    assert prediction.trace.of(Selected)[0].strategy == "ensemble"
