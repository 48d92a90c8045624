"""VANILLA-s: passages and sentences under the threshold are not read."""

import pytest
from support import TableReranker, TableRetriever

from knowgap.errors import UsageError
from knowgap.programs.baselines.vanilla_s import VanillaS
from knowgap.programs.trace.steps import Compressed, Malformed, Reranked, Retrieved

QUESTION = "Where was the director of Lanternfish born?"
SCORES = {  # by how a text begins
    "Lanternfish: Lanternfish is a 1971 film. It was": 4.0,
    "Lanternfish: Lanternfish is": 1.0,
    "Lanternfish: It was directed": 5.0,
    "Lanternfish: It won": 0.5,
    "Mira Osk: Mira Osk was a film director. She": 6.0,
    "Mira Osk: Mira Osk was": 3.0,
    "Mira Osk: She": 5.5,
    "Tarn: Tarn is a harbour town. It": 3.5,
    "Tarn: Tarn": 2.0,
    "Tarn: It": 2.5,
}


def score(query, text):
    assert query == QUESTION
    return next((value for start, value in SCORES.items() if text.startswith(start)), -1.0)


@pytest.fixture
def program(corpus):
    def make(**kwargs):
        return VanillaS(TableRetriever({QUESTION: corpus}), reranker=TableReranker(score, 3.0), **kwargs)

    return make


def texts(engine):
    return [p["text"] for p in engine.calls[-1][1]["passages"]]


def test_reads_relevant_sentences_of_relevant_passages(program, corpus, ask, kinds):
    prediction, engine = ask(program(), lambda *_: {"answer": "Tarn"})
    assert prediction.answer == "Tarn"
    # Mira Osk and Tarn outscore all their sentences; of Lanternfish one sentence passes.
    assert texts(engine) == [corpus[1].text, "It was directed by Mira Osk.", corpus[2].text]
    assert [passage.id for passage in prediction.passages] == ["director", "film", "town"]
    assert prediction.passages[1].text == corpus[0].text
    assert kinds(prediction) == ["asked", "retrieved", "reranked", "compressed", "answered"]
    step = prediction.trace.of(Reranked)[0]
    assert (step.threshold, list(step.kept), list(step.dropped)) == (3.0, ["director", "film", "town"], ["prize"])
    assert [step.passage for step in prediction.trace.of(Compressed)] == ["film"]
    assert prediction.trace.of(Retrieved)[0].k == 50
    cost = prediction.trace.cost
    assert (cost.lm_calls, cost.retrievals, cost.passages) == (1, 1, 3)


@pytest.mark.parametrize(
    ("settings", "ids"),
    [
        ({"delta": 5.0}, ["director"]),
        ({"delta": -2.0}, ["director", "film", "town", "prize"]),
        ({"delta": 9.0}, []),
        ({"top_k": 1}, ["director"]),
        ({"retrieve_k": 1}, ["film"]),
    ],
)
def test_hyperparameters(program, ask, settings, ids):
    prediction, engine = ask(program(**settings), lambda *_: {"answer": "Tarn"})
    assert [passage.id for passage in prediction.passages] == ids
    assert len(texts(engine)) == len(ids)
    assert prediction.answer == "Tarn"


def test_presets(program):
    assert program(**VanillaS.preset("open_domain")).threshold == 5.0
    assert program().threshold == 3.0


def test_a_reranker_without_a_default_needs_a_threshold(corpus, ask):
    reranker = TableReranker(score)
    reranker.default_threshold = None
    program = VanillaS(TableRetriever({QUESTION: corpus}), reranker=reranker)
    with pytest.raises(UsageError, match="the reranker table has no default threshold: set delta"):
        ask(program, lambda *_: {"answer": "Tarn"})
    assert ask(program.configure(delta=5.0), lambda *_: {"answer": "Tarn"})[0].answer == "Tarn"


def test_unreadable(program, ask):
    prediction, _ = ask(program(), lambda *_: "mumble")
    assert prediction.answer == ""
    assert prediction.trace.of(Malformed)[0].act == "answer"
