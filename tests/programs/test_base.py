"""What every program inherits: one way to ask and to retrieve, the ledger, and its place in DSPy."""

import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor

import dspy
import pytest
from dspy.utils.exceptions import LMError
from support import OverlapRetriever, TableRetriever, by_output, scripted_lm

from knowgap.errors import EmptyQuestion, UnknownName, UsageError
from knowgap.programs import PROGRAMS, get_program
from knowgap.programs.base import Program
from knowgap.programs.baselines.direct import Direct
from knowgap.programs.baselines.rag import RAG
from knowgap.programs.hyperparameters import Integer
from knowgap.programs.trace.recorder import run_concurrently
from knowgap.programs.trace.steps import Malformed
from knowgap.retrieval.passage import Passage
from knowgap.signatures import AnswerDirectly

CORPUS = [
    Passage("moor", "Ada Moor", "Ada Moor painted ships in the harbour of Tarn."),
    Passage("tarn", "Tarn", "Tarn is a town by the sea, known for its harbour."),
    Passage("reed", "Bo Reed", "Bo Reed wrote plays about mountains."),
]
QUESTION = "Who painted ships?"


def answering(answer="Ada Moor", **kwargs):
    return scripted_lm(lambda *_: {"answer": answer}, **kwargs)


@pytest.fixture
def rag():
    return RAG(OverlapRetriever(CORPUS), top_k=2)


# The registry.


@pytest.mark.parametrize("name", PROGRAMS)
def test_every_registered_program_is_found_by_its_own_name(name):
    program = get_program(name)
    assert issubclass(program, Program)
    assert program.name == name
    assert program.__doc__
    for preset in program.presets:
        program(**program.preset(preset))


def test_unknown_program():
    with pytest.raises(UnknownName, match=r"unknown program 'migress': did you mean 'migres'\?"):
        get_program("migress")


# Questions.


@pytest.mark.parametrize("question", ["", "   ", "\n\t", "\u200b", "\u200f \u00a0", None, 7])
def test_empty_question_is_refused_before_anything_is_asked(rag, question):
    lm, engine = answering()
    with dspy.context(lm=lm), pytest.raises(EmptyQuestion, match="ask something"):
        rag(question=question)
    assert engine.calls == []


def test_question_that_is_no_text_is_refused(rag):
    with pytest.raises(UsageError, match=r"the question 'caf\\udce9\?' is not valid Unicode"):
        rag(question=b"caf\xe9?".decode("utf-8", "surrogateescape"))


def test_no_question_at_all(rag):
    with pytest.raises(EmptyQuestion):
        rag()


def test_question_by_position_or_by_name(rag):
    with dspy.context(lm=answering()[0]):
        assert rag(QUESTION).answer == rag(question=QUESTION).answer == "Ada Moor"


def test_prediction_carries_answer_passages_and_trace(rag):
    with dspy.context(lm=answering()[0]):
        prediction = rag(question=QUESTION)
    assert prediction.answer == "Ada Moor"
    assert [passage.id for passage in prediction.passages] == ["moor"]
    trace = prediction.trace
    assert (trace.program, trace.question) == ("rag", QUESTION)
    assert [step.kind for step in trace.steps] == ["asked", "retrieved", "answered"]
    assert [step.iteration for step in trace.steps] == [0, 1, 1]
    assert [step.at for step in trace.steps] == sorted(step.at for step in trace.steps)
    assert trace.passage("moor") == CORPUS[0]


def test_retrieving_without_a_retriever_says_what_to_do():
    with dspy.context(lm=answering()[0]), pytest.raises(UsageError, match=r"rag needs a retriever: RAG\(retriever\)"):
        RAG()(question=QUESTION)


def test_forward_alone_records_nothing(rag):
    with pytest.raises(RuntimeError, match="call the program, not its forward"):
        rag.forward(question=QUESTION)


def test_a_program_keeps_nothing_between_questions(rag):
    before = {name: value for name, value in vars(rag).items() if name != "history"}
    with dspy.context(lm=answering()[0]):
        first, second = rag(question=QUESTION), rag(question=QUESTION)
    assert {name: value for name, value in vars(rag).items() if name != "history"} == before
    assert first.trace is not second.trace
    assert len(first.trace.steps) == len(second.trace.steps) == 3


