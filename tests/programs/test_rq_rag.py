"""RQ-RAG grows a tree of queries, answers at every node and chooses among the answers."""

import dataclasses
import math
import re
import threading

import dspy
import pytest
from dspy.lm15 import TokenLogprob, UnsupportedFeatureError
from support import ScriptedEngine, TableRetriever, lm_of

from knowgap.programs.rq_rag import RQRAG
from knowgap.programs.trace.steps import Answered, Judged, Refined, Retrieved, Selected
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

    def __init__(self, rule=reply, tokens=True, refusal=None):
        self.here, self.tokens, self.refusal = threading.local(), tokens, refusal
        self.configs, self.refused = [], 0
        super().__init__(lambda outputs, inputs: rule(self.here.act, inputs))

    @property
    def asked(self):
        return [config.logprobs for _, config in self.configs]

    def complete(self, request):
        self.here.act = next(act for act, words in ACTS.items() if words in " ".join(str(request.system).split()))
        with self._lock:
            self.configs.append((self.here.act, request.config))
            self.refused += bool(self.refusal and request.config.logprobs is not None)
        if self.refusal and request.config.logprobs is not None:
            raise self.refusal
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


def run(engine=None, table=TABLE, cache=False, **kwargs):
    engine = engine or TreeEngine()
    with dspy.context(lm=lm_of(engine, cache=cache)):
        return RQRAG(TableRetriever(table), **kwargs)(question=QUESTION), engine


def paths(prediction):
    return [leaf["path"] for leaf in prediction.leaves]


def test_the_tree_of_depth_two_has_thirteen_answers():
    prediction, engine = run()
    trace = prediction.trace
    assert paths(prediction) == PATHS
    assert prediction.answers == ANSWERS
    assert prediction.leaves[0]["passages"] == []
    assert prediction.leaves[7]["queries"] == ["Who directed The Salt Road?", "Ivo Brandt country of birth"]
    assert [leaf["passages"] for leaf in prediction.leaves[4:7]] == [
        ["road", "salt", "route", "brandt"],
        ["road", "salt", "route", "brandt"],
        ["road", "salt", "route"],
    ]
    kinds = [[step.kind for step in trace.steps if step.iteration == n] for n in range(4)]
    assert kinds[0] == ["asked"]
    assert kinds[1] == ["refined"] * 3 + ["retrieved"]
    assert kinds[2] == ["refined"] * 9 + ["retrieved"]
    assert kinds[3] == ["answered"] * 13 + ["stopped", "selected", "answered"]
    assert [step.branch for step in trace.of(Answered)] == [*PATHS, ""]
    assert [(step.branch, step.query) for step in trace.of(Refined)][:3] == [
        (action, queries[0]) for action, queries in QUERIES.items()
    ]
    assert [len(step.queries) for step in trace.of(Retrieved)] == [3, 9]
    assert trace.of(Retrieved)[0].hits == [["road", "salt", "route"], ["road"], ["road", "route"]]
    assert {step.k for step in trace.of(Retrieved)} == {3}
    assert trace.stopped == "depth"
    # 13 answers and 12 queries; the queries of a level at once and all answers at the end: three calls in sequence.
    assert (trace.cost.lm_calls, trace.cost.critical_calls, trace.cost.retrievals) == (25, 3, 12)
    assert (trace.cost.iterations, trace.cost.passages) == (3, 4)
    assert engine.asked == [0] * 25


@pytest.mark.parametrize(
    ("strategy", "answer", "path", "scores"),
    [  # how trajectories are chosen is tested with numbers worked out by hand in test_trajectory.py
        ("ensemble", "Bulgaria", "rewrite/rewrite", {"France": 0.7, "Germany": 2.75, "Poland": 0.3, "Bulgaria": 3.0}),
        ("confidence", "France", "direct", dict(zip(PATHS, map(PROBABILITIES.get, ANSWERS), strict=True))),
    ],
)
def test_probabilities_of_the_answers_choose(strategy, answer, path, scores):
    prediction, _ = run(strategy=strategy)
    assert (prediction.answer, prediction.path, prediction.measure) == (answer, path, "token log-probabilities")
    assert prediction.confidence == pytest.approx(PROBABILITIES[answer])
    assert prediction.passages == ([ROAD, SALT, ROUTE, BRANDT] if path == "rewrite/rewrite" else [])
    assert len(prediction.queries) == (2 if path == "rewrite/rewrite" else 0)
    assert prediction.trace.of(Selected)[0].scores == pytest.approx(scores)
    assert prediction.trace.of(Judged) == []


