"""A trace goes to JSON and back, is shown as a tree, told as rounds, and says where gold passages went."""

import pytest
from rich.console import Console

from knowgap.programs.trace import steps as s
from knowgap.programs.trace.evidence import FATES, evidence_fates, found_passages, shown_passages
from knowgap.programs.trace.trace import Cost, Round, Trace, rounds_of
from knowgap.retrieval.passage import Passage

PASSAGES = [Passage("a", "Ada Moor", "Ada Moor painted ships."), Passage("b", "", "An untitled text.")]

CASES = [
    (s.Retrieved(queries=["ships", "five", "none"], k=5, hits=[list("abcdefg"), list("abcde"), []]),
     ["retrieved", "ships → Ada Moor, b, c, d, e and 2 more", "five → Ada Moor, b, c, d, e", "none → nothing"]),
    (s.Reranked(threshold=0.5, kept={"a": 2.25, "b": -1.0}, dropped={"c": -1.5}),
     ["reranked: kept 2, dropped 1 at threshold 0.50", "Ada Moor (2.25)", "b (-1.00)"]),
    (s.Extracted(statements=["Ada Moor painted ships."], sources=[["a"]]),
     ["learnt", "Ada Moor painted ships. [Ada Moor]"]),
    (s.Missing(missing="x" * 400), [f"missing: {'x' * 299}…"]),
    (s.Queried(queries=["Where was Ada Moor born?"], repeated=["ships"]),
     ["asks next", "Where was Ada Moor born?", "asked before: ships"]),
    (s.Judged(what="relevance", value=True, passage="a"), ["relevance of Ada Moor: yes"]),
    (s.Judged(what="self-knowledge", value=False), ["self-knowledge: no"]),
    (s.Answered(answer="Ada Moor", confidence=4, passages=["a"]), ["answer: Ada Moor (confidence 4)"]),
    (s.Shortened(act="leaf", passages=["a"], demonstrations=2),
     ["left out of leaf, to fit the window: 2 demonstrations; Ada Moor"]),
    (s.Answered(answer="", supported=False, missing="her name"),
     ["answer: (empty) (not supported by what was read; missing: her name)"]),
]  # fmt: skip

COST = Cost(lm_calls=3, cached_calls=1, prompt_tokens=10, completion_tokens=5, knowledge_tokens=7, critical_calls=2)


def trace_of(*steps, question="Who painted ships?", program="test"):
    passages = {passage.id: passage for passage in PASSAGES}
    return Trace(program=program, question=question, steps=list(steps), passages=passages, cost=COST)


def render(trace):
    console = Console(width=400, color_system=None, force_terminal=False, record=True)
    with console.capture() as capture:
        console.print(trace)
    return capture.get()


@pytest.mark.parametrize(("step", "words"), CASES, ids=lambda value: getattr(value, "kind", ""))
def test_each_kind_goes_to_json_and_back_and_into_words(step, words):
    trace = trace_of(step.model_copy(update={"iteration": 2, "branch": "1/b"}))
    again = Trace.model_validate_json(trace.model_dump_json())
    assert again == trace
    assert type(again.steps[0]) is type(step)
    assert trace.describe(trace.steps[0]) == words
    rendered = render(trace)
    assert all(line in rendered for line in words)


def test_the_tree_groups_iterations_and_branches():
    reasoned = [("one", 1, "a"), ("two", 1, "b"), ("three", 2, "")]
    steps = [s.Reasoned(what="x", text=text, iteration=n, branch=branch) for text, n, branch in reasoned]
    lines = [line.lstrip("│├└─ ").rstrip() for line in render(trace_of(*steps)).splitlines()]
    tree = ["iteration 1", "a", "x: one", "b", "x: two", "iteration 2", "x: three"]
    assert lines == ["Who painted ships?  test", *tree, *str(COST).splitlines()]


@pytest.mark.parametrize("hostile", ["[link=https://x.test]y[/link]", "back\\"])
def test_text_is_never_read_as_markup_and_gives_no_orders_to_the_terminal(hostile):
    steps = [s.Answered(answer=hostile), s.Reasoned(what=hostile, text=hostile, branch=hostile)]
    trace = trace_of(*steps, s.Extracted(statements=[hostile], sources=[["a"]]), question=hostile, program=hostile)
    assert render(trace).count(hostile) == 7
    trace = trace_of(s.Answered(answer="clear\x1b[2Jed\x07 \x9b0m"), question="x\x1b]0;title\x07")
    assert not set(render(trace)) & {"\x1b", "\x07", "\x9b", "\r"}


# Told as rounds.


