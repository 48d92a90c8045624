"""RA-ISF: tables 5 and 9 as recorded traces, algorithm 1 line by line, and the ablations of table 2.

The traces have the shape of the paper's cases: how many passages, sub-questions and verdicts, and which. The questions
are those of the data sets; passages, sub-questions and replies are in our words.
"""

import dspy
import pytest
from support import UNREADABLE, ProgramEngine, TableReranker, TableRetriever, lm_of, play

from knowgap.programs.ra_isf import RAISF
from knowgap.programs.trace.steps import Asked, Judged, Malformed, Queried, Retrieved, Stopped
from knowgap.retrieval.passage import Passage
from knowgap.signatures import STYLES, SubAnswer


def model(*, known=(), relevant=(), enough=True, parts=None, answers=None, **replies):
    """A script: what the model knows, which passages (by title) are relevant, how it breaks questions down."""

    def judge(inputs):
        ids = [passage["id"] for passage in inputs["passages"] if passage["title"] in relevant]
        return {"relevant_ids": ids, "answerable": enough and bool(ids)}

    script = {
        "know": lambda inputs: inputs["question"] in known,
        "relevant": lambda inputs: inputs["passage"].split(":")[0] in relevant,
        "joint": judge,
        "decompose": parts if callable(parts) else lambda inputs: (parts or {})[inputs["question"]],
        "answer": lambda inputs: (answers or {}).get(inputs["question"], "an answer"),
    }
    return {**script, **replies}


def run(script, question, table=None, **kwargs):
    return play(RAISF(TableRetriever(table or {}), **kwargs), question, **script)


def passages(*titles):
    return [Passage(title.casefold().replace(" ", "-"), title, "what it says") for title in titles]


def verdicts(trace, what="relevance"):
    return [step.value for step in trace.of(Judged) if step.what == what]


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
    prediction, engine = run(snoop(), SNOOP, SNOOP_TABLE, **RAISF.presets["commonsense"], judge_together=True)
    trace, cost = prediction.trace, prediction.trace.cost
    parts = [(step.iteration, step.branch, step.kind) for step in trace.steps if step.branch]
    assert parts == [(2, branch, kind) for branch in "1234" for kind in ("asked", "judged", "stopped", "answered")]
    assert verdicts(trace, "self-knowledge") == [False, True, True, True, True]
    assert (verdicts(trace), verdicts(trace, "sufficient")) == ([False] * 5, [False])
    assert reasons(trace) == [*["own knowledge"] * 4, "sub-answers"]
    pairs = zip(PARTS, PART_ANSWERS, strict=True)
    assert prediction.sub_answers == [SubAnswer(question=part, answer=answer) for part, answer in pairs]
    assert (prediction.answer, prediction.passages) == ("no", [])
    *parts, last = engine.asked("answer")
    assert last["sub_answers"] == [part.model_dump() for part in prediction.sub_answers]
    # 3 for the question, 2 for each of its parts, 1 to put them together; in sequence 3, 2 and 1
    assert (cost.lm_calls, cost.critical_calls, cost.retrievals, cost.iterations) == (12, 6, 1, 2)
    # Only the last answer is in the style of the task.
    assert [given["style"] for given in (*parts, last)] == [*[STYLES["short"]] * 4, STYLES["yes_no"]]


# Table 9: one of five passages is named as relevant, and is sufficient.

MOTHER = "Who is the mother of the director of film Polish-Russian War (Film)?"
MOTHER_TABLE = {MOTHER: passages("Polish-Russian War", "Xawery Żuławski", "The gothic girl", "Magda", "Filming")}


def mother(**changes):
    return model(**{"relevant": ("Xawery Żuławski",), "answers": {MOTHER: "Małgorzata Braunek"}} | changes)


def test_worked_example_of_table_9():
    prediction, engine = run(mother(), MOTHER, MOTHER_TABLE, judge_together=True)
    trace = prediction.trace
    assert engine.acts == ["know", "joint", "answer"]
    assert (verdicts(trace), verdicts(trace, "sufficient")) == ([False, True, False, False, False], [True])
    assert (prediction.answer, trace.stopped) == ("Małgorzata Braunek", "relevant passages")
    assert [passage.title for passage in prediction.passages] == ["Xawery Żuławski"]


@pytest.mark.parametrize(("known", "reason"), [((MOTHER,), "own knowledge"), ((), "relevant passages")])
@pytest.mark.parametrize("answer", [{"answer": "unknown"}, UNREADABLE])
def test_what_is_known_or_read_is_answered_at_once_also_if_the_answer_is_unknown(known, reason, answer):
    """Table 6, and lines 4 to 6 and 12 to 14: neither goes on to the next step."""
    prediction, engine = run(mother(known=known, answer=answer), MOTHER, MOTHER_TABLE)
    assert (prediction.trace.stopped, "decompose" in engine.acts) == (reason, False)
    assert prediction.answer == "unknown"
    assert len(prediction.trace.of(Retrieved)) == (not known)
    assert prediction.sub_answers == []


