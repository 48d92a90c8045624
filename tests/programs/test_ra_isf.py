"""RA-ISF: tables 5 to 9 as recorded traces, the ablations of table 2, depth and width, and what can go wrong."""

import copy
import threading

import dspy
import pytest
from support import TableRetriever, scripted_lm

from knowgap.programs.ra_isf import RAISF
from knowgap.programs.trace.steps import Answered, Asked, Decomposed, Judged, Malformed, Retrieved, Stopped
from knowgap.retrieval.passage import Passage
from knowgap.signatures import STYLES, SubAnswer

BROKEN = "no field in sight"


class Model:
    """A model by rule: what it knows, which passages (by title) it takes for relevant, how it breaks questions down.

    Every act can be replaced by a fixed reply.
    """

    def __init__(self, *, known=(), relevant=(), parts=None, answers=None, **replies):
        self.known, self.relevant, self.parts, self.answers = known, relevant, parts or {}, answers or {}
        self.replies = replies
        self.lm, self.engine = scripted_lm(self.rule)

    def rule(self, outputs, inputs):
        act = act_of(outputs, inputs)
        if self.replies.get(act) == BROKEN:
            return BROKEN
        return {outputs[0]: self.replies[act] if act in self.replies else getattr(self, act)(inputs)}

    def know(self, inputs):
        return inputs["question"] in self.known

    def relevance(self, inputs):
        return inputs["passage"].split(":")[0] in self.relevant

    def decompose(self, inputs):
        parts = self.parts
        return parts(inputs["question"]) if callable(parts) else parts[inputs["question"]]

    def answer(self, inputs):
        return self.answers.get(inputs["question"], f"answer to {inputs['question']}")

    read = synthesise = answer

    def asked(self, act):
        return [inputs for outputs, inputs in self.engine.calls if act_of(outputs, inputs) == act]


def act_of(outputs, inputs):
    if outputs == ("answer",):
        return "synthesise" if "sub_answers" in inputs else "read" if "passages" in inputs else "answer"
    return {"knows": "know", "relevant": "relevance", "questions": "decompose"}[outputs[0]]


def run(model, question, found=None, **kwargs):
    program = RAISF(TableRetriever(found or {}), **kwargs)
    with dspy.context(lm=model.lm):
        return program(question=question)


def passages(*titles):
    return [Passage(title.casefold().replace(" ", "-"), title, "what it says") for title in titles]


def kinds(trace):
    return [(step.iteration, step.branch, step.kind) for step in trace.steps]


# Table 5: nothing known, nothing relevant, four sub-questions.

SNOOP = "Did Snoop Dogg refuse to make music with rival gang members?"
PARTS = [
    "Which gang does Snoop Dogg belong to?",
    "Which gang is the rival of the Crips?",
    "Who performed California Vacation with Snoop Dogg?",
    "Is The Game a member of the Bloods?",
]
SNOOP_FOUND = {
    SNOOP: passages("Calvin Broadus", "Doggystyle", "Murder charge of 1993", "Arrest in 1993", "Paid tha Cost"),
    PARTS[2]: passages("California Vacation", "California Love"),
}


def snoop(**replies):
    return Model(
        known=(PARTS[0], PARTS[1], PARTS[3]),
        relevant=("California Vacation",),
        parts={SNOOP: PARTS},
        answers={
            PARTS[0]: "the Crips",
            PARTS[1]: "the Bloods",
            PARTS[2]: "Xzibit and The Game",
            PARTS[3]: "yes",
            SNOOP: "no",
        },
        **replies,
    )


SUB_ANSWERS = [
    SubAnswer(question=part, answer=answer)
    for part, answer in zip(PARTS, ["the Crips", "the Bloods", "Xzibit and The Game", "yes"], strict=True)
]


