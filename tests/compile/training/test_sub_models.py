"""RA-ISF's sub-models: a teacher labels, work continues, and tiny models learn what is there to learn."""

from itertools import pairwise
from pathlib import Path

import dspy
import pytest
from support import UNREADABLE, OverlapRetriever, ScriptedEngine, TableRetriever, lm_of, scripted_lm

from knowgap.compiling.data import Dataset
from knowgap.compiling.run import Run
from knowgap.compiling.teacher import ask_teacher
from knowgap.compiling.training import train
from knowgap.compiling.training.config import Job, LanguageModelConfig
from knowgap.compiling.training.sub_models import LabelledExample, as_conversation, label_items, train_sub_model
from knowgap.errors import LanguageModelError, UsageError
from knowgap.lms.providers import load_trained
from knowgap.programs.ra_isf import RAISF
from knowgap.programs.trace.steps import Judged
from knowgap.retrieval.passage import Passage
from knowgap.signatures import STYLES
from tests.tiny import write_cross_encoder, write_language_model

PASSAGES = [
    Passage("moor", "Ada Moor", "Ada Moor painted ships. She was born in Wick."),
    Passage("ferry", "The Grey Ferry", "The Grey Ferry is a painting by Ada Moor."),
    Passage("tarn", "Tarn", "Tarn is a town by the sea."),
]
WORDS = ["ferry", "harbour", "mill", "ship", "church", "tower", "bridge", "market"]
KNOWN = [  # is who built something; not when it was lost
    LabelledExample(question=question, label=question.startswith("Who"))
    for w in WORDS
    for question in (f"Who built the {w}?", f"When and where was the {w} lost?")
]
PARTS = [
    LabelledExample(question=f"Is the {a} older than the {b}?", label=[f"How old is the {each}?" for each in (a, b)])
    for a, b in pairwise(WORDS)
]
LEARN = LanguageModelConfig(epochs=60, learning_rate=1e-2, batch_size=4, max_length=512, warmup_ratio=0.0)
ONCE = LanguageModelConfig(epochs=1, learning_rate=5e-3, batch_size=8, max_length=512)


def example(question, answer=""):
    return dspy.Example(question=question, answer=answer, aliases=[answer]).with_inputs("question")


WHO = example("Who painted The Grey Ferry?", "Ada Moor")
WHERE = example("Where was the painter of The Grey Ferry born?", "Wick")


def label(items, task, lm, file, style="short", threads=1):
    return label_items(items, task, RAISF(style=style), file, Run(lm, num_threads=threads))


def test_a_teacher_answers_judges_and_decomposes(tmp_path):
    def rule(outputs, inputs):
        if "answer" in outputs:
            return {"answer": "ada moor." if "Who" in inputs["question"] else "Tarn"}
        if "relevant" in outputs:
            return {"relevant": "Moor" in inputs["passage"]}
        return {"questions": ["1. Who painted it?", "2. Where was she born?", "3. Who painted it"]}

    lm, engine = scripted_lm(rule)
    known, calls = label([(WHO, ""), (WHERE, "")], "know", lm, tmp_path / "know.jsonl", "long")
    assert ({e.question: e.label for e in known}, calls) == ({WHO.question: True, WHERE.question: False}, 2)
    assert {inputs["style"] for _, inputs in engine.calls} == {STYLES["long"]}
    assert all(inputs["passages"] == inputs["sub_answers"] == [] for _, inputs in engine.calls)
    judged, _ = label([(WHO, str(passage)) for passage in PASSAGES], "relevant", lm, tmp_path / "relevant.jsonl")
    assert [e.label for e in judged] == [True, True, False]
    assert judged[0].passage == str(PASSAGES[0])
    parts, _ = label([(WHERE, "")], "decompose", lm, tmp_path / "decompose.jsonl")
    assert parts[0].label == ["Who painted it?", "Where was she born?"]


def test_what_is_missing_is_asked_for_again_and_of_the_same_teacher_only(tmp_path):
    items, file = [(example(f"Question {n}?"), "") for n in range(4)], tmp_path / "d.jsonl"
    replies: dict = {"Question 1?": UNREADABLE}
    lm, _ = scripted_lm(lambda outputs, inputs: replies.get(inputs["question"], {"questions": ["Who?"]}))
    assert len(label([*items, items[0]], "decompose", lm, file)[0]) == 3  # each once; the unreadable one has no label
    replies.clear()
    again, calls = label(items, "decompose", lm, file)
    assert (len(again), calls) == (4, 1)
    warm = dspy.LM("test/scripted", engine=lm.engine, cache=False, num_retries=0, temperature=0.7)
    with pytest.raises(UsageError, match="differs in: teacher"):
        label(items, "decompose", warm, file)


