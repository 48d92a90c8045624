"""Strangers' models: folders are not looked up on the hub, no code is run, and wrong or damaged ones are refused."""

import importlib
import json
import os
import pickle
import shutil
from contextlib import ExitStack, suppress

import huggingface_hub
import pytest
from threadpoolctl import threadpool_info, threadpool_limits

import knowgap
from knowgap.errors import CheckpointError, LanguageModelError
from knowgap.lms.local import LocalModel
from knowgap.retrieval import ColBERTIndex, DenseIndex, Passage, make_entailment, make_reranker, open_index
from knowgap.retrieval.hub import model_digest, model_folder, one_thread
from tests.tiny import write_bi_encoder, write_colbert, write_cross_encoder, write_language_model

TEXTS = ["A lighthouse on the cape.", "Ada Venn built the bridge."]
PASSAGES = [Passage(str(number), "", text) for number, text in enumerate(TEXTS)]
PAIR = [("Who built it?", TEXTS[1])]
USES = {
    "reranker": ("cross", lambda name: make_reranker(name).score(PAIR)),
    "entailment": ("cross", lambda name: make_entailment(name).entails(PAIR)),
    "T5": ("t5", lambda name: make_entailment(name).entails(PAIR)),
    "dense": ("bi", lambda name: DenseIndex.build(PASSAGES, "dense-index", encoder=name).search(["bridge"], 1)),
    "colbert": ("colbert", lambda name: ColBERTIndex.build(PASSAGES, "index", encoder=name).search(["bridge"], 1)),
    "language model": ("lm", LocalModel),
}


@pytest.fixture(scope="module")
def models(tmp_path_factory):
    folder = tmp_path_factory.mktemp("models")
    kinds = {"cross": write_cross_encoder, "bi": write_bi_encoder, "colbert": write_colbert}
    for name, write in kinds.items():
        write(folder / name, TEXTS)
    for name, kind in (("lm", "causal"), ("t5", "seq2seq")):
        write_language_model(folder / name, kind)
    return folder


@pytest.fixture
def here(models, tmp_path, monkeypatch):
    """The current folder, with copies of the models; their names are those of repositories, too."""
    shutil.copytree(models, tmp_path, dirs_exist_ok=True)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def asked(monkeypatch):
    """The URLs that the Hugging Face hub is asked for; it answers with 404."""
    urls = []
    theirs = importlib.import_module(type(huggingface_hub.get_session()).__module__.partition(".")[0])

    def answer(request):
        urls.append(str(request.url))
        return theirs.Response(404, headers={"X-Error-Code": "RepoNotFound"})

    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", False)
    huggingface_hub.set_client_factory(lambda: theirs.Client(transport=theirs.MockTransport(answer)))
    yield urls
    huggingface_hub.set_client_factory(theirs.Client)


@pytest.mark.parametrize("use", USES)
def test_a_name_that_the_user_gives_is_looked_up(here, asked, use):
    _, load = USES[use]
    with pytest.raises((CheckpointError, LanguageModelError), match="someone/model"):
        load("someone/model")
    assert any("someone/model" in url for url in asked)


@pytest.mark.parametrize("use", USES)
@pytest.mark.parametrize("file", ["config.json", "tokenizer_config.json"])
def test_a_folder_is_not_looked_up_and_its_code_not_run(here, asked, monkeypatch, use, file):
    kind, load = USES[use]
    load(kind)
    for index in here.glob("*index"):
        shutil.rmtree(index)
    (here / kind / "evil.py").write_text(f"open({str(here / 'ran')!r}, 'w')\nclass Evil: pass\n", encoding="utf-8")
    settings = json.loads((here / kind / file).read_text(encoding="utf-8"))
    classes = dict.fromkeys(("AutoConfig", "AutoModel", "AutoModelForCausalLM"), "evil.Evil")
    settings |= {"auto_map": classes | {"AutoTokenizer": ["evil.Evil", "evil.Evil"]}}
    settings |= {"model_type": "evil"} if file == "config.json" else {"tokenizer_class": "Evil"}
    (here / kind / file).write_text(json.dumps(settings), encoding="utf-8")
    monkeypatch.setattr("builtins.input", lambda *_: pytest.fail("the user is asked whether to run code"))
    with suppress(CheckpointError, LanguageModelError):  # many load without their code
        load(kind)
    assert not (here / "ran").exists()
    assert asked == []


