"""Demonstrations: found by running the program, kept beside its hyperparameters, shown to the language model."""

from __future__ import annotations

import random

import dspy
import pytest
from compile_helpers import Tunable, make_examples, make_retriever, reading_lm, reading_rule
from support import scripted_lm

from knowgap.compile import compile_program
from knowgap.compile.demonstrations.optimizers import OPTIMIZERS
from knowgap.errors import LanguageModelError, LanguageModelUnreachable, UnknownName, UsageError
from knowgap.lms.providers import EXTRACTIVE
from knowgap.programs.baselines.direct import Direct
from knowgap.programs.baselines.rag import RAG


@pytest.fixture
def examples():
    return make_examples(6)


@pytest.fixture
def program(examples):
    return Tunable(make_retriever(examples), top_k=3, careful=True)


def demos(program):
    return {name: [demo.toDict() for demo in p.demos] for name, p in program.named_predictors()}


def prompts(engine):
    return [inputs for _, inputs in engine.calls]


def test_bootstrap_shows_runs_that_were_right(program, examples, capfd):
    lm, _ = reading_lm()
    compiled = compile_program(program, examples, metric="exact_match", optimizer="bootstrap", lm=lm)
    found = demos(compiled)
    assert {len(found["answer"]), len(found["split"])} == {4}
    for demo in found["answer"]:
        assert {*demo} == {"question", "passages", "style", "answer", "augmented"}
        assert demo["answer"] == next(e.answer for e in examples if e.question == demo["question"])
    assert compiled.values() == program.values() == {**program.values(), "top_k": 3, "careful": True}
    assert not any(demos(program).values())
    assert compiled.concurrent
    assert capfd.readouterr() == ("", "")


def test_wrong_runs_become_no_demonstrations(program, examples):
    wrong = {"q0", "q1", "q2", "q3"}

    def rule(outputs, inputs):
        if "questions" in outputs:
            return {"questions": []}
        if any(name in inputs["question"] for name in wrong):
            return {"answer": "Nobody of that name"}
        return reading_rule(outputs, inputs)

    lm, _ = scripted_lm(rule)
    compiled = compile_program(program, examples, metric="f1", lm=lm)
    assert {d["question"] for d in demos(compiled)["answer"]} == {examples[4].question, examples[5].question}


def test_a_demonstration_reaches_the_prompt_also_after_saving(program, examples, tmp_path):
    shown = []

    def rule(outputs, inputs):
        return {"questions": []} if "questions" in outputs else reading_rule(outputs, inputs)

    lm, engine = scripted_lm(rule)
    complete = engine.complete

    def watched(request):
        shown.append("\n".join(message.text or "" for message in request.messages))
        return complete(request)

    engine.complete = watched
    compiled = compile_program(program, examples[:4], metric="exact_match", lm=lm)
    with dspy.context(lm=lm):
        compiled(question=examples[5].question)
        first = shown[-1]
        compiled.save(str(tmp_path / "p.json"))
        again = Tunable(program.retriever)
        again.load(str(tmp_path / "p.json"))
        again(question=examples[5].question)
        second = shown[-1]
        program(question=examples[5].question)
    assert second == first
    for example in examples[:4]:
        assert example.question in first
        assert example.question not in shown[-1]


def test_seeds_decide_and_repeat(program, examples):
    lm, _ = reading_lm()
    compiled = [
        demos(compile_program(program, examples, metric="f1", lm=lm, seed=s, max_bootstrapped_demos=2))
        for s in (0, 0, 1)
    ]
    assert compiled[0] == compiled[1] != compiled[2]


def test_the_order_of_demonstrations_does_not_depend_on_timing(examples):
    lm, _ = reading_lm()
    program = RAG(make_retriever(examples), top_k=5)
    compiled = [demos(compile_program(program, examples, metric="f1", lm=lm)) for _ in range(3)]
    assert compiled[0] == compiled[1] == compiled[2]


class AsksThrice(RAG):
    """Asks its one predictor three times."""

    name = "asks_thrice"

    def forward(self, question):
        first, *_ = [super(AsksThrice, self).forward(f"{question}{mark}") for mark in ("", " ", "  ")]
        return first


def test_which_of_several_calls_is_shown_is_no_matter_of_chance(examples, monkeypatch):
    monkeypatch.setattr("dspy.utils.hasher.Hasher.hash", lambda value: str(random.random()))
    program = AsksThrice(make_retriever(examples), top_k=5)
    shown = [
        demos(compile_program(program, examples, metric="f1", lm=reading_lm()[0], seed=seed))["answer"]
        for seed in (0, 0, 0, 0, 1, 2, 3)
    ]
    assert shown[0] == shown[1] == shown[2] == shown[3]
    marks = {len(demo["question"]) - len(demo["question"].rstrip()) for found in shown for demo in found}
    assert marks == {0, 1, 2}