@pytest.fixture(scope="module")
def bases(tmp_path_factory):
    folder = tmp_path_factory.mktemp("bases")
    said = [(RAISF().know, each) for each in KNOWN] + [(RAISF().decompose, each) for each in PARTS]
    texts = [turn["content"] for predictor, each in said for turn in as_conversation(predictor, each)]
    small = {"causal": {"initializer_range": 0.05}, "seq2seq": {"initializer_factor": 1.0}}
    return {
        kind: write_language_model(folder / kind, kind, texts=texts, vocabulary=1000, **changes)
        for kind, changes in small.items()
    }


def fit(base, task, examples, output, config=ONCE):
    job = Job([], OverlapRetriever(PASSAGES), PASSAGES, output, str(base), config, Run())
    return train_sub_model(job, task, getattr(RAISF(), task), examples)


@pytest.mark.long
def test_judgements_and_the_form_of_a_decomposition_are_learnt(bases, tmp_path):
    fit(bases["causal"], "know", KNOWN, tmp_path / "know", LEARN)
    fit(bases["causal"], "decompose", PARTS, tmp_path / "decompose", LEARN)
    know, decompose = (load_trained(task, tmp_path / task) for task in ("know", "decompose"))
    with dspy.context(lm=lm_of(ScriptedEngine(lambda outputs, inputs: {"answer": "Ada Moor"}))):
        program = RAISF(TableRetriever({}), know=know, decompose=decompose)
        said = [ask_teacher(program.know, know, question=example.question).knows for example in KNOWN]
        assert said == [example.label for example in KNOWN]
        asked = [ask_teacher(program.decompose, decompose, question=example.question) for example in PARTS]
        assert all(found.questions for found in asked)  # the form is learnt first
        assert [step.value for step in program(question="Who built the mill?").trace.of(Judged)] == [True]


def test_the_three_are_labelled_and_trained(bases, tmp_path):
    def rule(outputs, inputs):
        odd = inputs["question"].split()[-1] in ("1?", "3?", "5?")
        replies = {"relevant": odd, "questions": ["Who?", "Where?"], "answer": "Ada Moor" if odd else "no idea"}
        return {name: replies[name] for name in outputs if name in replies}

    questions = [example(f"Who painted number {n}?", "Ada Moor") for n in range(6)]
    data, (teacher, engine) = Dataset("data", {"train": questions}, PASSAGES, ""), scripted_lm(rule)
    settings = {"base": str(bases["causal"]), "epochs": 1, "batch_size": 8, "max_length": 4096, "top_k": 2}
    common = {"retriever": OverlapRetriever(PASSAGES), "output": tmp_path, "run": Run(teacher), **settings}
    made = train("ra-isf", data, **common)
    assert [(each.folder.name, each.examples) for each in made] == [("know", 6), ("relevant", 6), ("decompose", 6)]
    assert all((each.folder / "training.json").is_file() for each in made)
    assert all(each.trained_before for each in train("ra-isf", data, **common))
    seq2seq = {"base": str(bases["seq2seq"])}
    for kind, error, changed in (
        ("ra-isf", LanguageModelError, {"base": "nowhere"}),
        ("rq-rag", UsageError, seq2seq),
    ):
        with pytest.raises(error):
            train(kind, data, **{**common, "output": tmp_path / "new", **changed})
    assert (len(engine.calls), [*tmp_path.glob("new*")]) == (18, [])


def test_what_cannot_be_learnt_or_loaded_is_refused(bases, tmp_path: Path):
    with pytest.raises(UsageError, match="same label"):
        fit(bases["causal"], "know", KNOWN[::2], tmp_path / "model")
    with pytest.raises(UsageError, match="max_length"):
        fit(bases["causal"], "know", KNOWN, tmp_path / "model", LanguageModelConfig(max_length=32))
    scores = write_cross_encoder(tmp_path / "scores", ["who built it"], seed=3)
    assert load_trained("relevant", scores).default_threshold == 0.0
