"""Baselines that rerank passages and cut them down before reading: SUMM, SNIPPET and VANILLA-s."""

import pytest
from support import TableReranker, TableRetriever

from knowgap.programs.baselines.alce import Snippet, Summ, VanillaS
from knowgap.programs.trace.steps import Compressed, Malformed, Reranked, Retrieved
from knowgap.retrieval.passage import Passage

QUESTION = "Where was Mira Osk born?"
TOWNS = [Passage(f"p{n}", f"Town {n}", f"Text {n}.") for n in range(9)]


def number(text):
    return int(text.removesuffix(".").split()[-1])


def compressing(irrelevant=(), unreadable=()):
    """Writes "summary of 7" for passage 7, and so on."""

    def rule(outputs, inputs):
        if "answer" in outputs:
            return {"answer": "Tarn"}
        assert inputs["question"] == QUESTION
        n = number(inputs["passage"])
        if n in unreadable:
            return "[[ mumble"
        return {"relevant": n not in irrelevant, outputs[-1]: f"{outputs[-1]} of {n}"}

    return rule


@pytest.fixture(params=[Summ, Snippet])
def compressor(request):
    """Makes a program whose reranker turns the retriever's order round: the highest number comes first."""

    def make(**kwargs):
        reranker = TableReranker(lambda query, text: number(text))
        return request.param(TableRetriever({QUESTION: TOWNS}), reranker=reranker, **kwargs)

    return make


def test_compresses_best_first_until_enough_are_relevant(compressor, ask, kinds):
    program = compressor(top_k=2)
    how = "summary" if program.name == "summ" else "snippet"
    prediction, engine = ask(program, compressing(irrelevant=[8, 6], unreadable=[5]), QUESTION)
    assert prediction.answer == "Tarn"
    assert prediction.passages == [TOWNS[7], TOWNS[4]]
    assert [p["text"] for p in engine.calls[-1][1]["passages"]] == [f"{how} of 7", f"{how} of 4"]
    assert [(step.how, step.passage) for step in prediction.trace.of(Compressed)] == [(how, "p7"), (how, "p4")]
    assert prediction.trace.of(Malformed)[0].act == "compress"
    assert prediction.trace.of(Reranked)[0].threshold is None
    assert kinds(prediction)[:3] == ["asked", "retrieved", "reranked"]
    cost = prediction.trace.cost
    # Two at a time: 8 and 7, 6 and 5 (asked for twice, as it could not be read), 4 and 3; then the answer.
    assert (cost.lm_calls, cost.critical_calls, cost.retrievals, cost.passages) == (8, 5, 1, 6)
    # Four words in each passage that is compressed, five in what two of them come to.
    assert cost.knowledge_tokens == 7 * 4 + 2 * 5


def test_compressions_and_retrieval_are_limited(compressor, ask):
    prediction, engine = ask(compressor(top_k=2, compressed=3), compressing(irrelevant=range(9)), QUESTION)
    assert len(engine.calls) == 4
    assert engine.calls[-1][1]["passages"] == []
    assert (prediction.answer, prediction.passages) == ("Tarn", [])
    prediction, _ = ask(compressor(retrieve_k=3), compressing(), QUESTION)
    assert [passage.id for passage in prediction.passages] == ["p2", "p1", "p0"]


SCORES = {  # by how a text begins; other sentences score 2
    "Lanternfish: Lanternfish is a 1971 film. It was": 4.0,
    "It was directed": 5.0,
    "Mira Osk: Mira Osk was a film director. She": 6.0,
    "Tarn: Tarn is a harbour town. It": 3.5,
    "Osk Prize": -1.0,
}


@pytest.fixture
def vanilla(whole):
    def score(query, text):
        return next((value for start, value in SCORES.items() if text.startswith(start)), 2.0)

    return lambda default=3.0, **kwargs: VanillaS(whole, reranker=TableReranker(score, default), **kwargs)


def tarn(outputs, inputs):
    return {"answer": "Tarn"}


def test_vanilla_s_reads_relevant_sentences_of_relevant_passages(vanilla, corpus, ask, kinds):
    prediction, engine = ask(vanilla(), tarn)
    assert prediction.answer == "Tarn"
    film, director, town, _ = corpus
    # Mira Osk and Tarn outscore all their sentences; of Lanternfish one sentence passes.
    texts = [p["text"] for p in engine.calls[-1][1]["passages"]]
    assert texts == [director.text, "It was directed by Mira Osk.", town.text]
    assert prediction.passages == [director, film, town]
    assert kinds(prediction) == ["asked", "retrieved", "reranked", "compressed", "answered"]
    step = prediction.trace.of(Reranked)[0]
    assert (step.threshold, list(step.kept), list(step.dropped)) == (3.0, ["director", "film", "town"], ["prize"])
    assert [step.passage for step in prediction.trace.of(Compressed)] == ["film"]
    assert prediction.trace.of(Retrieved)[0].k == 50
    assert prediction.trace.cost.passages == 3


@pytest.mark.parametrize(
    ("settings", "ids"),
    [
        (VanillaS.preset("open_domain"), ["director"]),
        ({"delta": -2.0}, ["director", "film", "town", "prize"]),
        ({"delta": 9.0}, []),
        ({"top_k": 1}, ["director"]),
        ({"retrieve_k": 1}, ["film"]),
    ],
)
def test_vanilla_s_settings(vanilla, ask, settings, ids):
    prediction, engine = ask(vanilla(**settings), tarn)
    assert [passage.id for passage in prediction.passages] == ids
    assert len(engine.calls[-1][1]["passages"]) == len(ids)
