"""MIGRES: the two cases of its table 14 as recorded traces."""

import pytest
from migres_script import NOT_YET, acts, ask, decide, inputs, kinds, learn, run, scores
from support import TableEntailment, TableRetriever

from knowgap.programs.migres import MIGRES
from knowgap.programs.trace.steps import (
    Answered,
    Compressed,
    Extracted,
    Missing,
    Prompted,
    Queried,
    Reranked,
    Retrieved,
)
from knowgap.retrieval.passage import Passage

# Table 14, case 1.

SAME_NATIONALITY = (
    "Do both films Levity (Film) and I Come With The Rain have the directors that share the same nationality?"
)
RAIN = Passage(
    "rain",
    "I Come with the Rain",
    "Tran Anh Hung, a French director born in Vietnam, wrote and directed this thriller of 2009. "
    "It was shot in three countries. The music is by two composers.",
)
LEVITY = Passage(
    "levity", "Levity (film)", "A drama of 2003 by the director Ed Solomon. A man leaves prison after years."
)
SOLOMON = Passage("solomon", "Ed Solomon", "Ed Solomon, born in 1960, makes films in America.")
GRAVITY = Passage("gravity", "Levity (album)", "A record of songs about weightlessness.")
NATIONALITY = 'What is the nationality of the director of the film "Levity"?'
DIRECTED = 'Who directed the film "Levity"?'
PROVIDE = 'Can you say what nationality the director of the film "Levity" has?'
SOLOMONS = 'What is the nationality of Ed Solomon, the director of the film "Levity"?'
CONFIRM = 'Can you confirm where Ed Solomon, the director of the film "Levity", is from?'


def case_one(**kwargs):
    retriever = TableRetriever(
        {
            SAME_NATIONALITY: [GRAVITY, RAIN],
            NATIONALITY: [RAIN, LEVITY, GRAVITY],
            DIRECTED: [LEVITY],
            PROVIDE: [GRAVITY, LEVITY],
            SOLOMONS: [SOLOMON, LEVITY],
            CONFIRM: [SOLOMON],
        }
    )
    first = f"I Come with the Rain: {RAIN.text.partition(' It was')[0]}"
    reranker = scores(
        {
            (SAME_NATIONALITY, first + " It"): 4.0,
            (SAME_NATIONALITY, first): 4.5,
            (SAME_NATIONALITY, "Levity (album)"): 2.99,
            (NATIONALITY, "Levity (film)"): 3.5,
            (DIRECTED, "Levity (film): A drama of 2003 by the director Ed Solomon. A man"): 6.0,
            (DIRECTED, "Levity (film)"): 5.5,
            (PROVIDE, "Levity (film)"): 3.0,
            (NATIONALITY, "Levity (album)"): 1.0,
            (PROVIDE, "Levity (album)"): 2.0,
            (SOLOMONS, "Ed Solomon"): 7.0,
            (CONFIRM, "Ed Solomon"): 6.5,
        }
    )
    script = {
        "leaf": [
            learn(("Tran Anh Hung, who directed I Come with the Rain, is French and born in Vietnam.", 1)),
            learn(("Ed Solomon directed the film Levity.", 1)),
            learn(("Ed Solomon makes films in America and is American.", 1)),
        ],
        "main": [
            decide(NOT_YET, 'The nationality of the director of the film "Levity".'),
            decide(NOT_YET, "The nationality of Ed Solomon, the director of Levity."),
            decide("No", confidence=5, explanation="One is American, the other French."),
        ],
        "query": [ask(NATIONALITY, DIRECTED, PROVIDE), ask(SOLOMONS, DIRECTED, CONFIRM)],
    }
    program = MIGRES(
        retriever, reranker=reranker, entailment=TableEntailment(), **{**MIGRES.preset("multi_hop"), **kwargs}
    )
    return *run(program, SAME_NATIONALITY, **script), program


def test_case_one_steps():
    prediction, engine, _ = case_one()
    assert kinds(prediction) == {
        0: ["asked"],
        1: ["retrieved", "reranked", "compressed", "extracted", "missing", "queried"],
        2: ["retrieved", "reranked", "extracted", "missing", "queried"],
        3: ["retrieved", "reranked", "extracted", "stopped", "answered"],
    }
    assert acts(engine) == ["leaf", "main", "query", "leaf", "main", "query", "leaf", "main"]


