"""BlendFilter blends three queries, filters what each finds, and answers from the rest."""

import re

import pytest
from support import UNREADABLE, TableRetriever, play

from knowgap.programs.blend_filter import BlendFilter
from knowgap.programs.trace.steps import Answered, Filtered, Judged, Malformed, Reasoned
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

MEMORY = "Jillian Bell plays in SuperMansion and was Jillian Belk on Workaholics."
EXTERNAL = f"SuperMansion has Jillian Bell in its cast. her role is not given {QUESTION}"
INTERNAL = f"{MEMORY} {QUESTION}"
TABLE = {QUESTION: [SHOW, WORK, MAN], EXTERNAL: [SHOW, HOUSE], INTERNAL: [BELL, MAN]}
RELEVANT = ("SuperMansion", "Jillian Bell")
REASONING = "Jillian Bell is in SuperMansion. On Workaholics she was Jillian Belk."


def assess(inputs):
    lines = [f"{p['id']}: {'relevant' if p['title'] in RELEVANT else 'beside the point'}" for p in inputs["passages"]]
    return "\n".join(lines)


def list_relevant(inputs):
    """The ids that the assessment calls relevant."""
    return [int(number) for number in re.findall(r"(\d+): relevant", inputs["assessment"])]


SCRIPT = {
    "draft": {"reasoning": "SuperMansion has Jillian Bell in its cast.", "answer": "her role is not given"},
    "recall": MEMORY,
    "reason": assess,
    "list_ids": list_relevant,
    "answer": {"reasoning": REASONING, "answer": "as Jillian Belk"},
    "shorten": "Jillian Belk",
}


def answered(script=None, table=TABLE, **kwargs):
    retriever = TableRetriever(table)
    prediction, engine = play(BlendFilter(retriever, **kwargs), QUESTION, **{**SCRIPT, **(script or {})})
    return prediction, engine, retriever


def test_the_three_queries_bring_both_passages_and_the_filter_leaves_only_those():
    prediction, _, retriever = answered()
    assert prediction.answer == "Jillian Belk"
    assert prediction.passages == [SHOW, BELL]
    assert prediction.reasoning == REASONING
    assert sorted(retriever.searched) == sorted([QUESTION, EXTERNAL, INTERNAL])
    trace = prediction.trace
    assert [(step.kind, step.branch) for step in trace.steps] == [
        ("asked", ""),
        ("retrieved", ""),
        ("filtered", "original"),
        *[(kind, "external") for kind in ("reasoned", "retrieved", "filtered")],
        *[(kind, "internal") for kind in ("reasoned", "retrieved", "filtered")],
        ("reasoned", ""),
        ("answered", ""),
    ]
    whats = ["external knowledge", "internal knowledge", "chain of thought"]
    assert [step.what for step in trace.of(Reasoned)] == whats
    assert [(step.kept, step.dropped) for step in trace.of(Filtered)] == [
        (["show"], ["work", "man"]),
        (["show"], ["house"]),
        (["bell"], ["man"]),
    ]
    assert trace.of(Filtered)[0].reason == "1: relevant 2: beside the point 3: beside the point"
    assert trace.of(Answered)[0].passages == ["show", "bell"]
    assert trace.stopped == ""  # nothing loops
    # Draft, memory, three filters of two turns, chain of thought, short answer; draft, filter, answer in sequence.
    assert (trace.cost.lm_calls, trace.cost.critical_calls) == (10, 5)
    assert (trace.cost.retrievals, trace.cost.iterations, trace.cost.passages) == (3, 1, 5)


def test_the_final_answer_sees_only_what_was_kept_and_is_worded_in_the_style():
    _, engine, _ = answered(style="yes_no")
    (final,), (shortened,) = engine.asked("answer"), engine.asked("shorten")
    assert [p["title"] for p in final["passages"]] == ["SuperMansion", "Jillian Bell"]
    assert shortened["text"] == f"{REASONING}\nThe answer is: as Jillian Belk"
    assert final["style"] == shortened["style"] == "yes or no, nothing else"


