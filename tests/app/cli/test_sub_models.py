"""Options of commands that name trained sub-models: taken, or refused where they cannot be that part."""

import pytest

from tests.lms.local.tiny_models import TEXTS, write_language_model
from tests.retrieval.tiny import write_cross_encoder

ASK = ("ask", "Who designed the Orle Bridge?", "--index", "idx")


@pytest.fixture
def folders(tmp_path):
    write_cross_encoder(tmp_path / "relevant", TEXTS)
    write_language_model(tmp_path / "know", "causal")


def test_trained_models_judge(indexed, folders):
    options = ("--part", "know=know", "--part", "relevant=relevant", "--set", "relevance_threshold=0")
    answered = indexed.json(*ASK, "--program", "ra_isf", *options, "--set", "depth=0")
    steps = answered["trace"]["steps"]
    judged = [(step["what"], step["value"], step["by"]) for step in steps if step["kind"] == "judged"]
    assert judged == [("self-knowledge", False, ""), ("relevance", True, "relevant")]
    assert [step["act"] for step in steps if step["kind"] == "malformed"] == ["know"], "it was not trained"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--program", "rag", "--part", "know=know"], "--part know=know: the program rag has no know"),
        (["--program", "ra_isf", "--part", "know=relevant"], "relevant scores pairs of texts and writes none"),
        (["--program", "ra_isf", "--part", "know=nowhere"], "nowhere: no model"),
    ],
)
def test_what_cannot_be_a_part_is_refused(indexed, folders, words, said):
    assert said in indexed.refusal(*ASK, *words)