def test_case_one_queries_and_passages():
    prediction, engine, _ = case_one()
    trace = prediction.trace
    assert [step.queries for step in trace.of(Retrieved)] == [
        [SAME_NATIONALITY],
        [NATIONALITY, DIRECTED, PROVIDE],
        [SOLOMONS, CONFIRM],
    ]
    assert [step.k for step in trace.of(Retrieved)] == [50, 50, 50]
    assert [(step.kept, step.dropped) for step in trace.of(Reranked)] == [
        ({"rain": 4.0}, {"gravity": 2.99}),
        ({"levity": 6.0}, {"gravity": 2.0, "rain": -9.0}),  # the unread rest of rain; levity has its best of three
        ({"solomon": 7.0}, {}),  # levity was read
    ]
    assert [step.threshold for step in trace.of(Reranked)] == [3.0, 3.0, 3.0]
    strict, _, _ = case_one(remember="passages")
    assert [step.dropped for step in strict.trace.of(Reranked)] == [{"gravity": 2.99}, {"gravity": 2.0}, {}]
    (cut,) = trace.of(Compressed)
    assert (cut.how, cut.passage) == ("sentences", "rain")
    assert cut.text == RAIN.text.partition(" It was")[0]
    shown = [[(p["title"], p["text"]) for p in given["passages"]] for given in inputs(engine, "leaf")]
    assert shown == [[(RAIN.title, cut.text)], [(LEVITY.title, LEVITY.text)], [(SOLOMON.title, SOLOMON.text)]]
    assert [given["queries"] for given in inputs(engine, "leaf")] == [[SAME_NATIONALITY], [DIRECTED], [SOLOMONS]]


def test_case_one_known_and_missing():
    prediction, engine, _ = case_one()
    facts = [
        "Tran Anh Hung, who directed I Come with the Rain, is French and born in Vietnam.",
        "Ed Solomon directed the film Levity.",
        "Ed Solomon makes films in America and is American.",
    ]
    assert [given["known"] for given in inputs(engine, "main")] == [facts[:1], facts[:2], facts]
    assert [(step.known, step.missing) for step in prediction.trace.of(Missing)] == [
        (facts[:1], 'The nationality of the director of the film "Levity".'),
        (facts[:2], "The nationality of Ed Solomon, the director of Levity."),
    ]
    assert [given["missing"] for given in inputs(engine, "query")] == [s.missing for s in prediction.trace.of(Missing)]
    assert [given["asked"] for given in inputs(engine, "query")] == [
        [SAME_NATIONALITY],
        [SAME_NATIONALITY, NATIONALITY, DIRECTED, PROVIDE],
    ]
    assert [(step.queries, step.repeated) for step in prediction.trace.of(Queried)] == [
        ([NATIONALITY, DIRECTED, PROVIDE], []),
        ([SOLOMONS, CONFIRM], [DIRECTED]),
    ]
    assert prediction.known == facts


def test_case_one_answer_and_cost():
    prediction, _, program = case_one()
    assert (prediction.answer, prediction.confidence, prediction.missing) == ("No", 5, "")
    assert [passage.id for passage in prediction.passages] == ["rain", "levity", "solomon"]
    assert prediction.passages[0] == RAIN  # whole again, as it stands in the index
    assert prediction.trace.stopped == "answered"
    (answered,) = prediction.trace.of(Answered)
    assert (answered.answer, answered.confidence) == ("No", 5)
    assert answered.explanation == "One is American, the other French."
    assert answered.passages == ["rain", "levity", "solomon"]
    cost = prediction.trace.cost
    assert (cost.lm_calls, cost.critical_calls, cost.iterations) == (8, 8, 3)
    assert (cost.retrievals, cost.passages) == (6, 3)
    # Each statement is held against the passage it cites, whole.
    assert program.entailment.pairs == list(zip(map(str, prediction.passages), prediction.known, strict=True))


# Table 14, case 2.

DIED_EARLIER = "Which film has the director died earlier, Payment On Demand or My Cousin From Warsaw?"
GERMAN = Passage("german", "My Cousin from Warsaw", "Carl Boese made this German comedy in 1931.")
FRENCH = Passage("french", "My Cousin from Warsaw (French version)", "Carmine Gallone made the French film of 1931.")
BOESE = Passage("boese", "Carl Boese", "The German director Carl Boese lived from 26 August 1887 to 6 July 1958.")
GALLONE = Passage("gallone", "Carmine Gallone", "Carmine Gallone, an Italian director, died on 4 April 1973.")
DEATH_DATE = 'What is the death date of the director of "Payment On Demand"?'
WHEN_PAYMENT = 'When did the director of "Payment on Demand" die?'
WHEN_COUSIN = "When did the director of My Cousin From Warsaw die?"
WHEN_BOESE = 'When did the director of "My Cousin From Warsaw", Carl Boese, die?'
WHEN_GALLONE = 'When did the director of "My Cousin From Warsaw", Carmine Gallone, die?'
OWN = "Curtis Bernhardt, who directed Payment On Demand, died on 22 February 1981."