# The ledger.


def test_ledger_counts_calls_tokens_retrievals_and_passages(rag):
    lm, engine = answering()
    with dspy.context(lm=lm):
        cost = rag(question=QUESTION).trace.cost
    assert (cost.lm_calls, cost.cached_calls, cost.critical_calls) == (1, 0, 1)
    assert (cost.retrievals, cost.passages, cost.iterations) == (1, 1, 1)
    entry = lm.history[-1]["usage"]
    assert (cost.prompt_tokens, cost.completion_tokens) == (entry["prompt_tokens"], entry["completion_tokens"])
    assert cost.prompt_tokens > 0
    assert cost.completion_tokens == len(engine.replies[0]) // 4
    assert 0 < cost.critical_seconds <= cost.seconds


def test_ledger_counts_cached_calls_and_their_tokens(rag):
    lm, engine = answering(cache=True)
    with dspy.context(lm=lm):
        fresh = rag(question="Who painted ships in the cache?").trace.cost
        cached = rag(question="Who painted ships in the cache?").trace.cost
    assert len(engine.calls) == 1
    assert (fresh.lm_calls, fresh.cached_calls) == (1, 0)
    assert (cached.lm_calls, cached.cached_calls) == (1, 1)
    assert cached.prompt_tokens == fresh.prompt_tokens > 0
    assert cached.completion_tokens == fresh.completion_tokens > 0
    assert cached.critical_calls == 1


@pytest.mark.parametrize("setting", [{"disable_history": True}, {"max_history_size": 0}, {"max_history_size": 1}])
def test_ledger_counts_whatever_history_the_user_keeps(rag, setting):
    lm, _ = scripted_lm(lambda *_: "no fields here")  # two calls: the chat format, then JSON
    with dspy.context(lm=lm, **setting):
        cost = rag(question=QUESTION).trace.cost
    assert cost.lm_calls == cost.critical_calls == 2
    assert len(rag.history) <= setting.get("max_history_size", 0)


def test_ledger_counts_the_calls_of_a_nested_predictor():
    program = Direct()
    program.answer = dspy.ChainOfThought(AnswerDirectly)
    lm, engine = scripted_lm(lambda *_: {"reasoning": "because", "answer": "Ada Moor"})
    with dspy.context(lm=lm):
        prediction = program(question=QUESTION)
    assert prediction.answer == "Ada Moor"
    assert engine.calls[0][0] == ("reasoning", "answer")
    assert prediction.trace.cost.lm_calls == 1
    assert prediction.trace.cost.prompt_tokens > 0


class Twice(Program):
    """Asks several things at once, then once more."""

    name = "twice"
    needs_retriever = False
    width = Integer(3, "questions at once", low=1, high=8)

    def __init__(self, retriever=None, **kwargs):
        super().__init__(retriever, **kwargs)
        self.answer = dspy.Predict(AnswerDirectly)

    def forward(self, question):
        drafts = run_concurrently([lambda n=n: self._draft(f"{question} ({n})") for n in range(self.width)])
        answer = self._draft(" ".join(drafts))
        return self.conclude(answer, [])

    def _draft(self, question):
        return self.ask(self.answer, question=question, style="short").answer


@pytest.mark.parametrize(("concurrent", "chain"), [(True, 2), (False, 4)])
def test_ledger_measures_the_critical_path(concurrent, chain):
    with dspy.context(lm=scripted_lm(lambda _, inputs: {"answer": inputs["question"]})[0]):
        prediction = Twice(concurrent=concurrent)(question="Q")
    assert prediction.answer == "Q (0) Q (1) Q (2)"
    assert prediction.trace.cost.lm_calls == 4
    assert prediction.trace.cost.critical_calls == chain


# Output that cannot be read, and language models that fail.


