"""RA-ISF: tables 5 to 9 as recorded traces, the ablations of table 2, depth and width, and what can go wrong."""

import copy

import dspy
import pytest
from support import UNREADABLE, ProgramEngine, TableRetriever, lm_of, play

from knowgap.programs.ra_isf import RAISF
from knowgap.programs.trace.steps import Answered, Asked, Decomposed, Judged, Malformed, Retrieved, Stopped
from knowgap.retrieval.passage import Passage
from knowgap.signatures import STYLES, SubAnswer


def model(*, known=(), relevant=(), parts=None, answers=None, **replies):
    """A script: what the model knows, which passages (by title) are relevant, how it breaks questions down."""

    def answer(inputs):
        return (answers or {}).get(inputs["question"], f"answer to {inputs['question']}")

    script = {
        "know": lambda inputs: inputs["question"] in known,
        "relevance": lambda inputs: inputs["passage"].split(":")[0] in relevant,
        "decompose": parts if callable(parts) else lambda inputs: (parts or {})[inputs["question"]],
        **dict.fromkeys(("answer", "read", "synthesise"), answer),
    }
    return {**script, **replies}


def run(script, question, table=None, **kwargs):
    return play(RAISF(TableRetriever(table or {}), **kwargs), question, **script)


def passages(*titles):
    return [Passage(title.casefold().replace(" ", "-"), title, "what it says") for title in titles]


def relevance(trace):
    """Which passages were judged relevant, and which not."""
    return {step.passage: step.value for step in trace.of(Judged) if step.what == "relevance"}


# Table 5: nothing known, nothing relevant, four sub-questions.

SNOOP = "Did Snoop Dogg refuse to make music with rival gang members?"
PARTS = [
    "Which gang does Snoop Dogg belong to?",
    "Which gang is the rival of the Crips?",
    "Who performed California Vacation with Snoop Dogg?",
    "Is The Game a member of the Bloods?",
]
PART_ANSWERS = ["the Crips", "the Bloods", "Xzibit and The Game", "yes"]
SNOOP_TABLE = {
    SNOOP: passages("Calvin Broadus", "Doggystyle", "Murder charge of 1993", "Arrest in 1993", "Paid tha Cost"),
    PARTS[2]: passages("California Vacation", "California Love"),
}
SNOOP_MODEL = model(
    known=(PARTS[0], PARTS[1], PARTS[3]),
    relevant=("California Vacation",),
    parts={SNOOP: PARTS},
    answers={**dict(zip(PARTS, PART_ANSWERS, strict=True)), SNOOP: "no"},
)


def test_worked_example_of_table_5():
    prediction, engine = run(SNOOP_MODEL, SNOOP, SNOOP_TABLE, **RAISF.preset("commonsense"))
    trace = prediction.trace
    known = ("asked", "judged", "stopped", "answered")
    assert [(step.iteration, step.branch, step.kind) for step in trace.steps] == [
        (0, "", "asked"),
        (1, "", "judged"),  # not known
        (1, "", "retrieved"),
        *[(1, "", "judged")] * 5,  # none relevant
        (1, "", "decomposed"),
        *[(2, "1", kind) for kind in known],
        *[(2, "2", kind) for kind in known],
        *[(2, "3", kind) for kind in ("asked", "judged", "retrieved", "judged", "judged", "stopped", "answered")],
        *[(2, "4", kind) for kind in known],
        (1, "", "stopped"),
        (1, "", "answered"),
    ]
    assert [step.question for step in trace.of(Asked)] == [SNOOP, *PARTS]
    assert trace.of(Decomposed)[0].questions == PARTS
    assert [(step.queries, step.k) for step in trace.of(Retrieved)] == [([SNOOP], 5), ([PARTS[2]], 5)]
    knows = [step.value for step in trace.of(Judged) if step.what == "self-knowledge"]
    assert knows == [False, True, True, False, True]
    judged = dict.fromkeys([passage.id for found in SNOOP_TABLE.values() for passage in found], False)
    assert relevance(trace) == {**judged, "california-vacation": True}
    reasons = ["own knowledge", "own knowledge", "relevant passages", "own knowledge", "sub-answers"]
    assert [step.reason for step in trace.of(Stopped)] == reasons
    pairs = zip(PARTS, PART_ANSWERS, strict=True)
    assert prediction.sub_answers == [SubAnswer(question=part, answer=answer) for part, answer in pairs]
    assert prediction.answer == "no"
    assert [passage.id for passage in prediction.passages] == ["california-vacation"]
    assert engine.asked("synthesise")[0]["sub_answers"] == [part.model_dump() for part in prediction.sub_answers]
    assert [passage["title"] for passage in engine.asked("read")[0]["passages"]] == ["California Vacation"]
    cost = trace.cost
    # 1 + 5 + 1 for the question, 2 + 2 + (1 + 2 + 1) + 2 for its parts, 1 to put them together
    assert (cost.lm_calls, cost.retrievals, cost.passages, cost.iterations) == (18, 2, 7, 2)
    assert cost.critical_calls == 7  # know, judge, decompose; know, judge, read; synthesise
    # Only the last answer is in the style of the task.
    assert {i["style"] for act in ("answer", "read") for i in engine.asked(act)} == {STYLES["short"]}
    assert [inputs["style"] for inputs in engine.asked("synthesise")] == [STYLES["yes_no"]]


