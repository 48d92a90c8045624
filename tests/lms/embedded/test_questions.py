"""Questions planned as simple questions, comparisons and yes/no forms: English written for this test."""

import pytest

from knowgap.lms.embedded.questions import kind_asked, plan


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
        ("In which city did the founder of the company that made Gold die?",
         ["What is the company that made Gold?", "Who is the founder of #1?", "In which city did #2 die?"]),
        ("Which country does the city where Acme is based belong to?",
         ["What is the city where Acme is based?", "Which country does #1 belong to?"]),
        ("Where does the company that made Gold have its seat?",
         ["What is the company that made Gold?", "Where does #1 have its seat?"]),
        ("The person who wrote Gold was born when?", ["Who is The person who wrote Gold?", "#1 was born when?"]),
        ("Who is the goalkeeper of Orle United?", ["Who is the goalkeeper of Orle United?"]),
        ("When was the maker of Qx12q born?", ["Who is the maker of Qx12q?", "When was #1 born?"]),
        ("What is photosynthesis?", ["What is photosynthesis?"]),
        ("What is the weight of a MIME-info glob?", ["What is the weight of a MIME-info glob?"]),
        ("Who made the globs of MIME-info?", ["Who made the globs of MIME-info?"]),
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
        ("Orle is in what country?", "country"), ("What did Ann Lee do?", ""),
        ("What is photosynthesis?", ""), ("Who was Ann Lee?", ""),
    ],
)  # fmt: skip
def test_the_kind_of_thing_that_is_asked_for(text, kind):
    assert kind_asked(text) == kind


@pytest.mark.parametrize(
    ("text", "options", "last", "form"),
    [
        ("Who was born first, Ann Lee or Tom Hill?", ("Ann Lee", "Tom Hill"), "When was Tom Hill born?", "first"),
        ("Which film has the director who died later, Blue Sea or Red Sand?", ("Blue Sea", "Red Sand"),
         "When did #2 die?", "last"),
        ("Between Ann Lee and Tom Hill, who is younger?", ("Ann Lee", "Tom Hill"), "When was Tom Hill born?", "last"),
        ("Which band has the older lead singer, One or Two?", ("One", "Two"), "When was #2 born?", "first"),
        ("Of the films Blue Sea and Red Sand, which has the older director?", ("Blue Sea", "Red Sand"),
         "When was #2 born?", "first"),
        ("Was Ann Lee or Tom Hill born earlier?", ("Ann Lee", "Tom Hill"), "When was Tom Hill born?", "first"),
    ],
)  # fmt: skip
def test_a_choice_compares_what_is_found_for_each_option(text, options, last, form):
    planned = plan(text)
    assert (planned.form, planned.options) == (form, options)
    assert planned.steps[-1] == last


@pytest.mark.parametrize(
    ("text", "form", "steps"),
    [
        ("Are Ann Lee and Tom Hill from the same country?", "same",
         ["What is the country of Ann Lee?", "What is the country of Tom Hill?"]),
        ("Were the directors of Blue Sea and Red Sand of the same nationality?", "same",
         ["Who is the director of Blue Sea?", "Who is the director of Red Sand?",
          "What is the nationality of #1?", "What is the nationality of #2?"]),
        ("Did Ann Lee and Tom Hill attend the same school?", "same",
         ["What is the school of Ann Lee?", "What is the school of Tom Hill?"]),
        ("Are Ann Lee and Tom Hill both poets?", "true", ["Are Ann Lee and Tom Hill both poets?"]),
        ("Did it rain?", "true", ["Did it rain?"]),
    ],
)  # fmt: skip
def test_yes_or_no(text, form, steps):
    planned = plan(text)
    assert (planned.form, list(planned.steps)) == (form, steps)


LONG = ["the wife of the man who " * 420 + "?", "A's b of " * 1100, "Which is older, " + " or A" * 2000, "x" * 10_000]
ODD = ["Why?", "", "???", "כמה זה?", "من كتب هذا الكتاب؟", "the of of of", "or or or", "Are A" + " and A" * 1600]


@pytest.mark.parametrize("text", [*LONG, *ODD])
def test_any_text_can_be_planned(text):
    assert plan(text[:10_000]).steps
