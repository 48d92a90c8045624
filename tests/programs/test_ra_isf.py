"""RA-ISF: tables 5, 6 and 9 as recorded traces, the ablations of table 2, depth, and what can go wrong.

The traces have the shape of the paper's cases: how many passages, sub-questions and verdicts, and which. The questions
are those of the data sets; passages, sub-questions and replies are in our words.
"""

import copy

import dspy
import pytest
from support import UNREADABLE, ProgramEngine, TableRetriever, lm_of, play

from knowgap.programs.ra_isf import RAISF
from knowgap.programs.trace.steps import Answered, Asked, Decomposed, Judged, Malformed, Rejected, Retrieved, Stopped
from knowgap.retrieval.passage import Passage
from knowgap.signatures import INTERMEDIATE, STYLES, SubAnswer


def model(*, known=(), relevant=(), enough=True, parts=None, answers=None, **replies):
    """A script: what the model knows, which passages (by title) are relevant, how it breaks questions down."""

    def answer(inputs):
        return (answers or {}).get(inputs["question"], f"answer to {inputs['question']}")

    def judge(inputs):
        ids = [passage["id"] for passage in inputs["passages"] if passage["title"] in relevant]
        return {"relevant_ids": ids, "answerable": bool(ids)}

    split = parts if callable(parts) else lambda inputs: (parts or {})[inputs["question"]]
    script = {
        "know": lambda inputs: inputs["question"] in known,
        "relevance": lambda inputs: inputs["passage"].split(":")[0] in relevant,
        "judge_all": judge,
        **dict.fromkeys(("decompose_apart", "chain"), split),
        **dict.fromkeys(("answer", "synthesise"), answer),
        "read": lambda inputs: {"answerable": enough, "answer": answer(inputs)},
    }
    return {**script, **replies}


PAPER = {**RAISF.preset("multi_hop"), "read_together": False}


def run(script, question, table=None, **kwargs):
    return play(RAISF(TableRetriever(table or {}), **{**PAPER, **kwargs}), question, **script)


def passages(*titles):
    return [Passage(title.casefold().replace(" ", "-"), title, "what it says") for title in titles]


def verdicts(trace, what="relevance"):
    return [step.value for step in trace.of(Judged) if step.what == what]


def asked(trace):
    return [step.question for step in trace.of(Asked)]


def reasons(trace):
    return [step.reason for step in trace.of(Stopped)]


# Table 5: nothing known, no passage of five relevant, four sub-questions, the last of them the question in other words.

SNOOP = "Did Snoop Dogg refuse to make music with rival gang members?"
PARTS = [
    "Which gang does Snoop Dogg belong to?",
    "Which gang is the rival of Snoop Dogg's gang?",
    "Who performed California Vacation with Snoop Dogg?",
    "Has Snoop Dogg turned down recording with rappers of rival gangs?",
]
PART_ANSWERS = ["the Crips", "the Bloods", "Xzibit and The Game", "no"]
SNOOP_TABLE = {
    SNOOP: passages("Calvin Broadus", "Doggystyle", "Murder charge of 1993", "Arrest in 1993", "Paid tha Cost"),
    PARTS[2]: passages("California Vacation", "California Love"),
}


def snoop(**changes):
    answers = {**dict(zip(PARTS, PART_ANSWERS, strict=True)), SNOOP: "no"}
    return model(**{"known": PARTS, "parts": {SNOOP: PARTS}, "answers": answers} | changes)


