"""The reader that knows the evidence acts from its prompt alone: it leaks neither answers nor names."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import dspy
import pytest
from models.knowing_reader import Fact, GoldQuestion, KnowingReader

from knowgap import BM25Index, Passage, get_program, signatures

QUESTION = "Where was the director of the film Orle Rising born?"
FILM = Passage("film", "Orle Rising", "Orle Rising is a film. It was directed by Ada Venn.")
PERSON = Passage("person", "Ada Venn", "Ada Venn was born in Tarn. She liked boats.")
OTHERS = [Passage(f"other{n}", f"Film {n}", f"Film {n} was directed by a director born in Town {n}.") for n in range(9)]


def ask_as(facts: list[tuple[str, str]]) -> Any:
    gold = GoldQuestion(QUESTION, "Tarn", tuple(Fact(*fact) for fact in facts))
    return dspy.LM("test/knowing", engine=KnowingReader([gold]), cache=False, num_retries=0)


GOLD = [("Orle Rising", "It was directed by Ada Venn."), ("Ada Venn", "Ada Venn was born in Tarn.")]


@pytest.mark.parametrize("name", ["migres", "adaptive_note", "ircot"])
def test_answers_once_the_evidence_stands_in_the_prompt_and_not_before(name: str, tmp_path: Path):
    program = get_program(name)
    with dspy.context(lm=ask_as(GOLD)):
        with_evidence = program(BM25Index.build([FILM, PERSON, *OTHERS], tmp_path / "all"))(question=QUESTION)
        without = program(BM25Index.build([FILM, *OTHERS], tmp_path / "some"))(question=QUESTION)
    assert with_evidence.answer == "Tarn"
    assert "tarn" not in without.answer.casefold()


def test_other_gold_labels_make_it_act_otherwise(tmp_path: Path):
    index = BM25Index.build([FILM, PERSON, *OTHERS], tmp_path / "index")
    elsewhere = [("Film 1", OTHERS[1].text), ("Nowhere", "No passage says this.")]
    with dspy.context(lm=ask_as(elsewhere)):
        prediction = get_program("migres")(index)(question=QUESTION)
    assert prediction.answer != "Tarn"
    assert "person" not in {passage.id for passage in prediction.passages}


def test_no_act_gives_the_answer_without_evidence():
    lm = ask_as(GOLD)
    for name in signatures.__all__:
        act = getattr(signatures, name)
        asks = isinstance(act, type) and issubclass(act, dspy.Signature) and "question" in act.input_fields
        if not asks or act.__module__.endswith("judging"):
            continue
        with dspy.context(lm=lm, adapter=dspy.ChatAdapter()):
            inputs = {field: [] if "list" in str(info.annotation) else "" for field, info in act.input_fields.items()}
            output = dspy.Predict(act)(**{**inputs, "question": QUESTION})
        assert "tarn" not in str(output).casefold(), name


def test_queries_hold_no_word_that_was_not_read():
    with dspy.context(lm=ask_as(GOLD), adapter=dspy.ChatAdapter()):
        before = dspy.Predict(signatures.ProposeQueries)(question=QUESTION, known=[], missing="", asked=[]).queries
        known = [f"{title}: {sentence}" for title, sentence in GOLD[:1]]
        after = dspy.Predict(signatures.ProposeQueries)(question=QUESTION, known=known, missing="", asked=[]).queries
    assert before
    assert set(re.findall(r"\w+", " ".join(before).casefold())) <= set(re.findall(r"\w+", QUESTION.casefold()))
    assert "Ada Venn" in after[0]
