"""Modules of DSPy's as programs: inputs, outputs, hyperparameters, calls and searches."""

import threading

import dspy
import pytest
from support import scripted_lm

import knowgap
from knowgap.compiling import evaluate, load, save
from knowgap.compiling.run import Run
from knowgap.errors import ArtifactError, UsageError
from knowgap.programs.hyperparameters import Integer
from knowgap.programs.modules import as_program, wrap
from knowgap.programs.trace.steps import Malformed, Retrieved
from knowgap.retrieval.passage import Passage

TOWNS = [
    Passage("orle", "Orle", "Orle is a town on the Isk."),
    Passage("tarn", "Tarn", "Tarn is a town on the Lome."),
    Passage("venn", "Venn", "Venn is a village in the hills."),
]


def words(outputs, inputs):
    return dict.fromkeys(outputs, "Isk")


class Hops(dspy.Module):
    """Searches with what it is given as `retriever`, or with DSPy's."""

    num_docs = Integer(1, "passages of each search", low=1, high=3)
    num_hops = Integer(2, "searches", low=1, high=3, tune=False)

    def __init__(self, retriever=None):
        self.retriever = retriever
        self.search = dspy.Retrieve(k=2)
        self.judge = dspy.ChainOfThought("claim, notes: list[str] -> verdict")

    def forward(self, claim):
        notes = []
        for _ in range(self.num_hops):
            if self.retriever is None:
                notes += self.search(claim, k=self.num_docs).passages
            else:
                notes += [hit.passage.text for hit in self.retriever.search([claim], self.num_docs)[0]]
        return dspy.Prediction(verdict=self.judge(claim=claim, notes=notes).verdict, notes=notes)


class Text(dspy.Module):
    """Answers with a text, and asks no model."""

    def forward(self, question):
        return question


def asked(program, rule=words, question="Which town is on the Lome?"):
    lm, engine = scripted_lm(rule)
    with dspy.context(lm=lm):
        return program(question=question), engine


@pytest.fixture
def index(tmp_path):
    return knowgap.build_index(TOWNS, tmp_path / "idx", engine="bm25")


@pytest.mark.parametrize("module", [Hops(), Hops])
def test_a_module_searches_the_index_that_the_program_is_given(module, index):
    prediction, engine = asked(wrap(module)(index, num_docs=2))
    cost = prediction.trace.cost
    assert prediction.answer == prediction.verdict == "Isk"
    assert [passage.id for passage in prediction.passages] == ["tarn", "orle"]
    assert (cost.lm_calls, len(engine.calls), cost.retrievals, cost.passages, cost.unseen_searches) == (1, 1, 2, 2, 0)
    assert cost.knowledge_tokens == 2 * 8
    assert [step.k for step in prediction.trace.of(Retrieved)] == [2, 2]


def test_declared_attributes_are_hyperparameters(index):
    program = wrap(Hops)(index, num_hops=3)
    program.module.lock = threading.Lock()  # which cannot be copied
    assert program.values() == {"num_docs": 1, "num_hops": 3}
    twin = program.deepcopy().configure(num_docs=3)
    assert (twin.module.num_docs, program.module.num_docs, twin.retriever) == (3, 1, index)
    with pytest.raises(UsageError, match="num_docs=4 is out of bounds"):
        program.configure(num_docs=4)


def test_a_module_keeps_what_it_was_set_to(index, tmp_path):
    module = Hops(index)
    module.num_docs, questions = 3, [dspy.Example(question="Which town is on the Isk?", answer="Isk")]
    found = evaluate(module, questions, "f1", run=Run(lm=scripted_lm(words)[0]))
    assert (found.provenance.hyperparameters["num_docs"], module.num_docs) == (3, 3)
    assert knowgap.get_program(module)(index).module.num_docs == 3
    assert load(save(module, tmp_path / "saved"), retriever=index, expect=Hops).module.num_docs == 3


@pytest.mark.parametrize("given", [(["Isk", "Lome"], "partly", "Isk; Lome", None), (None, False, "", False)])
def test_outputs_of_other_types_than_a_program_s(given):
    class Judged(dspy.Module):
        def forward(self, question):
            return dspy.Prediction(answer="Tarn", missing=given[0], supported=given[1])

    prediction, _ = asked(as_program(Judged()))
    assert (prediction.missing, prediction.supported) == given[2:]


def test_unreadable_and_cut_replies_are_counted():
    prediction, engine = asked(as_program(dspy.ChainOfThought("question -> answer, mood: int")), lambda *_: "[[ no")
    cost = prediction.trace.cost
    assert (prediction.answer, cost.lm_calls, cost.unreadable) == ("", len(engine.calls), len(engine.calls))
    assert [step.act for step in prediction.trace.of(Malformed)] == ["ChainOfThought"]


def test_searches_that_cannot_be_seen_are_not_known():
    lm, _ = scripted_lm(lambda fields, _: {**words(fields, _), "next_tool_name": "finish", "next_tool_args": {}})
    examples = [dspy.Example(question=f"q{n}", answer="Isk") for n in range(2)]
    agent = dspy.ReAct("question -> answer", tools=[lambda text: text], max_iters=1)
    modules = {"seen": dspy.ChainOfThought("question -> answer"), "unseen": agent, "text": Text()}
    results = evaluate(modules, examples, "exact_match", run=Run(lm=lm))
    assert [results[name].costs()["retrievals"] for name in modules] == [0, None, None]
    assert [results[name].costs()["lm_calls"] for name in modules] == [1, 2, None]
    assert not results["unseen"].defines("passages")


@pytest.mark.parametrize(
    ("signature", "refused"),
    [("question -> first, second", "first, second"), ("question, notes -> answer", "question, notes")],
)
def test_a_module_has_one_input_and_one_answer(signature, refused):
    with pytest.raises(UsageError, match=refused):
        asked(wrap(dspy.Predict(signature))())


def agent():
    return dspy.ReAct("question -> answer", tools=[dspy.Retrieve(k=2)], max_iters=1)


def test_an_object_is_saved_and_loaded_into_another_object(tmp_path):
    module = agent()
    module.react.demos = [dspy.Example(question="Where?", next_thought="look")]
    folder = save(module, tmp_path / "artifact", lm="test/scripted")
    fresh = agent()
    loaded = load(folder, expect=fresh)
    assert [dict(demo) for demo in loaded.module.react.demos] == [{"question": "Where?", "next_thought": "look"}]
    with pytest.raises(ArtifactError, match=r"holds the program 'dspy\.predict\.react:ReAct', not"):
        load(folder, expect=dspy.ChainOfThought("question -> answer"))
    fresh.load(folder / "program.json")  # DSPy reads it, too
    assert len(fresh.react.demos) == 1


class Mine(knowgap.Program):
    """Asks a module."""

    def __init__(self, retriever=None, **hyperparameters):
        super().__init__(retriever, **hyperparameters)
        self.hops = Hops(self.retriever)

    def forward(self, question):
        return self.conclude(self.ask(self.hops, claim=question).verdict, [])


def test_a_module_that_a_program_asks_is_counted(index):
    prediction, engine = asked(Mine(index))
    assert prediction.answer == "Isk"
    assert (prediction.trace.cost.lm_calls, len(engine.calls), prediction.trace.cost.uncounted_calls) == (1, 1, 0)
