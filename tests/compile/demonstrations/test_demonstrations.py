"""Demonstrations: found by running the program, kept beside its hyperparameters, shown to the language model."""

import dspy
import pytest
from compile_helpers import Tunable, make_examples, make_retriever, reading_lm, reading_rule
from support import scripted_lm

from knowgap.compiling.demonstrations.demo_sets import EXCERPT_WORDS, DemoSets
from knowgap.compiling.demonstrations.optimizers import feedback_metric, run_optimizer
from knowgap.compiling.evaluation.metrics.answers import exact_match
from knowgap.compiling.run import Run
from knowgap.errors import LanguageModelUnreachable, UsageError
from knowgap.programs.baselines.rag import RAG
from knowgap.programs.trace.evidence import NOT_SEARCHED, USED


@pytest.fixture
def examples():
    return make_examples(6)


@pytest.fixture
def program(examples):
    return Tunable(make_retriever(examples), top_k=3, careful=True)


@pytest.fixture(autouse=True)
def nothing_is_printed(capfd):
    yield
    assert capfd.readouterr() == ("", "")


def run(program, examples, lm=None, *, metric="exact_match", seed=0, **options):
    return run_optimizer(program, examples, metric=metric, run=Run(lm or reading_lm()[0], seed=seed), **options)


def demos(program):
    return {name: [demo.toDict() for demo in p.demos] for name, p in program.named_predictors()}


def test_bootstrap_shows_runs_that_were_right(program, examples):
    compiled = run(program, examples)
    shown = demos(compiled)
    assert {len(shown["answer"]), len(shown["split"])} == {4}
    for demo in shown["answer"]:
        assert {*demo} == {"question", "passages", "style", "answer", "augmented"}
        assert demo["answer"] == next(e.answer for e in examples if e.question == demo["question"])
    assert compiled.values() == program.values() == {**program.values(), "top_k": 3, "careful": True}
    assert not any(demos(program).values())
    assert compiled.concurrent


def test_wrong_runs_become_no_demonstrations(program, examples):
    def rule(outputs, inputs):
        if "questions" in outputs:
            return {"questions": []}
        wrong = any(f"q{n}?" in inputs["question"] for n in range(4))
        return {"answer": "Nobody of that name"} if wrong else reading_rule(outputs, inputs)

    compiled = run(program, examples, scripted_lm(rule)[0], metric="f1")
    assert {d["question"] for d in demos(compiled)["answer"]} == {examples[4].question, examples[5].question}


class AsksThrice(RAG):
    """Asks its one predictor three times."""

    name = "asks_thrice"

    def forward(self, question):
        first, *_ = [super(AsksThrice, self).forward(f"{question}{mark}") for mark in ("", " ", "  ")]
        return first


def test_any_of_several_calls_can_be_shown(examples):
    program = AsksThrice(make_retriever(examples), top_k=5)
    shown = [demos(run(program, examples, seed=seed))["answer"] for seed in (0, 0, 1, 2, 3)]
    assert shown[0] == shown[1]
    assert all(len({demo["question"].rstrip() for demo in each}) == len(each) for each in shown)
    marks = {len(demo["question"]) - len(demo["question"].rstrip()) for each in shown for demo in each}
    assert marks == {0, 1, 2}


def test_sets_are_drawn_from_what_was_bootstrapped(program, examples):
    one, many = (run(program, examples, max_bootstrapped_demos=number) for number in (1, 6))
    drawn = DemoSets.draw(one, many)
    for name, options in drawn.sets.items():
        assert options[0] == []
        assert options[1] == demos(one)[name]
        assert options[2] == demos(many)[name][:4]
        assert len(options) == 6
        assert all(len(option) <= 4 and option not in options[:n] for n, option in enumerate(options))
    assert drawn.own == {"answer": 1, "split": 1}
    assert drawn.bootstrapped == {"answer": 2, "split": 2}
    assert DemoSets.draw(program, None) == DemoSets()


FILLER = "The house has been painted in a new colour every few years since it was built beside the old mill."
FIRST, LAST = "Orle is a town on the river Isk.", "It has a market."
ANSWERING = (
    "Its bridge was built by Marna Tolk in 1871, after a flood had swept the old one away, with stones that forty "
    "boats brought from the quarry in the hills above the town."
)
LIKE_THE_QUESTION = (
    "Whoever crosses the bridge of Orle, which was built when the river was still wide, can see from there how the "
    "boats come in every evening and how the fishermen mend their nets by the water."
)
LONG = " ".join([FIRST, FILLER, LIKE_THE_QUESTION, FILLER, ANSWERING, LAST])


