"""knowgap train: each kind is planned, trained and measured, and a wrong argument gets one line."""

from __future__ import annotations

import itertools
import json
from pathlib import Path

import endpoint
import pytest
from support import in_chat_format, read_prompt, scripted_lm
from training_helpers import write_tiny_bert

from knowgap.retrieval import BM25Index, make_reranker
from knowgap.retrieval.passage import Passage
from tests.app.cli.conftest import Knowgap, write_lines
from tests.lms.local.tiny_models import TEXTS, write_language_model
from tests.lms.tiny_generator import write_base_model

NAMES = ["Orle", "Tarn", "Venn", "Brisk", "Quay", "Moss", "Fell", "Dune"]
PASSAGES = [
    Passage(f"{name} {what}", f"{name} {what}", f"The {name} {what} is very old.")
    for name in NAMES
    for what in ("Bridge", "Tower")
]
GIVEN = ["--data", "questions.jsonl", "--corpus", "corpus.jsonl", "--index", "idx", "--output", "new"]
GIVEN += ["--set", "batch_size=2", "--set", "epochs=1"]


@pytest.fixture(autouse=True)
def _folder(knowgap: Knowgap):
    asked = [("How", f"{name} Bridge") for name in NAMES] + [("Who", f"{name} Tower") for name in NAMES]
    questions = [
        {"question": f"{how} old is the {what}?", "answer": "very old", "gold_ids": [what]} for how, what in asked
    ]
    write_lines(Path("questions.jsonl"), questions)
    write_lines(Path("corpus.jsonl"), [passage.to_dict() for passage in PASSAGES])
    BM25Index.build(PASSAGES, "idx")


def train(kind: str, *words: object) -> list[str]:
    return ["train", kind, *GIVEN, *map(str, words)]


def result_of(knowgap: Knowgap, kind: str, *words: object):
    printed, said = knowgap(*train(kind, *words, "--json"))
    return json.loads(printed), said


@pytest.mark.parametrize("lora", [[], ["--set", "lora_rank=2"]])
def test_a_reranker_is_trained_and_measured_on_unseen_questions(tmp_path: Path, knowgap, lora):
    words = ["--model", write_tiny_bert(tmp_path / "bert"), "--set", "depth=8", "--set", "negatives=2", *lora]
    plan = result_of(knowgap, "reranker", *words, "--dry-run")[0]["reranker"]
    assert (plan["examples"], plan["steps"], plan["teacher_calls"]) == (24, 12, 0)
    assert plan["hours"] > 0
    assert not Path("new").exists()
    result = result_of(knowgap, "reranker", *words)[0]["reranker"]
    assert [*result["scores"]] == ["the index", "untrained", "trained"]
    index, untrained, trained = result["scores"].values()
    assert index["means"]["mrr"]["n"] == trained["comparison"]["n"] == 4
    assert untrained["means"].keys() == {"recall@5", "mrr"}
    made = json.loads(Path("new/training.json").read_text(encoding="utf-8"))
    assert (made["made_from"]["kind"], made["steps"]) == ("reranker", result["steps"])
    assert len(make_reranker("new").score([("Who built the bridge?", "Orle Bridge: Ada Venn built it.")])) == 1
    assert not list(Path("new").glob("adapter*"))
    out, err = knowgap(*train("reranker", *words))
    assert "already exists and was trained with the same settings and data" in err
    assert "recall@5" in out


@pytest.mark.long
def test_a_trained_colbert_is_indexed_and_searched(knowgap):
    result, _ = result_of(knowgap, "colbert", "--set", "dim=32", "--set", "negatives=2", "--limit", 4)
    assert result["colbert"]["scores"]["trained"]["means"].keys() == {"recall@5", "recall@50", "mrr"}
    knowgap("index", "--corpus", "corpus.jsonl", "--index", "ix", "--engine-option", "checkpoint=new")
    titles = [hit["title"] for hit in knowgap.json("search", "How old is the Orle Bridge?", "--index", "ix")["hits"]]
    assert "Orle Bridge" in list(itertools.takewhile(lambda title: "Tower" not in title, titles))


