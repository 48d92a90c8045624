"""BlendFilter blends three queries, filters what each finds, and answers from the rest.

The trace has the shape of the paper's case (section 4.8, figure 6): three queries with five passages each, of which the
question and the external query find one gold passage, the internal query another; the filter leaves these two. The
question is HotpotQA's; passages and replies are in our words.
"""

import re

import pytest
from support import PLAINLY, UNREADABLE, TableRetriever, play

from knowgap.programs.blend_filter import BlendFilter
from knowgap.programs.trace.steps import Answered, Filtered, Judged, Malformed, Reasoned, Rejected, Retrieved
from knowgap.retrieval.passage import Passage
from knowgap.signatures import STYLES

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
PAPER = BlendFilter.preset("multi_hop")
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
    "reason": assess,
    "list_ids": list_relevant,
    "answer": reasoned,
    "shorten": "Jillian Belk",
}


def answered(script=None, table=TABLE, **kwargs):
    retriever = TableRetriever(table)
    program = BlendFilter(retriever, **{**PAPER, **kwargs})
    prediction, engine = play(program, QUESTION, **{**SCRIPT, **(script or {})})
    return prediction, engine, retriever


def test_worked_example_of_figure_6():
    prediction, engine, retriever = answered()
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
        (["show"], ["work", "man", "rest0", "rest1"]),
        (["show"], ["house", "rest0", "rest1", "rest2"]),
        (["bell"], ["man", "rest1", "rest2", "rest3"]),
    ]
    assert {step.k for step in trace.of(Retrieved)} == {5}
    # The second turn of each filter has the first one's text before it.
    assert {inputs["assessment"] for inputs in engine.asked("list_ids")} == {
        "1: relevant 2: beside the point 3: beside the point 4: beside the point 5: beside the point"
    }
    assert trace.of(Answered)[0].passages == ["show", "bell"]
    assert trace.stopped == ""  # nothing loops
    # Draft, memory, three filters of two turns, chain of thought, short answer; draft, filter, answer in sequence.
    assert (trace.cost.lm_calls, trace.cost.critical_calls) == (10, 5)
    assert (trace.cost.retrievals, trace.cost.iterations, trace.cost.passages) == (3, 1, 9)


def test_draft_and_answer_are_the_same_prompt_with_the_same_demonstrations():
    """Appendix B prints one chain-of-thought prompt for both."""
    _, engine, _ = answered()
    draft, final = engine.asked("answer")
    assert draft.keys() == final.keys()
    assert [p["title"] for p in draft["passages"]] == [p.title for p in TABLE[QUESTION]]
    assert "draft" not in dict(BlendFilter().named_predictors())


@pytest.mark.parametrize(("preset", "none"), [("multi_hop", False), ("commonsense", True)])
def test_only_for_strategyqa_the_filter_is_told_that_no_passage_may_be_relevant(preset, none):
    program = BlendFilter.from_preset(preset, TableRetriever(TABLE))
    _, engine = play(program, QUESTION, **SCRIPT)
    told = [inputs["expected"] for act in ("reason", "list_ids") for inputs in engine.asked(act)]
    assert len(told) == 6
    assert {"none" in text for text in told} == {none}


@pytest.mark.parametrize(
    ("style", "written", "shortened"),
    [
        ("short", "Jillian Belk", False),
        ("short", "", True),
        ("yes_no", "It was so", True),
    ],
)
def test_only_what_is_longer_than_its_style_is_worded_anew(style, written, shortened):
    right = "yes" if style == "yes_no" else "Jillian Belk"
    script = {"answer": {"reasoning": REASONING, "answer": written}, "shorten": right}
    prediction, engine, _ = answered(script, style=style, always_shorten=False, external=False)
    assert len(engine.asked("shorten")) == shortened
    assert prediction.answer == (right if shortened else written)


@pytest.mark.parametrize(
    ("memory", "left"), [("word " * 300, "word"), ("一二三四五六七八九十" * 40, "一二三四五六七八九十")]
)
def test_a_long_draft_is_cut_and_the_question_is_not(memory, left):
    class All(TableRetriever):
        def search(self, queries, k):
            self.table = {**self.table, **{query: [BELL] for query in queries}}
            return super().search(queries, k)

    retriever = All({})
    play(
        BlendFilter(retriever, **PAPER, query_tokens=40, external=False),
        QUESTION,
        **{**SCRIPT, "internal_knowledge": memory},
    )
    (query,) = (text for text in retriever.searched if text != QUESTION)
    assert query.endswith(f" {QUESTION}")
    assert query.startswith(left)
    assert len(query) < len(QUESTION) + 20 * 6