class _Payload:
    def __reduce__(self):
        return os.mkdir, ("ran",)


@pytest.mark.parametrize("use", USES)
@pytest.mark.parametrize("weights", [pickle.dumps(_Payload()), b""], ids=["pickle", "empty"])
def test_weights_that_cannot_be_read_are_one_line(here, asked, use, weights):
    kind, load = USES[use]
    (here / kind / "model.safetensors").unlink()
    (here / kind / "pytorch_model.bin").write_bytes(weights)
    with pytest.raises((CheckpointError, LanguageModelError), match=kind) as raised:
        load(kind)
    assert len(str(raised.value).splitlines()) == 1
    assert not (here / "ran").exists()
    assert asked == []


@pytest.mark.parametrize(
    ("make", "kind"), [(make_reranker, kind) for kind in ("bi", "lm", "t5")] + [(make_entailment, "bi")]
)
def test_a_model_that_lacks_weights_is_refused(here, make, kind):
    with pytest.raises(CheckpointError, match=f"{kind}: ") as raised:
        make(kind)
    assert len(str(raised.value).splitlines()) == 1


@pytest.mark.parametrize("engine", ["dense", "colbert", "hybrid"])
def test_an_index_names_a_model_on_the_hub(here, asked, engine, monkeypatch):
    (here / "someone").mkdir()
    (here / ("bi" if engine == "dense" else "colbert")).rename(here / "someone" / "model")  # where it was built
    knowgap.build_index(PASSAGES, here / "index", engine=engine, encoder="someone/model")
    shutil.rmtree(here / "someone")
    index = open_index(here / "index")
    with pytest.raises(CheckpointError, match="KNOWGAP_ALLOW_HUB=someone/model"):
        index.search(["bridge"], 1)
    assert asked == []
    monkeypatch.setenv("KNOWGAP_ALLOW_HUB", "other/model someone/model")
    with pytest.raises(CheckpointError, match="cannot be fetched from the hub"):
        index.search(["bridge"], 1)
    assert any("someone/model" in url for url in asked)


def test_a_path_that_is_not_there_is_not_taken_for_a_hub_name(asked, tmp_path):
    for name in ("./model", str(tmp_path / "model"), "a/b/c"):
        with pytest.raises(CheckpointError, match="no such folder"):
            model_folder(name)
    assert asked == []


def test_weights_of_torch_are_fetched_where_there_are_no_others(here, monkeypatch):
    asked = []
    (here / "empty").mkdir()

    def download(name, allow_patterns, local_files_only=False):
        assert not local_files_only
        asked.append((name, "*.bin" in allow_patterns))
        return str(here / ("colbert" if name == "lab/safe" else "empty"))

    monkeypatch.setattr(huggingface_hub, "snapshot_download", download)
    assert model_folder("lab/safe") == here / "colbert"
    assert model_folder("lab/old") == here / "empty"
    assert asked == [("lab/safe", False), ("lab/old", False), ("lab/old", True)]


def test_blocks_with_one_thread_may_overlap():
    def threads():
        return [each["num_threads"] for each in threadpool_info() if each["user_api"] == "blas"]

    with threadpool_limits(2, user_api="blas"):
        before = threads()
        with ExitStack() as until_later:
            with one_thread():
                until_later.enter_context(one_thread())
            assert {*threads()} == {1}
        assert threads() == before != [1]


def test_the_digest_is_that_of_names_and_contents(here):
    before = model_digest("colbert")
    (here / "colbert" / "readme.md").write_text("not a part of it", encoding="utf-8")
    assert model_digest("colbert") == before
    (here / "colbert" / "vocab.txt").write_text("another", encoding="utf-8")
    assert model_digest("colbert") != before
