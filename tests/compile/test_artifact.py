"""Artifacts: a folder that another process loads by its name alone, and that can do no harm."""

import json
from pathlib import Path

import dspy
import pytest
from compile_helpers import make_retriever, reading_lm
from support import OverlapRetriever, TableReranker

from knowgap.compiling import compile, evaluate, load, save
from knowgap.compiling.data.dataset import Dataset
from knowgap.compiling.run import Run
from knowgap.errors import ArtifactError, CheckpointError, UsageError
from knowgap.lms.providers import load_trained
from knowgap.programs.baselines.rag import RAG
from knowgap.programs.knowgap import KnowGap
from knowgap.programs.ra_isf import RAISF
from knowgap.programs.rq_rag import RQRAG
from knowgap.retrieval import BM25Index
from knowgap.retrieval.passage import Passage
from knowgap.storage.files import folder_digest
from tests.tiny import LEARNT, write_base_model, write_cross_encoder, write_language_model


@pytest.fixture
def index(examples, tmp_path):
    return BM25Index.build(make_retriever(examples).passages, tmp_path / "index")


@pytest.fixture
def artifact(examples, index, tmp_path, lm):
    options = {"trainset": examples[:4], "optimizer": "bootstrap", "max_bootstrapped_demos": 2}
    compiled = compile(RAG(index, top_k=7), examples[:4], "exact_match", run=Run(lm), **options).program
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


@pytest.mark.parametrize(("file", "named"), [("config.json", "config.json"), ("program.json", "style")])
def test_a_folder_of_something_else_is_named_and_what_the_program_has_by_now(artifact, index, file, named):
    (artifact / file).write_text("{}")
    with pytest.raises(ArtifactError, match=named):
        load(artifact, retriever=index)


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


# With trained parts.

CORPUS = [Passage("moor", "Ada Moor", "Ada Moor was born in Wick.")]


@pytest.fixture
def folders(tmp_path):
    write_cross_encoder(tmp_path / "relevant", LEARNT)
    kinds = {"know": "causal", "decompose": "seq2seq"}
    made = {task: write_language_model(tmp_path / task, kind) for task, kind in kinds.items()}
    return {**made, "relevant": tmp_path / "relevant"}


@pytest.fixture
def models(folders):
    return {task: load_trained(task, folder) for task, folder in folders.items()}


@pytest.fixture
def trained(models, tmp_path):
    return save(RAISF(OverlapRetriever(CORPUS), **models), tmp_path / "artifact", lm="openai/any")


def name_of(program, task):
    part = program.cross_encoder if task == "relevant" else getattr(program, task).lm
    return getattr(part, "name", None) or getattr(part, "model", None)


def test_the_models_are_taken_again(trained, folders, recwarn):
    config = json.loads((trained / "config.json").read_text())
    digests = {task: folder_digest(folder) for task, folder in folders.items()}
    assert {task: config["models"][task] for task in folders} == {
        task: {"path": str(folders[task]), "digest": digests[task]} for task in folders
    }
    assert all(each[:16] in (trained / "card.md").read_text() for each in digests.values())
    loaded = load(trained, lm=dspy.LM("openai/any"))
    named = {"know": f"hf/{folders['know']}", "decompose": f"hf/{folders['decompose']}"}
    assert {task: name_of(loaded, task) for task in folders} == {**named, "relevant": str(folders["relevant"])}
    assert loaded.answer.lm.model == loaded.relevant.lm.model == "openai/any"
    assert [str(w.message) for w in recwarn if "another know" in str(w.message)] == []


def test_models_that_are_given_go_over_those_recorded_and_what_differs_is_told(trained, models, folders, tmp_path):
    other = write_language_model(tmp_path / "other", "causal", seed=2)
    with pytest.warns(UserWarning, match="compiled with another know"):
        loaded = load(trained, know=str(other), relevant=models["relevant"])
    assert (name_of(loaded, "know"), loaded.cross_encoder) == (f"hf/{other}", models["relevant"])
    write_language_model(folders["know"], "causal", seed=3)
    with pytest.warns(UserWarning, match="compiled with another know"):
        load(trained)


@pytest.mark.parametrize("path", ["no/such/folder", "meta-llama/Llama-2-7b-hf", "model@http://evil.example"])
def test_a_model_that_is_gone_is_refused_and_a_file_names_none_on_the_hub_and_no_server(trained, path):
    edit(trained / "config.json", lambda config: config["models"]["know"].update(path=path))
    with pytest.raises(ArtifactError, match="know=FOLDER"):
        load(trained)


def test_a_generator_needs_no_other_language_model_and_is_taken_again(tiny_generator, examples, tmp_path):
    program = RQRAG(OverlapRetriever(CORPUS), generator=load_trained("generator", tiny_generator), depth=1)
    result = evaluate(program, examples[:2], ["exact_match"], output=tmp_path / "answers.jsonl")
    assert result.provenance.lm == f"hf/{tiny_generator}"
    assert result.provenance.models["generator"]["digest"] == folder_digest(tiny_generator)
    assert all(record.cost.lm_calls >= 1 for record in result.records)
    loaded = load(save(program, tmp_path / "artifact", lm=program.generator), lm=program.generator)
    assert (loaded.generator.model, loaded.depth) == (f"hf/{tiny_generator}", 1)


@pytest.mark.parametrize("where", ["nothing", "./base", "base"])
def test_what_is_no_generator_is_refused(tmp_path, monkeypatch, where):
    monkeypatch.chdir(tmp_path)
    write_base_model(tmp_path / "base")
    with pytest.raises(CheckpointError if "base" in where else UsageError):
        load_trained("generator", where)
