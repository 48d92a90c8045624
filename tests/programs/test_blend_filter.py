"""BlendFilter blends three queries, filters what each finds, and answers from the rest.

The trace has the shape of the paper's case (section 4.8, figure 6): three queries with five passages each, of which the
question and the external query find one gold passage, the internal query another; the filter leaves these two. The
question is HotpotQA's; passages and replies are in our words.
"""

import re

import pytest
from support import TableRetriever, play

from knowgap.programs.blend_filter import BlendFilter
from knowgap.programs.trace.steps import Filtered
from knowgap.retrieval.passage import Passage

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
REST = [Passage(f"rest{n}", f"Anders {n}", "Anders Holm and his friends.") for n in range(4)]

MEMORY = "Jillian Bell plays in SuperMansion and was Jillian Belk on Workaholics."
EXTERNAL = f"SuperMansion has Jillian Bell in its cast. her role is not given {QUESTION}"
INTERNAL = f"{MEMORY} {QUESTION}"
TABLE = {
    QUESTION: [SHOW, WORK, MAN, *REST[:2]],
    EXTERNAL: [SHOW, HOUSE, *REST[:3]],
    INTERNAL: [BELL, MAN, *REST[1:]],
}
FOUND = [SHOW, WORK, MAN, *REST[:2], HOUSE, REST[2], BELL, REST[3]]
"""Original, external, internal; each once."""
RELEVANT = ("SuperMansion", "Jillian Bell")
REASONING = "Jillian Bell is in SuperMansion. On Workaholics she was Jillian Belk."


def assess(inputs):
    lines = [f"{p['id']}: {'relevant' if p['title'] in RELEVANT else 'beside the point'}" for p in inputs["passages"]]
    return "\n".join(lines)


def list_relevant(inputs):
    """The ids that the assessment calls relevant."""
    return [int(number) for number in re.findall(r"(\d+): relevant", inputs["assessment"])]


def reasoned(inputs):
    """The draft, from the passages that the question finds, or the answer."""
    if inputs["passages"] and len(inputs["passages"]) == 5:
        return {"reasoning": "SuperMansion has Jillian Bell in its cast.", "answer": "her role is not given"}
    return {"reasoning": REASONING, "answer": "as Jillian Belk"}


SCRIPT = {
    "internal_knowledge": MEMORY,
    "name_topic": "television series",
    "reason": assess,
    "list_ids": list_relevant,
    "answer": reasoned,
    "shorten": "Jillian Belk",
}


def answered(script=None, **kwargs):
    retriever = TableRetriever(TABLE)
    prediction, engine = play(BlendFilter(retriever, **kwargs), QUESTION, **{**SCRIPT, **(script or {})})
    return prediction, engine, retriever


def test_worked_example_of_figure_6():
    prediction, engine, retriever = answered()
    assert prediction.answer == "Jillian Belk"
    assert prediction.passages == [SHOW, BELL]
    assert prediction.reasoning == REASONING
    assert retriever.searched == [QUESTION, EXTERNAL, INTERNAL]
    trace = prediction.trace
    assert [(step.branch, step.kept, step.dropped) for step in trace.of(Filtered)] == [
        ("original", ["show"], ["work", "man", "rest0", "rest1"]),
        ("external", ["show"], ["house", "rest0", "rest1", "rest2"]),
        ("internal", ["bell"], ["man", "rest1", "rest2", "rest3"]),
    ]
    assert {inputs["topic"] for inputs in engine.asked("reason")} == {"television series"}  # of the first turn
    # Draft, memory, topic, three filters of two turns, chain of thought, short answer; five in sequence.
    assert (trace.cost.lm_calls, trace.cost.critical_calls) == (11, 5)


@pytest.mark.parametrize(("preset", "turns"), [("multi_hop", 3), ("commonsense", 2)])
def test_strategyqa_has_no_turn_for_the_topic_and_possibly_nothing_is_relevant(preset, turns):
    program = BlendFilter.from_preset(preset, TableRetriever(TABLE))
    prediction, engine = play(program, QUESTION, **{**SCRIPT, "shorten": "yes"})
    assert len(engine.asked("name_topic")) == turns - 2
    told = [inputs["expected"] for act in ("reason", "list_ids") for inputs in engine.asked(act)]
    assert len(told) == 6
    assert {"none" in text for text in told} == {turns == 2}
    assert prediction.trace.cost.lm_calls == 8 + turns


@pytest.mark.parametrize(
    ("settings", "searched", "passages", "calls"),
    [
        ({"original": False}, [QUESTION, EXTERNAL, INTERNAL], [SHOW, BELL], 9),
        ({"internal": False}, [QUESTION, EXTERNAL], [SHOW], 8),
        ({"original": False, "external": False}, [INTERNAL], [BELL], 6),
        ({"knowledge_filter": "none"}, [QUESTION, EXTERNAL, INTERNAL], FOUND, 4),
    ],
)
def test_each_query_and_the_filter_can_be_left_out(settings, searched, passages, calls):
    prediction, _, retriever = answered(**settings)
    assert retriever.searched == searched
    assert (prediction.passages, prediction.trace.cost.lm_calls) == (passages, calls)
    assert bool(prediction.trace.of(Filtered)) == ("knowledge_filter" not in settings)


def test_the_filter_after_the_union_judges_all_passages_in_one_go():
    prediction, _, _ = answered(knowledge_filter="union")
    (step,) = prediction.trace.of(Filtered)
    dropped = [passage.id for passage in FOUND if passage not in (SHOW, BELL)]
    assert (step.branch, step.kept, step.dropped) == ("", ["show", "bell"], dropped)
    assert prediction.passages == [SHOW, BELL]
    assert prediction.trace.cost.lm_calls == 7
