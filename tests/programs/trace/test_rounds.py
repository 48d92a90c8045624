"""A trace told as rounds: what was looked for, found and missing."""

from __future__ import annotations

from knowgap.programs.trace import steps as s
from knowgap.programs.trace.trace import Round, Trace, rounds_of
from knowgap.retrieval.passage import Passage

PASSAGES = {name: Passage(name, title, title) for name, title in [("isk", "Isk"), ("tarn", "Tarn"), ("orle", "")]}


def told(*steps):
    return rounds_of(Trace(program="mine", question="Which river?", steps=list(steps), passages=PASSAGES))


def search(iteration, query, *hits, branch=""):
    return s.Retrieved(iteration=iteration, branch=branch, queries=[query], k=5, hits=[list(hits)])


def test_each_round_says_what_it_looked_for_found_and_missed():
    rounds = told(
        s.Asked(question="Which river?"),
        search(1, "Which river?", "orle", "isk", "tarn"),
        s.Extracted(iteration=1, statements=["Tarn is a town.", "Isk is a river."], sources=[["tarn"], ["isk"]]),
        s.Missing(iteration=1, missing="the river through Tarn"),
        s.Queried(iteration=1, queries=["river Tarn"]),
        search(2, "river Tarn", "isk", "orle"),
        s.Reasoned(iteration=2, what="note", text="The Isk flows through Tarn.", passages=["isk"]),
        s.Answered(iteration=2, answer="the Isk", passages=["isk"]),
    )
    assert rounds == [
        Round(["Which river?"], ["Isk", "Tarn"], "the river through Tarn"),
        Round(["river Tarn"], ["Isk"], ""),
    ]
    assert [*map(str, rounds)] == [
        "looked for Which river? → found Isk, Tarn; missing: the river through Tarn",
        "looked for river Tarn → found Isk",
    ]


def test_sub_questions_are_a_round_and_what_was_read_in_vain_is_named():
    rounds = told(
        search(1, "Which river?", "orle"),
        s.Queried(iteration=1, queries=["Which town?", "Which river flows there?"]),
        search(2, "Which town?", "tarn", "isk", branch="1"),
        s.Judged(iteration=2, branch="1", what="relevance", value=True, passage="tarn"),
        search(2, "Which sea?", branch="2"),
    )
    assert rounds == [
        Round(["Which river?"], ["orle"], "Which town?; Which river flows there?"),
        Round(["Which town?", "Which sea?"], ["Tarn"], ""),
    ]
    assert str(told(search(1, "x"))[0]) == "looked for x → found nothing"
    assert told(s.Asked(question="x"), s.Answered(answer="y")) == []
