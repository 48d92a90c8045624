"""BlendFilter blends three queries, filters what each finds, and answers from the rest."""

import asyncio

import dspy
import pytest
from support import TableRetriever, by_output, scripted_lm

from knowgap.errors import UnknownName, ValueOutOfBounds
from knowgap.programs.blend_filter import BlendFilter
from knowgap.programs.trace.steps import Answered, Filtered, Judged, Malformed, Reasoned, Retrieved
from knowgap.retrieval.passage import Passage

# The paper's case (section 4.8): the question and the external query find SuperMansion, the internal one Jillian Bell.
QUESTION = "SuperMansion starred the actress who had a recurring role as whom on Workaholics?"
SHOW = Passage(
    "show", "SuperMansion", "The animated series SuperMansion has Bryan Cranston and Jillian Bell in its cast."
)
BELL = Passage(
    "bell", "Jillian Bell", "Jillian Bell, a comedian, returned again and again as Jillian Belk on Workaholics."
)
WORK = Passage("work", "Workaholics", "Workaholics is a sitcom about three friends at a telemarketing firm.")
MAN = Passage("man", "Superman", "Superman is a comic-book hero from Krypton.")
HOUSE = Passage("house", "Mansion", "A mansion is a large dwelling house.")

DRAFT = {"reasoning": "SuperMansion has Jillian Bell in its cast.", "answer": "her role is not given"}
MEMORY = {"passage": "Jillian Bell plays in SuperMansion and was Jillian Belk on Workaholics."}
EXTERNAL = f"SuperMansion has Jillian Bell in its cast. her role is not given {QUESTION}"
INTERNAL = f"{MEMORY['passage']} {QUESTION}"
TABLE = {QUESTION: [SHOW, WORK, MAN], EXTERNAL: [SHOW, HOUSE], INTERNAL: [BELL, MAN]}
RELEVANT = ("SuperMansion", "Jillian Bell")
COT = {
    "reasoning": "Jillian Bell is in SuperMansion. On Workaholics she was Jillian Belk.",
    "answer": "as Jillian Belk",
}


def assess(outputs, inputs):
    if set(outputs) == {"reasoning"}:
        lines = [
            f"{p['id']}: {'relevant' if p['title'] in RELEVANT else 'beside the point'}" for p in inputs["passages"]
        ]
        return {"reasoning": "\n".join(lines)}
    return DRAFT if "style" not in inputs else COT


def listed(outputs, inputs):
    assert len(str(inputs["assessment"])) > 5
    return {"relevant_ids": [p["id"] for p in inputs["passages"] if p["title"] in RELEVANT]}


SCRIPT = {
    "reasoning": assess,
    "relevant_ids": listed,
    "passage": lambda outputs, inputs: MEMORY,
    "answer": lambda outputs, inputs: {"answer": "Jillian Belk"},
}


def answered(script=None, table=None, **kwargs):
    lm, engine = scripted_lm(by_output({**SCRIPT, **(script or {})}))
    retriever = TableRetriever(TABLE if table is None else table)
    with dspy.context(lm=lm):
        return BlendFilter(retriever, **kwargs)(question=QUESTION), engine, retriever


def acts(engine):
    return sorted("+".join(names) for names, _ in engine.calls)


def test_the_three_queries_bring_both_passages_and_the_filter_leaves_only_those():
    prediction, engine, retriever = answered()
    assert prediction.answer == "Jillian Belk"
    assert prediction.passages == [SHOW, BELL]
    assert prediction.reasoning == COT["reasoning"]
    assert sorted(retriever.searched) == sorted([QUESTION, EXTERNAL, INTERNAL])
    trace = prediction.trace
    assert [(step.kind, step.branch) for step in trace.steps] == [
        ("asked", ""),
        ("retrieved", ""),
        ("filtered", "original"),
        ("reasoned", "external"),
        ("retrieved", "external"),
        ("filtered", "external"),
        ("reasoned", "internal"),
        ("retrieved", "internal"),
        ("filtered", "internal"),
        ("reasoned", ""),
        ("answered", ""),
    ]
    assert [(step.kept, step.dropped) for step in trace.of(Filtered)] == [
        (["show"], ["work", "man"]),
        (["show"], ["house"]),
        (["bell"], ["man"]),
    ]
    assert trace.of(Answered)[0].passages == ["show", "bell"]
    assert trace.stopped == ""  # nothing loops
    # Draft, memory, three filters of two turns, chain of thought, short answer; draft, filter, answer in sequence.
    assert (trace.cost.lm_calls, trace.cost.critical_calls) == (10, 5)
    assert (trace.cost.retrievals, trace.cost.iterations, trace.cost.passages) == (3, 1, 5)
    assert len(engine.calls) == 10