@pytest.fixture
def labeller(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    """A teacher of RA-ISF's sub-models, which knows how old everything is, and not who."""

    def rule(outputs, inputs):
        if "relevant" in outputs:
            return {"relevant": inputs["question"].split()[-1].strip("?") in inputs["passage"]}
        if "questions" in outputs:
            return {"questions": [f"Part of {inputs['question']}", "Where was she born?"]}
        return {"answer": "very old" if inputs["question"].startswith("How") else "no idea"}

    lm, engine = scripted_lm(rule)
    monkeypatch.setattr("knowgap.cli.factories.load_lm", lambda *_, **__: lm)
    write_language_model(tmp_path / "tiny", "causal", texts=TEXTS * 2)
    return engine


SUB_MODELS = ["--model", "tiny", "--set", "max_length=2000", "--set", "top_k=2", "--set", "held_out=0.4"]


@pytest.mark.long
def test_sub_models_are_labelled_trained_and_measured(labeller, knowgap):
    by_name, _ = result_of(knowgap, "ra-isf", *SUB_MODELS, "--dry-run")
    assert labeller.calls == []
    assert by_name["know"]["teacher_calls"] == by_name["decompose"]["teacher_calls"] == 8  # half are in the split train
    assert by_name["relevant"]["teacher_calls"] > 8
    assert by_name["know"]["examples"] == round(0.6 * 8)
    out, err = knowgap(*train("ra-isf", *SUB_MODELS))
    assert all(word in out for word in ("know", "relevant", "decompose", "majority", "untrained", "trained"))
    assert "calls of the teacher, 0 labels from before" in err
    labels = [json.loads(line) for line in Path("new/know.jsonl").read_text().splitlines()[1:]]
    assert {label["question"][:3] for label in labels if label["label"]} == {"How"}
    assert {path.name for path in Path("new").iterdir() if path.is_dir()} == {"know", "relevant", "decompose"}
    calls = len(labeller.calls)
    result = result_of(knowgap, "ra-isf", *SUB_MODELS, "--sub-model", "know")[0]["know"]
    assert len(labeller.calls) == calls, "labels and model are taken over"
    assert result["scores"]["trained"]["means"]["agreement"]["n"] == 8 - result["examples"] > 0


def test_labels_of_the_data_need_no_teacher(labeller, knowgap):
    words = ["--sub-model", "relevant", "--set", "relevant_from=data"]
    plans, _ = result_of(knowgap, "ra-isf", *SUB_MODELS, *words, "--dry-run")
    assert plans["relevant"]["teacher_calls"] == 0


def test_a_dry_run_counts_the_labels_of_a_file_and_needs_no_index(labeller, knowgap, monkeypatch):
    rows = [
        {"question": f"Is text {n} about it?", "answer": "irrelevance" if n % 2 else "relevance"} for n in range(20)
    ]
    Path("labels.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    monkeypatch.setattr("knowgap.cli.factories.open_index", lambda *_: pytest.fail("an index was opened"))
    words = ["--sub-model", "relevant", "--labels", "labels.jsonl", "--dry-run"]
    plans, _ = result_of(knowgap, "ra-isf", *SUB_MODELS, *words)
    assert (plans["relevant"]["examples"], plans["relevant"]["teacher_calls"]) == (round(0.6 * 20), 0)


def test_the_run_of_ra_isfs_paper(labeller, knowgap):
    words = [*SUB_MODELS, "--sub-model", "know", "--preset", "paper", "--dry-run"]
    plans, err = result_of(knowgap, "ra-isf", *words)
    assert "the paper: 1,000 questions drawn from each of NQ, TriviaQA, HotpotQA, StrategyQA and 2Wiki" in err
    assert (plans["know"]["examples"], plans["know"]["steps"]) == (5000, 2500)  # --set batch_size=2, epochs=1


@pytest.fixture
def teacher(monkeypatch: pytest.MonkeyPatch):
    """A server whose model writes transcripts of one search."""

    def reply(text):
        fields, inputs = read_prompt(text)
        if not fields:
            return "ready"
        if "queries" in fields:
            return in_chat_format({"search": "true", "queries": json.dumps([f"the age of {inputs['question']}"])})
        return in_chat_format({"answer": "very old", "supported": "true"})

    monkeypatch.setattr(endpoint, "reply", reply)
    with endpoint.endpoint() as server:
        monkeypatch.setenv("KNOWGAP_API_BASE", server.api_base)
        yield server


GENERATOR = ["--lm", "openai/teacher", "--limit", 4, "--set", "gradient_accumulation=1"]
GENERATOR += ["--set", "top_k=1", "--set", "depth=1"]


def test_a_dry_run_tells_what_a_generator_takes(teacher, tmp_path: Path, knowgap):
    base = ["--model", write_base_model(tmp_path / "base"), "--dry-run"]
    plan = result_of(knowgap, "rq-rag", *base, *GENERATOR)[0]["rq-rag"]
    assert (plan["examples"], plan["steps"], plan["teacher_calls"]) == (4, 2, 8)
    assert (plan["memory"][0]["method"], plan["gpus"]) == ("full, float32", None)
    words = [*base, *GENERATOR[:4], "--preset", "paper"]
    paper, err = result_of(knowgap, "rq-rag", *words)
    assert "the paper: 42,810 transcripts by gpt-3.5-turbo-0125" in err
    paper = paper["rq-rag"]
    assert (paper["examples"], paper["gpus"], paper["teacher_calls"]) == (42_810, [8, 80.0], 2 * 42_810)
    two = result_of(knowgap, "rq-rag", *words, "--gpus", "2x24")[0]["rq-rag"]
    assert (two["gpus"], len(two["memory"])) == ([2, 24.0], 7)
    assert teacher.bodies == []


def test_a_generator_learns_from_transcripts_of_a_teacher(teacher, tmp_path: Path, knowgap):
    words = ["--model", write_base_model(tmp_path / "base"), *GENERATOR]
    labels = result_of(knowgap, "rq-rag", *words, "--labels", "only")[0]["rq-rag"]
    assert (labels["examples"], labels["teacher_calls"]) == (4, 0)
    assert Path("new-transcripts.jsonl").exists()
    assert not Path("new").exists()
    result, err = result_of(knowgap, "rq-rag", *words)
    assert "transcripts of 4 questions: 4 kept, single_hop; 0 calls of the teacher" in err
    scores = result["rq-rag"]["scores"]
    assert [*scores] == ["trained, no search", "trained"]
    assert all(score["means"]["f1"]["n"] == score["means"]["readable"]["n"] == 4 for score in scores.values())
    asked = len(teacher.bodies)
    assert "already exists" in knowgap(*train("rq-rag", *words, "--set", "measured_on=none"))[1]
    assert len(teacher.bodies) == asked + 1  # whether it answers at all


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["reranker", "--set", "epochs=0"], "epochs = '0': must be greater than 0"),
        (["reranker", "--set", "epoch=2"], "unknown training setting 'epoch': did you mean 'epochs'?"),
        (["reranker", "--set", "measured_on=train"], "measured_on = 'train': must be 'dev', 'test' or 'none'"),
        (["reranker", "--set", "negatives=5000"], "5000 negatives for a question, but only"),
        (["reranker", "--model", "nowhere/at/all"], "nowhere/at/all: no such folder"),
        (["colbert", "--model", "somewhere", "--set", "dim=32"], "applies only to the embedded base"),
        (["colbert", "--set", "dim=20"], "dim = 20"),
        (["rq-rag"], "name the model to start from with --model"),
        (["reranker", "--sub-model", "know"], "--sub-model know applies only to ra-isf"),
        (["reranker", "--dry-run", "--gpus", "8x80"], "--gpus 8x80 applies only to rq-rag and ra-isf"),
        (["reranker", "--preset", "paper"], "--preset paper applies only to rq-rag and ra-isf"),
        (["reranker", "--labels", "only"], "--labels only applies only to rq-rag and ra-isf"),
        (["reranker", "--labels", "labels.jsonl"], "--labels labels.jsonl applies only to rq-rag and ra-isf"),
        (
            ["rq-rag", "--model", "tiny", "--labels", "only", "--dry-run"],
            "--labels only and --dry-run exclude each other",
        ),
        (["ra-isf", "--model", "tiny", "--sub-model", "knows"], "unknown sub-model 'knows': did you mean 'know'?"),
    ],
)
def test_a_wrong_argument_gets_one_line(labeller, knowgap, words, message: str):
    assert message in knowgap.refusal(*train(*words))
    assert labeller.calls == []
