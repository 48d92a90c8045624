"""What DSPy's callbacks are told of a question, and the trees that MLflow makes of it in a local store."""

import asyncio
import json
import threading
from collections import Counter
from concurrent.futures import ThreadPoolExecutor

import dspy
import pytest
from dspy.utils.callback import ACTIVE_CALL_ID, BaseCallback
from dspy.utils.exceptions import LMError
from endpoint import endpoint
from support import OverlapRetriever, scripted_lm

from knowgap.programs.base import Program
from knowgap.programs.trace.recorder import run_concurrently
from knowgap.programs.trace.steps import Noted
from knowgap.retrieval.passage import Passage
from knowgap.signatures import AnswerDirectly

PASSAGES = [Passage("isk", "Isk", "The Isk flows through Tarn."), Passage("om", "Om", "The Om flows through Wick.")]
RULE = {"answer": "the Isk"}


class TwoBranches(Program):
    """Searches, and asks the model on two branches at once that wait for each other."""

    def __init__(self, retriever, together=2):
        super().__init__(retriever)
        self.reader, self._both = dspy.Predict(AnswerDirectly), threading.Barrier(together)

    def __deepcopy__(self, memo):
        return self

    def forward(self, question):
        self.begin_iteration(1)
        passages = self.retrieve_passages(question, 2)
        run_concurrently([lambda n=n: self.branch(f"{question} {n}") for n in range(2)], ["first", "second"])
        return self.conclude("the Isk", passages)

    def branch(self, question):
        self._both.wait(60)
        self.ask(self.reader, question=question, style="short")
        self.record(Noted(note=f"note on {question}"))


class Watcher(BaseCallback):
    """Keeps each call: its parent, its name, inputs, outputs and error."""

    def __init__(self):
        self.calls = {}

    def on_module_start(self, call_id, instance, inputs):
        name = instance.name if isinstance(instance, dspy.Tool) else type(instance).__name__
        self.calls[call_id] = {"parent": ACTIVE_CALL_ID.get(), "name": name, "inputs": dict(inputs["kwargs"])}

    def on_module_end(self, call_id, outputs, exception=None):
        self.calls[call_id] |= {"outputs": outputs, "error": exception}

    on_tool_start, on_tool_end = on_module_start, on_module_end

    def on_lm_start(self, call_id, instance, inputs):
        self.calls[call_id] = {"parent": ACTIVE_CALL_ID.get(), "name": "LM"}

    def named(self, name):
        return [call for call in self.calls.values() if call["name"] == name]

    def path(self, call):
        """The names from the root to a call."""
        above = self.path(self.calls[call["parent"]]) if call["parent"] else []
        return [*above, call["name"]]


@pytest.fixture
def program():
    return TwoBranches(OverlapRetriever(PASSAGES))


def ask_watched(program, question, watcher, rule=lambda *_: RULE):
    with dspy.context(lm=scripted_lm(rule)[0], callbacks=[watcher]):
        return program(question=question)


@pytest.mark.parametrize(
    "ask",
    [
        lambda program, question: program(question=question),
        lambda program, question: list(program.stream(question=question)),
        lambda program, question: asyncio.run(program.acall(question=question)),
    ],
    ids=["called", "streamed", "awaited"],
)
def test_a_question_is_one_tree_with_its_steps_and_requests(program, ask):
    watcher = Watcher()
    with dspy.context(lm=scripted_lm(lambda *_: RULE)[0], callbacks=[watcher]):
        ask(program, "What flows through Tarn?")
    paths = Counter(tuple(watcher.path(call)) for call in watcher.calls.values())
    root = ("TwoBranches",)
    assert paths == {
        root: 1,
        (*root, "Retrieved"): 1,
        (*root, "reader"): 2,
        (*root, "reader", "Predict"): 2,
        (*root, "reader", "Predict", "LM"): 2,
        (*root, "Noted"): 2,
        (*root, "Answered"): 1,
    }