def test_worked_example_of_table_5():
    """One judgement of all five passages, as the table has it; it does not say how the sub-questions were answered."""
    prediction, engine = run(snoop(), SNOOP, SNOOP_TABLE, **{**RAISF.preset("commonsense"), "judge_together": True})
    trace = prediction.trace
    assert [(step.iteration, step.branch, step.kind) for step in trace.steps] == [
        (0, "", "asked"),
        (1, "", "judged"),  # not known
        (1, "", "retrieved"),
        *[(1, "", "judged")] * 6,  # none relevant, not sufficient
        (1, "", "decomposed"),
        *[(2, branch, kind) for branch in "1234" for kind in ("asked", "judged", "stopped", "answered")],
        (1, "", "stopped"),
        (1, "", "answered"),
    ]
    assert asked(trace) == [SNOOP, *PARTS]
    assert trace.of(Decomposed)[0].questions == PARTS
    assert [(step.queries, step.k) for step in trace.of(Retrieved)] == [([SNOOP], 5)]
    assert verdicts(trace, "self-knowledge") == [False, True, True, True, True]
    assert (verdicts(trace), verdicts(trace, "sufficient")) == ([False] * 5, [False])
    assert reasons(trace) == [*["own knowledge"] * 4, "sub-answers"]
    pairs = zip(PARTS, PART_ANSWERS, strict=True)
    assert prediction.sub_answers == [SubAnswer(question=part, answer=answer) for part, answer in pairs]
    assert (prediction.answer, prediction.passages) == ("no", [])
    assert engine.asked("synthesise")[0]["sub_answers"] == [part.model_dump() for part in prediction.sub_answers]
    cost = trace.cost
    # 3 for the question, 2 for each of its parts, 1 to put them together; in sequence 3, 2 and 1
    assert (cost.lm_calls, cost.critical_calls, cost.retrievals, cost.iterations) == (12, 6, 1, 2)
    # Only the last answer is in the style of the task.
    assert {inputs["style"] for inputs in engine.asked("answer")} == {INTERMEDIATE}
    assert [inputs["style"] for inputs in engine.asked("synthesise")] == [STYLES["yes_no"]]


def test_worked_example_of_table_6():
    question = "When was the immigration reform and control act passed?"
    prediction, engine = run(model(known=(question,), answers={question: "November 6, 1986"}), question)
    assert [step.kind for step in prediction.trace.steps] == ["asked", "judged", "stopped", "answered"]
    assert (prediction.answer, prediction.passages, prediction.sub_answers) == ("November 6, 1986", [], [])
    assert prediction.trace.stopped == "own knowledge"
    assert engine.acts == ["know", "answer"]


# Table 9: one of five passages is named as relevant, and is sufficient.

MOTHER = "Who is the mother of the director of film Polish-Russian War (Film)?"
MOTHER_TABLE = {MOTHER: passages("Polish-Russian War", "Xawery Żuławski", "The gothic girl", "Magda", "Filming")}


def mother(**changes):
    return model(**{"relevant": ("Xawery Żuławski",), "answers": {MOTHER: "Małgorzata Braunek"}} | changes)


def test_worked_example_of_table_9():
    prediction, engine = run(mother(), MOTHER, MOTHER_TABLE, judge_together=True)
    trace = prediction.trace
    assert engine.acts == ["know", "judge_all", "read"]
    assert [len(inputs["passages"]) for inputs in (engine.asked("judge_all")[0], engine.asked("read")[0])] == [5, 1]
    assert (verdicts(trace), verdicts(trace, "sufficient")) == ([False, True, False, False, False], [True])
    assert (prediction.answer, trace.stopped) == ("Małgorzata Braunek", "relevant passages")
    assert [passage.title for passage in prediction.passages] == ["Xawery Żuławski"]


def test_relevant_passages_that_are_not_sufficient_together_are_not_read():
    script = mother(judge_all={"relevant_ids": [1, 2, 77], "answerable": False}, parts={MOTHER: []})
    prediction, engine = run(script, MOTHER, MOTHER_TABLE, judge_together=True)
    assert (engine.asked("read"), prediction.trace.stopped) == ([], "no sub-question")
    assert verdicts(prediction.trace) == [True, True, False, False, False]


# Relevance, passage by passage, and the reader's own verdict.


def test_the_answer_is_drawn_from_all_relevant_passages():
    prediction, engine = run(mother(relevant=("Magda", "Xawery Żuławski")), MOTHER, MOTHER_TABLE)
    shown = [(p["id"], p["title"]) for p in engine.asked("read")[0]["passages"]]
    assert shown == [(1, "Xawery Żuławski"), (2, "Magda")]
    assert [passage.title for passage in prediction.passages] == ["Xawery Żuławski", "Magda"]
    assert (prediction.trace.cost.lm_calls, prediction.trace.cost.critical_calls) == (7, 3)