@pytest.mark.parametrize(
    ("left_out", "searched", "passages", "calls"),
    [
        (["original"], [QUESTION, EXTERNAL, INTERNAL], [SHOW, BELL], 8),
        (["external"], [QUESTION, INTERNAL], [SHOW, BELL], 7),
        (["internal"], [QUESTION, EXTERNAL], [SHOW], 7),
        (["original", "external"], [INTERNAL], [BELL], 5),
        (["original", "external", "internal"], [], [], 2),  # the model answers alone
    ],
)
def test_each_query_can_be_left_out(left_out, searched, passages, calls):
    prediction, _, retriever = answered(**dict.fromkeys(left_out, False))
    assert sorted(retriever.searched) == sorted(searched)
    assert (prediction.passages, prediction.answer) == (passages, "Jillian Belk")
    branches = {step.branch for step in prediction.trace.of(Filtered)}
    assert branches == {"original", "external", "internal"} - set(left_out)
    assert prediction.trace.cost.lm_calls == calls


def test_without_the_filter_the_union_is_read_whole():
    prediction, engine, _ = answered(knowledge_filter="none")
    assert prediction.passages == [SHOW, WORK, MAN, HOUSE, BELL]  # original, external, internal; each once
    assert prediction.trace.of(Filtered) == []
    assert sorted(engine.acts) == ["answer", "draft", "recall", "shorten"]


def test_the_filter_after_the_union_judges_all_passages_in_one_go():
    prediction, _, _ = answered(knowledge_filter="union")
    (step,) = prediction.trace.of(Filtered)
    assert (step.branch, step.kept, step.dropped) == ("", ["show", "bell"], ["work", "man", "house"])
    assert prediction.passages == [SHOW, BELL]
    assert prediction.trace.cost.lm_calls == 6


@pytest.mark.parametrize(("threshold", "kept"), [(0.5, [SHOW, BELL]), (0.2, [SHOW, WORK, MAN, HOUSE, BELL]), (0.9, [])])
def test_a_probability_above_or_below_the_threshold_flips_the_filter(threshold, kept):
    def judge(inputs):
        return {"relevant": {"noul": 0.8 if str(inputs["passage"]).startswith(RELEVANT) else 0.3}}

    prediction, engine, _ = answered({"judge": judge}, relevance=threshold)
    assert prediction.passages == kept
    assert engine.asked("reason") == engine.asked("list_ids") == []
    judged = prediction.trace.of(Judged)
    assert [step.value for step in judged if step.passage == "work"] == [WORK in kept]
    assert {step.branch for step in judged} == {"original", "external", "internal"}
    assert prediction.trace.cost.critical_calls == 4  # one turn in place of two


@pytest.mark.parametrize(("ids", "passages"), [([], []), ([99, 1, 0, -1, 1], [SHOW, BELL])])
def test_ids_that_do_not_exist_are_left_out_and_nothing_may_be_left(ids, passages):
    prediction, _, _ = answered({"list_ids": {"relevant_ids": ids}})
    assert (prediction.answer, prediction.passages) == ("Jillian Belk", passages)  # the first of each list


def test_no_hits_cost_no_filter_and_no_draft():
    prediction, engine, retriever = answered(table={})
    assert (prediction.answer, prediction.passages) == ("Jillian Belk", [])
    assert sorted(engine.acts) == ["answer", "recall", "shorten"]
    assert sorted(retriever.searched) == sorted([QUESTION, INTERNAL])


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
    def by_title(inputs):
        return [p["id"] for p in inputs["passages"] if p["title"] in RELEVANT]

    prediction, _, _ = answered({"list_ids": by_title, act: UNREADABLE})
    assert (prediction.passages, prediction.answer) == (passages, answer)
    assert {step.act for step in prediction.trace.of(Malformed)} == {act}
