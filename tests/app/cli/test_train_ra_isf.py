"""knowgap train ra-isf: labels, trains and evaluates; takes labels over; refuses what it would not heed."""

from __future__ import annotations

import json

import pytest
from support import scripted_lm

from tests.lms.ra_isf.tiny import TEXTS, write_language_model

TRAIN = ("train", "ra-isf", "--output", "models", "--data", "questions.jsonl", "--corpus", "docs.jsonl")


QUESTIONS = [
    {"question": "Who designed the Orle Bridge?", "answer": "Ada Venn", "gold_ids": ["orle"]},
    {"question": "Where was Ada Venn born?", "answer": "Tarn", "gold_ids": ["venn"]},
    {"question": "How long is the Isk?", "answer": "120 kilometres", "gold_ids": ["isk"]},
    {"question": "Who built the hall?", "answer": "Jon Reth", "gold_ids": ["hall"]},
    *({"question": f"Who saw the {n} grey moths?", "answer": "nobody", "gold_ids": ["moth"]} for n in range(6)),
    *({"question": f"When were the {n} halls built?", "answer": "1870", "gold_ids": ["hall"]} for n in range(6)),
]


@pytest.fixture
def ready(indexed, monkeypatch):
    """The command in a folder with a tiny causal model, and a teacher that knows who, and not when or where."""

    def rule(outputs, inputs):
        if "relevant" in outputs:
            return {"relevant": inputs["question"].split()[-1].strip("?") in inputs["passage"]}
        if "questions" in outputs:
            return {"questions": [f"Part of {inputs['question']}", "Where was #1 born?"]}
        if "answerable" in outputs:
            return {"answerable": True, "answer": "Jon Reth"}
        answers = {each["question"]: each["answer"] for each in QUESTIONS}
        return {"answer": answers[inputs["question"]] if inputs["question"].startswith("Who") else "no idea"}

    lm, engine = scripted_lm(rule)
    monkeypatch.setattr("knowgap.cli.factories.load_lm", lambda *_, **__: lm)
    lines = (json.dumps(question) + "\n" for question in QUESTIONS)
    (indexed.folder / "questions.jsonl").write_text("".join(lines), encoding="utf-8")
    write_language_model(indexed.folder / "tiny", "causal", texts=TEXTS * 2)
    indexed.engine = engine
    return indexed


QUICK = (
    "--model",
    "tiny",
    "--epochs",
    "1",
    "--max-length",
    "200",
    "--index",
    "idx",
    "--top-k",
    "2",
    "--held-out",
    "0.4",
)


def test_all_three_are_labelled_trained_and_evaluated(ready):
    printed, remarks = ready(*TRAIN, *QUICK)
    rows = " ".join(printed.split())
    assert all(word in rows for word in ("know", "relevant", "decompose", "majority", "before", "after"))
    folder = ready.folder / "models"
    labels = {task: [json.loads(line) for line in (folder / f"{task}.jsonl").read_text().splitlines()]
              for task in ("know", "relevant", "decompose")}  # fmt: skip
    assert {x["question"]: x["label"] for x in labels["know"]} == {
        x["question"]: x["question"].startswith("Who") for x in labels["know"]
    }
    assert {label["label"] for label in labels["relevant"]} == {True, False}
    assert all(label["label"][1] == "Where was #1 born?" for label in labels["decompose"])
    assert {path.name for path in folder.iterdir() if path.is_dir()} == {"know", "relevant", "decompose"}
    assert "calls of the teacher, 0 labels from before" in remarks
    calls = len(ready.engine.calls)
    results = ready.json(*TRAIN, *QUICK[:6], "--held-out", "0.4", "--sub-model", "know")
    assert len(ready.engine.calls) == calls, "labels and model are taken over"
    [result] = results
    assert result["after"]["same"]["n"] == result["held_out"] > 0
    ask = ("ask", "Who built the hall?", "--index", "idx", "--program", "ra_isf", "--know", "models/know")
    steps = ready.json(*ask, "--relevant", "models/relevant", "--decompose", "models/decompose", "--set", "depth=0")
    assert steps["trace"]["steps"][1]["by"] == "models/know"


def test_a_dry_run_asks_and_trains_nothing(ready):
    plans = ready.json(*TRAIN, *QUICK, "--dry-run")
    assert ready.engine.calls == []
    assert not (ready.folder / "models" / "know").exists()
    by_name = {plan["sub_model"]: plan for plan in plans}
    questions = 8  # of 16, half are in the split train
    assert by_name["know"]["teacher_calls"] == by_name["decompose"]["teacher_calls"] == questions
    assert by_name["relevant"]["teacher_calls"] > questions
    assert by_name["know"]["examples"] == round(0.6 * questions)
    assert all(plan["steps"] >= 1 and plan["hours"] > 0 for plan in plans)


def test_labels_of_the_data_need_no_teacher(ready):
    words = ("--sub-model", "relevant", "--relevant-from", "gold", "--model", "tiny", "--index", "idx")
    [plan] = ready.json(*TRAIN, *words, "--max-length", "200", "--dry-run")
    assert plan["teacher_calls"] == 0
    assert "--lm openai/x: no label comes from a language model" in ready.refusal(*TRAIN, *words, "--lm", "openai/x")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--model", "embedded"], "writes no text"),
        (["--model", "nowhere/at/all"], "cannot be loaded"),
        (["--model", "tiny", "--sub-model", "knows"], "unknown sub-model 'knows': did you mean 'know'?"),
        (["--model", "tiny", "--sub-model", "know", "--top-k", "3"], "--top-k 3: goes with --sub-model relevant"),
        (["--model", "tiny", "--sub-model", "know", "--no-chained"], "--no-chained: goes with --sub-model decompose"),
        (["--model", "tiny", "--learning-rate", "7"], "learning_rate = 7"),
        (["--model", "tiny", "--split", "tain"], "unknown split 'tain'"),
    ],
)
def test_what_would_not_be_heeded_is_refused(ready, words, said):
    assert said in ready.refusal(*TRAIN, *words)
    assert ready.engine.calls == []
