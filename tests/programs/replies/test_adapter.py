"""The adapter writes what DSPy's writes, but for the form of a reply, and no input forges a field."""

import json
import re
from typing import Literal, get_args, get_origin

import dspy
import pytest
from mutations import FORGED, INJECTIONS
from near_misses import FORMS, all_signatures, write

from knowgap import signatures
from knowgap.programs.replies.adapter import LenientChatAdapter, LenientJSONAdapter, adapter_in_use
from knowgap.programs.replies.fields import read_fields, without_marks
from knowgap.signatures import SourcePassage, Statement, SubAnswer

VALUES = {
    str: ' a "text"\nof two lines, número 5, \u2014 ',
    int: 3,
    float: 0.25,
    bool: True,
    SourcePassage: SourcePassage(id=1, title="A title", text="A text."),
    Statement: Statement(statement="So it is.", sources=[1]),
    SubAnswer: SubAnswer(question="Who?", answer="She."),
}


def value(annotation):
    if get_origin(annotation) is list:
        return [value(get_args(annotation)[0])] * 2
    return VALUES.get(annotation, get_args(annotation)[0] if get_args(annotation) else "a text")


@pytest.mark.parametrize("signature", all_signatures().values(), ids=all_signatures())
def test_the_messages_are_dspys_but_for_the_form_of_a_reply(signature):
    inputs = {name: value(field.annotation) for name, field in signature.input_fields.items()}
    outputs = {name: value(field.annotation) for name, field in signature.output_fields.items()}
    demos = [{**inputs, **outputs}, {**outputs, next(iter(inputs)): "incomplete"}]
    marks = [*signature.output_fields, "completed"]
    ours, theirs = (a.format(signature, demos, inputs) for a in (LenientChatAdapter(), dspy.ChatAdapter()))
    assert ours[1:-1] == theirs[1:-1]  # demonstrations
    (body, _, named), (dspys_body, _, _) = (m[-1]["content"].rpartition("Respond with") for m in (ours, theirs))
    assert body == dspys_body
    system, dspys_system = ours[0]["content"], theirs[0]["content"]
    fields, _, rest = system.partition("\n\nWrite every reply in this form:\n\n")
    form, _, task = rest.partition("\n\nYour task:\n")
    assert dspys_system.startswith(fields)
    for written in (named, form):
        assert re.findall(r"\[\[ ## (\w+) ## \]\]", written) == marks
    assert task.split() == signature.instructions.split()
    assert len(system) < len(dspys_system)


@pytest.mark.parametrize("held", INJECTIONS)
@pytest.mark.parametrize("form", FORMS)
def test_a_passage_cannot_forge_an_answer(form, held):
    """What a model quotes of it, as the prompt shows it, is text, wherever it stands in the reply."""

    def written(reasoning, answer):
        return write(form, {"reasoning": reasoning, "answer": answer})

    adapter = {"chat": LenientChatAdapter, "json": LenientJSONAdapter}[form]()
    signature = signatures.ReasonedAnswer
    passages = [SourcePassage(id=1, title=f"Tarn{held}", text=f"A town.{held}It has a harbour.")]
    inputs = {"question": f"Where?{held}", "passages": passages, "style": ""}
    shown = adapter.format(signature, [], inputs)[-1]["content"]
    assert shown.count(FORGED) >= 3
    quoted = shown[shown.index("Tarn") : shown.index("harbour")].replace("\\n", "\n").replace('\\"', '"')
    for quote in (quoted, "\n".join(f"> {line}" for line in quoted.splitlines()), " ".join(quoted.split())):
        own = written("so", "Osk")
        for reply in (written(quote, "Osk"), f"It says: {quote}\n\n{own}", f"{own}\n\nIt says:\n{quote}"):
            assert adapter.parse(signature, reply)["answer"].startswith("Osk")
        assert adapter.parse(signature, written("so", f"Osk, for: {quote}"))["answer"].startswith("Osk")
        for reply in (f"It says: {quote}", f'{{"reasoning": "It says: {quote}'):
            assert read_fields(signature, reply) is None


def test_what_looks_like_a_mark_and_is_none_stays():
    for text in ("[1] a < b", "[[a]]", "<b>", "'it': 1"):
        assert without_marks(text, signatures.ReasonedAnswer) == text


def test_the_adapter_in_the_settings_is_used_leniently_and_one_of_ones_own_as_it_is():
    class Own(dspy.ChatAdapter):
        pass

    plain, own = dspy.JSONAdapter(), Own()
    plain.use_native_function_calling = "as it was"
    for adapter, kind in ((None, LenientChatAdapter), (plain, LenientJSONAdapter), (own, Own)):
        with dspy.context(adapter=adapter):
            assert type(adapter_in_use()) is kind
            assert adapter is None or vars(adapter_in_use()) == vars(adapter)


def test_the_form_of_a_reply_shows_what_stands_for_a_value_of_each_type():
    class Graded(dspy.Signature):
        """Grade it."""

        question: str = dspy.InputField()
        grade: int = dspy.OutputField(ge=1, le=5)
        share: float = dspy.OutputField()
        statements: list[Statement] = dspy.OutputField()
        kind: Literal["song", "film"] = dspy.OutputField()

    shown = re.findall(r"## \]\]\n(.+)", adapter_in_use().format_system_message(Graded).partition("this form:")[2])
    assert shown[:2] == ["(a whole number from 1 to 5)", "(a number)"]
    [statement] = json.loads(shown[2])
    assert isinstance(statement["statement"], str)
    assert statement["sources"] == [1, 2]
    assert {"song", "film"} <= {*re.findall(r"\w+", shown[3])}
