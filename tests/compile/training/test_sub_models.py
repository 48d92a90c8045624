"""Training RA-ISF's sub-models: tiny models learn what is there to learn, and a run that is killed continues."""

from itertools import pairwise

import dspy
import pytest
from safetensors.numpy import load_file
from support import ScriptedEngine, TableRetriever, lm_of

from knowgap.compiling.data import Dataset
from knowgap.compiling.training import LanguageModelConfig, SubModelConfig, ra_isf
from knowgap.compiling.training.fit import fit as run
from knowgap.compiling.training.labelling import LabelledExample, predictor_of
from knowgap.compiling.training.sub_models import (
    as_conversation,
    is_cross_encoder,
    majority_agreement,
    measure_agreement,
    sub_model_job,
    untrained,
)
from knowgap.errors import CheckpointError, UsageError
from knowgap.lms.engines import system_text
from knowgap.lms.trained import load_trained
from knowgap.programs.ra_isf import RAISF
from knowgap.programs.trace.steps import Judged
from knowgap.retrieval.passage import Passage
from knowgap.storage.record_file import read_records
from tests.lms.local.tiny_models import write_language_model
from tests.retrieval.tiny import write_cross_encoder

WORDS = ["ferry", "harbour", "mill", "ship", "church", "tower", "bridge", "market"]
LEARN = LanguageModelConfig(epochs=60, learning_rate=1e-2, batch_size=8, max_length=512, warmup_ratio=0.0)
ONCE = LanguageModelConfig(epochs=1, learning_rate=5e-3, batch_size=8, max_length=512)


def asking(task):
    return predictor_of(RAISF(), task)


def judged(task):
    """Known, or relevant, is who built something; not when it was lost."""
    passage = "A passage." if task == "relevant" else ""
    questions = [(f"Who built the {w}?", f"When and where was the {w} lost?") for w in WORDS]
    return [
        LabelledExample(question=question, passage=passage, label=question.startswith("Who"))
        for pair in questions
        for question in pair
    ]


def decomposed():
    return [
        LabelledExample(
            question=f"Is the {a} older than the {b}?", label=[f"How old is the {a}?", f"How old is the {b}?"]
        )
        for a, b in pairwise(WORDS)
    ]


@pytest.fixture(scope="module")
def bases(tmp_path_factory):
    folder = tmp_path_factory.mktemp("bases")
    said = [(task, e) for task, made in (("know", judged("know")), ("relevant", judged("relevant"))) for e in made]
    said += [("decompose", e) for e in decomposed()]
    texts = [turn["content"] for task, e in said for turn in as_conversation(asking(task), e)]
    small = {"causal": {"initializer_range": 0.05}, "seq2seq": {"initializer_factor": 1.0}}
    made = {
        kind: write_language_model(folder / kind, kind, texts=texts, vocabulary=1000, **changes)
        for kind, changes in small.items()
    }
    short = [text for e in judged("know") for text in (e.question, "A passage.")]
    return {**made, "cross_encoder": write_cross_encoder(folder / "cross_encoder", short, seed=3)}


def fit(base, task, examples, output, config=ONCE):
    return run(sub_model_job(task, asking(task), str(base), examples, output, config))


@pytest.mark.long
def test_a_judgement_is_learnt_by_a_model_that_writes(bases, tmp_path):
    examples, kind = judged("know"), "causal"
    fit(bases[kind], "know", examples, tmp_path / "model", LEARN)
    model = load_trained("know", tmp_path / "model")
    before = sum(measure_agreement(untrained(str(bases[kind]), 0), asking("know"), examples)["agreement"])
    after = sum(measure_agreement(model, asking("know"), examples)["agreement"])
    assert sum(majority_agreement("know", examples, examples)["agreement"]) == 8
    assert after == 16 > before
    with dspy.context(lm=lm_of(ScriptedEngine(lambda outputs, inputs: {"answer": "Ada Moor"}))):
        trace = RAISF(TableRetriever({}), know=model)(question="Who built the mill?").trace
    assert [step.value for step in trace.of(Judged)] == [True]


