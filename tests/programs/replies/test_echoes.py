"""The question, a field's description and a probability are no answers; plain text is, whatever stands around it."""

from __future__ import annotations

import dspy
import pytest

from knowgap.programs.replies.fields import read_fields
from knowgap.programs.replies.quotations import shown
from knowgap.signatures import AnswerDirectly, AnswerWithConfidence, MissingInfo, RewriteQuery

PLAIN: type[dspy.Signature] = dspy.Signature("question -> answer")
QUESTION = "Who painted The Grey Ferry?"


def answer(reply: str, question: str = QUESTION, **inputs: str) -> str | None:
    """What is read of a reply to a question."""
    with shown({"question": question, **inputs}):
        outputs = read_fields(PLAIN, reply)
    return None if outputs is None else outputs["answer"]


@pytest.mark.parametrize(
    ("reply", "read"),
    [
        ("Ada Moor", "Ada Moor"),
        ("<think>\nWho was it?\n</think>\n\nAda Moor", "Ada Moor"),
        ("<think>Who was it?</think>The answer is:\n```\nAda Moor\n```", "Ada Moor"),
        ("```python\nprint('Ada Moor')\n```\n```output\nAda Moor\n```", "Ada Moor"),
        ('{"response": "Ada Moor"}', "Ada Moor"),
        ('```json\n{"painter": "Ada Moor"}\n```', "Ada Moor"),
        ('{"result": {"answer": "Ada Moor", "confidence": 0.95}}', "Ada Moor"),
        ('{"answer": {"answer": "Ada Moor", "confidence": 0.95}}', "Ada Moor"),
        ("Question: Who painted The Grey Ferry?\nAnswer: Ada Moor", "Ada Moor"),
        ("Question: Who painted The Grey Ferry? Answer: Ada Moor", "Ada Moor"),
        ("Who painted The Grey Ferry? Ada Moor", "Ada Moor"),
        ('[[ ## answer ## ]]\nThe answer is "Ada Moor".\n\n[[ ## completed ## ]]', "Ada Moor"),
        ("[[ ## answer ## ]]\nThe answer is that nobody knows.", "The answer is that nobody knows."),
        ("[[ ## answer ## ]]\nThe answer is:\n\n[[ ## completed ## ]]", None),
        ("[[ Ada Moor ]]\n\n[[ completed ## ]]", "Ada Moor"),
        ("[[ answer ]]\n\n[[ completed ## ]]", None),
        ("**Who painted The Grey Ferry?**\n\nAda Moor", "Ada Moor"),
        ("answer: question: Who painted The Grey Ferry?", None),
        ("question: Who painted The Grey Ferry?", None),
        ("Who painted The Grey Ferry", None),
        ("[[ ## answer ## ]]\n{answer}\n\n[[ ## completed ## ]]", None),
        (
            "[[ ## answer ## ]]\nNo sentence. Only the name, date, number, phrase, or yes or no, as short as possible.",
            None,
        ),
        ("Only yes or no.", "Only yes or no."),
        ("0.95", None),
        ('{"answer": 0.95}', None),
        ('{"answer": {"confidence": 0.95}}', None),
        ('{"reasoning": "It was Ada Moor."}', None),
        ('{"question": "Who painted The Grey Ferry?"}', None),
        ("95%", None),
        ("Mark the answer as:\n" * 40, None),
    ],
)
def test_what_is_read_of_a_reply_to_a_question(reply, read):
    assert answer(reply) == read


@pytest.mark.parametrize(
    ("question", "reply"),
    [
        ("What share of the votes did she win?", "0.95"),
        ("How likely is rain?", "95%"),
        ("Which season was her last?", "3"),
        ("Grey Ferry", "Grey Ferry"),
        ("Ada", "Ada Moor"),
        ("Who wrote the song Who Are You?", "Who Are You"),
        ("Which film is older, Up or It?", "Up or It"),
        ("Is it a question: yes or no?", "Questions: both"),
    ],
)
def test_answers_that_only_look_like_an_echo_are_read(question, reply):
    assert answer(reply, question) == reply


def test_a_number_that_a_passage_states_is_an_answer():
    question = "What did the gauge show?"
    assert answer("0.95", question) is None
    assert answer("0.95", question, passages="The gauge showed 0.95 before the storm.") == "0.95"


def test_without_the_question_its_label_is_enough():
    assert read_fields(PLAIN, "answer: question: Who?") is None
    assert read_fields(PLAIN, "Question: Who? Answer: Ada Moor") == {"answer": "Ada Moor"}
    assert read_fields(PLAIN, "0.95") == {"answer": "0.95"}


def test_the_description_of_a_field_is_not_its_value():
    assert read_fields(AnswerDirectly, "[[ ## answer ## ]]\nthe answer in the asked style") is None
    with shown({"question": QUESTION}):
        outputs = read_fields(MissingInfo, f"[[ ## answerable ## ]]\nFalse\n\n[[ ## answer ## ]]\n{QUESTION}")
    assert outputs is not None
    assert (outputs["answerable"], outputs["answer"]) == (False, "")


@pytest.mark.parametrize("said", ["{finished} must be True or False", "{finished}", "`{finished}`"])
def test_the_form_of_a_yes_or_no_is_no_yes(said):
    signature = dspy.Signature("question -> answer: str, finished: bool")
    with shown({"question": QUESTION}):
        assert read_fields(signature, f"[[ ## answer ## ]]\nAda Moor\n\n[[ ## finished ## ]]\n{said}") is None


def test_a_query_may_be_the_question():
    with shown({"question": QUESTION}):
        assert read_fields(RewriteQuery, f"[[ ## query ## ]]\n{QUESTION}") == {"query": QUESTION}


def test_a_field_in_the_line_of_the_answer_is_no_answer():
    reply = "[[ ## answer ## ]] {} [[ ## confidence ## ]] 0.95"
    with shown({"question": QUESTION}):
        read = read_fields(AnswerWithConfidence, reply.format(QUESTION))
        told_apart = read_fields(AnswerWithConfidence, reply.format("Ada Moor"))
    assert read is None
    assert told_apart == {"answer": "Ada Moor", "confidence": 0.95}