@pytest.mark.parametrize(
    ("question", "answer"),
    [
        ("When was the Immigration Reform and Control Act passed?", "November 6, 1986"),  # table 6
        ("From which country did Angola become independent in 1975?", "Portugal"),  # table 7
        ("Which private university is in Chestnut Hill, Boston College or Stanford University?", "Boston College"),
    ],
)
def test_worked_examples_of_tables_6_to_8(question, answer):
    prediction, engine = run(model(known=(question,), answers={question: answer}), question)
    assert [step.kind for step in prediction.trace.steps] == ["asked", "judged", "stopped", "answered"]
    assert (prediction.answer, prediction.passages, prediction.sub_answers) == (answer, [], [])
    assert prediction.trace.stopped == "own knowledge"
    assert engine.acts == ["know", "answer"]


# Table 9: one of five passages helps.

MOTHER = "Who is the mother of the director of film Polish-Russian War (Film)?"
MOTHER_TABLE = {MOTHER: passages("Polish-Russian War", "Xawery Żuławski", "The gothic girl", "Magda", "Filming")}


def mother(**changes):
    return model(**{"relevant": ("Xawery Żuławski",), "answers": {MOTHER: "Małgorzata Braunek"}} | changes)


def test_worked_example_of_table_9():
    prediction, _ = run(mother(), MOTHER, MOTHER_TABLE)
    trace = prediction.trace
    kinds = ["asked", "judged", "retrieved", *["judged"] * 5, "stopped", "answered"]
    assert [step.kind for step in trace.steps] == kinds
    judged = {passage.id: passage.title == "Xawery Żuławski" for passage in MOTHER_TABLE[MOTHER]}
    assert relevance(trace) == judged
    assert prediction.answer == "Małgorzata Braunek"
    assert [passage.title for passage in prediction.passages] == ["Xawery Żuławski"]
    assert (trace.stopped, trace.cost.lm_calls, trace.cost.critical_calls) == ("relevant passages", 7, 3)


def test_the_answer_is_drawn_from_all_relevant_passages():
    prediction, engine = run(mother(relevant=("Magda", "Xawery Żuławski")), MOTHER, MOTHER_TABLE)
    shown = [(p["id"], p["title"]) for p in engine.asked("read")[0]["passages"]]
    assert shown == [(1, "Xawery Żuławski"), (2, "Magda")]
    assert [passage.title for passage in prediction.passages] == ["Xawery Żuławski", "Magda"]


# The ablations of table 2, and depth.


def test_without_self_knowledge_passages_come_first():
    prediction, engine = run(mother(known=(MOTHER,)), MOTHER, MOTHER_TABLE, self_knowledge=False)
    assert engine.asked("know") == engine.asked("answer") == []
    assert (prediction.trace.steps[1].kind, prediction.trace.stopped) == ("retrieved", "relevant passages")


def test_without_passage_relevance_nothing_is_retrieved():
    prediction, engine = run(SNOOP_MODEL, SNOOP, SNOOP_TABLE, passage_relevance=False, depth=1)
    assert (prediction.trace.cost.retrievals, prediction.passages, engine.asked("relevance")) == (0, [], [])
    assert [part.answer for part in prediction.sub_answers] == ["the Crips", "the Bloods", "unknown", "yes"]
    assert prediction.trace.stopped == "sub-answers"


@pytest.mark.parametrize(
    ("setting", "reason"), [({"question_decomposition": False}, "no decomposition"), ({"depth": 0}, "depth")]
)
def test_without_decomposition_the_answer_is_unknown(setting, reason):
    prediction, engine = run(SNOOP_MODEL, SNOOP, SNOOP_TABLE, **setting)
    assert (prediction.answer, prediction.trace.stopped) == ("unknown", reason)
    assert engine.asked("decompose") == []
    assert prediction.trace.of(Answered)[-1].answer == "unknown"


def two_more(inputs):
    return [f"{inputs['question']} a", f"{inputs['question']} b"]


class One:
    """Finds one passage, whatever is asked."""

    def search(self, queries, k):
        return TableRetriever(dict.fromkeys(queries, passages("Anything"))).search(queries, k)


