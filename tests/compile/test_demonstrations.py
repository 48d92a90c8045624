"""Demonstrations: found by running the program, kept beside its hyperparameters, shown to the language model."""

from __future__ import annotations

import dspy
import pytest
from compile_helpers import Tunable, make_examples, make_retriever, reading_lm, reading_rule
from support import scripted_lm

from knowgap.compile import compile_program
from knowgap.compile.demonstrations import EMBEDDED, OPTIMIZERS
from knowgap.errors import LanguageModelError, LanguageModelUnreachable, UnknownName, UsageError
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
    lm.model = EMBEDDED
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
