"""Artifacts: a folder that another process loads by its name alone, and that can do no harm."""

import json
from pathlib import Path

import pytest
from compile_helpers import make_retriever, reading_lm
from support import TableReranker

from knowgap.compiling import compile, evaluate, load, save
from knowgap.compiling.data.dataset import Dataset
from knowgap.compiling.run import Run
from knowgap.programs.baselines.rag import RAG
from knowgap.programs.knowgap import KnowGap
from knowgap.programs.rq_rag import RQRAG
from knowgap.retrieval import BM25Index

TESTS = Path(__file__).parents[1]


@pytest.fixture
def index(examples, tmp_path):
    return BM25Index.build(make_retriever(examples).passages, tmp_path / "index")


@pytest.fixture
def compiled(examples, index, lm):
    options = {"trainset": examples[:4], "optimizer": "bootstrap", "max_bootstrapped_demos": 2}
    return compile(RAG(index, top_k=7), examples[:4], "exact_match", run=Run(lm), **options).program


@pytest.fixture
def artifact(compiled, examples, tmp_path, lm):
    lm.kwargs.update(api_key="sk-secret", api_base="http://10.0.0.1:8000", temperature=0.0)
    data = Dataset("houses", {"train": examples[:4], "dev": [], "test": examples[4:]}, [], "f" * 64)
    found = {"test": evaluate(compiled, data, ["exact_match", "f1"], split="test", run=Run(lm=reading_lm()[0]))}
    compiled.set_lm(lm)
    return save(compiled, tmp_path / "artifact", lm=lm, data=data, evaluations=found)


def edit(path: Path, change) -> None:
    """Change a file of an artifact as a user may."""
    value = json.loads(path.read_text())
    change(value)
    path.write_text(json.dumps(value))


def test_round_trip(artifact, compiled, index, examples, lm):
    assert load(artifact, retriever=index, lm=lm).answer.lm is lm
    loaded = load(artifact, retriever=index)
    assert (type(loaded), loaded.answer.lm) == (RAG, None)
    assert loaded.values() == compiled.values()
    assert [d["question"] for d in loaded.answer.demos] == [d["question"] for d in compiled.answer.demos]
    assert len(loaded.answer.demos) == 2
    compiled.set_lm(None)
    before, after = (evaluate(p, examples, "f1", run=Run(lm=reading_lm()[0])).records for p in (compiled, loaded))
    assert [(r.answer, r.cost.prompt_tokens) for r in before] == [(r.answer, r.cost.prompt_tokens) for r in after]


def test_the_folder_says_what_it_is(artifact):
    assert sorted(path.name for path in artifact.iterdir()) == ["card.md", "config.json", "program.json"]
    config = json.loads((artifact / "config.json").read_text())
    assert (config["program"], config["lm"]) == ("rag", "test/scripted")
    assert config["lm_settings"].keys() == {"temperature", "endpoint"}  # a digest of the address
    assert config["lm_settings"]["temperature"] == 0.0
    splits = {"train": 4, "dev": 0, "test": 4}
    assert config["data"] == {"name": "houses", "fingerprint": "f" * 64, "splits": splits, "passages": 0}
    assert config["retriever"]["name"] == "bm25"
    assert config["state"] == config["evaluations"]["test"]["state"]
    assert config["evaluations"]["test"]["split"] == "test"
    assert config["evaluations"]["test"]["scores"]["f1"]["n"] == 4
    card = (artifact / "card.md").read_text()
    assert "- test: f1: 1.000 [1.000, 1.000] of 4 questions, 0 failed" in card
    assert "- `top_k` = `7`: passages retrieved and read; default `5`" in card
    everything = "".join(path.read_text() for path in artifact.iterdir())
    assert not [secret for secret in ("sk-secret", "10.0.0.1", str(artifact.parent)) if secret in everything]


def test_nothing_but_demonstrations_and_settings_is_taken(artifact, index, examples):
    """An endpoint, an LM, or any other attribute written into the file stays there."""

    def poison(state):
        config = {"api_base": "http://evil.example", "engine": "x"}
        lm = {"model": "openai/x", "api_base": "http://evil.example", "engine": {"class": "os:system"}}
        state["answer"] |= {"config": config, "lm": lm, "callbacks": ["x"], "forward": "x", "__class__": "x"}
        state["retriever"] = {"value": "x"}

    edit(artifact / "program.json", poison)
    loaded = load(artifact, retriever=index)
    assert (loaded.answer.config, loaded.answer.lm, loaded.answer.callbacks) == ({}, None, [])
    assert "forward" not in vars(loaded.answer)
    assert loaded.retriever is index
    assert evaluate(loaded, examples, "f1", run=Run(lm=reading_lm()[0])).mean() == 1.0


@pytest.mark.parametrize("part", ["reranker", "generator"])
def test_a_model_that_is_not_given_is_warned_of(index, lm, tmp_path, recwarn, part):
    reranker = TableReranker(lambda query, text: 1.0)
    program = KnowGap(index, reranker=reranker, delta=1.0) if part == "reranker" else RQRAG(index, generator=lm)
    folder = save(program, tmp_path / part, lm=lm)
    load(folder, retriever=index, lm=lm, **{part: reranker if part == "reranker" else lm})
    assert not recwarn
    with pytest.warns(UserWarning, match=f"the {part} {'table' if part == 'reranker' else lm.model}"):
        load(folder, retriever=index, lm=lm)


def test_differences_are_warned_of(artifact, examples, tmp_path, lm):
    other = BM25Index.build(make_retriever(examples[:3]).passages, tmp_path / "other")
    lm.model = "test/another"
    edit(artifact / "config.json", lambda config: config["versions"].update(dspy="3.3.0"))
    with pytest.warns(UserWarning, match="compiled with another") as caught:
        load(artifact, retriever=other, lm=lm)
    said = [str(warning.message) for warning in caught]
    assert len(said) == 3
    for what in ("index", "language model: test/scripted, not test/another", "DSPy version: 3.3.0"):
        assert any(f"compiled with another {what}" in line for line in said)
