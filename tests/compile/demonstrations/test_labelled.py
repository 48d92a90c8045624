"""Demonstrations of a program that only answers are training questions with their answers, and cost no call."""

import dspy
import pytest
from compile_helpers import Tunable, make_examples, make_retriever, reading_lm
from support import OverlapRetriever

from knowgap.compiling import Run, StudyConfig, compile
from knowgap.compiling.data import Dataset
from knowgap.compiling.demonstrations.labelled import answers_only, label_calls
from knowgap.errors import DataError
from knowgap.programs.baselines.direct import Direct
from knowgap.programs.baselines.rag import RAG, RAGChainOfThought
from knowgap.retrieval.passage import Passage, part_id


@pytest.fixture
def examples():
    return make_examples(8)


def test_a_demonstration_has_what_the_program_reads_and_the_reference_answer(examples):
    program = RAG(make_retriever(examples), top_k=6)
    labelled = label_calls(program, examples, 4)
    assert labelled is not None
    assert len(labelled.answer.demos) == 4
    assert not program.answer.demos
    answers = {example.question: example for example in examples}
    for demo in labelled.answer.demos:
        example = answers[demo.question]
        assert {*demo.toDict()} == {"augmented", "question", "passages", "style", "answer"}
        assert demo.answer == example.answer
        assert [passage.id for passage in demo.passages] == [1, 2, 3]
        assert any(example.answer in passage.text for passage in demo.passages)


def test_questions_whose_evidence_is_not_found_are_left_out(examples):
    unknown = [example.copy(gold_ids=["elsewhere"]) for example in examples]
    program = RAG(make_retriever(examples), top_k=2)
    assert label_calls(program, unknown, 4) is None
    unlabelled = [example.copy(gold_ids=[]) for example in examples[:2]] + [
        examples[2].copy(gold_ids=[], answer="Nobody of that name", aliases=["Nobody of that name"])
    ]
    labelled = label_calls(program, unlabelled, 4)
    assert labelled is not None
    assert {demo.question for demo in labelled.answer.demos} == {each.question for each in examples[:2]}


def test_gold_ids_may_name_documents_that_were_split(examples):
    parts = [
        Passage(part_id(each.id, "0123456789"), "house", f"{each.answer} lives in {each.id}.") for each in examples
    ]
    labelled = label_calls(RAG(OverlapRetriever(parts), top_k=8), examples, 4)
    assert labelled is not None
    assert len(labelled.answer.demos) == 4
    assert all(demo.answer in "".join(passage.text for passage in demo.passages) for demo in labelled.answer.demos)


def test_other_programs_are_run_instead(examples):
    retriever = make_retriever(examples)
    assert answers_only(RAG(retriever)) == answers_only(Direct()) == "answer"
    assert answers_only(RAG(retriever, style="sentence")) == ""
    assert answers_only(RAGChainOfThought(retriever)) == answers_only(Tunable(retriever)) == ""


def test_a_study_shows_them_for_no_call(examples):
    data = Dataset("houses", {"train": examples[:5], "dev": examples[5:], "test": []}, [], "houses")
    lm, engine = reading_lm()
    study = StudyConfig(n_trials=2, prune=False)
    found = compile(RAG(make_retriever(examples)), data, "exact_match", study=study, run=Run(lm))
    assert [trial.user_attrs["label"] for trial in found.study.trials] == ["default", "bootstrapped"]
    demos = found.study.objective.demos
    assert demos.spent.asked == 0
    trained = {example.question for example in examples[:5]}
    assert not any(inputs["question"] in trained for _, inputs in engine.calls)
    chosen = demos.sets["answer"][1]
    assert {demo["question"] for demo in chosen} <= trained
    assert dspy.settings.lm is None


def test_a_training_question_without_an_answer_is_named_before_anything_is_asked(examples):
    lm, engine = reading_lm()
    train = [*examples[:5], dspy.Example(question="Who?")]
    with pytest.raises(DataError, match="trainset: every example needs the field answer"):
        compile(RAG(make_retriever(examples)), examples[5:], "exact_match", trainset=train, run=Run(lm))
    assert engine.calls == []