def test_compiling_twice_starts_from_the_first(program, examples):
    lm, _ = reading_lm()
    once = compile_program(program, examples, metric="f1", lm=lm, max_bootstrapped_demos=1)
    twice = compile_program(once, examples, metric="f1", lm=lm, max_bootstrapped_demos=2)
    assert len(demos(once)["answer"]) == 1
    assert len(demos(twice)["answer"]) == 2


def test_random_search_keeps_the_best_on_the_valset(examples, capfd):
    program = Direct()
    asked = []

    def rule(outputs, inputs):
        return {"answer": next(e.answer for e in examples if e.question == inputs["question"])}

    lm, _ = scripted_lm(rule)
    compiled = compile_program(
        program,
        examples,
        valset=examples[:2],
        metric="exact_match",
        optimizer="random_search",
        num_candidate_programs=2,
        lm=lm,
        progress=lambda *a: asked.append(a),
    )
    assert len(asked) >= 5 * 2
    assert not hasattr(compiled, "candidate_programs")
    assert capfd.readouterr() == ("", "")


def test_labeled_shows_examples_to_predictors_that_they_label(examples):
    lm, _ = reading_lm()
    program = RAG(make_retriever(examples))
    found = demos(compile_program(program, examples, metric="f1", optimizer="labeled", lm=lm, k=3))
    assert len(found["answer"]) == 3
    assert all({*demo} == {"question", "answer"} for demo in found["answer"])

    tunable = Tunable(make_retriever(examples))
    found = demos(compile_program(tunable, examples, metric="f1", optimizer="labeled", lm=lm))
    assert len(found["answer"]) == 4
    assert found["split"] == []  # nothing in the examples says how a question is broken down

    program.answer = dspy.Predict("question -> verdict")
    with pytest.raises(UsageError, match="use bootstrap"):
        compile_program(program, examples, metric="f1", optimizer="labeled", lm=lm)


def test_refusals(program, examples):
    lm, _ = reading_lm()
    with pytest.raises(UnknownName, match="unknown optimizer 'bootstrop': did you mean 'bootstrap'"):
        compile_program(program, examples, metric="f1", optimizer="bootstrop", lm=lm)
    with pytest.raises(UnknownName, match="unknown option of the optimizer bootstrap 'max_demos'"):
        compile_program(program, examples, metric="f1", lm=lm, max_demos=3)
    with pytest.raises(UsageError, match="nothing to ask"):
        compile_program(program, [], metric="f1", lm=lm)


def test_optimizers_that_write_instructions_need_a_writer(program, examples):
    lm, engine = reading_lm()
    lm.model = EXTRACTIVE
    for name, optimizer in OPTIMIZERS.items():
        if optimizer.needs_lm:
            with pytest.raises(LanguageModelError, match=f"the optimizer {name} has a language model write"):
                compile_program(program, examples, metric="f1", optimizer=name, lm=lm)
    assert engine.calls == []


def test_a_lost_language_model_is_named(program, examples):
    def rule(outputs, inputs):
        raise LanguageModelUnreachable("connection refused")

    lm, _ = scripted_lm(rule)
    with pytest.raises(LanguageModelUnreachable, match="connection refused"):
        compile_program(program, examples, metric="f1", lm=lm, max_errors=2)


def writing_lm(instruction="Name who lives there."):
    """A language model that reads, and words the same instruction whenever one is asked for."""

    def rule(outputs, inputs):
        if "answer" in outputs and "question" in inputs:
            return reading_rule(outputs, inputs)
        values = dict.fromkeys(outputs, instruction)
        return {**values, "questions": []} if "questions" in outputs else values

    return scripted_lm(rule)


def instructions(program):
    return {name: p.signature.instructions for name, p in program.named_predictors()}


def untouched(before, after):
    """Nothing of an optimizer hangs on to the program, and its settings and language models are what they were."""
    assert {*vars(after)} == {*vars(before)}
    assert after.values() == before.values()
    assert all(p.lm is None for p in after.predictors())


@pytest.mark.parametrize(
    ("optimizer", "options"),
    [
        ("mipro", {"num_candidates": 2, "num_trials": 2, "max_bootstrapped_demos": 1}),
        ("simba", {"bsize": 4, "max_steps": 1, "num_candidates": 2}),
        ("copro", {"breadth": 2, "depth": 1}),
        ("gepa", {"max_metric_calls": 12, "reflection_minibatch_size": 2}),
    ],
)
def test_optimizers_that_write(examples, optimizer, options, capfd):
    program = RAG(make_retriever(examples), top_k=4)
    lm, engine = writing_lm()
    compiled = compile_program(
        program, examples, valset=examples[:3], metric="exact_match", optimizer=optimizer, lm=lm, **options
    )
    untouched(program, compiled)
    assert engine.calls
    with dspy.context(lm=lm):
        assert compiled(question=examples[5].question).answer == examples[5].answer
    assert capfd.readouterr() == ("", "")