def test_worked_example_of_table_5():
    model = snoop()
    prediction = run(model, SNOOP, SNOOP_FOUND, **RAISF.preset("commonsense"))
    trace = prediction.trace
    assert kinds(trace) == [
        (0, "", "asked"),
        (1, "", "judged"),  # not known
        (1, "", "retrieved"),
        *[(1, "", "judged")] * 5,  # none relevant
        (1, "", "decomposed"),
        *[(2, "1", kind) for kind in ("asked", "judged", "stopped", "answered")],
        *[(2, "2", kind) for kind in ("asked", "judged", "stopped", "answered")],
        *[(2, "3", kind) for kind in ("asked", "judged", "retrieved", "judged", "judged", "stopped", "answered")],
        *[(2, "4", kind) for kind in ("asked", "judged", "stopped", "answered")],
        (1, "", "stopped"),
        (1, "", "answered"),
    ]
    assert [step.question for step in trace.of(Asked)] == [SNOOP, *PARTS]
    assert trace.of(Decomposed)[0].questions == PARTS
    assert [(step.queries, step.k) for step in trace.of(Retrieved)] == [([SNOOP], 5), ([PARTS[2]], 5)]
    assert [step.value for step in trace.of(Judged) if step.what == "self-knowledge"] == [
        False,
        True,
        True,
        False,
        True,
    ]
    assert {step.passage: step.value for step in trace.of(Judged) if step.what == "relevance"} == {
        "calvin-broadus": False,
        "doggystyle": False,
        "murder-charge-of-1993": False,
        "arrest-in-1993": False,
        "paid-tha-cost": False,
        "california-vacation": True,
        "california-love": False,
    }
    assert [step.reason for step in trace.of(Stopped)] == [
        "own knowledge",
        "own knowledge",
        "relevant passages",
        "own knowledge",
        "sub-answers",
    ]
    assert (prediction.answer, prediction.sub_answers) == ("no", SUB_ANSWERS)
    assert [passage.id for passage in prediction.passages] == ["california-vacation"]
    assert model.asked("synthesise")[0]["sub_answers"] == [part.model_dump() for part in SUB_ANSWERS]
    assert [passage["title"] for passage in model.asked("read")[0]["passages"]] == ["California Vacation"]
    cost = trace.cost
    # 1 + 5 + 1 for the question, 2 + 2 + (1 + 2 + 1) + 2 for its parts, 1 to put them together
    assert (cost.lm_calls, cost.retrievals, cost.passages, cost.iterations) == (18, 2, 7, 2)
    # know, judge, decompose; know, judge, read; synthesise
    assert cost.critical_calls == 7


def test_only_the_last_answer_is_in_the_style_of_the_task():
    model = snoop()
    run(model, SNOOP, SNOOP_FOUND, style="yes_no")
    assert {i["style"] for act in ("answer", "read") for i in model.asked(act)} == {STYLES["short"]}
    assert [inputs["style"] for inputs in model.asked("synthesise")] == [STYLES["yes_no"]]


@pytest.mark.parametrize(
    ("question", "answer"),
    [
        ("When was the Immigration Reform and Control Act passed?", "November 6, 1986"),  # table 6
        ("From which country did Angola become independent in 1975?", "Portugal"),  # table 7
        ("Which private university is in Chestnut Hill, Boston College or Stanford University?", "Boston College"),
    ],
)
def test_worked_examples_of_tables_6_to_8(question, answer):
    prediction = run(Model(known=(question,), answers={question: answer}), question)
    assert [step.kind for step in prediction.trace.steps] == ["asked", "judged", "stopped", "answered"]
    assert (prediction.answer, prediction.passages, prediction.sub_answers) == (answer, [], [])
    assert prediction.trace.stopped == "own knowledge"
    assert (prediction.trace.cost.lm_calls, prediction.trace.cost.critical_calls) == (2, 2)
    assert prediction.trace.cost.retrievals == 0


# Table 9: one of five passages helps.

MOTHER = "Who is the mother of the director of film Polish-Russian War (Film)?"
MOTHER_FOUND = {MOTHER: passages("Polish-Russian War", "Xawery Żuławski", "The gothic girl", "Magda", "Filming")}