def test_the_final_answer_sees_only_what_was_kept_and_is_worded_in_the_style():
    _, engine, _ = answered(style="yes_no")
    final = [inputs for names, inputs in engine.calls if "style" in inputs and "passages" in inputs]
    assert [p["title"] for p in final[0]["passages"]] == ["SuperMansion", "Jillian Bell"]
    shortened = [inputs for names, inputs in engine.calls if names == ("answer",)]
    assert shortened[0]["text"] == f"{COT['reasoning']}\nThe answer is: {COT['answer']}"
    assert final[0]["style"] == shortened[0]["style"] == "yes or no, nothing else"


@pytest.mark.parametrize(
    ("left_out", "searched", "passages", "calls", "critical"),
    [
        ("original", [QUESTION, EXTERNAL, INTERNAL], [SHOW, BELL], 8, 5),
        ("external", [QUESTION, INTERNAL], [SHOW, BELL], 7, 5),
        ("internal", [QUESTION, EXTERNAL], [SHOW], 7, 5),
    ],
)
def test_each_query_can_be_left_out(left_out, searched, passages, calls, critical):
    prediction, _, retriever = answered(**{left_out: False})
    assert sorted(retriever.searched) == sorted(searched)
    assert prediction.passages == passages
    branches = {step.branch for step in prediction.trace.of(Filtered)}
    assert branches == {"original", "external", "internal"} - {left_out}
    assert (prediction.trace.cost.lm_calls, prediction.trace.cost.critical_calls) == (calls, critical)


def test_the_question_is_not_searched_where_only_the_internal_query_counts():
    prediction, _, retriever = answered(original=False, external=False)
    assert retriever.searched == [INTERNAL]
    assert prediction.passages == [BELL]


def test_without_any_query_the_model_answers_alone():
    prediction, engine, retriever = answered(original=False, external=False, internal=False)
    assert (retriever.searched, prediction.passages, prediction.answer) == ([], [], "Jillian Belk")
    assert acts(engine) == ["answer", "reasoning+answer"]


def test_without_the_filter_the_union_is_read_whole():
    prediction, engine, _ = answered(knowledge_filter="none")
    assert prediction.passages == [SHOW, WORK, MAN, HOUSE, BELL]  # original, external, internal; each once
    assert prediction.trace.of(Filtered) == []
    assert acts(engine) == ["answer", "passage", "reasoning+answer", "reasoning+answer"]


def test_the_filter_after_the_union_judges_all_passages_in_one_go():
    prediction, _, _ = answered(knowledge_filter="union")
    (step,) = prediction.trace.of(Filtered)
    assert (step.branch, step.kept, step.dropped) == ("", ["show", "bell"], ["work", "man", "house"])
    assert prediction.passages == [SHOW, BELL]
    assert prediction.trace.cost.lm_calls == 6


def test_k_bounds_each_query_by_itself():
    prediction, _, _ = answered(top_k=1)
    assert [step.hits for step in prediction.trace.of(Retrieved)] == [[["show"]], [["show"]], [["bell"]]]
    assert prediction.passages == [SHOW, BELL]


def test_a_probability_above_or_below_the_threshold_flips_the_filter():
    def noul(outputs, inputs):
        return {"relevant": {"noul": 0.8 if str(inputs["passage"]).startswith(RELEVANT) else 0.3}}

    for threshold, kept in ((0.5, [SHOW, BELL]), (0.2, [SHOW, WORK, MAN, HOUSE, BELL]), (0.9, [])):
        prediction, engine, _ = answered({"relevant": noul}, relevance=threshold)
        assert prediction.passages == kept
        assert not any("relevant_ids" in names for names, _ in engine.calls)
        judged = prediction.trace.of(Judged)
        assert [step.value for step in judged if step.passage == "work"] == [threshold == 0.2]
        assert {step.branch for step in judged} == {"original", "external", "internal"}
        assert prediction.trace.cost.critical_calls == 4  # one turn in place of two


