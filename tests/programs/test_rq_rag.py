"""RQ-RAG grows a tree of queries, answers at every node and chooses among the answers."""

import dataclasses
import math
import re
import threading

import dspy
import pytest
from dspy.lm15 import TokenLogprob
from support import ScriptedEngine, TableRetriever, lm_of, scripted_lm

from knowgap.programs.rq_rag import RQRAG, Trajectory
from knowgap.programs.trace.recorder import TraceRecorder, recording
from knowgap.programs.trace.steps import Answered, Judged, Queried, Retrieved
from knowgap.retrieval.passage import Passage

QUESTION = "In which country was the director of The Salt Road born?"
ROAD = Passage("road", "The Salt Road", "The Salt Road is a film that Ivo Brandt directed in 1955.")
BRANDT = Passage("brandt", "Ivo Brandt", "Ivo Brandt, a director, was born in Varna, Bulgaria.")
SALT = Passage("salt", "Salt", "Salt is a seasoning.")
ROUTE = Passage("route", "Old Salt Route", "The Old Salt Route was a trade route in Germany.")

# What each action writes on the first step of a path and on the second.
QUERIES = {
    "rewrite": ["The Salt Road director birth country", "Ivo Brandt country of birth"],
    "decompose": ["Who directed The Salt Road?", "Where was Ivo Brandt born?"],
    "disambiguate": ["The Salt Road 1955 film", "Salt Road trade route country"],
}
TABLE = {
    "The Salt Road director birth country": [ROAD, SALT, ROUTE],
    "Who directed The Salt Road?": [ROAD],
    "The Salt Road 1955 film": [ROAD, ROUTE],
    "Ivo Brandt country of birth": [BRANDT],
    "Where was Ivo Brandt born?": [BRANDT],
    "Salt Road trade route country": [ROUTE],
}
PROBABILITIES = {"Bulgaria": 0.5, "Germany": 0.55, "France": 0.7, "Poland": 0.3}
QUERY_PROBABILITY = {"rewrite": 0.9, "decompose": 1.0, "disambiguate": 0.9, "answer": None}
STATED = {"Bulgaria": 0.6, "Germany": 0.2, "France": 0.4, "Poland": 0.1}
PATHS = ["direct", "rewrite", "decompose", "disambiguate"]
PATHS += [f"{first}/{second}" for first in PATHS[1:] for second in PATHS[1:]]
ANSWERS = ["France", "Germany", "Poland", "Germany"] + ["Bulgaria", "Bulgaria", "Germany"] * 3

ACTS = {
    "rewrite": "Rewrite the question as a search query",
    "decompose": "Decompose the question into simpler ones",
    "disambiguate": "Find what is ambiguous",
    "answer": "say how well they support the answer",
}


def reply(act, inputs):
    if act != "answer":
        return {"query": QUERIES[act][len(inputs["searched"])]}
    titles = [passage["title"] for passage in inputs["passages"]]
    answer = "Bulgaria" if "Ivo Brandt" in titles else "Germany" if "Old Salt Route" in titles else "Poland"
    answer = answer if titles else "France"
    return {"answer": answer, "confidence": STATED[answer]}


class TreeEngine(ScriptedEngine):
    """Answers by act, with token log-probabilities if asked for.

    The words of an answer have its probability, those of a rewritten or disambiguated query 0.9, those of a decomposed
    one 1. Whatever is not the value of a query or an answer, headers included, is all but impossible, and must not
    count.
    """

    def __init__(self, tokens=True):
        self.here, self.tokens, self.asked = threading.local(), tokens, []
        super().__init__(lambda outputs, inputs: reply(self.here.act, inputs))

    def complete(self, request):
        self.here.act = next(act for act, words in ACTS.items() if words in " ".join(str(request.system).split()))
        self.asked.append(request.config.logprobs)
        response = super().complete(request)
        if request.config.logprobs is None or not self.tokens:
            return response
        return dataclasses.replace(response, logprobs=tuple(self._scored(response.message.text or "")))

    def _scored(self, text):
        field = ""
        for piece in re.findall(r"\s*\[\[ ## \w+ ## \]\]\s*|\s?\S+", text):
            header = re.search(r"## (\w+) ##", piece)
            field = header[1] if header else field
            values = {"answer": PROBABILITIES.get(piece.strip()), "query": QUERY_PROBABILITY[self.here.act]}
            probability = None if header else values.get(field)
            yield TokenLogprob(piece, math.log(probability) if probability else -50.0)


def run(engine=None, table=TABLE, **kwargs):
    engine = engine or TreeEngine()
    with dspy.context(lm=lm_of(engine)):
        return RQRAG(TableRetriever(table), **kwargs)(question=QUESTION), engine


def paths(prediction):
    return [step.branch for step in prediction.trace.of(Answered)[:-1]]


@pytest.mark.parametrize(("max_calls", "critical"), [(None, 3), (25, 25)])
def test_the_tree_of_depth_two_has_thirteen_answers(max_calls, critical):
    prediction, engine = run(max_calls=max_calls)
    trace = prediction.trace
    assert paths(prediction) == PATHS
    assert prediction.answers == ANSWERS
    assert trace.of(Answered)[4].passages == ["road", "salt", "route", "brandt"]
    asked = [(step.branch, step.queries) for step in trace.of(Queried)]
    assert asked[:3] == [(action, queries[:1]) for action, queries in QUERIES.items()]
    assert trace.of(Retrieved)[0].hits == [["road", "salt", "route"], ["road"], ["road", "route"]]
    assert trace.stopped == "depth"
    # 13 answers and 12 queries; the queries of a level at once and all answers at the end: three calls in sequence.
    assert (trace.cost.lm_calls, trace.cost.critical_calls, trace.cost.retrievals) == (25, critical, 12)
    assert engine.asked == [0] * 25


