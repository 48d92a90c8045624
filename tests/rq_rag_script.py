"""The script of RQ-RAG's tests: a question, what each query finds, and a language model with log-probabilities."""

import dataclasses
import math
import re
import threading

import dspy
from dspy.lm15 import TokenLogprob
from support import ScriptedEngine, TableRetriever, lm_of

from knowgap.programs.rq_rag import RQRAG
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
    "rewrite": "finds more for the question",
    "decompose": "one part of the question that should be settled next",
    "disambiguate": "resolves what is ambiguous",
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
