"""Examples of RA-ISF's sub-models: who labels them, how often a teacher is asked, and how work continues."""

import dspy
import pytest
from dspy.utils.exceptions import LMTransportError
from support import OverlapRetriever, scripted_lm

from knowgap.compiling.training.labelling import (
    Item,
    count_missing,
    label_items,
    make_labeller,
    refer_to_answers,
    retrieve_items,
    split_held_out,
)
from knowgap.errors import LanguageModelError, UsageError
from knowgap.programs.ra_isf import RAISF
from knowgap.retrieval.passage import Passage, part_id
from knowgap.signatures import STYLES

PASSAGES = [
    Passage("moor", "Ada Moor", "Ada Moor painted ships. She was born in Wick."),
    Passage("ferry", "The Grey Ferry", "The Grey Ferry is a painting by Ada Moor."),
    Passage("tarn", "Tarn", "Tarn is a town by the sea."),
]


def example(question, answer="", **more):
    return dspy.Example(question=question, answer=answer, aliases=[answer], **more).with_inputs("question")


WHO = example("Who painted The Grey Ferry?", "Ada Moor", gold_ids=["ferry"])
WHERE = example(
    "Where was the painter of The Grey Ferry born?",
    "Wick",
    gold_ids=["ferry", "moor"],
    evidences=[["The Grey Ferry", "creator", "Ada Moor"], ["Ada Moor", "place of birth", "Wick"]],
    decomposition=[
        {"question": "Who painted The Grey Ferry?", "answer": "The Grey Ferry was painted by Ada Moor."},
        {"question": "Where was Ada Moor  born?", "answer": "Ada Moor was born in Wick."},
    ],
)


def labels(made):
    return {(e.question, e.passage.partition(":")[0]): e.label for e in made.records}


def test_what_is_answered_rightly_without_passages_is_known(tmp_path):
    lm, engine = scripted_lm(lambda outputs, inputs: {"answer": "ada moor." if "Who" in inputs["question"] else "Tarn"})
    labeller = make_labeller("know", "answers", lm, RAISF(style="long"))
    made = label_items([Item(WHO), Item(WHERE)], labeller, tmp_path / "know.jsonl")
    assert labels(made) == {(WHO.question, ""): True, (WHERE.question, ""): False}
    assert (made.calls, made.kept) == (2, 0)
    assert [outputs for outputs, _ in engine.calls] == [("answer",)] * 2
    assert {inputs["style"] for _, inputs in engine.calls} == {STYLES["long"]}
    assert all(inputs["passages"] == inputs["sub_answers"] == [] for _, inputs in engine.calls)


def test_a_teacher_judges_knowledge_relevance_and_decomposes(tmp_path):
    def rule(outputs, inputs):
        if "knows" in outputs:
            return {"knows": inputs["question"] == WHO.question}
        if "relevant" in outputs:
            return {"relevant": "Moor" in inputs["passage"]}
        more = [f"{n}. Part {n}?" for n in range(4, 10)]
        return {"questions": ["1. Who painted it?", "2. Where was she born?", "3. Who painted it", *more]}

    lm, engine = scripted_lm(rule)
    know, relevant, decompose = (make_labeller(task, "teacher", lm) for task in ("know", "relevant", "decompose"))
    known = label_items([Item(WHO), Item(WHERE)], know, tmp_path / "know.jsonl")
    assert [e.label for e in known.records] == [True, False]
    judged = label_items([Item(WHO, passage) for passage in PASSAGES], relevant, tmp_path / "relevant.jsonl")
    assert [e.label for e in judged.records] == [True, True, False]
    assert judged.records[0].passage == str(PASSAGES[0])
    parts = label_items([Item(WHERE)], decompose, tmp_path / "decompose.jsonl")
    assert parts.records[0].label == ["Who painted it?", "Where was she born?", *(f"Part {n}?" for n in range(4, 10))]
    assert len(engine.calls) == known.calls + judged.calls + parts.calls == 6
    demonstrated = RAISF()
    demonstrated.know.demos = [dspy.Example(question="Shown before?", knows=True)]
    assert know.identity == make_labeller("know", "teacher", lm).identity
    assert know.identity != make_labeller("know", "teacher", lm, demonstrated).identity
    with pytest.raises(UsageError, match="give a teacher"):
        make_labeller("know", "teacher")