@pytest.mark.parametrize(
    ("strategy", "answer", "path", "passages"),
    [
        ("ensemble", "Bulgaria", "rewrite/rewrite", [ROAD, SALT, ROUTE, BRANDT]),  # 6 × 0.5, Germany 5 × 0.55
        ("confidence", "France", "direct", []),
        ("perplexity", "Bulgaria", "decompose/decompose", [ROAD, BRANDT]),
    ],
)
def test_probabilities_of_the_answers_choose(strategy, answer, path, passages):
    prediction, _ = run(strategy=strategy)
    assert (prediction.answer, prediction.path, prediction.measure) == (answer, path, "token log-probabilities")
    assert prediction.confidence == pytest.approx(PROBABILITIES[answer])
    assert prediction.passages == passages


def test_every_node_asks_from_its_queries_and_what_each_found():
    """Also where different queries find the same: the answer rests on the path (section 2.3)."""
    _, engine = run(table={query: [ROAD] for queries in QUERIES.values() for query in queries})
    prompts = [inputs for outputs, inputs in engine.calls if "answer" in outputs]
    assert len({str(prompt) for prompt in prompts}) == len(PATHS)
    shown = [{"id": 1, "title": ROAD.title, "text": ROAD.text}]
    assert all(prompt["passages"] == (shown if prompt["searched"] else []) for prompt in prompts)


def test_stated_confidence_stands_in_without_token_log_probabilities():
    prediction, _ = run(TreeEngine(tokens=False))
    assert (prediction.answer, prediction.path) == ("Bulgaria", "rewrite/rewrite")
    assert (prediction.measure, prediction.confidence) == ("stated confidence", 0.6)
    (judged,) = prediction.trace.of(Judged)
    assert (judged.what, judged.value) == ("token log-probabilities", False)


def test_a_single_action_makes_a_chain():
    prediction, _ = run(actions="rewrite")
    assert paths(prediction) == ["direct", "rewrite", "rewrite/rewrite"]
    assert prediction.answers == ["France", "Germany", "Bulgaria"]
    assert (prediction.trace.cost.lm_calls, prediction.trace.cost.retrievals) == (5, 2)


def test_the_beam_follows_the_best_nodes_of_a_level():
    prediction, _ = run(beam_width=1)
    assert {*paths(prediction)} == {*PATHS[:7]}  # Germany, 0.55, earliest path
    assert prediction.trace.cost.critical_calls == 4  # the second level answers before it grows


def test_a_parents_answer_is_no_part_of_what_its_children_generated():
    program = RQRAG(TableRetriever(TABLE))
    with recording(TraceRecorder(0.0, concurrent=False)), dspy.context(lm=lm_of(TreeEngine())):
        answered = program._write(QUESTION, Trajectory(), "answer")
        child = program._write(QUESTION, answered, "rewrite")
        assert (answered.answer, child.query_logprobs) == ("France", pytest.approx([math.log(0.9)] * 6))


def test_a_trained_generator_answers_each_path_also_where_their_queries_are_the_same():
    lm, engine = scripted_lm(lambda *_: "The Salt Road director")
    prediction = RQRAG(TableRetriever([ROAD]), generator=lm, depth=1)(question=QUESTION)
    assert prediction.trace.cost.lm_calls == len(engine.calls) == 3 + 4


# Which trajectory is chosen (section 2.3), with numbers worked out by hand.


def select_trajectory(strategy, leaves):
    """The prediction that is made of these leaves."""
    with recording(TraceRecorder(0.0, concurrent=False)):
        return RQRAG(strategy=strategy)._select(leaves)


def leaf(path, answer, probability=None, stated=0.0):
    """A trajectory whose answer has one token; each action of its path searched once and found nothing."""
    actions = tuple(path.split("/")) if path else ()
    logprobs = None if probability is None else (math.log(probability),)
    return Trajectory(path or "direct", actions, ((),) * len(actions), logprobs, answer, logprobs, stated)


def test_the_ensemble_adds_up_probabilities_so_that_agreement_counts():
    leaves = [leaf("", "the Rome.", 0.2), leaf("rewrite", "Paris", 0.6), leaf("decompose", "Rome", 0.5)]
    chosen = select_trajectory("ensemble", leaves)
    assert (chosen.path, chosen.answer) == ("decompose", "Rome")  # the surest of the group


@pytest.mark.parametrize("strategy", ["perplexity", "confidence", "ensemble"])
@pytest.mark.parametrize(
    ("leaves", "chosen", "counted"),
    [
        ([leaf("", "x", 0.5), leaf("rewrite", "y", 0.5), leaf("decompose", "z", 0.5)], "rewrite", True),  # the earliest
        ([leaf("rewrite", "x", 0.5), leaf("rewrite/rewrite", "y", 0.5)], "rewrite/rewrite", True),  # the longest
        ([leaf("", "Rome", 0.9, 0.2), leaf("rewrite", "Paris", None, 0.7)], "rewrite", False),  # no tokens for one
        ([leaf("", "", None), leaf("rewrite", "Paris", 0.1)], "rewrite", True),  # one is unreadable
        ([leaf("", "")], "direct", False),
        ([Trajectory(f"{n}", (), (), (-n,), f"{n}", (-2000.0, -n)) for n in (5, 1, 3)], "1", True),  # beyond a float
    ],
)
def test_which_trajectory_is_chosen(strategy, leaves, chosen, counted):
    prediction = select_trajectory(strategy, leaves)
    assert (prediction.path, prediction.measure == "token log-probabilities") == (chosen, counted)
    assert prediction.answers == [each.answer for each in leaves if each.answer]