def mother(**changes):
    return Model(**{"relevant": ("Xawery Żuławski",), "answers": {MOTHER: "Małgorzata Braunek"}} | changes)


def test_worked_example_of_table_9():
    model = mother()
    prediction = run(model, MOTHER, MOTHER_FOUND)
    trace = prediction.trace
    assert [step.kind for step in trace.steps] == [
        "asked",
        "judged",
        "retrieved",
        *["judged"] * 5,
        "stopped",
        "answered",
    ]
    kept = [step.passage for step in trace.of(Judged) if step.what == "relevance" and step.value]
    dropped = [step.passage for step in trace.of(Judged) if step.what == "relevance" and not step.value]
    assert kept == ["xawery-żuławski"]
    assert dropped == ["polish-russian-war", "the-gothic-girl", "magda", "filming"]
    assert prediction.answer == "Małgorzata Braunek"
    assert [passage.title for passage in prediction.passages] == ["Xawery Żuławski"]
    assert (trace.stopped, trace.cost.lm_calls, trace.cost.critical_calls) == ("relevant passages", 7, 3)


def test_the_answer_is_drawn_from_all_relevant_passages():
    model = mother(relevant=("Magda", "Xawery Żuławski"))
    prediction = run(model, MOTHER, MOTHER_FOUND)
    assert [(p["id"], p["title"]) for p in model.asked("read")[0]["passages"]] == [(1, "Xawery Żuławski"), (2, "Magda")]
    assert [passage.title for passage in prediction.passages] == ["Xawery Żuławski", "Magda"]


# The ablations of table 2, and depth.


def test_without_self_knowledge_passages_come_first():
    model = mother(known=(MOTHER,))
    trace = run(model, MOTHER, MOTHER_FOUND, self_knowledge=False).trace
    assert model.asked("know") == model.asked("answer") == []
    assert (trace.steps[1].kind, trace.stopped) == ("retrieved", "relevant passages")


def test_without_passage_relevance_nothing_is_retrieved():
    model = snoop()
    prediction = run(model, SNOOP, SNOOP_FOUND, passage_relevance=False, depth=1)
    assert (prediction.trace.cost.retrievals, prediction.passages, model.asked("relevance")) == (0, [], [])
    assert [part.answer for part in prediction.sub_answers] == ["the Crips", "the Bloods", "unknown", "yes"]
    assert prediction.trace.stopped == "sub-answers"


def test_without_decomposition_the_answer_is_unknown():
    model = snoop()
    prediction = run(model, SNOOP, SNOOP_FOUND, question_decomposition=False)
    assert (prediction.answer, prediction.trace.stopped, model.asked("decompose")) == (
        "unknown",
        "no decomposition",
        [],
    )
    at_depth_zero = run(snoop(), SNOOP, SNOOP_FOUND, depth=0)
    assert (at_depth_zero.answer, at_depth_zero.trace.stopped) == ("unknown", "depth")
    assert kinds(at_depth_zero.trace) == kinds(prediction.trace)
    assert prediction.trace.of(Answered)[-1].answer == "unknown"


def two_more(question):
    return [f"{question} a", f"{question} b"]


class One:
    """Finds one passage, whatever is asked."""

    def search(self, queries, k):
        return TableRetriever(dict.fromkeys(queries, passages("Anything"))).search(queries, k)