@pytest.mark.parametrize(
    ("setting", "reason"),
    [({"question_decomposition": False}, "no decomposition"), ({"depth": 0}, "depth"), ({}, "no sub-question")],
)
@pytest.mark.parametrize("relevant", [("Magda",), ()])
def test_where_nothing_can_be_broken_down_the_search_ends_in_an_answer(setting, reason, relevant):
    """What relevant passages suggest; without any, unknown at the depth (section 5.2), else the model's own answer."""
    script = mother(relevant=relevant, enough=False, parts={MOTHER: [MOTHER]}, answer="from memory")
    prediction, engine = run(script, MOTHER, MOTHER_TABLE, may_leave_open=True, **setting)
    alone = "unknown" if setting else "from memory"
    assert (prediction.answer, prediction.trace.stopped) == ("Małgorzata Braunek" if relevant else alone, reason)
    assert [passage.title for passage in prediction.passages] == list(relevant)
    assert len(engine.asked("chain")) == (not setting)
    assert prediction.trace.of(Answered)[-1].answer == prediction.answer


# The ablations of table 2, and depth.


def test_without_passage_relevance_nothing_is_retrieved():
    script = snoop(known=(PARTS[0], PARTS[1], PARTS[3]))
    prediction, engine = run(script, SNOOP, SNOOP_TABLE, passage_relevance=False, depth=1)
    assert (prediction.trace.cost.retrievals, prediction.passages, engine.asked("relevance")) == (0, [], [])
    assert [part.answer for part in prediction.sub_answers] == ["the Crips", "the Bloods", "", "no"]
    assert prediction.trace.stopped == "sub-answers"


def two_more(inputs):
    return [f"{inputs['question']} a", f"{inputs['question']} b"]


class One:
    """Finds one passage, whatever is asked."""

    def search(self, queries, k):
        return TableRetriever(dict.fromkeys(queries, passages("Anything"))).search(queries, k)


@pytest.mark.parametrize(("depth", "critical"), [(0, 2), (1, 6), (2, 10), (3, 14)])
def test_depth_is_counted_and_capped(depth, critical):
    prediction, engine = play(RAISF(One(), **{**PAPER, "depth": depth}), "Q", **model(parts=two_more))
    trace = prediction.trace
    questions = asked(trace)
    inner = 2**depth - 1
    assert len(questions) == 2 ** (depth + 1) - 1
    assert max(question.count(" ") for question in questions) == depth
    assert reasons(trace).count("depth") == 2**depth
    assert trace.cost.lm_calls == 2 * len(questions) + 2 * inner
    assert trace.cost.iterations == depth + 1
    assert trace.cost.critical_calls == critical  # know, judge, decompose on the way down, synthesise on the way up
    if depth == 1:
        unknown = [{"question": part, "answer": ""} for part in ("Q a", "Q b")]
        assert engine.asked("synthesise")[0]["sub_answers"] == unknown
    if depth == 3:
        branches = [step.branch for step in trace.steps if step.kind == "asked"]
        assert branches[:4] == ["", "1", "2", "1/1"]
        assert branches[-1] == "2/2/2"


def test_questions_on_the_way_are_not_asked_again():
    parts = {"Is Q?": ["is  q", "Part?", "part"], "Part?": ["Is Q", "Part"]}
    trace = run(model(parts=parts), "Is Q?")[0].trace
    assert [step.questions for step in trace.of(Decomposed)] == [["Part?"], []]
    assert reasons(trace) == ["no sub-question", "sub-answers"]
    assert [step.answer for step in trace.of(Answered)] == ["answer to Part?", "answer to Is Q?"]
    assert [(step.what, step.why) for step in trace.steps if step.kind == "rejected"] == [
        ("is  q", "asked above"),
        ("Is Q", "asked above"),
        ("Part", "asked above"),
    ]


# Own language models, concurrency.


