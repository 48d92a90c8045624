"""What the tests of MIGRES share: its modules' replies in short, and a question that takes two steps."""

import dspy
from support import TableEntailment, TableReranker, TableRetriever, by_output, scripted_lm

from knowgap.programs.migres import MIGRES
from knowgap.retrieval.passage import Passage

NOT_YET = "unanswerable"


def learn(*facts):
    """What the leaf module says: pairs of a statement and the numbers of its passages."""
    return {"statements": [{"statement": statement, "sources": list(sources)} for statement, *sources in facts]}


def decide(answer, missing="", confidence=1, explanation="That much is known."):
    """What the main module says."""
    return {"explanation": explanation, "answer": answer, "confidence": confidence, "missing": missing}


def last(answer, confidence=2):
    """What the last answer says."""
    return {"explanation": "The best guess.", "answer": answer, "confidence": confidence}


def ask(*queries):
    """What the query generator says."""
    return {"queries": list(queries)}


def scores(table, default=-9.0, **kwargs):
    """A reranker from a table: (query, beginning of the text) → score."""

    def score(query, text):
        found = [value for (q, start), value in table.items() if q == query and text.startswith(start)]
        return found[0] if found else default

    return TableReranker(score, **kwargs)


def kinds(prediction):
    """The kinds of steps, iteration by iteration."""
    found = {}
    for step in prediction.trace.steps:
        found.setdefault(step.iteration, []).append(step.kind)
    return found


def acts(engine):
    """Which module was called, in order."""
    names = {
        ("statements",): "leaf",
        ("explanation", "answer", "confidence", "missing"): "main",
        ("explanation", "answer", "confidence"): "last",
        ("queries",): "query",
        ("passage",): "knowledge",
        ("summary",): "summary",
        ("snippet",): "snippet",
    }
    return [names[outputs] for outputs, _ in engine.calls]


def inputs(engine, act):
    """The inputs of every call of one module."""
    return [given for name, (_, given) in zip(acts(engine), engine.calls, strict=True) if name == act]


def run(program, question, **script):
    """Ask a question with the modules' replies in order, each under its output field."""
    order = ("statements", "missing", "explanation", "queries", "passage", "summary", "snippet")
    renamed = {"leaf": "statements", "main": "missing", "last": "explanation", "query": "queries"}
    given = {renamed.get(act, {"knowledge": "passage"}.get(act, act)): replies for act, replies in script.items()}
    lm, engine = scripted_lm(by_output({name: given[name] for name in order if name in given}))
    with dspy.context(lm=lm):
        return program(question=question), engine


# A question of two steps, on a small corpus.

QUESTION = "In which town was the painter of The Grey Ferry born?"
FERRY = Passage("ferry", "The Grey Ferry", "Ada Moor painted it in 1911. It hangs in Tarn. It is small.")
MOOR = Passage("moor", "Ada Moor", "Ada Moor was born in Wick.")
NOISE = Passage("noise", "Ferries", "Ferries carry people. They also carry cars.")
SECOND = "Where was Ada Moor born?"
THIRD = "Who was Ada Moor?"
PAINTED = "Ada Moor painted The Grey Ferry."
BORN = "Ada Moor was born in Wick."
TABLE = {QUESTION: [FERRY, NOISE], SECOND: [FERRY, MOOR], THIRD: [MOOR, NOISE]}
SCORES = {
    (QUESTION, "The Grey Ferry"): 4.0,
    (QUESTION, "Ferries"): 1.0,
    (SECOND, "Ada Moor"): 6.0,
    (THIRD, "Ada Moor"): 5.0,
    (THIRD, "Ferries"): 2.0,
}
GAP = "Where Ada Moor was born."


def small(table=None, score=None, threshold=3.0, entails=lambda *_: 1.0, **kwargs):
    reranker = scores(score or SCORES, default_threshold=threshold)
    return MIGRES(
        TableRetriever(TABLE if table is None else table),
        reranker=reranker,
        entailment=TableEntailment(entails),
        **kwargs,
    )


def two_steps(program, **script):
    """Two iterations: who painted it, then where she was born; then nothing more is learnt, asked or known."""
    plan = {
        "leaf": [learn((PAINTED, 1)), learn((BORN, 1))],
        "main": [decide(NOT_YET, GAP), decide("Wick", confidence=5)],
        "query": [ask(SECOND, THIRD)],
        "last": [last("Wick")],
        "knowledge": [],
    }
    rest = {
        "leaf": learn(),
        "main": decide(NOT_YET, GAP),
        "query": ask(),
        "last": last("Wick"),
        "knowledge": {"passage": "unknown"},
    }
    replies = {**plan, **script}
    for act, reply in rest.items():
        if not callable(replies[act]):
            replies[act] = [*replies[act], *[reply] * 9]
    return run(program, QUESTION, **replies)