@pytest.mark.parametrize(("depth", "critical"), [(0, 2), (1, 6), (2, 10), (3, 14)])
def test_depth_is_counted_and_capped(depth, critical):
    model = Model(parts=two_more)
    program = RAISF(One(), depth=depth)
    with dspy.context(lm=model.lm):
        trace = program(question="Q").trace
    asked = [step.question for step in trace.of(Asked)]
    inner = 2**depth - 1
    assert len(asked) == 2 ** (depth + 1) - 1
    assert max(question.count(" ") for question in asked) == depth
    assert [step.reason for step in trace.of(Stopped)].count("depth") == 2**depth
    assert trace.cost.lm_calls == 2 * len(asked) + 2 * inner
    assert trace.cost.iterations == depth + 1
    assert trace.cost.critical_calls == critical  # know, judge, decompose on the way down, synthesise on the way up
    if depth == 3:
        assert [step.branch for step in trace.steps if step.kind == "asked"][:5] == ["", "1", "1/1", "1/1/1", "1/1/2"]


def test_unanswered_leaves_reach_the_synthesis_as_unknown():
    model = Model(parts=two_more)
    program = RAISF(One(), depth=1)
    with dspy.context(lm=model.lm):
        prediction = program(question="Q")
    assert model.asked("synthesise")[0]["sub_answers"] == [
        {"question": "Q a", "answer": "unknown"},
        {"question": "Q b", "answer": "unknown"},
    ]
    assert prediction.answer == "answer to Q"


@pytest.mark.parametrize("most", [1, 3, 6])
def test_sub_questions_are_capped(most):
    model = Model(parts=lambda question: [f"{question} {n}" for n in range(20)])
    trace = run(model, "Q", max_questions=most, depth=1).trace
    assert len(trace.of(Asked)) == 1 + most
    assert trace.of(Decomposed)[0].questions == [f"Q {n}" for n in range(most)]


def test_questions_on_the_way_are_not_asked_again():
    parts = {"Is Q?": ["is  q", "Part?", "part"], "Part?": ["Is Q", "Part"]}
    trace = run(Model(parts=parts), "Is Q?").trace
    assert [step.questions for step in trace.of(Decomposed)] == [["Part?"], []]
    assert [step.reason for step in trace.of(Stopped)] == ["no sub-question", "sub-answers"]
    assert [step.answer for step in trace.of(Answered)] == ["unknown", "answer to Is Q?"]


# Thresholds, own language models, concurrency.


@pytest.mark.parametrize(("threshold", "knows"), [(0.6, True), (0.7, True), (0.8, False)])
def test_know_threshold_decides(threshold, knows):
    trace = run(mother(know={"noul": 0.7}), MOTHER, MOTHER_FOUND, know_threshold=threshold).trace
    assert trace.of(Judged)[0].value is knows
    assert trace.stopped == ("own knowledge" if knows else "relevant passages")


@pytest.mark.parametrize(("threshold", "relevant"), [(0.25, True), (0.35, False)])
def test_relevance_threshold_decides(threshold, relevant):
    model = mother(relevance={"noul": 0.3})
    prediction = run(model, MOTHER, MOTHER_FOUND, relevance_threshold=threshold, depth=0)
    assert len(prediction.passages) == 5 * relevant
    assert prediction.trace.stopped == ("relevant passages" if relevant else "depth")


@pytest.mark.parametrize("through", [lambda p: p, copy.deepcopy, lambda p: p.deepcopy(), lambda p: p.reset_copy()])
def test_sub_modules_use_language_models_of_their_own(through):
    main, know, relevance, decompose = snoop(), snoop(), snoop(), snoop()
    program = RAISF(TableRetriever(SNOOP_FOUND), know_lm=know.lm, relevance_lm=relevance.lm, decompose_lm=decompose.lm)
    with dspy.context(lm=main.lm):
        assert through(program)(question=SNOOP).answer == "no"
    counts = [len(model.engine.calls) for model in (main, know, relevance, decompose)]
    assert counts == [5, 5, 7, 1]
    assert len(main.asked("know") + main.asked("relevance") + main.asked("decompose")) == 0


def test_a_predictors_own_language_model_takes_precedence():
    main, given, own = snoop(), snoop(), snoop()
    program = RAISF(TableRetriever(SNOOP_FOUND), know_lm=given.lm)
    program.know.lm = own.lm
    with dspy.context(lm=main.lm):
        program(question=SNOOP)
    assert (len(given.engine.calls), len(own.engine.calls)) == (0, 5)


