"""MIGRES: the two cases of its table 14 as recorded traces."""

from migres_script import NOT_YET, ask, decide, kinds, learn, scores
from support import TableEntailment, TableRetriever, play

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


def answer(question, table, score, **script):
    entailment = TableEntailment()
    values = MIGRES.preset("multi_hop")
    program = MIGRES(TableRetriever(table), reranker=scores(score), entailment=entailment, **values)
    prediction, engine = play(program, question, **script)
    return prediction, engine, entailment


# Case 1.

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


def test_case_one():
    first = RAIN.text.partition(" It was")[0]
    facts = [
        "Tran Anh Hung, who directed I Come with the Rain, is French and born in Vietnam.",
        "Ed Solomon directed the film Levity.",
        "Ed Solomon makes films in America and is American.",
    ]
    gaps = [
        'The nationality of the director of the film "Levity".',
        "The nationality of Ed Solomon, the director of Levity.",
    ]
    prediction, engine, entailment = answer(
        SAME_NATIONALITY,
        {
            SAME_NATIONALITY: [GRAVITY, RAIN],
            NATIONALITY: [RAIN, LEVITY, GRAVITY],
            DIRECTED: [LEVITY],
            PROVIDE: [GRAVITY, LEVITY],
            SOLOMONS: [SOLOMON, LEVITY],
            CONFIRM: [SOLOMON],
        },
        {
            (SAME_NATIONALITY, f"I Come with the Rain: {first} It"): 4.0,
            (SAME_NATIONALITY, f"I Come with the Rain: {first}"): 4.5,
            (SAME_NATIONALITY, "Levity (album)"): 2.99,
            (NATIONALITY, "Levity (film)"): 3.5,
            (DIRECTED, "Levity (film): A drama of 2003 by the director Ed Solomon. A man"): 6.0,
            (DIRECTED, "Levity (film)"): 5.5,
            (PROVIDE, "Levity (film)"): 3.0,
            (NATIONALITY, "Levity (album)"): 1.0,
            (PROVIDE, "Levity (album)"): 2.0,
            (SOLOMONS, "Ed Solomon"): 7.0,
            (CONFIRM, "Ed Solomon"): 6.5,
        },
        leaf=[learn((fact, 1)) for fact in facts],
        main=[
            *[decide(NOT_YET, gap) for gap in gaps],
            decide("No", confidence=5, explanation="One is American, the other French."),
        ],
        query=[ask(NATIONALITY, DIRECTED, PROVIDE), ask(SOLOMONS, DIRECTED, CONFIRM)],
    )
    trace = prediction.trace
    assert kinds(prediction) == {
        0: ["asked"],
        1: ["retrieved", "reranked", "compressed", "extracted", "missing", "queried"],
        2: ["retrieved", "reranked", "extracted", "missing", "queried"],
        3: ["retrieved", "reranked", "extracted", "stopped", "answered"],
    }
    assert engine.acts == ["leaf", "main", "query", "leaf", "main", "query", "leaf", "main"]
    assert [(step.queries, step.k) for step in trace.of(Retrieved)] == [
        ([SAME_NATIONALITY], 50),
        ([NATIONALITY, DIRECTED, PROVIDE], 50),
        ([SOLOMONS, CONFIRM], 50),
    ]
    assert [(step.threshold, step.kept, step.dropped) for step in trace.of(Reranked)] == [
        (3.0, {"rain": 4.0}, {"gravity": 2.99}),
        (3.0, {"levity": 6.0}, {"gravity": 2.0, "rain": -9.0}),  # the unread rest of rain; levity's best of three
        (3.0, {"solomon": 7.0}, {}),  # levity was read
    ]
    (cut,) = trace.of(Compressed)
    assert (cut.how, cut.passage, cut.text) == ("sentences", "rain", first)
    shown = [[(p["title"], p["text"]) for p in given["passages"]] for given in engine.asked("leaf")]
    assert shown == [[(RAIN.title, first)], [(LEVITY.title, LEVITY.text)], [(SOLOMON.title, SOLOMON.text)]]
    assert [given["queries"] for given in engine.asked("leaf")] == [[SAME_NATIONALITY], [DIRECTED], [SOLOMONS]]
    assert [given["known"] for given in engine.asked("main")] == [facts[:1], facts[:2], facts]
    assert [(step.known, step.missing) for step in trace.of(Missing)] == [(facts[:1], gaps[0]), (facts[:2], gaps[1])]
    assert [(given["missing"], given["asked"]) for given in engine.asked("query")] == [
        (gaps[0], [SAME_NATIONALITY]),
        (gaps[1], [SAME_NATIONALITY, NATIONALITY, DIRECTED, PROVIDE]),
    ]
    assert [(step.queries, step.repeated) for step in trace.of(Queried)] == [
        ([NATIONALITY, DIRECTED, PROVIDE], []),
        ([SOLOMONS, CONFIRM], [DIRECTED]),
    ]
    assert (prediction.answer, prediction.confidence, prediction.missing) == ("No", 5, "")
    assert (prediction.known, prediction.passages) == (facts, [RAIN, LEVITY, SOLOMON])  # whole, as in the index
    (answered,) = trace.of(Answered)
    assert answered.explanation == "One is American, the other French."
    assert trace.stopped == "answered"
    cost = trace.cost
    assert (cost.lm_calls, cost.critical_calls, cost.iterations, cost.retrievals, cost.passages) == (8, 8, 3, 6, 3)
    # Each statement is held against the passage it cites, whole.
    assert entailment.pairs == list(zip(map(str, prediction.passages), facts, strict=True))