def test_perplexity_takes_the_trajectory_whose_values_came_easiest():
    """By hand: the inverse geometric mean of the probabilities of the words of queries and answer."""
    by_hand = {}
    for path, answer in zip(PATHS, ANSWERS, strict=True):
        actions = [] if path == "direct" else path.split("/")
        words = [QUERY_PROBABILITY[act] for n, act in enumerate(actions) for _ in QUERIES[act][n].split()]
        words.append(PROBABILITIES[answer])
        by_hand[path] = math.prod(words) ** (-1 / len(words))
    prediction, _ = run(strategy="perplexity")
    assert {leaf["path"]: leaf["perplexity"] for leaf in prediction.leaves} == pytest.approx(by_hand)
    assert prediction.trace.of(Selected)[0].scores == pytest.approx(by_hand)
    assert by_hand["decompose/decompose"] == pytest.approx(2 ** (1 / 11))  # ten certain words, and Bulgaria
    assert (prediction.answer, prediction.path) == ("Bulgaria", "decompose/decompose")
    assert min(by_hand, key=by_hand.__getitem__) == "decompose/decompose"


def test_every_node_asks_from_its_queries_and_what_each_found():
    """Also where different queries find the same: the answer rests on the path (section 2.3), not on passages alone."""
    _, engine = run(table={query: [ROAD] for queries in QUERIES.values() for query in queries})
    prompts = [inputs for outputs, inputs in engine.calls if "answer" in outputs]
    assert len({str(prompt) for prompt in prompts}) == len(PATHS)
    shown = [{"id": 1, "title": ROAD.title, "text": ROAD.text}]
    assert all(prompt["passages"] == (shown if prompt["searched"] else []) for prompt in prompts)
    _, engine = run()
    searched = [inputs["searched"] for outputs, inputs in engine.calls if "answer" in outputs]
    first = {"query": "The Salt Road director birth country", "found": [1, 2, 3]}
    assert [first, {"query": "Where was Ivo Brandt born?", "found": [4]}] in searched
    assert [first, {"query": "Salt Road trade route country", "found": [3]}] in searched
    assert [] in searched


@pytest.mark.parametrize("strategy", ["ensemble", "confidence", "perplexity"])
@pytest.mark.parametrize(
    ("engine", "refused"),
    [({"tokens": False}, [0]), ({"refusal": UnsupportedFeatureError("no logprobs here")}, [1, 2, 3])],  # at first only
)
def test_stated_confidence_stands_in_without_token_log_probabilities(engine, refused, strategy):
    prediction, engine = run(TreeEngine(**engine), strategy=strategy)
    assert (prediction.answer, prediction.path) == ("Bulgaria", "rewrite/rewrite")
    assert (prediction.measure, prediction.confidence) == ("stated confidence", 0.6)
    (judged,) = prediction.trace.of(Judged)
    assert (judged.what, judged.value) == ("token log-probabilities", False)
    assert engine.refused in refused
    assert engine.asked.count(None) == (25 if engine.refused else 0)
    assert prediction.trace.cost.lm_calls == 25


@pytest.mark.parametrize(
    ("action", "answers"),
    [
        ("rewrite", ["France", "Germany", "Bulgaria"]),
        ("decompose", ["France", "Poland", "Bulgaria"]),
        ("disambiguate", ["France", "Germany", "Germany"]),
    ],
)
def test_a_single_action_makes_a_chain(action, answers):
    prediction, _ = run(actions=action)
    assert paths(prediction) == ["direct", action, f"{action}/{action}"]
    assert prediction.answers == answers
    assert {step.action for step in prediction.trace.of(Refined)} == {action}
    assert (prediction.trace.cost.lm_calls, prediction.trace.cost.retrievals) == (5, 2)


def test_the_beam_follows_the_best_nodes_of_a_level():
    prediction, _ = run(beam_width=1)
    assert paths(prediction) == [*PATHS[:4], *PATHS[4:7]]  # Germany, 0.55, earliest path
    assert prediction.trace.cost.critical_calls == 4  # the second level answers before it grows
    wider, _ = run(beam_width=2)
    assert paths(wider) == [*PATHS[:7], *PATHS[10:]]
