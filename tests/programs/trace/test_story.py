"""A trace told as rounds: what was known, missing, looked for and found, in JSON and in a line each."""

from __future__ import annotations

from rich.console import Console

from knowgap.programs.trace import steps as s
from knowgap.programs.trace.story import Story
from knowgap.programs.trace.trace import Trace

TITLES = {"isk": "Isk", "tarn": "Tarn", "orle": "Orle Bridge"}
PASSAGES = {name: {"id": name, "title": title, "text": title} for name, title in TITLES.items()}


def story(*steps, question="Which river?"):
    return Story.of(Trace(program="mine", question=question, steps=list(steps), passages=PASSAGES))


def lines(told, width=80):
    console = Console(width=width)
    with console.capture() as captured:
        console.print(told, no_wrap=True, overflow="ellipsis")
    return captured.get().splitlines()


def search(iteration, query, *hits, branch=""):
    return s.Retrieved(iteration=iteration, branch=branch, queries=[query], k=5, hits=[list(hits)])


def test_each_round_says_what_it_knew_missed_looked_for_and_found():
    told = story(
        s.Asked(question="Which river?"),
        search(1, "Which river?", "orle", "isk", "tarn"),
        s.Extracted(iteration=1, statements=["Tarn is a town.", "Isk is a river."], sources=[["tarn"], ["isk"]]),
        s.Missing(iteration=1, missing="the river through Tarn"),
        s.Queried(iteration=1, queries=["river Tarn"]),
        search(2, "river Tarn", "isk", "orle"),
        s.Extracted(iteration=2, statements=["The Isk flows through Tarn."], sources=[["isk"]]),
        s.Stopped(iteration=2, reason="answered"),
        s.Answered(iteration=2, answer="the Isk", passages=["isk"]),
    )
    first, second = told.rounds
    assert (first.knew, first.missing, first.still_missing) == (0, "", "the river through Tarn")
    assert [(each.query, each.found, each.useful) for each in first.searches] == [
        ("Which river?", ["isk", "tarn"], True)
    ]
    assert (second.knew, second.missing, second.still_missing) == (2, "the river through Tarn", "")
    assert [fact.text for fact in second.learnt] == ["The Isk flows through Tarn."]
    assert (told.titles.keys(), told.ending) == ({"isk", "tarn"}, "What it knew was enough for an answer.")
    assert told.answered
    assert lines(told) == [
        "1 looked for Which river? → found Tarn, Isk; missing: the river through Tarn",
        "2 looked for river Tarn → found Isk",
    ]


def test_a_sub_question_is_a_round_of_its_own_and_its_answer_is_learnt():
    told = story(
        s.Asked(question="Which river?"),
        search(1, "Which river?", "orle"),
        s.Decomposed(iteration=1, questions=["Which town?", "Which river flows there?"]),
        s.Asked(iteration=2, branch="1", question="Which town?"),
        search(2, "Which town?", "tarn", "isk", branch="1"),
        s.Judged(iteration=2, branch="1", what="relevance", value=True, passage="tarn"),
        s.Answered(iteration=2, branch="1", answer="Tarn"),
        s.Answered(iteration=1, answer="the Isk"),
    )
    first, second = told.rounds
    assert first.still_missing == second.missing == "Which town?; Which river flows there?"
    assert (second.question, [fact.text for fact in second.learnt]) == ("Which town?", ["Tarn"])
    assert second.searches[0].found == ["tarn"]
    assert not first.searches[0].useful


def test_searches_without_anything_between_them_are_one_round():
    told = story(search(0, "a", "isk"), s.Judged(what="sure", value=False), search(1, "b", "tarn"))
    assert [[each.query for each in told_round.searches] for told_round in told.rounds] == [["a", "b"]]
    told = story(s.Asked(question="x"), s.Answered(answer="Unknown."))
    assert (told.rounds, told.answered) == ([], False)


def test_of_many_rounds_two_are_told_and_control_characters_do_nothing():
    steps = []
    for number in range(1, 8):
        query = f"\x1b[31mquery {number} " + "long " * 40
        steps += [search(number, query, "isk"), s.Extracted(iteration=number, statements=["[b]"], sources=[["isk"]])]
        steps.append(s.Missing(iteration=number, missing="more"))
    printed = lines(story(*steps), width=60)
    assert printed[1] == "… 5 more rounds"
    assert printed[2].startswith("7 looked for  [31mquery 7 long")
    assert all(len(line) <= 60 for line in printed)
