"""RQ-RAG's generator on the command line: it answers in place of a language model."""

import pytest

from tests.lms.tiny_generator import write_base_model

ASK = ("ask", "Who painted The Grey Ferry?", "--index", "idx", "--program", "rq_rag", "--part", "generator=gen")


@pytest.fixture
def generator(indexed, tiny_generator):
    (indexed.folder / "gen").symlink_to(tiny_generator)


def test_it_answers(indexed, generator):
    trace = indexed.json(*ASK, "--set", "preset=multi_hop", "--set", "depth=1")["trace"]
    assert {step["kind"] for step in trace["steps"]} >= {"refined", "retrieved", "answered", "selected"}
    queries = {step["query"] for step in trace["steps"] if step["kind"] == "refined"}
    assert trace["cost"]["lm_calls"] == 3 + 1 + len(queries)  # children that ask the same are answered once
    assert [step for step in trace["steps"] if step["kind"] == "judged"] == []


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--program", "rag"], "--part generator=gen: the program rag has no generator"),
        (["--part", "generator=base"], "its tokenizer lacks the control tokens"),
        (["--part", "generator=./nowhere"], "no model at './nowhere'"),
    ],
)
def test_what_has_no_effect_is_refused(indexed, generator, words, said):
    write_base_model(indexed.folder / "base")
    assert said in indexed.refusal(*ASK, *words)


def test_demonstrations_are_of_no_use_to_it(indexed, generator):
    said = indexed.refusal("compile", *ASK[2:], "--optimizer", "bootstrap")
    assert "does not work with a generator, which reads no prompts" in said
