"""A trace told as rounds: what was looked for, found, learnt and missing, in JSON and in a line each."""

from __future__ import annotations

from rich.console import Console

from knowgap.programs.trace import steps as s
from knowgap.programs.trace.story import Story
from knowgap.programs.trace.trace import Trace
from knowgap.retrieval.passage import Passage

PASSAGES = {name: Passage(name, title, title) for name, title in [("isk", "Isk"), ("tarn", "Tarn"), ("orle", "")]}


def story(*steps):
    return Story.of(Trace(program="mine", question="Which river?", steps=list(steps), passages=PASSAGES))


def lines(told, width=80):
    console = Console(width=width)
    with console.capture() as captured:
        console.print(told, no_wrap=True, overflow="ellipsis")
    return captured.get().splitlines()


def search(iteration, query, *hits, branch=""):
    return s.Retrieved(iteration=iteration, branch=branch, queries=[query], k=5, hits=[list(hits)])


def test_each_round_says_what_it_looked_for_found_learnt_and_missed():
    told = story(
        s.Asked(question="Which river?"),
        search(1, "Which river?", "orle", "isk", "tarn"),
        s.Extracted(iteration=1, statements=["Tarn is a town.", "Isk is a river."], sources=[["tarn"], ["isk"]]),
        s.Missing(iteration=1, missing="the river through Tarn"),
        s.Queried(iteration=1, queries=["river Tarn"]),
        search(2, "river Tarn", "isk", "orle"),
        s.Reasoned(iteration=2, what="note", text="The Isk flows through Tarn.", passages=["isk"]),
        s.Stopped(iteration=2, reason="answered"),
        s.Reasoned(iteration=2, what="answer before it was shortened", text="It is the Isk."),
        s.Answered(iteration=2, answer="the Isk", passages=["isk"]),
    )
    first, second = told.rounds
    assert [round.missing for round in told.rounds] == ["the river through Tarn", ""]
    assert [each.model_dump() for each in first.searches] == [
        {"query": "Which river?", "found": ["isk", "tarn"], "useful": True}
    ]
    assert [fact.text for fact in second.learnt] == ["The Isk flows through Tarn."]
    assert (told.titles, told.answered) == ({"isk": "Isk", "tarn": "Tarn"}, True)
    assert told.ending == "What it knew was enough for an answer."
    assert lines(told) == [
        "1 looked for Which river? → found Tarn, Isk; missing: the river through Tarn",
        "2 looked for river Tarn → found Isk",
    ]
    assert Story.model_validate_json(told.model_dump_json()) == told


def test_the_answers_to_sub_questions_are_learnt_and_what_is_read_in_vain_is_named():
    told = story(
        search(1, "Which river?", "orle"),
        s.Decomposed(iteration=1, questions=["Which town?", "Which river flows there?"]),
        search(2, "Which town?", "tarn", "isk", branch="1"),
        s.Judged(iteration=2, branch="1", what="relevance", value=True, passage="tarn"),
        s.Answered(iteration=2, branch="1", answer="Tarn"),
        s.Prompted(queries=["Tarn"], passage="model:1", text="It is on the Isk."),
        s.Answered(iteration=1, answer="Unknown."),
    )
    first, second = told.rounds
    assert (first.missing, first.searches[0].useful) == ("Which town?; Which river flows there?", False)
    assert ([fact.text for fact in second.learnt], told.answered) == (["Tarn", "It is on the Isk."], False)
    assert second.searches[0].found == ["tarn"]
    assert (story(s.Asked(question="x")).rounds, told.titles["orle"]) == ([], "orle")


def test_of_many_rounds_two_are_told_and_control_characters_do_nothing():
    printed = lines(story(*[search(n, f"\x1b[31mquery {n} " + "long " * 40, "isk") for n in range(1, 8)]), width=60)
    assert printed[1] == "… 5 more rounds"
    assert printed[2].startswith("7 looked for  [31mquery 7 long")
    assert all(len(line) <= 60 for line in printed)