@pytest.mark.parametrize(("answer", "best"), [("Marna Tolk", ANSWERING), ("yes", LIKE_THE_QUESTION)])
def test_drawn_sets_have_excerpts_and_the_own_set_has_not(examples, answer, best):
    """The first sentence, the best one, and what fits beside them; a short text and a long sentence stay whole."""
    texts = [LONG, f"{FIRST}  {ANSWERING}", " ".join(["word"] * 2 * EXCERPT_WORDS) + "."]
    passages = [{"id": number, "title": "Orle", "text": text} for number, text in enumerate(texts)]
    demo = {"question": "Who built the bridge of Orle?", "passages": passages, "style": "short", "answer": answer}
    program, own = (RAG(make_retriever(examples)) for _ in range(2))
    own.answer.demos = [dspy.Example(**demo)]
    program.answer.demos = [dspy.Example(**demo | {"question": "Who made the bridge of Orle?"})]
    _, mine, drawn = DemoSets.draw(program, own).sets["answer"]
    assert mine[0]["passages"] == passages
    shown, *whole = drawn[0]["passages"]
    assert drawn[0] | {"passages": passages} == demo
    assert [{**shown, "text": LONG}, *whole] == passages
    assert shown["text"] == f"{FIRST} {best} {LAST}"


def test_labeled_shows_examples_to_predictors_that_they_label(program, examples):
    rag = RAG(make_retriever(examples))
    shown = demos(run(rag, examples, optimizer="labeled", k=3))
    assert [{*demo} for demo in shown["answer"]] == [{"question", "answer"}] * 3
    shown = demos(run(program, examples, optimizer="labeled"))
    assert (len(shown["answer"]), shown["split"]) == (4, [])  # examples do not say how a question is broken down


def test_no_training_questions_are_refused(program):
    with pytest.raises(UsageError, match="trainset"):
        run(program, [])


def test_a_lost_language_model_ends_bootstrapping(program, examples):
    def rule(outputs, inputs):
        raise LanguageModelUnreachable("connection refused")

    with pytest.raises(LanguageModelUnreachable, match="connection refused"):
        run(program, examples, scripted_lm(rule)[0], max_errors=2)


@pytest.mark.parametrize(
    ("optimizer", "options"),
    [
        ("mipro", {"num_candidates": 2, "num_trials": 2, "max_bootstrapped_demos": 1}),
        ("random_search", {"num_candidate_programs": 2}),
        ("gepa", {"max_metric_calls": 12, "reflection_minibatch_size": 2}),
    ],
)
def test_optimizers_that_write(examples, optimizer, options):
    """They leave nothing on the program, and its settings and language models are what they were."""

    def rule(outputs, inputs):
        asked = "answer" in outputs and "question" in inputs
        return reading_rule(outputs, inputs) if asked else dict.fromkeys(outputs, "Name who lives there.")

    program, (lm, engine) = RAG(make_retriever(examples), top_k=4), scripted_lm(rule)
    compiled = run(program, examples, lm, valset=examples[:3], optimizer=optimizer, **options)
    assert {*vars(compiled)} == {*vars(program)}
    assert compiled.values() == program.values()
    assert all(p.lm is None for p in compiled.predictors())
    assert engine.calls
    with dspy.context(lm=lm):
        assert compiled(question=examples[5].question).answer == examples[5].answer


def test_feedback_names_missing_evidence(examples):
    program = RAG(make_retriever(examples[:3]), top_k=2)
    with dspy.context(lm=reading_lm()[0]):
        seen, unseen = program(question=examples[0].question), program(question=examples[4].question)
    measure = feedback_metric(exact_match)
    assert (measure(examples[0], seen).score, measure(examples[4], unseen).score) == (1.0, 0.0)
    assert f"The passage 'q4' holds evidence: {NOT_SEARCHED}." in measure(examples[4], unseen).feedback
    assert f"The passage 'q0' holds evidence: {USED}." in measure(examples[0], seen).feedback