@pytest.mark.parametrize("reply", ["", "no fields here", "[[ ## answer ##", '{"other": 1}', "[]", "null"])
def test_unreadable_output_is_noted_and_counts_as_nothing(rag, reply):
    lm, engine = scripted_lm(lambda *_: reply)
    with dspy.context(lm=lm):
        prediction = rag(question=QUESTION)
    assert prediction.answer == ""
    (step,) = prediction.trace.of(Malformed)
    assert step.act == "answer"
    assert step.problem
    assert len(step.problem) <= 300
    assert prediction.trace.cost.lm_calls == len(engine.calls) == 2


@pytest.mark.parametrize("reply", ["[" * 3000, "{" * 200, '{"a":' * 3000], ids=["brackets", "braces", "objects"])
def test_output_that_breaks_the_reader_is_unreadable_output(rag, reply):
    """A model that loops writes what no parser can hold; the question goes on."""
    lm, _ = scripted_lm(lambda *_: reply)
    with dspy.context(lm=lm):
        prediction = rag(question=QUESTION)
    assert prediction.answer == ""
    (step,) = prediction.trace.of(Malformed)
    assert step.problem


def test_lone_surrogates_in_an_answer_are_replaced(rag):
    lm, _ = scripted_lm(lambda *_: '{"answer": "Ada \\ud800 Moor"}')
    with dspy.context(lm=lm):
        prediction = rag(question=QUESTION)
    assert prediction.answer == "Ada ? Moor"
    assert prediction.trace.to_json()


def test_a_missing_language_model_is_no_unreadable_output(rag):
    with dspy.context(lm=None), pytest.raises(ValueError, match="No LM is loaded"):
        rag(question=QUESTION)


def test_json_fallback_is_read(rag):
    replies = iter(["no fields here", '{"answer": "Ada Moor"}'])
    lm, _ = scripted_lm(lambda *_: next(replies))
    with dspy.context(lm=lm):
        prediction = rag(question=QUESTION)
    assert prediction.answer == "Ada Moor"
    assert prediction.trace.of(Malformed) == []
    assert prediction.trace.cost.lm_calls == 2


def test_failing_language_model_fails_the_question(rag):
    def fail(*_):
        raise RuntimeError("out of order")

    with dspy.context(lm=scripted_lm(fail)[0]), pytest.raises(LMError, match="out of order"):
        rag(question=QUESTION)


def test_a_failed_question_leaves_the_next_one_alone(rag):
    replies = iter([RuntimeError("once"), None])

    def sometimes(*_):
        if problem := next(replies):
            raise problem
        return {"answer": "Ada Moor"}

    with dspy.context(lm=scripted_lm(sometimes)[0]):
        with pytest.raises(LMError):
            rag(question=QUESTION)
        assert rag(question=QUESTION).trace.cost.lm_calls == 1


# Off the event loop.


def test_acall_equals_call(rag):
    async def both():
        return await rag.acall(question=QUESTION), await rag.acall(QUESTION)

    with dspy.context(lm=answering()[0]):
        called = rag(question=QUESTION)
        for prediction in asyncio.run(both()):
            assert prediction.answer == called.answer
            assert prediction.passages == called.passages
            assert [s.kind for s in prediction.trace.steps] == [s.kind for s in called.trace.steps]
            assert prediction.trace.cost.lm_calls == 1


def test_acall_does_not_block_the_loop(rag):
    """The model answers only after the loop has run on and let it."""
    asked, go_on = threading.Event(), threading.Event()

    def wait(*_):
        asked.set()
        assert go_on.wait(20)
        return {"answer": "Ada Moor"}

    async def loop():
        task = asyncio.ensure_future(rag.acall(question=QUESTION))
        while not asked.is_set():
            await asyncio.sleep(0)
        go_on.set()
        return await task

    with dspy.context(lm=scripted_lm(wait)[0]):
        assert asyncio.run(loop()).answer == "Ada Moor"


def test_many_acalls_are_in_flight_together(rag):
    barrier = threading.Barrier(40)

    def meet(*_):
        barrier.wait(20)
        return {"answer": "Ada Moor"}

    async def loop():
        return await asyncio.gather(*(rag.acall(question=f"{QUESTION} {n}") for n in range(40)))

    with dspy.context(lm=scripted_lm(meet)[0]):
        answers = asyncio.run(loop())
    assert [p.trace.question for p in answers] == [f"{QUESTION} {n}" for n in range(40)]