def test_a_step_tells_its_place_and_what_it_holds(program):
    watcher = Watcher()
    ask_watched(program, "What flows through Tarn?", watcher)
    [search] = watcher.named("Retrieved")
    assert search["inputs"] == {"queries": ["What flows through Tarn?"], "k": 2, "iteration": 1, "branch": ""}
    assert [document["id"] for document in search["outputs"]] == ["isk", "om"]
    assert search["outputs"][0]["page_content"] == PASSAGES[0].text
    assert search["outputs"][0]["metadata"]["title"] == "Isk"
    notes = {call["inputs"]["branch"]: call["outputs"]["note"] for call in watcher.named("Noted")}
    assert notes == {f: f"note on What flows through Tarn? {n}" for n, f in enumerate(("first", "second"))}
    assert {call["inputs"]["iteration"] for call in watcher.named("reader")} == {1}


def test_a_failure_of_the_model_is_told_and_raised(program):
    def fail(*_):
        raise LMError("gone")

    watcher = Watcher()
    with pytest.raises(LMError):
        ask_watched(program, "What flows through Tarn?", watcher, fail)
    assert all(isinstance(call["error"], LMError) for call in watcher.named("reader"))
    assert isinstance(watcher.named("TwoBranches")[0]["error"], LMError)


@pytest.fixture
def mlflow(tmp_path, monkeypatch):
    """MLflow with a store in a folder, watching DSPy."""
    monkeypatch.setenv("MLFLOW_DISABLE_TELEMETRY", "true")
    monkeypatch.chdir(tmp_path)  # MLflow writes a folder mlruns
    module = pytest.importorskip("mlflow", reason="the extra `watch` is not installed")
    callbacks = dspy.settings.callbacks
    module.set_tracking_uri(f"sqlite:///{tmp_path}/traces.db")
    module.set_experiment("questions")
    module.dspy.autolog()
    yield module
    module.dspy.autolog(disable=True)
    dspy.configure(callbacks=callbacks)


@pytest.mark.filterwarnings("ignore")  # those of MLflow
def test_questions_at_once_are_a_tree_each_in_mlflow_without_a_key(mlflow, tmp_path):
    program = TwoBranches(OverlapRetriever(PASSAGES), together=8)  # all branches of four questions at once
    questions = [f"What flows through town {n}?" for n in range(4)]
    with endpoint() as server:
        settings = {"api_base": server.api_base, "cache": False}
        lm = dspy.LM("openai/m", api_key="sk-of-the-model", **settings)
        program.reader.lm = dspy.LM("openai/m", api_key="sk-of-the-reader", **settings)

        def ask(question):
            with dspy.context(lm=lm):
                return program(question=question)

        with ThreadPoolExecutor(4) as pool:
            list(pool.map(ask, questions))
    mlflow.flush_trace_async_logging()
    traces = mlflow.search_traces(return_type="list")
    for trace in traces:
        spans = trace.data.spans
        [root] = [span for span in spans if span.parent_id is None]
        names = Counter(span.name.removesuffix(".forward") for span in spans if span.parent_id == root.span_id)
        assert names == {"Retrieved": 1, "Tool.reader": 2, "Tool.Noted": 2, "Tool.Answered": 1}
        [search] = [span for span in spans if span.span_type == "RETRIEVER"]
        assert (search.inputs["queries"], search.inputs["iteration"]) == ([root.inputs["question"]], 1)
        calls = [span for span in spans if span.span_type == "CHAT_MODEL"]
        assert [root.inputs["question"] in json.dumps(call.inputs) for call in calls] == [True] * 2
    assert {trace.data.spans[0].inputs["question"] for trace in traces} == set(questions)
    stored = b"".join(path.read_bytes() for path in tmp_path.rglob("*") if path.is_file())
    assert questions[0].encode() in stored
    assert b"sk-of-the" not in stored