def search(iteration, query, *hits, branch=""):
    return s.Retrieved(iteration=iteration, branch=branch, queries=[query], k=5, hits=[list(hits)])


@pytest.mark.parametrize(
    ("steps", "rounds"),
    [
        (  # what the answer rests on, and what was missing
            [
                search(1, "Which ships?", "b", "a"),
                s.Missing(iteration=1, missing="who painted them"),
                search(2, "painter", "a"),
                s.Answered(iteration=2, answer="Ada Moor", passages=["a"]),
            ],
            [Round(["Which ships?"], ["Ada Moor"], "who painted them"), Round(["painter"], ["Ada Moor"], "")],
        ),
        (  # branches are a round, and what was read in vain is named
            [search(1, "x", "b"), search(2, "y", "a", branch="1"), search(3, "z"), search(2, "w", branch="2")],
            [Round(["x"], ["b"], ""), Round(["y", "w"], ["Ada Moor"], ""), Round(["z"], [], "")],
        ),
        ([s.Asked(question="x"), s.Answered(answer="y")], []),
    ],
)
def test_each_round_says_what_it_looked_for_found_and_missed(steps, rounds):
    assert rounds_of(trace_of(*steps)) == rounds


# Where gold passages go: each fate, counted by hand.

TEXT = "Ten chars."


def searched(*steps, **shown):
    """A trace whose search returns the passages a to e, all of ten characters."""
    passages = {name: Passage(name, name.upper(), TEXT) for name in "abcde"}
    search = s.Retrieved(queries=["q"], k=5, hits=[list("abcde")])
    return Trace(program="p", question="q", steps=[search, *steps], passages=passages, shown=shown)


@pytest.mark.parametrize(
    ("made", "fates"),
    [
        (searched(), {"z": "not searched for", "a": "over a cap"}),
        (searched(s.Reranked(threshold=1.0, kept={"a": 2.0, "b": 1.5}, dropped={"c": 0.5}), a=10),
         {"a": "not in the answering prompt", "b": "over a cap", "c": "below the relevance threshold"}),
        (searched(  # dropped for one query, kept for another, but one too many
            s.Reranked(threshold=1.0, kept={}, dropped={"a": 0.5}),
            s.Reranked(threshold=1.0, kept={"a": 2.0}, dropped={})),
         {"a": "over a cap"}),
        (searched(s.Reranked(threshold=1.0, kept={}, dropped={"a": 0.5}), a=10), {"a": "not in the answering prompt"}),
        (searched(a=4, b=10), {"a": "shown in part, cut by the sentence filter", "b": "not in the answering prompt"}),
        (searched(
            s.Judged(what="relevance", value=False, passage="a"), s.Judged(what="relevance", value=False, passage="b"),
            s.Judged(what="relevance", value=True, passage="b"), s.Judged(what="self-knowledge", value=False),
            a=10, b=10),
         {"a": "judged irrelevant", "b": "not in the answering prompt"}),
        (searched(s.Filtered(kept=["a"], dropped=["b", "c"]), s.Filtered(kept=["c"], dropped=["a"]), a=10, b=10, c=10),
         {"a": "not in the answering prompt", "b": "judged irrelevant", "c": "not in the answering prompt"}),
        (searched(
            s.Rejected(statement="x", passages=["a", "b"]),
            s.Extracted(statements=["y"], sources=[["b"]]), a=4, b=10, c=10),
         {"a": "rejected by entailment", "b": "not in the answering prompt", "c": "nothing taken from it"}),
        (searched(
            s.Extracted(statements=["y"], sources=[["b"]]), search(0, "r", "c"),
            s.Answered(answer="x", passages=["b"]), b=4, c=10),
         {"b": "used for the answer", "c": "nothing taken from it", "z": "not retrieved"}),
        (searched(
            s.Compared(better=False, passages=["b", "c"]), s.Compared(better=True, passages=["c"]),
            a=10, b=10, c=10),
         {"a": "not in the answering prompt", "b": "note not kept", "c": "not in the answering prompt"}),
    ],
)  # fmt: skip
def test_each_fate(made, fates):
    assert evidence_fates(made, fates) == fates
    assert set(fates.values()) <= set(FATES)
    lost = {"not searched for", "not retrieved", "over a cap", "below the relevance threshold"}
    assert {name for name, fate in fates.items() if fate not in lost} == shown_passages(made) & fates.keys()


def test_what_the_model_wrote_itself_is_neither_found_nor_shown():
    made = searched(s.Prompted(passage="model:1", text="…"), **{"model:1": 1, "a": 10})
    assert found_passages(made) == set("abcde")
    assert shown_passages(made) == {"a"}
