"""What the tests of MIGRES share: its modules' replies in short, and a question that takes two steps."""

from support import TableEntailment, TableReranker, TableRetriever, play

from knowgap.programs.migres import MIGRES
from knowgap.retrieval.passage import Passage

NOT_YET = ""
"""The answer while it cannot be given."""


def learn(*facts):
    """What the leaf module says: pairs of a statement and the numbers of its passages."""
    return {"statements": [{"statement": statement, "sources": list(sources)} for statement, *sources in facts]}


def decide(answer, missing="", confidence=1, explanation="That much is known."):
    """What the main module says."""
    said = {"answerable": answer != NOT_YET, "answer": answer, "confidence": confidence, "missing": missing}
    return {**said, "explanation": explanation}


def last(answer, confidence=2):
    """What the last answer says."""
    return {"answer": answer, "confidence": confidence, "explanation": "The best guess."}


def ask(*queries):
    """What the query generator says."""
    return {"queries": list(queries)}


def scores(table, default=-9.0, **kwargs):
    """A reranker from a table: (query, beginning of the text) → score."""

    def score(query, text):
        return next((value for (q, start), value in table.items() if q == query and text.startswith(start)), default)

    return TableReranker(score, **kwargs)


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
    """A program on the small corpus."""
    return MIGRES(
        TableRetriever(TABLE if table is None else table),
        reranker=scores(score or SCORES, default_threshold=threshold),
        entailment=TableEntailment(entails),
        **kwargs,
    )


def two_steps(program, **script):
    """Two iterations: who painted it, then where she was born; then nothing more is learnt, asked or known."""
    plan = {
        "leaf": [learn((PAINTED, 1)), learn((BORN, 1))],
        "main": [decide(NOT_YET, GAP), decide("Wick", confidence=5)],
        "query": [ask(SECOND, THIRD)],
        "last": [],
        "knowledge": [],
    }
    rest = {
        "leaf": learn(),
        "main": decide(NOT_YET, GAP),
        "query": ask(),
        "last": last("Wick"),
        "knowledge": {"knows": False, "passage": ""},
    }
    replies = {**plan, **script}
    replies |= {act: [*replies[act], *[rest[act]] * 9] for act in rest if isinstance(replies[act], list)}
    return play(program, QUESTION, **replies)
