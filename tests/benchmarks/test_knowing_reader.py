"""The reader that knows the evidence acts from its prompt alone: it leaks neither answers nor names."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import dspy
import pytest
from models.gold_questions import Fact, GoldQuestion
from models.knowing_reader import KnowingReader

from knowgap import Passage, get_program, signatures
from knowgap.retrieval import BM25Index
from knowgap.signatures import SourcePassage, SubAnswer

QUESTION = "Where was the director of the film Orle Rising born?"
FILM = Passage("film", "Orle Rising", "Orle Rising is a film. It was directed by Ada Venn.")
PERSON = Passage("person", "Ada Venn", "Ada Venn was born in Tarn. She liked boats.")
OTHERS = [Passage(f"other{n}", f"Film {n}", f"Film {n} was directed by a director born in Town {n}.") for n in range(9)]


GOLD = [("Orle Rising", "It was directed by Ada Venn."), ("Ada Venn", "Ada Venn was born in Tarn.")]


def knowing_lm() -> Any:
    known = [GoldQuestion(QUESTION, "Tarn", tuple(Fact(*fact) for fact in GOLD))]
    return dspy.LM("test/knowing", engine=KnowingReader(known), cache=False, num_retries=0)


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
    for name in signatures.__all__:
        act = getattr(signatures, name)
        asks = isinstance(act, type) and issubclass(act, dspy.Signature) and "question" in act.input_fields
        if not asks or act.__module__.endswith("judging"):
            continue
        with dspy.context(lm=lm, adapter=dspy.ChatAdapter()):
            inputs = {field: [] if "list" in str(info.annotation) else "" for field, info in act.input_fields.items()}
            output = dspy.Predict(act)(**{**inputs, "question": QUESTION})
        assert {"tarn", "ada", "venn", "directed"}.isdisjoint(re.findall(r"\w+", str(output).casefold())), name


def ask(act: type[dspy.Signature], **inputs: Any) -> dspy.Prediction:
    with dspy.context(lm=knowing_lm(), adapter=dspy.ChatAdapter()):
        return dspy.Predict(act)(**{"question": QUESTION, **inputs})


def source(number: int, passage: Passage) -> SourcePassage:
    return SourcePassage(id=number, title=passage.title, text=passage.text)


FIRST, SECOND = (f"{title}: {sentence}" for title, sentence in GOLD)


def test_extracts_what_stands_there_with_its_source_and_nothing_else():
    passages = [source(1, OTHERS[0]), source(2, PERSON), source(3, FILM)]
    reply = ask(signatures.ExtractUsefulInfo, queries=[QUESTION], passages=passages)
    assert [(s.statement, s.sources) for s in reply.statements] == [(FIRST, [3]), (SECOND, [2])]
    same = Passage("x", "Elm Rising", "It was directed by Ada Venn.")  # a sentence of another paragraph
    for others in (passages[:1], [source(1, same)]):
        assert ask(signatures.ExtractUsefulInfo, queries=[QUESTION], passages=others).statements == []


def test_asks_for_the_next_fact_that_is_not_settled_and_not_twice():
    before = " ".join(ask(signatures.ProposeQueries, known=[], missing="", asked=[]).queries)
    assert {*re.findall(r"\w+", before.casefold())} <= {*re.findall(r"\w+", QUESTION.casefold())}
    queries = ask(signatures.ProposeQueries, known=[FIRST], missing="", asked=[]).queries
    assert len(queries) == 1
    assert "Ada Venn" in queries[0]
    assert ask(signatures.ProposeQueries, known=[FIRST], missing="", asked=queries).queries == []
    assert ask(signatures.ProposeQueries, known=[FIRST, SECOND], missing="", asked=[]).queries == []


def test_a_sub_question_is_settled_by_its_own_answer_alone():
    lm = knowing_lm()
    with dspy.context(lm=lm, adapter=dspy.ChatAdapter()):
        first = dspy.Predict(signatures.ProposeQueries)(question=QUESTION, known=[], missing="", asked=[]).queries[0]
        second = dspy.Predict(signatures.ProposeQueries)(
            question=QUESTION, known=[FIRST], missing="", asked=[]
        ).queries[0]

        def synthesise(*answers: tuple[str, str]) -> str:
            pairs = [SubAnswer(question=question, answer=answer) for question, answer in answers]
            return dspy.Predict(signatures.Synthesise)(question=QUESTION, sub_answers=pairs, style="").answer

        assert synthesise((first, "Ada Venn"), (second, "Tarn")) == "Tarn"
        assert synthesise((first, "Ada Venn"), (second, "unknown")) == "unknown"
        assert synthesise((first, "Tarn"), (second, "Ada Venn")) == "unknown"
        assert synthesise(("Who is Ada Venn?", "Ada Venn"), ("Where?", "Tarn")) == "unknown"
        # A sub-question is asked for itself: its words alone are known, and it needs its own evidence.
        passages = [source(1, FILM), source(2, PERSON)]
        read = dspy.Predict(signatures.AnswerFromPassages)
        assert read(question=second, passages=passages[:1], style="").answer == "unknown"
        assert read(question=second, passages=passages, style="").answer == "Tarn"
        assert read(question=first, passages=passages[:1], style="").answer == "Ada Venn"
