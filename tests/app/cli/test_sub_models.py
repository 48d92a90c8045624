"""Options of commands that name trained sub-models: taken, or refused where they would have no effect."""

import pytest

from tests.lms.ra_isf.tiny import write_sub_model

ASK = ("ask", "Who designed the Orle Bridge?", "--index", "idx")


@pytest.fixture
def folders(tmp_path):
    write_sub_model(tmp_path / "know", "know", "cross_encoder")
    write_sub_model(tmp_path / "relevant", "relevant", "cross_encoder")
    write_sub_model(tmp_path / "decompose", "decompose", "causal", max_tokens=64)


def test_trained_models_judge(indexed, folders):
    options = ("--part", "know=know", "--part", "relevant=relevant", "--part", "decompose=decompose")
    thresholds = ("--set", "know_threshold=1", "--set", "relevance_threshold=0", "--set", "depth=0")
    steps = indexed.json(*ASK, "--program", "ra_isf", *options, *thresholds)["trace"]["steps"]
    by = {step["what"]: step["by"] for step in steps if step["kind"] == "judged"}
    assert by == {"self-knowledge": "know", "relevance": "relevant", "answerable": ""}


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--program", "rag", "--part", "know=know"], "--part know=know: the program rag has no know"),
        (["--program", "ra_isf", "--part", "know=relevant"], "is the sub-model 'relevant' of RA-ISF, not 'know'"),
        (["--program", "ra_isf", "--part", "know=nowhere"], "nowhere: not a sub-model of RA-ISF"),
        (
            ["--program", "ra_isf", "--part", "know=know", "--set", "self_knowledge=false"],
            "no effect, since self_knowledge is off",
        ),
        (["--program", "ra_isf", "--part", "relevant=relevant", "--set", "judge_together=true"], "judge_together asks"),
    ],
)
def test_a_model_without_effect_is_refused(indexed, folders, words, said):
    assert said in indexed.refusal(*ASK, *words)
