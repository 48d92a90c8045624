"""Training RA-ISF's sub-models: tiny models learn what is there to learn, and a run that is killed continues."""

import pytest
from safetensors.numpy import load_file

from knowgap.compiling.training import LanguageModelConfig
from knowgap.compiling.training.fit import fit as run
from knowgap.compiling.training.labelling import LabelledExample
from knowgap.compiling.training.sub_models import (
    base_card,
    encode_example,
    majority_agreement,
    measure_agreement,
    sub_model_job,
)
from knowgap.errors import CheckpointError, UsageError
from knowgap.lms.ra_isf.card import PROMPTS
from knowgap.lms.ra_isf.sub_models import load_sub_model
from tests.lms.ra_isf.tiny import write_language_model
from tests.retrieval.tiny import write_cross_encoder

WORDS = ["ferry", "harbour", "mill", "ship", "church", "tower", "bridge", "market"]
QUICK = LanguageModelConfig(epochs=12, learning_rate=5e-3, batch_size=8, max_length=128, warmup_ratio=0.0)


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
            question=f"Where was the builder of the {word} born?",
            label=[f"Who built the {word}?", "Where was #1 born?"],
        )
        for word in WORDS
    ]


@pytest.fixture(scope="module")
def bases(tmp_path_factory):
    folder, texts = tmp_path_factory.mktemp("bases"), [*PROMPTS.values(), "known unknown relevant irrelevant"]
    texts = [*texts * 4, *(e.question for e in [*judged("know"), *decomposed()])]
    small = {"causal": {"initializer_range": 0.05}, "seq2seq": {"initializer_factor": 1.0}}
    made = {
        kind: write_language_model(folder / kind, kind, texts=texts, vocabulary=400, **changes)
        for kind, changes in small.items()
    }
    return {**made, "cross_encoder": write_cross_encoder(folder / "cross_encoder", [*texts, "A passage."], seed=3)}


def fit(base, task, examples, output, config=QUICK):
    return run(sub_model_job(base_card(task, str(base), config), str(base), examples, output, config))


@pytest.mark.parametrize("kind", ["seq2seq", "causal", "cross_encoder"])
def test_a_judgement_is_learnt(bases, tmp_path, kind):
    examples = judged("relevant")
    untrained = load_sub_model("relevant", bases[kind], base_card("relevant", str(bases[kind]), QUICK))
    config = LanguageModelConfig(epochs=50, learning_rate=1e-2, batch_size=8, max_length=128, warmup_ratio=0.1)
    result = fit(bases[kind], "relevant", examples, tmp_path / "model", config)
    model = load_sub_model("relevant", tmp_path / "model")
    assert (model.card.kind, model.card.base, model.card.max_tokens) == (kind, kind, 128)
    assert result.steps == 100
    before, after = (sum(measure_agreement(each, examples)["agreement"]) / 16 for each in (untrained, model))
    assert sum(majority_agreement("relevant", examples, examples)["agreement"]) == 8
    assert after == 1.0 > before
    if kind == "cross_encoder":
        from sentence_transformers import CrossEncoder

        pairs = [(example.question, example.passage) for example in examples]
        expected = CrossEncoder(str(tmp_path / "model"), device="cpu").predict(pairs, show_progress_bar=False)
        assert model.relevant(pairs) == pytest.approx(expected.tolist(), abs=1e-4)


def test_decomposition_is_learnt(bases, tmp_path):
    config = LanguageModelConfig(epochs=60, learning_rate=1e-2, batch_size=8, max_length=128, warmup_ratio=0.0)
    examples = decomposed()
    fit(bases["causal"], "decompose", examples, tmp_path / "model", config)
    model = load_sub_model("decompose", tmp_path / "model")
    after, baseline = measure_agreement(model, examples), majority_agreement("decompose", examples, examples)
    assert sum(baseline["agreement"]) == 0
    assert sum(after["f1"]) > 0.85 * 8 > sum(baseline["f1"])
    assert model.decompose([examples[0].question])[0][1] == "Where was #1 born?"


def test_lora_leaves_a_plain_model(bases, tmp_path):
    config = LanguageModelConfig(epochs=1, learning_rate=5e-3, batch_size=8, max_length=128, lora_rank=2)
    fit(bases["seq2seq"], "know", judged("know"), tmp_path / "model", config)
    assert sorted(p.suffix for p in (tmp_path / "model").iterdir() if "adapter" in p.name) == []
    before, after = (load_file(folder / "model.safetensors") for folder in (bases["seq2seq"], tmp_path / "model"))
    changed = {name for name in before if (before[name] != after[name]).any()}
    assert changed
    assert "shared.weight" not in changed, "embeddings are frozen"


def test_the_loss_is_on_the_label_alone(bases):
    from transformers import AutoTokenizer

    for kind in ("causal", "seq2seq"):
        card = base_card("know", str(bases[kind]), QUICK)
        tokenizer = AutoTokenizer.from_pretrained(bases[kind])
        encoded = encode_example(tokenizer, card, judged("know")[0])
        learnt = [token for token in encoded["labels"] if token != -100]
        assert tokenizer.decode(learnt) == (" known</s>" if kind == "causal" else "known</s>")
        assert len(encoded["labels"]) == (len(encoded["input_ids"]) if kind == "causal" else len(learnt))
        if kind == "causal":
            assert encoded["input_ids"][-len(learnt) :] == learnt


def test_what_cannot_be_learnt_is_refused(bases, tmp_path):
    with pytest.raises(UsageError, match="all 8 examples of know have the same label"):
        fit(bases["causal"], "know", judged("know")[::2], tmp_path / "model")
    with pytest.raises(UsageError, match="max_length = 32: the instruction alone takes"):
        fit(bases["causal"], "know", judged("know"), tmp_path / "model", LanguageModelConfig(max_length=32))
    with pytest.raises(UsageError, match="reads at most 512 tokens"):
        base_card("know", str(bases["cross_encoder"]), LanguageModelConfig(max_length=1024))
    with pytest.raises(UsageError, match="cannot write text"):
        base_card("decompose", str(bases["cross_encoder"]), QUICK)
    with pytest.raises(CheckpointError, match="nowhere/at-all: no such folder"):
        base_card("know", str(tmp_path / "nowhere/at-all"), QUICK)
