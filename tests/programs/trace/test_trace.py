"""A trace goes to JSON and back, and stands on a page as a tree in which nothing is taken for an order."""

import pytest
from pydantic import ValidationError
from rich.console import Console

from knowgap.programs.trace import steps as s
from knowgap.programs.trace.trace import Cost, Round, Trace, rounds_of
from knowgap.retrieval.passage import Passage

PASSAGES = [Passage("a", "Ada Moor", "Ada Moor painted ships."), Passage("b", "", "An untitled text.")]

CASES = [
    (s.Asked(question="Who painted ships?"), ["asked: Who painted ships?"]),
    (s.Retrieved(queries=["ships", "none"], k=5, hits=[list("abcdefg"), []]),
     ["retrieved", "ships → Ada Moor, b, c, d, e and 2 more", "none → nothing"]),
    (s.Reranked(threshold=0.5, kept={"a": 2.25, "b": -1.0}, dropped={"c": -1.5}),
     ["reranked: kept 2, dropped 1 at threshold 0.50", "Ada Moor (2.25)", "b (-1.00)"]),
    (s.Compressed(how="sentences", passage="a", text="painted ships"), ["sentences of Ada Moor: painted ships"]),
    (s.Extracted(statements=["Ada Moor painted ships."], sources=[["a"]]),
     ["learnt", "Ada Moor painted ships. [Ada Moor]"]),
    (s.Missing(missing="x" * 400), [f"missing: {'x' * 299}…"]),
    (s.Queried(queries=["Where was Ada Moor born?"], repeated=["ships"]),
     ["asks next", "Where was Ada Moor born?", "asked before: ships"]),
    (s.Compared(better=False), ["the new note is better: no"]),
    (s.Judged(what="relevance", value=True, passage="a"), ["relevance of Ada Moor: yes"]),
    (s.Judged(what="self-knowledge", value=False), ["self-knowledge: no"]),
    (s.Filtered(kept=["a"], dropped=["b"]), ["kept Ada Moor; dropped b"]),
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


@pytest.mark.parametrize("kind", ["unheard", "asked"])
def test_foreign_json_is_refused(kind):
    with pytest.raises(ValidationError):
        Trace.model_validate({"program": "p", "question": "q", "steps": [{"kind": kind}]})


def test_the_tree_groups_iterations_and_branches():
    trace = trace_of(
        s.Asked(question="Who?"),
        s.Reasoned(what="x", text="one", iteration=1, branch="a"),
        s.Reasoned(what="x", text="two", iteration=1, branch="b"),
        s.Reasoned(what="x", text="three", iteration=2),
    )
    lines = [line.lstrip("│├└─ ").rstrip() for line in render(trace).splitlines()]
    assert lines == [
        "Who painted ships?  test",
        "asked: Who?",
        "iteration 1",
        "a",
        "x: one",
        "b",
        "x: two",
        "iteration 2",
        "x: three",
        *str(COST).splitlines(),
    ]


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