def case_two(knowledge=OWN, **kwargs):
    retriever = TableRetriever(
        {
            DIED_EARLIER: [GERMAN, FRENCH, BOESE],
            DEATH_DATE: [GALLONE],
            WHEN_COUSIN: [GERMAN, BOESE],
            WHEN_BOESE: [BOESE],
            WHEN_GALLONE: [GALLONE, FRENCH],
        }
    )
    reranker = scores(
        {
            (DIED_EARLIER, "My Cousin from Warsaw:"): 5.0,
            (DIED_EARLIER, "My Cousin from Warsaw (French"): 4.0,
            (DIED_EARLIER, "Carl Boese"): -1.0,
            (DEATH_DATE, "Carmine Gallone"): 0.5,
            (WHEN_COUSIN, "Carl Boese"): 1.0,
            (WHEN_BOESE, "Carl Boese"): 5.0,
            (WHEN_GALLONE, "Carmine Gallone"): 6.0,
        }
    )
    own = "Curtis Bernhardt, the director of Payment On Demand, died on 22 February 1981."
    script = {
        "leaf": [
            learn(
                ("My Cousin from Warsaw is a German comedy by Carl Boese.", 1),
                ("A French My Cousin from Warsaw is by Carmine Gallone.", 2),
            ),
            learn((own, 1)),
            learn(("Carl Boese died on 6 July 1958.", 2), ("Carmine Gallone died on 4 April 1973.", 1)),
        ],
        "main": [
            decide(NOT_YET, "When the directors of both films died."),
            decide(NOT_YET, "When the director of My Cousin from Warsaw died."),
            decide("My Cousin from Warsaw", confidence=5),
        ],
        "query": [ask(DEATH_DATE, WHEN_PAYMENT, WHEN_COUSIN), ask(WHEN_BOESE, WHEN_GALLONE)],
        "knowledge": [{"passage": knowledge}],
    }
    program = MIGRES(
        retriever, reranker=reranker, entailment=TableEntailment(), **{**MIGRES.preset("multi_hop"), **kwargs}
    )
    return *run(program, DIED_EARLIER, **script), program


def test_case_two_steps():
    prediction, engine, _ = case_two()
    assert kinds(prediction) == {
        0: ["asked"],
        1: ["retrieved", "reranked", "extracted", "missing", "queried"],
        2: ["retrieved", "reranked", "prompted", "extracted", "missing", "queried"],
        3: ["retrieved", "reranked", "extracted", "stopped", "answered"],
    }
    assert acts(engine) == ["leaf", "main", "query", "knowledge", "leaf", "main", "query", "leaf", "main"]


def test_case_two_queries_passages_and_knowledge():
    prediction, engine, _ = case_two()
    trace = prediction.trace
    assert [step.queries for step in trace.of(Retrieved)] == [
        [DIED_EARLIER],
        [DEATH_DATE, WHEN_PAYMENT, WHEN_COUSIN],
        [WHEN_BOESE, WHEN_GALLONE],
    ]
    assert [(step.kept, step.dropped) for step in trace.of(Reranked)] == [
        ({"german": 5.0, "french": 4.0}, {"boese": -1.0}),
        ({}, {"boese": 1.0, "gallone": 0.5}),
        ({"gallone": 6.0, "boese": 5.0}, {}),  # dropped earlier, but never read
    ]
    (prompted,) = trace.of(Prompted)
    assert prompted.queries == [DEATH_DATE, WHEN_PAYMENT, WHEN_COUSIN]
    assert (prompted.passage, prompted.text) == ("model:1", OWN)
    leaf = inputs(engine, "leaf")
    assert leaf[1]["passages"] == [{"id": 1, "title": "the model's own knowledge", "text": OWN}]
    assert leaf[1]["queries"] == [DEATH_DATE, WHEN_PAYMENT, WHEN_COUSIN]
    assert [p["title"] for p in leaf[2]["passages"]] == ["Carmine Gallone", "Carl Boese"]
    assert [step.sources for step in trace.of(Extracted)] == [
        [["german"], ["french"]],
        [["model:1"]],
        [["boese"], ["gallone"]],
    ]


def test_case_two_known_missing_answer_and_cost():
    prediction, engine, _ = case_two()
    known = [given["known"] for given in inputs(engine, "main")]
    assert [len(facts) for facts in known] == [2, 3, 5]
    assert [(step.known, step.missing) for step in prediction.trace.of(Missing)] == [
        (known[0], "When the directors of both films died."),
        (known[1], "When the director of My Cousin from Warsaw died."),
    ]
    assert prediction.known == known[2]
    assert (prediction.answer, prediction.confidence) == ("My Cousin from Warsaw", 5)
    assert [passage.id for passage in prediction.passages] == ["german", "french", "model:1", "boese", "gallone"]
    assert prediction.passages[2].title == "the model's own knowledge"
    assert prediction.trace.passage("model:1").text == OWN
    assert prediction.trace.stopped == "answered"
    cost = prediction.trace.cost
    assert (cost.lm_calls, cost.critical_calls, cost.iterations, cost.retrievals, cost.passages) == (9, 9, 3, 6, 5)
    # The German (12 words) and the French film (14), then both directors (12 and 16); the model's own passage is none.
    assert cost.knowledge_tokens == 12 + 14 + 12 + 16


@pytest.mark.parametrize("case", [case_one, case_two])
def test_one_by_one_gives_the_same(case):
    together, alone = case()[0], case(concurrent=False)[0]
    assert alone.answer == together.answer
    assert alone.passages == together.passages
    for one, other in zip(alone.trace.steps, together.trace.steps, strict=True):
        assert one.model_copy(update={"at": 0.0}) == other.model_copy(update={"at": 0.0})
    assert alone.trace.cost.lm_calls == together.trace.cost.lm_calls
