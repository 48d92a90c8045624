"""Every kind of training that is interrupted ends with the weights of one that was not."""

from __future__ import annotations

from pathlib import Path

import pytest
from training_helpers import same_weights, write_tiny_bert

from knowgap.compiling.training import GeneratorConfig
from knowgap.compiling.training.config import LanguageModelConfig
from knowgap.compiling.training.fit import fit
from knowgap.compiling.training.generator import generator_job
from knowgap.compiling.training.reranker import reranker_job
from knowgap.compiling.training.sub_models import sub_model_job
from knowgap.programs.ra_isf import RAISF
from tests.compile.training.test_generator import RECORDS
from tests.compile.training.test_reranker import EXAMPLES, QUICK, pairs_of
from tests.compile.training.test_sub_models import judged
from tests.lms.local.tiny_models import TEXTS, write_language_model
from tests.lms.tiny_generator import write_base_model


@pytest.fixture(scope="module")
def make_job(tmp_path_factory: pytest.TempPathFactory):
    folder = tmp_path_factory.mktemp("bases")
    bert, llama = write_tiny_bert(folder / "bert"), write_base_model(folder / "llama")
    t5 = str(write_language_model(folder / "t5", "seq2seq", texts=TEXTS * 2))
    plain = LanguageModelConfig(epochs=5, learning_rate=1e-3, batch_size=8, max_length=4096)
    generator = {"epochs": 5, "learning_rate": 1e-3, "batch_size": 6, "gradient_accumulation": 1, "max_length": 512}
    return {
        "reranker": lambda to: reranker_job(pairs_of(EXAMPLES), to, base=str(bert), config=QUICK),
        "sub-model": lambda to: sub_model_job("know", RAISF().know, t5, judged("know"), to, plain),
        "generator": lambda to: generator_job(
            RECORDS, to, base=str(llama), config=GeneratorConfig(lora_rank=4, **generator)
        ),
    }


class Interrupted(Exception):
    """Stands for the end of a process."""


@pytest.mark.parametrize("kind", ["reranker", "sub-model", "generator"])
def test_an_interrupted_training_ends_with_the_same_weights(make_job, tmp_path: Path, kind: str):
    def stop(done: int, total: int, text: str) -> None:
        if done == total - 1:
            raise Interrupted

    whole = fit(make_job[kind](tmp_path / "whole"))
    with pytest.raises(Interrupted):
        fit(make_job[kind](tmp_path / "broken"), stop)
    continued = fit(make_job[kind](tmp_path / "broken"))
    assert 0 < continued.resumed_from < continued.steps
    assert continued.final_loss == whole.final_loss
    assert same_weights(whole.folder, continued.folder)