@pytest.mark.parametrize("through", [lambda p: p, copy.deepcopy, lambda p: p.deepcopy(), lambda p: p.reset_copy()])
def test_sub_modules_use_language_models_of_their_own(through):
    script = snoop(known=PARTS[:2], relevant=("California Vacation",), parts={SNOOP: PARTS[:3]})
    engines = [ProgramEngine(RAISF(), script) for _ in range(4)]
    main, know, relevance, decompose = map(lm_of, engines)
    program = RAISF(TableRetriever(SNOOP_TABLE), know=know, relevant=relevance, decompose=decompose, **PAPER)
    with dspy.context(lm=main):
        assert through(program)(question=SNOOP).answer == "no"
    acts = [{"answer", "read", "synthesise"}, {"know"}, {"relevance"}, {"chain"}]
    assert [set(engine.acts) for engine in engines] == acts


def test_a_predictors_own_language_model_takes_precedence():
    given, own = ProgramEngine(RAISF(), snoop()), ProgramEngine(RAISF(), snoop())
    program = RAISF(TableRetriever(SNOOP_TABLE), know=lm_of(given), **PAPER)
    program.know.lm = lm_of(own)
    play(program, SNOOP, **snoop())
    assert (given.acts, own.acts) == ([], ["know"] * 5)


# What can go wrong.


@pytest.mark.parametrize(
    ("script", "acts", "answer", "stopped"),
    [
        (mother(know=UNREADABLE), ["know"], "Małgorzata Braunek", "relevant passages"),
        (mother(relevance=UNREADABLE), ["relevance"] * 5, "Małgorzata Braunek", "sub-answers"),
        (mother(read=UNREADABLE), ["read"], "Małgorzata Braunek", "sub-answers"),
        (mother(known=(MOTHER,), answer=UNREADABLE), ["answer"], "Małgorzata Braunek", "relevant passages"),
        (mother(relevant=(), chain=UNREADABLE), ["chain"], "Małgorzata Braunek", "no sub-question"),
        (mother(relevant=(), synthesise=UNREADABLE), ["synthesise"], "Małgorzata Braunek", "sub-answers"),
    ],
)
def test_malformed_output_costs_only_its_step(script, acts, answer, stopped):
    script = {**script, "chain": script["chain"] if "chain" in acts else lambda inputs: ["Part?"]}
    prediction, _ = run(script, MOTHER, MOTHER_TABLE, depth=1, chained=True)
    assert [step.act for step in prediction.trace.of(Malformed)] == acts
    assert (prediction.answer, prediction.trace.stopped) == (answer, stopped)


@pytest.mark.parametrize("excuse", ["I'm sorry, but the passages hold no information on that.", "unknown"])
def test_an_excuse_is_no_answer_where_the_gate_says_so(excuse):
    script = mother(read={"answerable": False, "answer": excuse}, parts={MOTHER: ["Part?"]}, synthesise="from parts")
    prediction, _ = run(script, MOTHER, MOTHER_TABLE, depth=1, may_leave_open=True)
    assert (prediction.answer, prediction.passages) == ("from parts", [])
    assert prediction.sub_answers == [SubAnswer(question="Part?", answer="")]


def test_the_papers_reader_does_not_leave_a_question_open():
    """Algorithm 1 answers from relevant passages in any case."""
    script = mother(enough=False, parts={MOTHER: ["Part?"]}, synthesise="from parts")
    closed, engine = run(script, MOTHER, MOTHER_TABLE)
    assert (closed.answer, closed.trace.stopped) == ("Małgorzata Braunek", "relevant passages")
    assert "chain" not in engine.acts
    assert run(script, MOTHER, MOTHER_TABLE, may_leave_open=True, depth=1)[0].answer == "from parts"


@pytest.mark.parametrize(("again", "parts"), [(["Who?", "Where?"], 2), (["Who?", "Where?", "Why?"], 2)])
def test_too_many_sub_questions_are_asked_for_again(again, parts):
    written = iter([["Who?", "Where?", "When?"], again])
    script = {**mother(relevant=()), "chain": lambda inputs: next(written)}
    prediction, engine = run(script, MOTHER, MOTHER_TABLE, depth=1, max_questions=2)
    assert [given["max_questions"] for given in engine.asked("chain")] == ["2", "2"]
    assert len(prediction.trace.of(Decomposed)[0].questions) == parts
    assert [step.what for step in prediction.trace.of(Rejected)] == again[2:]
