"""RA-ISF with trained models in place of prompts: who judges, from which probability on, and what is recorded."""

import pytest
from support import TableRetriever, play

from knowgap.errors import UsageError
from knowgap.programs.ra_isf import RAISF
from knowgap.programs.sub_modules import Decomposer, RelevanceJudge, SelfKnowledgeJudge
from knowgap.programs.trace.steps import Decomposed, Judged, Rejected
from knowgap.retrieval.passage import Passage

QUESTION = "Where was the painter of The Grey Ferry born?"
PARTS = ["Who painted The Grey Ferry?", "Where was #1 born?"]
PASSAGES = [Passage(name, name, "what it says") for name in ("ferry", "moor", "tarn")]


class Trained:
    """Stands in for all three models: probabilities and sub-questions from tables."""

    name, threshold = "trained", 0.5

    def __init__(self, known=(), relevant=(), parts=()):
        self.known, self.probabilities, self.parts = dict(known), dict(relevant), list(parts)
        self.asked = []

    def knows(self, questions):
        self.asked.append(("know", list(questions)))
        return [self.known.get(question, 0.1) for question in questions]

    def relevant(self, pairs):
        self.asked.append(("relevant", list(pairs)))
        return [self.probabilities.get(passage.split(":")[0], 0.1) for _, passage in pairs]

    def decompose(self, questions):
        self.asked.append(("decompose", list(questions)))
        return [list(self.parts) for _ in questions]


PAPER = {**RAISF.preset("multi_hop"), "chained": True}


def run(model, tasks=("know", "relevant", "decompose"), script=None, **settings):
    parts = dict.fromkeys(tasks, model)
    program = RAISF(TableRetriever({QUESTION: PASSAGES}), **parts, **{**PAPER, **settings})
    replies = {"read": {"answerable": True, "answer": "Wick"}, "answer": "Ada Moor", "synthesise": "Wick"}
    return play(program, QUESTION, **{**replies, **(script or {})})


def test_trained_models_judge_in_place_of_prompts():
    prediction, engine = run(Trained(known={PARTS[0]: 0.9, "Where was Ada Moor born?": 0.8}, parts=PARTS))
    assert engine.acts == ["answer", "answer", "synthesise"]
    assert prediction.answer == "Wick"
    judged = prediction.trace.of(Judged)
    assert {step.by for step in judged} == {"trained"}
    assert [(s.what, s.value) for s in judged if s.branch == ""] == [
        ("self-knowledge", False), *[("relevance", False)] * 3,
    ]  # fmt: skip
    assert judged[0].reason == "probability 0.100"
    [decomposed] = prediction.trace.of(Decomposed)
    assert (decomposed.questions, decomposed.by) == (PARTS, "trained")
    assert prediction.trace.cost.lm_calls == 3


def test_all_passages_are_judged_in_one_batch_and_each_as_it_is():
    model = Trained(relevant={"moor": 0.7, "tarn": 0.5})
    prediction, engine = run(model)
    assert [passage.id for passage in prediction.passages] == ["moor", "tarn"]
    assert model.asked[1] == ("relevant", [(QUESTION, str(passage)) for passage in PASSAGES])
    assert [p["title"] for p in engine.asked("read")[0]["passages"]] == ["moor", "tarn"]


def test_a_threshold_of_the_program_goes_over_the_models_own():
    model = Trained(known={QUESTION: 0.6}, relevant={"moor": 0.6, "tarn": 0.4})
    assert run(model)[0].trace.stopped == "own knowledge"
    prediction, _ = run(model, know_threshold=0.7, relevance_threshold=0.3)
    assert (prediction.trace.stopped, [p.id for p in prediction.passages]) == ("relevant passages", ["moor", "tarn"])


def test_each_sub_module_has_its_own_model_and_the_others_are_prompted():
    script = {"know": False, "relevance": True, "chain": []}
    assert run(Trained(), ("know",), script)[1].acts == [*["relevance"] * 3, "read"]
    assert run(Trained(relevant={"moor": 1.0}), ("relevant",), script)[1].acts == ["know", "read"]
    model = Trained(known={}, parts=[])
    assert run(model, ("decompose",), {**script, "relevance": False})[1].acts == ["know", *["relevance"] * 3, "answer"]


def test_sub_questions_that_refer_to_answers_are_left_out_where_chained_is_off():
    prediction, engine = run(Trained(known={PARTS[0]: 1.0}, parts=PARTS), chained=False)
    assert prediction.trace.of(Decomposed)[0].questions == PARTS[:1]
    assert [(s.what, s.why) for s in prediction.trace.of(Rejected)] == [
        (PARTS[1], "refers to an answer, and chained is off")
    ]
    assert engine.acts == ["answer", "synthesise"]


def test_a_decomposition_is_cut_to_the_limit_and_never_repeats_the_question():
    parts = [QUESTION, *(f"Part {n}?" for n in range(9))]
    prediction, _ = run(Trained(parts=parts), depth=1, max_questions=2)
    assert prediction.trace.of(Decomposed)[0].questions == ["Part 0?", "Part 1?"]


def test_a_model_without_effect_is_said_to_be_without():
    model = Trained()
    assert isinstance(model, SelfKnowledgeJudge)
    assert isinstance(model, RelevanceJudge)
    assert isinstance(model, Decomposer)
    program = RAISF(know=model, relevant=model, decompose=model)
    assert [program.ignores(name) for name in program.sub_models] == ["", "", ""]
    program.configure(self_knowledge=False, passage_relevance=False, question_decomposition=False)
    switches = ["self_knowledge is off", "passage_relevance is off", "question_decomposition is off"]
    assert [program.ignores(name) for name in program.sub_models] == switches
    with pytest.raises(UsageError, match="relevant = trained: judge_together asks a language model"):
        RAISF(relevant=model, judge_together=True)
