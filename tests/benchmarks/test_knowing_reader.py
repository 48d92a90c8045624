"""The reader that knows the evidence acts from its prompt alone: it leaks neither answers nor names."""

import re
from pathlib import Path
from typing import Any

import dspy
import pytest
from models import Engine
from models.knowing_reader import Fact, GoldQuestion, KnowingReader
from near_misses import all_signatures

from knowgap import Passage, get_program
from knowgap.retrieval import BM25Index

QUESTION = "Where was the director of the film Orle Rising born?"
FILM = Passage("film", "Orle Rising", "Orle Rising is a film. It was directed by Ada Venn.")
PERSON = Passage("person", "Ada Venn", "Ada Venn was born in Tarn. She liked boats.")
OTHERS = [Passage(f"other{n}", f"Film {n}", f"Film {n} was directed by a director born in Town {n}.") for n in range(9)]


GOLD = [("Orle Rising", "It was directed by Ada Venn."), ("Ada Venn", "Ada Venn was born in Tarn.")]


def knowing_lm() -> Any:
    known = [GoldQuestion(QUESTION, "Tarn", tuple(Fact(*fact) for fact in GOLD))]
    return dspy.LM("test/knowing", engine=Engine(KnowingReader(known).reply), cache=False, num_retries=0)


@pytest.mark.parametrize("name", ["migres", "adaptive_note", "ircot"])
def test_answers_once_the_evidence_stands_in_the_prompt_and_not_before(name: str, tmp_path: Path):
    program = get_program(name)
    with dspy.context(lm=knowing_lm()):
        with_evidence = program(BM25Index.build([FILM, PERSON, *OTHERS], tmp_path / "all"))(question=QUESTION)
        without = program(BM25Index.build([FILM, *OTHERS], tmp_path / "some"))(question=QUESTION)
    assert with_evidence.answer == "Tarn"
    assert "tarn" not in without.answer.casefold()


def test_no_act_says_a_word_of_the_evidence_before_it_stands_there():
    lm = knowing_lm()
    for name, act in all_signatures().items():
        if "question" not in act.input_fields or act.__module__.endswith("judging"):
            continue
        with dspy.context(lm=lm, adapter=dspy.ChatAdapter()):
            inputs = {field: [] if "list" in str(info.annotation) else "" for field, info in act.input_fields.items()}
            output = dspy.Predict(act)(**{**inputs, "question": QUESTION})
        assert {"tarn", "ada", "venn", "directed"}.isdisjoint(re.findall(r"\w+", str(output).casefold())), name