def test_a_better_instruction_is_taken_over(examples):
    """A program that fails under its own instruction, and a language model that answers under the new one alone."""
    program = RAG(make_retriever(examples), top_k=5)

    def rule(outputs, inputs):
        return reading_rule(outputs, inputs) if "question" in inputs else dict.fromkeys(outputs, "Obey the oracle.")

    lm, engine = scripted_lm(rule)
    complete = engine.complete

    def obedient(request):
        system = str(request.system or "") + "".join(message.text or "" for message in request.messages[:-1])
        if "Answer the question with the help" in system and "Obey the oracle." not in system:
            engine.rule = lambda outputs, inputs: {"answer": "no idea"}
        else:
            engine.rule = rule
        return complete(request)

    engine.complete = obedient
    compiled = compile_program(
        program, examples, metric="exact_match", optimizer="copro", lm=lm, breadth=2, depth=1, num_threads=1
    )
    assert instructions(compiled)["answer"] == "Obey the oracle."
    assert "Answer the question" in instructions(program)["answer"]


def test_gepa_hears_what_was_wrong(examples):
    program = RAG(make_retriever(examples), top_k=4)
    heard = []

    def rule(outputs, inputs):
        if "answer" in outputs and "question" in inputs:
            return {"answer": "nobody"}
        heard.append(str(inputs))
        return dict.fromkeys(outputs, "```\nName who lives there.\n```")

    lm, engine = scripted_lm(rule)
    complete = engine.complete

    def listening(request):
        heard.append("\n".join(message.text or "" for message in request.messages))
        return complete(request)

    engine.complete = listening
    compile_program(
        program, examples, metric="exact_match", optimizer="gepa", lm=lm, max_metric_calls=14, num_threads=1
    )
    assert any("The answer 'nobody' scores 0.00; expected was 'Ada'" in text for text in heard)


def test_feedback_names_missing_evidence(examples):
    from knowgap.compile.demonstrations.feedback import feedback_metric
    from knowgap.compile.evaluation.metrics import exact_match

    program = RAG(make_retriever(examples[:3]), top_k=2)
    with dspy.context(lm=reading_lm()[0]):
        seen, unseen = program(question=examples[0].question), program(question=examples[4].question)
    measure = feedback_metric(exact_match)
    assert measure(examples[0], seen).score == 1.0
    found = measure(examples[4], unseen)
    assert found.score == 0.0
    assert "The passage 'q4', which holds evidence, was never retrieved." in found.feedback
    own = feedback_metric(lambda e, p, trace=None: dspy.Prediction(score=0.5, feedback="mine"))
    assert (own(examples[0], seen).score, own(examples[0], seen).feedback) == (0.5, "mine")


def vectors(texts):
    """One dimension for each house."""
    import numpy as np

    return np.array([[float(f"house q{n}?" in text) + 0.01 * n for n in range(6)] for text in texts])


def test_knn_shows_the_nearest(program, examples, tmp_path):
    from knowgap.compile import evaluate, save_artifact

    lm, engine = reading_lm()
    compiled = compile_program(program, examples, metric="exact_match", optimizer="knn", lm=lm, k=2, vectorizer=vectors)
    shown, complete = [], engine.complete

    def watched(request):
        shown.append("".join(message.text or "" for message in request.messages[:-1]))
        return complete(request)

    engine.complete = watched
    with dspy.context(lm=lm):
        prediction = compiled(question=examples[3].question)
        twin = compiled.deepcopy()
        again = twin(question=examples[3].question)
    assert prediction.answer == again.answer == examples[3].answer
    assert all(text.count("Who lives in house q3?") == 1 for text in shown)
    assert all(text.count("Who lives in house") == 2 for text in shown)
    assert prediction.trace.cost.lm_calls == 2
    assert [step.kind for step in prediction.trace.steps] == [step.kind for step in again.trace.steps]
    assert twin.configure(top_k=1).top_k == 1
    assert compiled.top_k == 3
    result = evaluate(compiled, examples, "exact_match", lm=lm)
    assert result.mean() == 1.0
    assert result.provenance.state != evaluate(program, examples, "exact_match", lm=lm).provenance.state
    wrong, _ = scripted_lm(lambda o, i: {"answer": "nobody", "questions": []})
    with pytest.raises(UsageError, match="answers rightly"):
        compile_program(program, examples, metric="exact_match", optimizer="knn", lm=wrong, vectorizer=vectors)
    rag = compile_program(
        RAG(program.retriever, top_k=6), examples, metric="f1", optimizer="knn", lm=lm, vectorizer=vectors
    )
    with pytest.raises(UsageError, match="knn looks its demonstrations up"):
        save_artifact(rag, tmp_path / "knn")
