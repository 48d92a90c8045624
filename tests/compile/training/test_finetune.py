"""A local model is finetuned on the right runs of a program, through DSPy's BootstrapFinetune."""

from __future__ import annotations

import json
from pathlib import Path

import dspy
import pytest
from support import scripted_lm

from knowgap.compiling import load, save
from knowgap.compiling.training import LanguageModelConfig
from knowgap.compiling.training.finetune import finetune_program
from knowgap.errors import UsageError
from knowgap.lms import make_lm
from knowgap.programs import get_program
from tests.lms.local.tiny import write_chat_model

EXAMPLES = [
    dspy.Example(question=f"who wrote book {n}?", answer="Ada" if n % 2 else "Bo", aliases=[]).with_inputs("question")
    for n in range(4)
]
CONFIG = LanguageModelConfig(epochs=3, learning_rate=1e-2, batch_size=2, max_length=4096)


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_chat_model(tmp_path_factory.mktemp("base") / "chat", max_position_embeddings=8192)


def always(answer: str):
    return scripted_lm(lambda outputs, inputs: {**dict.fromkeys(outputs, "because"), "answer": answer})[0]


def test_the_calls_of_right_runs_are_trained_on(base: Path, tmp_path: Path):
    program = get_program("direct")()
    lm, lines = make_lm(f"hf/{base}", max_new_tokens=4), []
    tuned = finetune_program(
        program,
        EXAMPLES,
        tmp_path / "model",
        metric="exact_match",
        lm=lm,
        teacher_lm=always("Ada"),
        config=CONFIG,
        progress=lambda *report: lines.append(report),
    )
    made = json.loads((tmp_path / "model" / "training.json").read_text(encoding="utf-8"))
    assert made["made_from"]["examples"] == 2  # of four questions, two are answered by Ada
    assert made["made_from"]["kind"] == "finetune"
    assert (tuned.training.steps, tuned.lm.model) == (3, f"hf/{tmp_path / 'model'}")
    assert tuned.lm.kwargs["max_tokens"] == 4
    assert {text for *_, text in lines if "loss" not in text} == {"questions asked"}
    assert all(predictor.lm is None for predictor in tuned.program.predictors())
    with dspy.context(lm=tuned.lm):
        assert isinstance(tuned.program(question="who wrote book 9?").answer, str)
    folder = save(tuned.program, tmp_path / "artifact", lm=tuned.lm)
    assert load(folder, lm=tuned.lm).name == "direct"
    assert json.loads((folder / "config.json").read_text(encoding="utf-8"))["lm"] == tuned.lm.model


@pytest.mark.parametrize("kind", ["causal", "seq2seq"])
def test_only_the_tokens_of_the_reply_count(base: Path, tmp_path: Path, kind: str):
    from knowgap.compiling.training.language_model import conversation_row
    from knowgap.lms.local.loading import load_model

    folder = base if kind == "causal" else write_chat_model(tmp_path / "t5", "seq2seq")
    local = load_model(str(folder), "cpu")
    messages = [{"role": "user", "content": "who wrote it?"}, {"role": "assistant", "content": "Ada"}]
    row = conversation_row(local, messages)
    labels = [label for label in row["labels"] if label != -100]
    assert local.tokenizer.decode(labels[:-1]) == "Ada"
    assert labels[-1] in local.end_ids
    assert (len(row["labels"]) == len(row["input_ids"])) == (kind == "causal")
    assert "Ada" not in local.tokenizer.decode(row["input_ids"][: len(row["input_ids"]) - len(labels)])


def test_what_cannot_be_finetuned_is_said(base: Path, tmp_path: Path):
    program = get_program("direct")()
    settings = {"metric": "exact_match", "config": CONFIG}
    with pytest.raises(UsageError, match=r"only a local model \(hf/PATH\) can be finetuned"):
        finetune_program(program, EXAMPLES, tmp_path / "model", lm=always("Ada"), **settings)
    lm = make_lm(f"hf/{base}")
    with pytest.raises(UsageError, match="no training question is answered rightly"):
        finetune_program(program, EXAMPLES, tmp_path / "model", lm=lm, teacher_lm=always("Zoe"), **settings)
    short = {**settings, "config": LanguageModelConfig(max_length=16)}
    with (
        pytest.warns(UserWarning, match="2 of 2 calls are longer than 16 tokens: left out"),
        pytest.raises(UsageError, match="there is nothing to train on"),
    ):
        finetune_program(program, EXAMPLES, tmp_path / "model", lm=lm, teacher_lm=always("Ada"), **short)
    assert not (tmp_path / "model").exists()
