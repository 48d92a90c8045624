"""Demonstrations: found by running the program, kept beside its hyperparameters, shown to the language model."""

import dspy
import pytest
from compile_helpers import Tunable, make_examples, make_retriever, reading_lm, reading_rule
from support import scripted_lm

from knowgap.compiling.demonstrations.demo_sets import DemoSets
from knowgap.compiling.demonstrations.feedback import feedback_metric
from knowgap.compiling.demonstrations.optimizers import OPTIMIZERS, run_optimizer
from knowgap.compiling.evaluation.metrics.answers import exact_match
from knowgap.compiling.run import Run
from knowgap.errors import LanguageModelError, LanguageModelUnreachable, UnknownName, UsageError
from knowgap.lms.providers import EXTRACTIVE
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


def demos(program):
    return {name: [demo.toDict() for demo in p.demos] for name, p in program.named_predictors()}


def test_bootstrap_shows_runs_that_were_right(program, examples):
    compiled = run_optimizer(program, examples, metric="exact_match", optimizer="bootstrap", run=Run(reading_lm()[0]))
    shown = demos(compiled)
    assert {len(shown["answer"]), len(shown["split"])} == {4}
    for demo in shown["answer"]:
        assert {*demo} == {"question", "passages", "style", "answer", "augmented"}
        assert demo["answer"] == next(e.answer for e in examples if e.question == demo["question"])
    assert compiled.values() == program.values() == {**program.values(), "top_k": 3, "careful": True}
    assert not any(demos(program).values())
    assert compiled.concurrent


def test_examples_need_not_name_their_input(program, examples):
    """`dspy.Example(question=…, answer=…)` suffices, as for `evaluate`."""
    bare = [dspy.Example(question=each.question, answer=each.answer) for each in examples]
    for optimizer, options in (("bootstrap", {}), ("random_search", {"num_candidate_programs": 1})):
        options = {"metric": "exact_match", "optimizer": optimizer, "run": Run(reading_lm()[0]), **options}
        shown = [demos(run_optimizer(program, each, **options)) for each in (bare, examples)]
        assert shown[0] == shown[1]
        assert bool(shown[0]["answer"]) == (optimizer == "bootstrap")


def test_wrong_runs_become_no_demonstrations(program, examples):
    def rule(outputs, inputs):
        if "questions" in outputs:
            return {"questions": []}
        wrong = any(f"q{n}?" in inputs["question"] for n in range(4))
        return {"answer": "Nobody of that name"} if wrong else reading_rule(outputs, inputs)

    compiled = run_optimizer(program, examples, metric="f1", run=Run(scripted_lm(rule)[0]))
    assert {d["question"] for d in demos(compiled)["answer"]} == {examples[4].question, examples[5].question}


class AsksThrice(RAG):
    """Asks its one predictor three times."""

    name = "asks_thrice"

    def forward(self, question):
        first, *_ = [super(AsksThrice, self).forward(f"{question}{mark}") for mark in ("", " ", "  ")]
        return first


def test_any_of_several_calls_can_be_shown(examples):
    program = AsksThrice(make_retriever(examples), top_k=5)
    shown = [
        demos(run_optimizer(program, examples, metric="f1", run=Run(reading_lm()[0], seed=seed)))["answer"]
        for seed in (0, 0, 1, 2, 3)
    ]
    assert shown[0] == shown[1]
    assert all(len({demo["question"].rstrip() for demo in each}) == len(each) for each in shown)
    marks = {len(demo["question"]) - len(demo["question"].rstrip()) for each in shown for demo in each}
    assert marks == {0, 1, 2}


def test_sets_are_drawn_from_what_was_bootstrapped(program, examples, lm):
    one = run_optimizer(program, examples, metric="f1", run=Run(lm), max_bootstrapped_demos=1)
    many = run_optimizer(program, examples, metric="f1", run=Run(lm), max_bootstrapped_demos=6)
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


def test_labeled_shows_examples_to_predictors_that_they_label(program, examples):
    options = {"metric": "f1", "optimizer": "labeled", "run": Run(reading_lm()[0])}
    rag = RAG(make_retriever(examples))
    shown = demos(run_optimizer(rag, examples, k=3, **options))
    assert [{*demo} for demo in shown["answer"]] == [{"question", "answer"}] * 3
    shown = demos(run_optimizer(program, examples, **options))
    assert (len(shown["answer"]), shown["split"]) == (4, [])  # examples do not say how a question is broken down
    rag.answer = dspy.Predict("question -> verdict")
    with pytest.raises(UsageError, match="use bootstrap"):
        run_optimizer(rag, examples, **options)


def test_refusals(program, examples):
    lm, engine = reading_lm()
    with pytest.raises(UnknownName, match="unknown optimizer 'bootstrop': did you mean 'bootstrap'"):
        run_optimizer(program, examples, metric="f1", optimizer="bootstrop", run=Run(lm))
    with pytest.raises(UnknownName, match="unknown option of BootstrapFewShot 'max_demos'"):
        run_optimizer(program, examples, metric="f1", run=Run(lm), max_demos=3)
    with pytest.raises(UsageError, match="nothing to ask"):
        run_optimizer(program, [], metric="f1", run=Run(lm))
    with pytest.raises(UsageError, match="the optimizer mipro cannot run: "):
        run_optimizer(program, examples, metric="f1", run=Run(lm), optimizer="mipro", auto="light", num_candidates=2)
    asked = len(engine.calls)
    lm.model = EXTRACTIVE
    for name, optimizer in OPTIMIZERS.items():
        if optimizer.writes:
            with pytest.raises(LanguageModelError, match=f"the optimizer {name} needs a language model to write"):
                run_optimizer(program, examples, metric="f1", optimizer=name, run=Run(lm))
    assert len(engine.calls) == asked


def test_a_lost_language_model_is_named(program, examples):
    def rule(outputs, inputs):
        raise LanguageModelUnreachable("connection refused")

    with pytest.raises(LanguageModelUnreachable, match="connection refused"):
        run_optimizer(program, examples, metric="f1", run=Run(scripted_lm(rule)[0]), max_errors=2)


def writing_lm(instruction="Name who lives there.", answer=reading_rule):
    """A language model that reads, and writes the same instruction whenever one is asked for."""

    def rule(outputs, inputs):
        if "answer" in outputs and "question" in inputs:
            return answer(outputs, inputs)
        return dict.fromkeys(outputs, instruction)

    return scripted_lm(rule)


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
    program = RAG(make_retriever(examples), top_k=4)
    lm, engine = writing_lm()
    compiled = run_optimizer(
        program, examples, valset=examples[:3], metric="exact_match", optimizer=optimizer, run=Run(lm), **options
    )
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
    assert measure(examples[0], seen).score == 1.0
    result = measure(examples[4], unseen)
    assert result.score == 0.0
    assert f"The passage 'q4' holds evidence: {NOT_SEARCHED}." in result.feedback
    assert f"The passage 'q0' holds evidence: {USED}." in measure(examples[0], seen).feedback
    own = feedback_metric(lambda e, p, trace=None: dspy.Prediction(score=0.5, feedback="mine"))
    assert (own(examples[0], seen).score, own(examples[0], seen).feedback) == (0.5, "mine")