def test_acall_raises_what_the_call_raises(rag):
    with pytest.raises(EmptyQuestion):
        asyncio.run(rag.acall(question=" "))


def test_called_from_many_threads(rag):
    lm, _ = scripted_lm(lambda _, inputs: {"answer": inputs["question"]})
    questions = [f"{QUESTION} {n}" for n in range(64)]
    with dspy.context(lm=lm), ThreadPoolExecutor(16) as pool:
        import contextvars

        futures = [pool.submit(contextvars.copy_context().run, rag, question) for question in questions]
        predictions = [future.result() for future in futures]
    assert [p.answer for p in predictions] == questions
    assert {p.trace.cost.lm_calls for p in predictions} == {1}
    assert [p.trace.question for p in predictions] == questions


# In DSPy's hands.


def test_copies_share_the_retriever_and_nothing_else(rag):
    rag.answer.demos = [{"question": "Q?", "answer": "A"}]
    twin = rag.deepcopy()
    assert twin.retriever is rag.retriever
    assert twin.answer is not rag.answer
    twin.answer.demos.append({"question": "R?", "answer": "B"})
    assert len(rag.answer.demos) == 1
    assert twin.history == []


def test_predictors_do_not_reach_into_the_retriever():
    program = RAG(TableRetriever({}))
    program.retriever.helper = dspy.Predict("a -> b")
    assert [name for name, _ in program.named_predictors()] == ["answer"]


def test_bootstrapped_demonstrations_leave_hyperparameters_alone(rag):
    lm, engine = scripted_lm(
        by_output({"answer": lambda _, inputs: {"answer": "Ada Moor" if "ships" in inputs["question"] else "Bo Reed"}})
    )
    trainset = [
        dspy.Example(question=QUESTION, answer="Ada Moor").with_inputs("question"),
        dspy.Example(question="Who wrote plays?", answer="Bo Reed").with_inputs("question"),
    ]
    rag.top_k = 3
    optimizer = dspy.BootstrapFewShot(
        metric=lambda example, prediction, trace=None: prediction.answer == example.answer,
        max_bootstrapped_demos=2,
        max_labeled_demos=0,
    )
    with dspy.context(lm=lm):
        compiled = optimizer.compile(rag, trainset=trainset)
        assert compiled.top_k == rag.top_k == 3
        assert [demo["question"] for demo in compiled.answer.demos] == [QUESTION, "Who wrote plays?"]
        assert rag.answer.demos == []
        assert compiled.retriever is rag.retriever
        assert compiled(question=QUESTION).answer == "Ada Moor"
    assert len(engine.calls) == 3


def test_compiled_program_is_saved_with_demonstrations_and_hyperparameters(rag, tmp_path):
    lm, _ = answering()
    trainset = [dspy.Example(question=QUESTION, answer="Ada Moor").with_inputs("question")]
    with dspy.context(lm=lm):
        compiled = dspy.BootstrapFewShot(max_labeled_demos=0).compile(rag, trainset=trainset)
    compiled.save(tmp_path / "program.json")
    twin = RAG(OverlapRetriever(CORPUS))
    twin.load(tmp_path / "program.json")
    assert twin.top_k == 2
    assert twin.answer.demos[0]["question"] == QUESTION
    lm, engine = answering()
    with dspy.context(lm=lm):
        twin(question="Who wrote plays?")
    assert len(engine.calls) == 1


def test_evaluate_counts_every_question(rag):
    devset = [dspy.Example(question=f"{QUESTION} {n}", answer="Ada Moor").with_inputs("question") for n in range(8)]
    evaluate = dspy.Evaluate(
        devset=devset, metric=lambda e, p, trace=None: p.answer == e.answer, num_threads=4, display_progress=False
    )
    with dspy.context(lm=answering()[0]):
        assert evaluate(rag).score == 100.0