def test_a_filter_that_keeps_nothing_leaves_the_answer_to_the_model():
    prediction, _, _ = answered({"relevant_ids": lambda outputs, inputs: {"relevant_ids": []}})
    assert (prediction.answer, prediction.passages) == ("Jillian Belk", [])


def test_ids_that_do_not_exist_are_left_out():
    prediction, _, _ = answered({"relevant_ids": lambda outputs, inputs: {"relevant_ids": [99, 1, 0, -1, 1]}})
    assert prediction.passages == [SHOW, BELL]  # the first of each list


def test_no_hits_cost_no_filter_and_no_draft():
    prediction, engine, retriever = answered(table={})
    assert (prediction.answer, prediction.passages) == ("Jillian Belk", [])
    assert acts(engine) == ["answer", "passage", "reasoning+answer"]
    assert sorted(retriever.searched) == sorted([QUESTION, INTERNAL])


BROKEN = "the reply is not in any format"


@pytest.mark.parametrize(
    ("act", "passages", "answer"),
    [
        ("draft", [SHOW, BELL], "Jillian Belk"),
        ("recall", [SHOW], "Jillian Belk"),
        ("reason", [SHOW, BELL], "Jillian Belk"),
        ("list_ids", [], "Jillian Belk"),
        ("answer", [SHOW, BELL], "unknown"),
        ("shorten", [SHOW, BELL], "as Jillian Belk"),
    ],
)
def test_an_unreadable_reply_counts_as_nothing_found(act, passages, answer):
    def breaks(name, rule):
        return lambda outputs, inputs: BROKEN if name == act else rule(outputs, inputs)

    def reasoned(outputs, inputs):
        name = "reason" if set(outputs) == {"reasoning"} else "answer" if "style" in inputs else "draft"
        return BROKEN if name == act else assess(outputs, inputs)

    script = {
        "reasoning": reasoned,
        "relevant_ids": breaks(
            "list_ids", lambda o, i: {"relevant_ids": [p["id"] for p in i["passages"] if p["title"] in RELEVANT]}
        ),
        "passage": breaks("recall", SCRIPT["passage"]),
        "answer": breaks("shorten", SCRIPT["answer"]),
    }
    prediction, _, _ = answered(script)
    assert (prediction.passages, prediction.answer) == (passages, answer)
    assert {step.act for step in prediction.trace.of(Malformed)} == {act}


def test_nothing_readable_at_all_still_gives_an_answer():
    lm, _ = scripted_lm(lambda outputs, inputs: BROKEN)
    with dspy.context(lm=lm):
        prediction = BlendFilter(TableRetriever(TABLE))(question=QUESTION)
    assert (prediction.answer, prediction.passages) == ("unknown", [])


def test_one_by_one_gives_the_same_answer_and_steps():
    at_once, _, _ = answered()
    in_turn, _, _ = answered(concurrent=False)

    def steps(prediction):
        return [step.model_dump(exclude={"at"}) for step in prediction.trace.steps]

    assert in_turn.answer == at_once.answer
    assert in_turn.passages == at_once.passages
    assert steps(in_turn) == steps(at_once)
    assert in_turn.trace.cost.critical_calls == in_turn.trace.cost.lm_calls == 10


def test_acall_gives_the_same():
    lm, _ = scripted_lm(by_output(SCRIPT))
    with dspy.context(lm=lm):
        prediction = asyncio.run(BlendFilter(TableRetriever(TABLE)).acall(question=QUESTION))
    assert (prediction.answer, prediction.passages) == ("Jillian Belk", [SHOW, BELL])


def test_presets_and_bounds():
    assert BlendFilter(None, **BlendFilter.preset("multi_hop")).values()["top_k"] == 5
    assert BlendFilter(None, **BlendFilter.preset("commonsense")).style == "yes_no"
    with pytest.raises(UnknownName):
        BlendFilter.preset("news")
    with pytest.raises(ValueOutOfBounds, match="top_k=0"):
        BlendFilter(None, top_k=0)


def test_the_reasons_of_the_filter_stand_in_the_trace():
    prediction, _, _ = answered()
    assert "beside the point" in prediction.trace.of(Filtered)[0].reason
    assert [step.what for step in prediction.trace.of(Reasoned)] == [
        "external knowledge",
        "internal knowledge",
        "chain of thought",
    ]