# Case 2.

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


def test_case_two():
    facts = [
        "My Cousin from Warsaw is a German comedy by Carl Boese.",
        "A French My Cousin from Warsaw is by Carmine Gallone.",
        "Curtis Bernhardt, the director of Payment On Demand, died on 22 February 1981.",
        "Carl Boese died on 6 July 1958.",
        "Carmine Gallone died on 4 April 1973.",
    ]
    gaps = ["When the directors of both films died.", "When the director of My Cousin from Warsaw died."]
    prediction, engine, _ = answer(
        DIED_EARLIER,
        {
            DIED_EARLIER: [GERMAN, FRENCH, BOESE],
            DEATH_DATE: [GALLONE],
            WHEN_COUSIN: [GERMAN, BOESE],
            WHEN_BOESE: [BOESE],
            WHEN_GALLONE: [GALLONE, FRENCH],
        },
        {
            (DIED_EARLIER, "My Cousin from Warsaw:"): 5.0,
            (DIED_EARLIER, "My Cousin from Warsaw (French"): 4.0,
            (DIED_EARLIER, "Carl Boese"): -1.0,
            (DEATH_DATE, "Carmine Gallone"): 0.5,
            (WHEN_COUSIN, "Carl Boese"): 1.0,
            (WHEN_BOESE, "Carl Boese"): 5.0,
            (WHEN_GALLONE, "Carmine Gallone"): 6.0,
        },
        leaf=[
            learn((facts[0], 1), (facts[1], 2)),
            learn((facts[2], 1)),
            learn((facts[3], 2), (facts[4], 1)),
        ],
        main=[*[decide(NOT_YET, gap) for gap in gaps], decide("My Cousin from Warsaw", confidence=5)],
        query=[ask(DEATH_DATE, WHEN_PAYMENT, WHEN_COUSIN), ask(WHEN_BOESE, WHEN_GALLONE)],
        knowledge=OWN,
    )
    trace = prediction.trace
    assert kinds(prediction) == {
        0: ["asked"],
        1: ["retrieved", "reranked", "extracted", "missing", "queried"],
        2: ["retrieved", "reranked", "prompted", "extracted", "missing", "queried"],
        3: ["retrieved", "reranked", "extracted", "stopped", "answered"],
    }
    assert engine.acts == ["leaf", "main", "query", "knowledge", "leaf", "main", "query", "leaf", "main"]
    assert [(step.kept, step.dropped) for step in trace.of(Reranked)] == [
        ({"german": 5.0, "french": 4.0}, {"boese": -1.0}),
        ({}, {"boese": 1.0, "gallone": 0.5}),
        ({"gallone": 6.0, "boese": 5.0}, {}),  # dropped earlier, but never read
    ]
    (prompted,) = trace.of(Prompted)
    assert prompted.queries == [DEATH_DATE, WHEN_PAYMENT, WHEN_COUSIN]
    assert (prompted.passage, prompted.text) == ("model:1", OWN)
    leaf = engine.asked("leaf")
    assert leaf[1]["passages"] == [{"id": 1, "title": "the model's own knowledge", "text": OWN}]
    assert leaf[1]["queries"] == prompted.queries
    assert [p["title"] for p in leaf[2]["passages"]] == ["Carmine Gallone", "Carl Boese"]
    sources = [[["german"], ["french"]], [["model:1"]], [["boese"], ["gallone"]]]
    assert [step.sources for step in trace.of(Extracted)] == sources
    assert [given["known"] for given in engine.asked("main")] == [facts[:2], facts[:3], facts]
    assert (prediction.answer, prediction.confidence) == ("My Cousin from Warsaw", 5)
    own = Passage("model:1", "the model's own knowledge", OWN)
    assert prediction.passages == [GERMAN, FRENCH, own, BOESE, GALLONE]
    cost = trace.cost
    assert (cost.lm_calls, cost.critical_calls, cost.iterations, cost.retrievals, cost.passages) == (9, 9, 3, 6, 5)
    # The German (12 words) and the French film (14), then both directors (12 and 16); the model's own passage is none.
    assert cost.knowledge_tokens == 12 + 14 + 12 + 16