def test_what_was_cut_off_a_query_is_in_the_trace():
    memory = "one two three four five six seven eight nine ten " * 9
    prediction, _, retriever = answered({"internal_knowledge": memory}, query_tokens=60, external=False)
    (cut,) = prediction.trace.of(Rejected)
    (query,) = (text for text in retriever.searched if text != QUESTION)
    assert f"{query.removesuffix(QUESTION)}{cut.what}" == memory.strip()
    assert cut.branch == "internal"
    assert answered()[0].trace.of(Rejected) == []


def test_a_question_as_long_as_a_query_may_be_is_searched_alone():
    question = f"{QUESTION} {QUESTION}"
    retriever = TableRetriever({question: TABLE[QUESTION]})
    prediction, _ = play(BlendFilter(retriever, **PAPER, query_tokens=32), question, **SCRIPT)
    assert (set(retriever.searched), prediction.passages) == ({question}, [SHOW])
    assert [step.branch for step in prediction.trace.of(Rejected)] == ["external", "internal"]


def test_the_final_answer_sees_only_what_was_kept_and_is_worded_in_the_style():
    _, engine, _ = answered({"shorten": "Yes"}, style="yes_no")
    (_, final), (shortened,) = engine.asked("answer"), engine.asked("shorten")
    assert [p["title"] for p in final["passages"]] == ["SuperMansion", "Jillian Bell"]
    assert shortened["text"] == f"{REASONING}\nThe answer is: as Jillian Belk"
    assert final["style"] == shortened["style"] == STYLES["yes_no"]


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
    assert prediction.passages == FOUND
    assert prediction.trace.of(Filtered) == []
    assert sorted(engine.acts) == ["answer", "answer", "internal_knowledge", "shorten"]


def test_the_filter_after_the_union_judges_all_passages_in_one_go():
    prediction, _, _ = answered(knowledge_filter="union")
    (step,) = prediction.trace.of(Filtered)
    dropped = [passage.id for passage in FOUND if passage not in (SHOW, BELL)]
    assert (step.branch, step.kept, step.dropped) == ("", ["show", "bell"], dropped)
    assert prediction.passages == [SHOW, BELL]
    assert prediction.trace.cost.lm_calls == 6


@pytest.mark.parametrize(("threshold", "kept"), [(0.5, [SHOW, BELL]), (0.2, FOUND), (0.9, [])])
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


@pytest.mark.parametrize(("ids", "passages"), [([99, 0], FOUND), ([99, 1, 0, -1, 1], [SHOW, BELL])])
def test_ids_that_do_not_exist_are_left_out_and_all_are_kept_where_none_is_named(ids, passages):
    prediction, _, _ = answered({"list_ids": {"relevant_ids": ids}})
    assert (prediction.answer, prediction.passages) == ("Jillian Belk", passages)  # the first of each list


def test_nothing_is_kept_where_the_model_may_say_that_nothing_is_relevant():
    prediction, _, _ = answered({"list_ids": {"relevant_ids": []}}, none_relevant=True)
    assert prediction.passages == []


@pytest.mark.parametrize(
    ("act", "passages", "answer"),
    [
        ("internal_knowledge", [SHOW], "Jillian Belk"),
        ("reason", [SHOW, BELL], "Jillian Belk"),
        ("list_ids", FOUND, "Jillian Belk"),
        ("answer", None, PLAINLY),  # the draft, too
        ("shorten", [SHOW, BELL], "as Jillian Belk"),
    ],
)
def test_an_unreadable_reply_counts_as_nothing_found(act, passages, answer):
    def by_title(inputs):
        return [p["id"] for p in inputs["passages"] if p["title"] in RELEVANT]

    prediction, _, _ = answered({"list_ids": by_title, act: UNREADABLE})
    assert (prediction.passages if passages else None, prediction.answer) == (passages or None, answer)
    assert {step.act for step in prediction.trace.of(Malformed)} == {act}


# The defaults.


def test_by_default_a_question_takes_three_calls():
    def assess_and_list(inputs):
        return {"reasoning": assess(inputs), "relevant_ids": list_relevant({"assessment": assess(inputs)})}

    retriever = TableRetriever({**TABLE, f"{REASONING} Jillian Belk {QUESTION}": [SHOW, BELL]})
    script = {"assess": assess_and_list, "answer": {"reasoning": REASONING, "answer": "Jillian Belk"}}
    prediction, engine = play(BlendFilter(retriever), QUESTION, **script)
    assert engine.acts == ["answer", "assess", "answer"]
    assert sorted(retriever.searched) == sorted([QUESTION, f"{REASONING} Jillian Belk {QUESTION}"])
    (step,) = prediction.trace.of(Filtered)
    assert (step.branch, step.kept, step.dropped) == ("", ["show", "bell"], ["work", "man", "rest0", "rest1"])
    assert (prediction.answer, prediction.passages) == ("Jillian Belk", [SHOW, BELL])
    cost = prediction.trace.cost
    assert (cost.lm_calls, cost.critical_calls, cost.retrievals) == (3, 3, 2)
    assert {found.k for found in prediction.trace.of(Retrieved)} == {7}
