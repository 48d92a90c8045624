"""Questions planned as simple questions, comparisons and yes/no forms: English written for this test."""

import pytest

from knowgap.lms.embedded.questions import fill, kind_asked, plan


@pytest.mark.parametrize(
    ("text", "steps"),
    [
        ("Where was the director of the film The Green Door born?",
         ["Who is the director of the film The Green Door?", "Where was #1 born?"]),
        ("When is Ann Lee's father's birthday?", ["Who is the father of Ann Lee?", "When is #1's birthday?"]),
        ("Where was the man who directed Gold born?", ["Who is the man who directed Gold?", "Where was #1 born?"]),
        ("What is the population of the city where Ann Lee was born?",
         ["What is the city where Ann Lee was born?", "What is the population of #1?"]),
        ("Who is the mother of the director of Blue Sea?",
         ["Who is the director of Blue Sea?", "Who is the mother of #1?"]),
        ("When did the wife of the founder of Acme die?",
         ["Who is the founder of Acme?", "Who is the wife of #1?", "When did #2 die?"]),
        ("What is the population of Ann Lee's place of birth?",
         ["What is the place of birth of Ann Lee?", "What is the population of #1?"]),
        ("Where was whoever wrote a novel called Farewell to Orle born?",
         ["Who is the person who wrote Farewell to Orle?", "Where was #1 born?"]),
        ("In which city did the founder of the company that made Gold die?",
         ["What is the company that made Gold?", "Who is the founder of #1?", "In which city did #2 die?"]),
        ("Which country does the city where Acme is based belong to?",
         ["What is the city where Acme is based?", "Which country does #1 belong to?"]),
        ("Where does the company that made Gold have its seat?",
         ["What is the company that made Gold?", "Where does #1 have its seat?"]),
        ("The person who wrote Gold was born when?", ["Who is The person who wrote Gold?", "#1 was born when?"]),
        ("Who is the goalkeeper of Orle United?", ["Who is the goalkeeper of Orle United?"]),
        ("What is photosynthesis?", ["What is photosynthesis?"]),
        ("Gold was written by the head of which school?", ["Gold was written by the head of which school?"]),
        ("Who ended the war between Orle and Acme?", ["Who ended the war between Orle and Acme?"]),
    ],
)  # fmt: skip
def test_descriptions_are_asked_for_first(text, steps):
    assert (plan(text).form, list(plan(text).steps)) == ("value", steps)


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("On which long river does Orle lie?", "river"), ("Which American record label is Acme?", "label"),
        ("Orle is in what country?", "country"), ("What President signed it?", ""), ("What did Ann Lee do?", ""),
        ("What is photosynthesis?", ""), ("Who was Ann Lee?", ""),
    ],
)  # fmt: skip
def test_the_kind_of_thing_that_is_asked_for(text, kind):
    assert kind_asked(text) == kind


def test_a_name_inside_a_longer_word_begins_no_description():
    assert plan("What is the weight of a glob in the shared MIME-info database?").steps == (
        "What is the weight of a glob in the shared MIME-info database?",
    )


def test_answers_take_the_place_of_their_numbers():
    assert fill("Did #1 know #2?", {1: "Ann Lee"}) == "Did Ann Lee know #2?"


@pytest.mark.parametrize(
    ("text", "options", "last", "least"),
    [
        ("Who was born first, Ann Lee or Tom Hill?", ("Ann Lee", "Tom Hill"), "When was Tom Hill born?", True),
        ("Which film has the director who died later, Blue Sea or Red Sand?", ("Blue Sea", "Red Sand"),
         "When did #2 die?", False),
        ("Between Ann Lee and Tom Hill, who is younger?", ("Ann Lee", "Tom Hill"), "When was Tom Hill born?", False),
        ("Which album came out more recently, One or Two?", ("One", "Two"), "When was Two released?", False),
        ("Which band has the older lead singer, One or Two?", ("One", "Two"), "When was #2 born?", True),
        ("Of the films Blue Sea and Red Sand, which has the older director?", ("Blue Sea", "Red Sand"),
         "When was #2 born?", True),
        ("Was Ann Lee or Tom Hill born earlier?", ("Ann Lee", "Tom Hill"), "When was Tom Hill born?", True),
    ],
)  # fmt: skip
def test_a_choice_compares_what_is_found_for_each_option(text, options, last, least):
    planned = plan(text)
    assert (planned.form, planned.options, planned.least) == ("order", options, least)
    assert planned.steps[-1] == last


@pytest.mark.parametrize(
    ("text", "form", "steps"),
    [
        ("Are Ann Lee and Tom Hill from the same country?", "same",
         ["From which country is Ann Lee?", "From which country is Tom Hill?"]),
        ("Were the directors of Blue Sea and Red Sand of the same nationality?", "same",
         ["Who is the director of Blue Sea?", "Who is the director of Red Sand?",
          "What is the nationality of #1?", "What is the nationality of #2?"]),
        ("Did Ann Lee and Tom Hill attend the same school?", "same",
         ["Which school did Ann Lee attend?", "Which school did Tom Hill attend?"]),
        ("Is Ann Lee older than Tom Hill?", "order", ["When was Ann Lee born?", "When was Tom Hill born?"]),
        ("Are Ann Lee and Tom Hill both poets?", "both", ["Are Ann Lee and Tom Hill both poets?"]),
        ("Did it rain?", "polar", ["Did it rain?"]),
    ],
)  # fmt: skip
def test_yes_or_no(text, form, steps):
    planned = plan(text)
    assert (planned.form, planned.polar, list(planned.steps)) == (form, True, steps)


LONG = ["the wife of the man who " * 420 + "?", "A's b of " * 1100, "Which is older, " + " or A" * 2000, "x" * 10_000]
ODD = ["Why?", "", "???", "כמה זה?", "من كتب هذا الكتاب؟", "the of of of", "or or or", "Are A" + " and A" * 1600]


@pytest.mark.parametrize("text", [*LONG, *ODD])
def test_any_text_can_be_planned(text):
    assert plan(text[:10_000]).steps