def test_gold_passages_and_worded_sub_questions_need_no_teacher(tmp_path):
    items = retrieve_items([WHO, WHERE], OverlapRetriever(PASSAGES[1:]), 1)
    found = [(i.example.question, i.passage.id) for i in items]
    assert found == [(WHO.question, "ferry"), (WHERE.question, "ferry")], "gold passages only if they are found (A.2)"
    items = [*items, Item(WHO, PASSAGES[2]), Item(example("Without gold?"), PASSAGES[2])]
    made = label_items(items, make_labeller("relevant", "data"), tmp_path / "relevant.jsonl")
    assert ([e.label for e in made.records], made.calls) == ([True, True, False], 0)
    pieces = [Passage(part_id(p.id, "0123456789"), p.title, p.text) for p in PASSAGES[1:]]  # of split documents
    made = label_items([Item(WHO, p) for p in pieces], make_labeller("relevant", "data"), tmp_path / "pieces.jsonl")
    assert [e.label for e in made.records] == [True, False]
    steps = [{"question": "When was Ada born?", "answer": "1871"}, {"question": "When was Bo born?", "answer": "1880"}]
    alone = example("Is Ada older than Bo?", "yes", decomposition=steps)
    items = [Item(WHERE), Item(WHO), Item(alone)]  # the second sub-question of WHERE names the answer to the first
    parts = label_items(items, make_labeller("decompose", "data"), tmp_path / "decompose.jsonl")
    assert [e.label for e in parts.records] == [["When was Ada born?", "When was Bo born?"]]


@pytest.mark.parametrize(
    ("steps", "expected"),
    [
        ([("How many?", ""), ("Is #1 more than 3?", "")], ["How many?", "Is #1 more than 3?"]),
        ([("Who?", "Al"), ("Is Also older than Al?", "")], ["Who?", "Is Also older than #1?"]),  # whole words
        (
            [("Who?", "Ada"), ("Who of Ada Moor?", "Ada Moor"), ("Ada Moor's?", "")],
            ["Who?", "Who of #1 Moor?", "#2's?"],
        ),
        ([("Where is Told?", "Told"), ("And Told?", "")], ["Where is Told?", "And Told?"]),  # the question says it
        ([("Who?", "C++"), ("Is C++ older?", "")], ["Who?", "Is #1 older?"]),
        ([], []),
    ],
)
def test_answers_to_earlier_sub_questions_become_references(steps, expected):
    made = example("What of Told?", decomposition=[{"question": q, "answer": a} for q, a in steps])
    assert refer_to_answers(made) == expected


def test_an_unreadable_reply_leaves_an_item_without_a_label_and_is_asked_for_again(tmp_path):
    replies = {WHO.question: "nothing to read", WHERE.question: {"knows": True}}
    lm, _ = scripted_lm(lambda outputs, inputs: replies[inputs["question"]])
    items, file, labeller = [Item(WHO), Item(WHERE)], tmp_path / "know.jsonl", make_labeller("know", "teacher", lm)
    made = label_items(items, labeller, file)
    assert (labels(made), made.calls) == ({(WHERE.question, ""): True}, 3)
    replies[WHO.question] = {"knows": False}
    again = label_items(items, labeller, file)
    assert (len(again.records), again.calls, again.kept) == (2, 1, 1)


def test_work_that_was_killed_continues(tmp_path):
    items, file, failing = [Item(example(f"Question {n}?")) for n in range(6)], tmp_path / "know.jsonl", ["Question 3?"]

    def rule(outputs, inputs):
        if inputs["question"] in failing:
            raise LMTransportError("the wire is cut")
        return {"knows": inputs["question"] < "Question 2"}

    lm, engine = scripted_lm(rule)
    labeller = make_labeller("know", "teacher", lm)
    with pytest.raises(LanguageModelError, match="does not answer"):
        label_items(items, labeller, file, num_threads=1)
    failing.clear()
    engine.calls.clear()
    assert count_missing(items, file) == 3
    made = label_items([*items, items[0]], labeller, file)
    assert sorted(inputs["question"] for _, inputs in engine.calls) == ["Question 3?", "Question 4?", "Question 5?"]
    assert [e.label for e in made.records] == [True, True, False, False, False, False]
    assert (made.calls, made.kept, count_missing(items, file)) == (3, 3, 0)


def test_labels_of_another_teacher_are_not_taken_over(tmp_path):
    file = tmp_path / "know.jsonl"
    lm, _ = scripted_lm(lambda outputs, inputs: {"knows": True, "answer": "Ada Moor"})
    label_items([Item(WHO)], make_labeller("know", "teacher", lm), file)
    warm = dspy.LM("test/scripted", engine=lm.engine, cache=False, num_retries=0, temperature=0.7)
    for other in (make_labeller("know", "answers", lm), make_labeller("know", "teacher", warm)):
        with pytest.raises(UsageError, match="about another labeller"):
            label_items([Item(WHO)], other, file)


def test_no_question_is_on_both_sides(tmp_path):
    items = [Item(example(f"Question {n}?", gold_ids=["moor"]), passage) for n in range(20) for passage in PASSAGES]
    examples = label_items(items, make_labeller("relevant", "data"), tmp_path / "relevant.jsonl").records
    train, held_out = split_held_out(examples, 0.25)
    one, other = ({e.question for e in part} for part in (train, held_out))
    assert (len(one), len(other), one & other) == (15, 5, set())
    assert len(train) + len(held_out) == 60
    assert split_held_out(examples[::-1], 0.25)[1] == held_out[::-1]
    assert {e.question for e in split_held_out(examples, 0.25, seed=1)[1]} != other