def test_judgements_run_at_once():
    barrier = threading.Barrier(5, timeout=20)

    class Waiting(Model):
        def relevance(self, inputs):
            barrier.wait()  # raises unless all five are under way
            return super().relevance(inputs)

    model = Waiting(relevant=("Xawery Żuławski",), answers={MOTHER: "Małgorzata Braunek"})
    assert run(model, MOTHER, MOTHER_FOUND).answer == "Małgorzata Braunek"


def test_sub_questions_run_at_once():
    barrier = threading.Barrier(4, timeout=20)

    class Waiting(Model):
        def know(self, inputs):
            if inputs["question"] != "Q":
                barrier.wait()
            return inputs["question"] != "Q"

    model = Waiting(parts={"Q": ["a", "b", "c", "d"]})
    assert [part.answer for part in run(model, "Q").sub_answers] == [f"answer to {part}" for part in "abcd"]


def test_one_by_one_is_the_same():
    results = []
    for concurrent in (True, False):
        prediction = run(snoop(), SNOOP, SNOOP_FOUND, concurrent=concurrent)
        steps = [step.model_dump(exclude={"at"}) for step in prediction.trace.steps]
        results.append((prediction.answer, prediction.passages, prediction.sub_answers, steps))
    assert results[0] == results[1]
    assert prediction.trace.cost.critical_calls == prediction.trace.cost.lm_calls == 18


# What can go wrong.


@pytest.mark.parametrize(
    ("model", "acts", "answer", "stopped"),
    [
        (mother(know=BROKEN), ["know"], "Małgorzata Braunek", "relevant passages"),
        (mother(relevance=BROKEN, decompose=["Part?"]), ["relevance"] * 5, "Małgorzata Braunek", "sub-answers"),
        (mother(read=BROKEN, decompose=["Part?"]), ["read"], "Małgorzata Braunek", "sub-answers"),
        (
            mother(known=(MOTHER,), answer=BROKEN, read="from passages"),
            ["answer"],
            "from passages",
            "relevant passages",
        ),
        (mother(relevant=(), decompose=BROKEN), ["decompose"], "unknown", "no sub-question"),
        (mother(relevant=(), decompose=["Part?"], synthesise=BROKEN), ["synthesise"], "unknown", "sub-answers"),
    ],
)
def test_malformed_output_counts_as_nothing_found(model, acts, answer, stopped):
    trace = (prediction := run(model, MOTHER, MOTHER_FOUND, depth=1)).trace
    assert [step.act for step in trace.of(Malformed)] == acts
    assert (prediction.answer, trace.stopped) == (answer, stopped)
    assert trace.cost.lm_calls == len(model.engine.calls)


@pytest.mark.parametrize("nothing", ["", " ", "unknown", "Unknown."])
def test_where_the_answer_is_unknown_the_next_module_has_its_turn(nothing):
    model = mother(known=(MOTHER,), answer=nothing, read=nothing, decompose=["Part?"], synthesise="from parts")
    prediction = run(model, MOTHER, MOTHER_FOUND, depth=1)
    assert (prediction.answer, prediction.passages) == ("from parts", [])
    assert [step.value for step in prediction.trace.of(Judged)][:3] == [True, False, True]
    assert prediction.sub_answers == [SubAnswer(question="Part?", answer="unknown")]


def test_no_hit_at_all():
    prediction = run(Model(parts=two_more), "Q", depth=1)
    assert (prediction.answer, prediction.passages) == ("answer to Q", [])
    assert [step.kind for step in prediction.trace.steps[:4]] == ["asked", "judged", "retrieved", "decomposed"]
    assert prediction.trace.cost.passages == 0


@pytest.mark.parametrize("preset", RAISF.presets)
def test_presets_hold(preset):
    values = RAISF.preset(preset)
    assert RAISF(None, **values).values() == RAISF().values() | values