@pytest.mark.parametrize(("depth", "critical"), [(0, 2), (1, 6), (2, 10), (3, 14)])
def test_depth_is_counted_and_capped(depth, critical):
    prediction, engine = play(RAISF(One(), depth=depth), "Q", **model(parts=two_more))
    trace = prediction.trace
    asked = [step.question for step in trace.of(Asked)]
    inner = 2**depth - 1
    assert len(asked) == 2 ** (depth + 1) - 1
    assert max(question.count(" ") for question in asked) == depth
    assert [step.reason for step in trace.of(Stopped)].count("depth") == 2**depth
    assert trace.cost.lm_calls == 2 * len(asked) + 2 * inner
    assert trace.cost.iterations == depth + 1
    assert trace.cost.critical_calls == critical  # know, judge, decompose on the way down, synthesise on the way up
    if depth == 1:
        unknown = [{"question": part, "answer": "unknown"} for part in ("Q a", "Q b")]
        assert engine.asked("synthesise")[0]["sub_answers"] == unknown
    if depth == 3:
        assert [step.branch for step in trace.steps if step.kind == "asked"][:5] == ["", "1", "1/1", "1/1/1", "1/1/2"]


def test_questions_on_the_way_are_not_asked_again():
    parts = {"Is Q?": ["is  q", "Part?", "part"], "Part?": ["Is Q", "Part"]}
    trace = run(model(parts=parts), "Is Q?")[0].trace
    assert [step.questions for step in trace.of(Decomposed)] == [["Part?"], []]
    assert [step.reason for step in trace.of(Stopped)] == ["no sub-question", "sub-answers"]
    assert [step.answer for step in trace.of(Answered)] == ["unknown", "answer to Is Q?"]


# Thresholds, own language models, concurrency.


@pytest.mark.parametrize("through", [lambda p: p, copy.deepcopy, lambda p: p.deepcopy(), lambda p: p.reset_copy()])
def test_sub_modules_use_language_models_of_their_own(through):
    engines = [ProgramEngine(RAISF(), SNOOP_MODEL) for _ in range(4)]
    main, know, relevance, decompose = map(lm_of, engines)
    program = RAISF(TableRetriever(SNOOP_TABLE), know_lm=know, relevance_lm=relevance, decompose_lm=decompose)
    with dspy.context(lm=main):
        assert through(program)(question=SNOOP).answer == "no"
    acts = [{"answer", "read", "synthesise"}, {"know"}, {"relevance"}, {"decompose"}]
    assert [set(engine.acts) for engine in engines] == acts


def test_a_predictors_own_language_model_takes_precedence():
    given, own = ProgramEngine(RAISF(), SNOOP_MODEL), ProgramEngine(RAISF(), SNOOP_MODEL)
    program = RAISF(TableRetriever(SNOOP_TABLE), know_lm=lm_of(given))
    program.know.lm = lm_of(own)
    play(program, SNOOP, **SNOOP_MODEL)
    assert (given.acts, own.acts) == ([], ["know"] * 5)


# What can go wrong.


@pytest.mark.parametrize(
    ("script", "acts", "answer", "stopped"),
    [
        (mother(know=UNREADABLE), ["know"], "Małgorzata Braunek", "relevant passages"),
        (mother(relevance=UNREADABLE), ["relevance"] * 5, "Małgorzata Braunek", "sub-answers"),
        (mother(read=UNREADABLE), ["read"], "Małgorzata Braunek", "sub-answers"),
        (mother(known=(MOTHER,), answer=UNREADABLE, read="from it"), ["answer"], "from it", "relevant passages"),
        (mother(relevant=(), decompose=UNREADABLE), ["decompose"], "unknown", "no sub-question"),
        (mother(relevant=(), synthesise=UNREADABLE), ["synthesise"], "unknown", "sub-answers"),
    ],
)
def test_malformed_output_counts_as_nothing_found(script, acts, answer, stopped):
    script = {**script, "decompose": script["decompose"] if "decompose" in acts else lambda inputs: ["Part?"]}
    prediction, _ = run(script, MOTHER, MOTHER_TABLE, depth=1)
    assert [step.act for step in prediction.trace.of(Malformed)] == acts
    assert (prediction.answer, prediction.trace.stopped) == (answer, stopped)


@pytest.mark.parametrize("nothing", ["", " ", "unknown", "Unknown."])
def test_if_the_answer_is_unknown_the_next_module_takes_over(nothing):
    parts = {MOTHER: ["Part?"]}
    script = mother(known=(MOTHER,), answer=nothing, read=nothing, parts=parts, synthesise="from parts")
    prediction, _ = run(script, MOTHER, MOTHER_TABLE, depth=1)
    assert (prediction.answer, prediction.passages) == ("from parts", [])
    assert [step.value for step in prediction.trace.of(Judged)][:3] == [True, False, True]
    assert prediction.sub_answers == [SubAnswer(question="Part?", answer="unknown")]
