"""SKR: the neighbours' vote, and the questions it rests on."""

import dspy
import pytest
from support import OverlapRetriever, TableRetriever, scripted_lm

import knowgap
from knowgap.errors import ArtifactError
from knowgap.programs.baselines.skr import SKR
from knowgap.programs.trace.steps import Judged
from knowgap.retrieval.passage import Passage

RIVER, CAPITAL = "Which river flows through Tarn?", "What is the capital of Osk?"


def example(question, direct, retrieved=True):
    return {"question": question, "direct": direct, "retrieved": retrieved}


EXAMPLES = [
    example("Which river flows through Ebbing?", True),
    example("Which river flows through Lund?", True),
    example("Which river flows through Vale?", False),
    example("What is the capital of Ebbing?", False),
    example("What is the capital of Lund?", False),
    example("What is the capital of Vale?", True),
]


def answering(outputs, inputs):
    return {"answer": "read" if "passages" in inputs else "known"}


@pytest.mark.parametrize(
    ("question", "answer", "right", "steps"),
    [(RIVER, "known", 2, ["judged"]), (CAPITAL, "read", 1, ["judged", "retrieved"])],
)
def test_retrieves_unless_the_neighbours_were_answered_without(corpus, ask, kinds, question, answer, right, steps):
    program = SKR(OverlapRetriever(corpus), examples=EXAMPLES, neighbours=3)
    prediction, engine = ask(program, answering, question)
    assert (prediction.answer, prediction.knows) == (answer, answer == "known")
    assert kinds(prediction) == ["asked", *steps, "answered"]
    assert bool(prediction.passages) == (answer == "read")
    assert len(engine.calls) == 1
    reason = f"{right} of the 3 nearest labelled questions and 3 of all 6 were answered rightly without retrieval"
    assert prediction.trace.of(Judged)[0].reason == reason


@pytest.mark.parametrize(
    ("examples", "answer"),
    [
        ([], "read"),
        ([example(RIVER, True)], "known"),
        ([example(RIVER, False)], "read"),
        ([example(RIVER, False, retrieved=False)], "read"),  # wrong both ways: left out
        ([example("unrelated words", True)], "read"),
    ],
)
def test_few_labelled_questions(corpus, ask, examples, answer):
    program = SKR(OverlapRetriever(corpus), examples=examples)
    assert ask(program, answering, RIVER)[0].answer == answer
    assert [e.question for e in program.labelled.examples] == [e["question"] for e in examples if e["retrieved"]]


def test_another_index_may_find_the_neighbours(corpus, ask):
    def last(passages):
        return TableRetriever({RIVER: [Passage(passages[-1].id, "", "")]})

    program = SKR(OverlapRetriever(corpus), examples=[*EXAMPLES[:5], example("zzz", True)], index=last)
    prediction, _ = ask(program, answering, RIVER)
    assert "1 of the 1 nearest" in prediction.trace.of(Judged)[0].reason
    assert prediction.answer == "known"


def test_labelled_questions_are_saved_loaded_and_copied(corpus, ask, tmp_path):
    program = SKR(OverlapRetriever(corpus), examples=EXAMPLES, neighbours=3)
    folder = knowgap.save(program, tmp_path / "artifact", lm="openai/any")
    loaded = knowgap.load(folder, retriever=OverlapRetriever(corpus))
    for twin in (loaded, program.deepcopy(), program.reset_copy()):
        assert twin.labelled.examples == program.labelled.examples
        assert ask(twin, answering, RIVER)[0].answer == "known"
        assert ask(twin, answering, CAPITAL)[0].answer == "read"
    path = folder / "program.json"
    path.write_text(path.read_text().replace('"direct": true', '"direct": "perhaps"'))
    with pytest.raises(ArtifactError, match=r"program\.json is damaged"):
        knowgap.load(folder, retriever=OverlapRetriever(corpus))


def test_fit_labels_by_answering_both_ways(corpus, ask):
    # The model knows rivers; passages tell capitals.
    def rule(outputs, inputs):
        river, read = "river" in inputs["question"], "passages" in inputs
        return {"answer": "right" if river != read else "wrong"}

    trainset = [dspy.Example(question=e["question"], answer="right").with_inputs("question") for e in EXAMPLES]
    lm, engine = scripted_lm(rule)
    with dspy.context(lm=lm):
        program = SKR(OverlapRetriever(corpus), neighbours=3).fit(trainset, lambda e, p: e.answer == p.answer)
    assert len(engine.calls) == 12
    assert [(e.direct, e.retrieved) for e in program.labelled.examples] == [(True, False)] * 3 + [(False, True)] * 3
    assert ask(program, rule, RIVER)[0].answer == "right"
    assert ask(program, rule, CAPITAL)[0].answer == "right"