def test_relevance_is_learnt_by_a_cross_encoder(bases, tmp_path):
    from sentence_transformers import CrossEncoder

    examples, base = judged("relevant"), bases["cross_encoder"]
    config = LanguageModelConfig(epochs=50, learning_rate=1e-2, batch_size=8, max_length=128, warmup_ratio=0.1)
    fit(base, "relevant", examples, tmp_path / "model", config)
    model = load_trained("relevant", tmp_path / "model")
    agreements = [measure_agreement(each, asking("relevant"), examples) for each in (untrained(str(base), 0), model)]
    assert sum(agreements[1]["agreement"]) == 16 > sum(agreements[0]["agreement"])
    pairs = [(example.question, example.passage) for example in examples]
    logits = CrossEncoder(str(tmp_path / "model"), device="cpu", activation_fn=None).predict(pairs)
    assert [score >= 0 for score in model.score(pairs)] == [value >= 0.5 for value in logits.tolist()]
    passage = Passage("p", "", "A passage.")
    program = RAISF(TableRetriever({"Who built the mill?": [passage]}), relevant=model, self_knowledge=False)
    with dspy.context(lm=lm_of(ScriptedEngine(lambda outputs, inputs: {"answer": "Ada Moor"}))):
        assert program(question="Who built the mill?").passages == [passage]


@pytest.mark.long
def test_decomposition_is_learnt(bases, tmp_path):
    examples = decomposed()
    fit(bases["causal"], "decompose", examples, tmp_path / "model", LEARN)
    after = measure_agreement(load_trained("decompose", tmp_path / "model"), asking("decompose"), examples)
    baseline = majority_agreement("decompose", examples, examples)
    assert sum(after["f1"]) > 0.85 * len(examples) > sum(baseline["f1"])


def test_the_papers_run_learns_sub_questions_that_the_papers_program_asks(bases, tmp_path):
    """A.3. A teacher that may number its answers does so, and the program would ask "Where was #1 born?" by itself."""

    class Teacher(ScriptedEngine):
        def complete(self, request):
            self.prompt = f"{system_text(request)}\n{request.messages[-1].text}"
            return super().complete(request)

        def reply(self, text, fields, inputs):
            chained = ["Who painted it?", "Where was #1 born?"]
            return {"questions": chained if "#1" in self.prompt else ["Who painted it?", "Where was its painter born?"]}

    question = dspy.Example(question="Where was the painter of it born?", answer="Wick").with_inputs("question")
    others = [dspy.Example(question=f"Question {n}?", answer="x").with_inputs("question") for n in range(4)]
    data, config = Dataset("data", {"train": [question, *others]}, [], ""), SubModelConfig.as_in_paper()
    teacher = lm_of(Teacher(lambda *_: {}))
    ra_isf(
        data, tmp_path, base=str(bases["causal"]), teacher=teacher, tasks=["decompose"], config=config,
        labels_only=True, num_threads=1,
    )  # fmt: skip
    labels = read_records(tmp_path / "decompose.jsonl", LabelledExample, "label")[1].values()
    assert len(labels) == 5
    assert not any("#" in part for label in labels for part in label.label)


def test_lora_leaves_a_plain_model(bases, tmp_path):
    fit(bases["seq2seq"], "know", judged("know"), tmp_path / "model", ONCE.model_copy(update={"lora_rank": 2}))
    assert sorted(p.suffix for p in (tmp_path / "model").iterdir() if "adapter" in p.name) == []
    before, after = (load_file(folder / "model.safetensors") for folder in (bases["seq2seq"], tmp_path / "model"))
    changed = {name for name in before if (before[name] != after[name]).any()}
    assert changed
    assert "shared.weight" not in changed, "embeddings are frozen"


def test_what_cannot_be_learnt_is_refused(bases, tmp_path):
    with pytest.raises(UsageError, match="all 8 examples of know have the same label"):
        fit(bases["causal"], "know", judged("know")[::2], tmp_path / "model")
    with pytest.raises(UsageError, match="max_length = 32: no prompt of know fits"):
        fit(bases["causal"], "know", judged("know"), tmp_path / "model", LanguageModelConfig(max_length=32))
    for task in ("know", "decompose"):
        with pytest.raises(UsageError, match="cannot write text"):
            is_cross_encoder(task, str(bases["cross_encoder"]), ONCE)
        with pytest.raises(CheckpointError, match="scores pairs of texts"):
            load_trained(task, bases["cross_encoder"])
    with pytest.raises(CheckpointError, match="nowhere/at-all: no such folder"):
        is_cross_encoder("know", str(tmp_path / "nowhere/at-all"), ONCE)