def test_asking_again_for_a_reply_that_cannot_be_read_is_no_call_of_max_calls():
    script = {**mother(know=UNREADABLE), "relevant": UNREADABLE}
    prediction, engine = run(script, MOTHER, MOTHER_TABLE, max_calls=3)
    assert engine.acts == [*["know"] * 2, *["relevant"] * 2, "answer"]
    assert len(prediction.trace.of(Malformed)) == 2
    assert verdicts(prediction.trace) == [False]


def test_the_last_of_max_calls_answers_from_what_was_found_and_the_sub_answers_so_far():
    prediction, engine = run(snoop(), SNOOP, SNOOP_TABLE, judge_together=True, max_calls=7)
    last = engine.asked("answer")[-1]
    assert [passage["title"] for passage in last["passages"]] == [passage.title for passage in SNOOP_TABLE[SNOOP]]
    assert last["sub_answers"] == [{"question": PARTS[0], "answer": PART_ANSWERS[0]}]
    assert prediction.sub_answers == [SubAnswer(**last["sub_answers"][0])]


@pytest.mark.parametrize(("depth", "critical"), [(0, 4), (2, 12)])
def test_depth_is_counted_and_capped(depth, critical):
    """Line 1: a question below D_th decompositions and one more is unknown, and nothing is asked for it."""
    script = model(parts=lambda inputs: [f"{inputs['question']} {part}" for part in "ab"])
    prediction, engine = play(RAISF(TableRetriever(passages("Anything")), depth=depth), "Q", **script)
    trace = prediction.trace
    questions, inner = [step.question for step in trace.of(Asked)], 2 ** (depth + 1) - 1
    assert len(questions) == 2 ** (depth + 2) - 1
    assert max(question.count(" ") for question in questions) == depth + 1
    assert reasons(trace).count("depth") == 2 ** (depth + 1)
    assert trace.cost.lm_calls == 4 * inner  # know, judge, decompose on the way down, answer on the way up
    assert (trace.cost.iterations, trace.cost.critical_calls) == (depth + 2, critical)
    if depth == 0:
        unknown = [{"question": part, "answer": "unknown"} for part in ("Q a", "Q b")]
        assert engine.asked("answer")[0]["sub_answers"] == unknown


@pytest.mark.parametrize(
    ("left_out", "acts", "reason"),
    [
        ("self_knowledge", [*["relevant"] * 5, "answer"], "relevant passages"),
        ("question_decomposition", ["know", *["relevant"] * 5], "no decomposition"),
    ],
)
def test_without_a_module(left_out, acts, reason):
    relevant = ("Magda",) if left_out == "self_knowledge" else ()
    prediction, engine = run(mother(relevant=relevant), MOTHER, MOTHER_TABLE, **{left_out: False})
    assert (engine.acts, prediction.trace.stopped) == (acts, reason)
    assert prediction.answer == ("Małgorzata Braunek" if relevant else "unknown")


def test_without_passage_relevance_nothing_is_retrieved():
    script = snoop(known=(PARTS[0], PARTS[1], PARTS[3]), parts={SNOOP: PARTS, PARTS[2]: ["Who?"]})
    prediction, engine = run(script, SNOOP, SNOOP_TABLE, passage_relevance=False, depth=0)
    assert (prediction.trace.cost.retrievals, prediction.passages, engine.asked("relevant")) == (0, [], [])
    assert [part.answer for part in prediction.sub_answers] == ["unknown"] * 4


def test_sub_modules_use_language_models_of_their_own():
    script = snoop(known=PARTS[:2], relevant=("California Vacation",), parts={SNOOP: PARTS[:3]})
    engines = [ProgramEngine(RAISF(), script) for _ in range(4)]
    main, know, relevant, decompose = map(lm_of, engines)
    models = {"know": know, "relevant": relevant, "decompose": decompose}
    program = RAISF(TableRetriever(SNOOP_TABLE), **models)
    with dspy.context(lm=main):
        assert program.deepcopy()(question=SNOOP).answer == "no"
    assert [set(engine.acts) for engine in engines] == [{"answer"}, {"know"}, {"relevant"}, {"decompose"}]


@pytest.mark.parametrize(
    ("threshold", "kept", "reason"),
    [(None, 2, "relevant passages"), (0.9, 1, "relevant passages"), (1.0, 0, "no sub-question")],
)
def test_a_cross_encoder_judges_passages_with_its_threshold(threshold, kept, reason):
    logits = dict(zip([p.title for p in MOTHER_TABLE[MOTHER]], [-3.0, 5.0, 1.5, 0.0, -50.0], strict=True))
    cross_encoder = TableReranker(lambda query, text: logits[text.split(":")[0]], default_threshold=1.0)
    program = RAISF(TableRetriever(MOTHER_TABLE), relevant=cross_encoder, relevance_threshold=threshold, depth=0)
    prediction, engine = play(program, MOTHER, **mother(parts={MOTHER: []}))
    assert verdicts(prediction.trace).count(True) == kept
    assert engine.acts == (["know", "answer"] if kept else ["know", "decompose", "answer"])
    assert (prediction.trace.stopped, prediction.trace.of(Queried)) == (reason, [])
