"""MIGRES: table 14's two cases as recorded traces, then every rule and every switch of the method."""

import dspy
import pytest
from support import TableEntailment, TableReranker, TableRetriever, by_output, scripted_lm

from knowgap.errors import UnknownName, UsageError
from knowgap.programs import MIGRES
from knowgap.programs.steps import (
    Answered,
    Compressed,
    Extracted,
    Judged,
    Malformed,
    Missing,
    Prompted,
    Queried,
    Rejected,
    Reranked,
    Retrieved,
    Stopped,
)
from knowgap.retrieval.passage import Passage
from knowgap.signatures import STYLES

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


@pytest.mark.parametrize("case", [case_one, case_two])
def test_one_by_one_gives_the_same(case):
    together, alone = case()[0], case(concurrent=False)[0]
    assert alone.answer == together.answer
    assert alone.passages == together.passages
    for one, other in zip(alone.trace.steps, together.trace.steps, strict=True):
        assert one.model_copy(update={"at": 0.0}) == other.model_copy(update={"at": 0.0})
    assert alone.trace.cost.lm_calls == together.trace.cost.lm_calls


# Rules and switches, on a small corpus.

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


def test_two_steps_as_a_base_for_what_follows():
    prediction, engine = two_steps(small())
    assert prediction.answer == "Wick"
    assert acts(engine) == ["leaf", "main", "query", "leaf", "main"]


def test_delta_defaults_to_the_rerankers_own():
    assert small(threshold=1.5).threshold == 1.5
    assert small(threshold=1.5, delta=0.0).threshold == 0.0


def test_a_reranker_without_a_threshold_needs_delta():
    with pytest.raises(UsageError, match="the reranker table has no default threshold: set delta, or calibrate it"):
        two_steps(small(threshold=None))
    assert two_steps(small(threshold=None, delta=3.0))[0].answer == "Wick"


@pytest.mark.parametrize(
    ("delta", "kept"), [(1.0, ["ferry", "noise"]), (1.01, ["ferry"]), (4.0, ["ferry"]), (4.01, [])]
)
def test_delta_keeps_scores_at_or_above_it(delta, kept):
    prediction, _ = two_steps(small(delta=delta, compression="none"), leaf=[learn()] * 3, query=[ask()])
    first = prediction.trace.of(Reranked)[0]
    assert first.threshold == delta
    assert list(first.kept) == kept
    assert set(first.kept) | set(first.dropped) == {"ferry", "noise"}


def test_top_k_limits_what_is_read_and_leaves_the_rest_for_later():
    passages = [Passage(f"p{n}", f"P{n}", f"Text {n}.") for n in range(5)]
    table = {QUESTION: passages, SECOND: passages}
    score = {(query, f"P{n}"): 9.0 - n for query in table for n in range(5)}
    program = small(table, score, top_k=2)
    prediction, engine = run(
        program,
        QUESTION,
        leaf=[learn((PAINTED, 1)), learn((BORN, 1))],
        main=[decide(NOT_YET, GAP), decide("Wick")],
        query=[ask(SECOND)],
    )
    assert [[p["title"] for p in given["passages"]] for given in inputs(engine, "leaf")] == [["P0", "P1"], ["P2", "P3"]]
    assert [list(step.kept) for step in prediction.trace.of(Reranked)] == [
        ["p0", "p1", "p2", "p3", "p4"],
        ["p2", "p3", "p4"],
    ]
    assert prediction.trace.cost.passages == 4


def test_retrieve_k_is_what_the_retriever_is_asked_for():
    prediction, _ = two_steps(small(retrieve_k=1), leaf=[learn((PAINTED, 1)), learn()], query=[ask(SECOND), ask()])
    assert prediction.trace.of(Retrieved)[0].hits == [["ferry"]]
    assert {step.k for step in prediction.trace.of(Retrieved)} == {1}


def test_a_passage_hit_by_several_queries_keeps_its_highest_score():
    for queries in ([SECOND, THIRD], [THIRD, SECOND]):
        prediction, engine = two_steps(small(), query=[ask(*queries)])
        assert prediction.trace.of(Reranked)[1].kept == {"moor": 6.0}
        assert inputs(engine, "leaf")[1]["queries"] == [SECOND]


def test_ties_are_broken_by_id():
    passages = [Passage(name, name.upper(), "Text.") for name in "cab"]
    score = {(QUESTION, name.upper()): 5.0 for name in "abc"}
    _, engine = two_steps(small({QUESTION: passages}, score), leaf=[learn()], query=[ask()])
    assert [p["title"] for p in inputs(engine, "leaf")[0]["passages"]] == ["A", "B", "C"]


def sentence_scores(whole, *sentences):
    starts = ["The Grey Ferry: Ada", "The Grey Ferry: It hangs", "The Grey Ferry: It is"]
    return {(QUESTION, str(FERRY)): whole, **{(QUESTION, s): v for s, v in zip(starts, sentences, strict=True)}}


@pytest.mark.parametrize(
    ("whole", "sentences", "read"),
    [
        (4.0, (5.0, -1.0, 3.0), "Ada Moor painted it in 1911. It is small."),
        (4.0, (2.9, 4.0, -1.0), "It hangs in Tarn."),
        (6.0, (5.0, 4.0, -1.0), FERRY.text),  # it outscores all its sentences
        (5.0, (5.0, -1.0, -1.0), "Ada Moor painted it in 1911."),  # it does not outscore the best
        (3.0, (1.0, 1.0, 1.0), FERRY.text),
        (3.5, (4.0, 4.0, 4.0), FERRY.text),  # nothing to cut
    ],
)
def test_sentence_filter_and_the_whole_passage_where_it_outscores_its_sentences(whole, sentences, read):
    prediction, engine = two_steps(
        small({QUESTION: [FERRY]}, sentence_scores(whole, *sentences)), leaf=[learn()], query=[ask()]
    )
    assert inputs(engine, "leaf")[0]["passages"][0]["text"] == read
    assert [step.text for step in prediction.trace.of(Compressed)] == ([] if read == FERRY.text else [read])


def test_sentences_are_scored_with_the_title_by_the_same_reranker():
    program = small({QUESTION: [FERRY]}, sentence_scores(4.0, 5.0, 1.0, 1.0))
    two_steps(program, leaf=[learn()], query=[ask()])
    assert program.reranker.pairs == [
        (QUESTION, str(FERRY)),
        (QUESTION, "The Grey Ferry: Ada Moor painted it in 1911."),
        (QUESTION, "The Grey Ferry: It hangs in Tarn."),
        (QUESTION, "The Grey Ferry: It is small."),
    ]


def test_compression_none_reads_whole_passages():
    program = small({QUESTION: [FERRY]}, sentence_scores(4.0, 5.0, 1.0, 1.0), compression="none")
    prediction, engine = two_steps(program, leaf=[learn()], query=[ask()])
    assert inputs(engine, "leaf")[0]["passages"][0]["text"] == FERRY.text
    assert prediction.trace.of(Compressed) == []
    assert program.reranker.pairs == [(QUESTION, str(FERRY))]


@pytest.mark.parametrize("how", ["summary", "snippet"])
def test_compression_by_the_model(how):
    passages = [Passage(f"p{n}", f"P{n}", f"Text {n}.") for n in range(5)]
    score = {(QUESTION, f"P{n}"): 9.0 - n for n in range(5)}

    def compress(_, given):
        number = given["passage"][1]
        return {how: "Irrelevant." if number in "02" else f"Short {number}. "}

    program = small({QUESTION: passages}, score, compression=how, top_k=2)
    prediction, engine = two_steps(program, leaf=[learn((PAINTED, 1))], query=[ask()], **{how: compress})
    # Two at a time, best first, until two are of use: 0 and 1, then 2 and 3; 4 is not looked at.
    assert acts(engine)[:5] == [how] * 4 + ["leaf"]
    assert sorted(given["passage"] for given in inputs(engine, how)) == [str(p) for p in passages[:4]]
    assert {given["question"] for given in inputs(engine, how)} == {QUESTION}
    assert [(p["title"], p["text"]) for p in inputs(engine, "leaf")[0]["passages"]] == [
        ("P1", "Short 1."),
        ("P3", "Short 3."),
    ]
    assert [(step.how, step.passage) for step in prediction.trace.of(Compressed)] == [(how, "p1"), (how, "p3")]
    assert prediction.passages == [passages[1]]
    assert prediction.trace.cost.critical_calls == prediction.trace.cost.lm_calls - 2


def test_compression_by_the_model_that_finds_nothing_counts_as_no_passage():
    prediction, engine = two_steps(
        small(compression="snippet"), snippet=lambda *_: {"snippet": "irrelevant"}, leaf=[], query=[ask()]
    )
    assert acts(engine) == ["snippet", "knowledge", "main", "query", "knowledge", "query", "last"][: len(engine.calls)]
    assert prediction.trace.of(Extracted) == []


def entails_born(premise, hypothesis):
    return 0.8 if hypothesis in premise else 0.3


def test_statements_that_no_cited_passage_entails_are_rejected():
    program = small(entails=entails_born, compression="none", delta=0.0)
    prediction, engine = two_steps(
        program, leaf=[learn(("Ada Moor painted it in 1911.", 1, 2), ("It hangs in Wick.", 1), ("It is small.", 2))]
    )
    assert prediction.trace.of(Extracted)[0].statements == ["Ada Moor painted it in 1911."]
    assert prediction.trace.of(Extracted)[0].sources == [["ferry"]]  # of the two cited, the one that says it
    assert [(step.what, step.why) for step in prediction.trace.of(Rejected)] == [
        ("It hangs in Wick.", "no cited passage entails it"),
        ("It is small.", "no cited passage entails it"),
    ]
    assert inputs(engine, "main")[0]["known"] == ["Ada Moor painted it in 1911."]


def test_statements_without_a_passage_are_rejected():
    prediction, _ = two_steps(
        small(), leaf=[learn((PAINTED, 1), ("Out of nowhere.",), ("Of passage 7.", 7, 0, -1)), learn()]
    )
    assert [(step.what, step.why) for step in prediction.trace.of(Rejected)] == [
        ("Out of nowhere.", "no passage cited"),
        ("Of passage 7.", "no passage cited"),
    ]


@pytest.mark.parametrize(("threshold", "taken"), [(0.3, True), (0.31, False)])
def test_entailment_threshold(threshold, taken):
    program = small(entails=entails_born, entailment_threshold=threshold)
    prediction, _ = two_steps(program, leaf=[learn((PAINTED, 1)), learn()], query=[ask(), ask()])
    assert (PAINTED in prediction.known) is taken


def test_entailment_switched_off_asks_nobody_and_takes_every_statement():
    program = small(entails=lambda *_: 0.0, check_entailment=False)
    prediction, _ = two_steps(program, leaf=[learn((PAINTED, 1), ("Out of nowhere.",)), learn((BORN, 1))])
    assert prediction.known == [PAINTED, "Out of nowhere.", BORN]
    assert program.entailment.pairs == []
    assert prediction.trace.of(Rejected) == []
    assert [passage.id for passage in prediction.passages] == ["ferry", "moor"]


def test_entailment_is_asked_with_the_whole_passage_not_with_the_sentences_kept():
    program = small({QUESTION: [FERRY]}, sentence_scores(4.0, 5.0, 1.0, 1.0))
    two_steps(program, query=[ask()])
    assert program.entailment.pairs == [(str(FERRY), PAINTED)]


def test_own_knowledge_is_asked_for_only_where_no_passage_survives():
    prediction, engine = two_steps(
        small({QUESTION: [NOISE]}), leaf=[learn((BORN, 1))], knowledge=[{"passage": f"{BORN} "}], main=[decide("Wick")]
    )
    assert acts(engine) == ["knowledge", "leaf", "main"]
    assert inputs(engine, "knowledge") == [{"queries": [QUESTION]}]
    assert prediction.passages == [Passage("model:1", "the model's own knowledge", BORN)]


def test_own_knowledge_switched_off():
    prediction, engine = two_steps(
        small({}, prompt_knowledge=False), main=[decide(NOT_YET, GAP)], query=[ask(SECOND), ask()]
    )
    assert acts(engine) == ["main", "query", "query", "query", "last"][: len(engine.calls)]
    assert prediction.trace.of(Prompted) == []
    assert prediction.passages == []


@pytest.mark.parametrize("refusal", ["unknown", "Unknown.", " UNKNOWN ", ""])
def test_own_knowledge_that_is_none_is_not_read(refusal):
    prediction, engine = two_steps(small({}), knowledge=[{"passage": refusal}] * 2, query=[ask(SECOND), ask()])
    assert "leaf" not in acts(engine)
    assert prediction.trace.of(Prompted) == []
    assert {(step.what, step.value) for step in prediction.trace.of(Judged)} == {("knowledge of its own", False)}


@pytest.mark.parametrize("read_apart", [False, True])
def test_own_knowledge_is_numbered_and_read_for_all_queries(read_apart):
    script = {"knowledge": [{"passage": "One fact."}, {"passage": "Another fact."}]}
    program = small({}, read_apart=read_apart)
    prediction, engine = two_steps(program, leaf=[learn(("One.", 1)), learn(("Another.", 1))], **script)
    assert [given["queries"] for given in inputs(engine, "leaf")] == [[QUESTION], [SECOND, THIRD]]
    assert [passage.id for passage in prediction.passages] == ["model:1", "model:2"]
    assert [passage.text for passage in prediction.passages] == ["One fact.", "Another fact."]


def test_memory_leaves_out_passages_read_and_queries_asked():
    prediction, _ = two_steps(small(delta=0.0), query=[ask(QUESTION.upper().rstrip("?"), SECOND, f" {SECOND} ")])
    assert prediction.trace.of(Queried)[0].queries == [SECOND]
    assert len(prediction.trace.of(Queried)[0].repeated) == 2
    assert [list(step.kept) for step in prediction.trace.of(Reranked)] == [["ferry", "noise"], ["moor"]]


def rest_of_a_passage(**kwargs):
    """Three queries find the ferry; each scores another sentence of it above δ."""
    wanted = {QUESTION: "Ada Moor painted it in 1911.", SECOND: "It hangs in Tarn.", THIRD: "It is small."}

    def score(query, text):
        _, _, body = text.partition(": ")
        return 5.0 if body == wanted[query] else 4.0 if wanted[query] in body else -9.0

    program = MIGRES(
        TableRetriever({query: [FERRY] for query in wanted}),
        reranker=TableReranker(score, default_threshold=3.0),
        entailment=TableEntailment(),
        **kwargs,
    )
    said = [learn(), learn(("It hangs in Tarn.", 1)), learn(("It is small.", 1))]
    return *two_steps(program, leaf=said, main=[decide(NOT_YET, GAP)], query=[ask(SECOND), ask(THIRD)]), program


def test_the_rest_of_a_passage_can_be_read_later_and_the_whole_is_cited():
    prediction, engine, program = rest_of_a_passage()
    read = [given["passages"][0]["text"] for given in inputs(engine, "leaf")]
    assert read == ["Ada Moor painted it in 1911.", "It hangs in Tarn.", "It is small."]
    assert prediction.known == ["It hangs in Tarn.", "It is small."]
    assert prediction.passages == [FERRY]
    assert program.entailment.pairs == [(str(FERRY), "It hangs in Tarn."), (str(FERRY), "It is small.")]
    assert prediction.trace.passage("ferry") == FERRY


def test_remembering_passages_reads_none_of_one_again():
    _, engine, _ = rest_of_a_passage(remember="passages")
    assert len(inputs(engine, "leaf")) == 1


def test_without_memory_passages_are_read_and_queries_asked_again():
    score = {**SCORES, (SECOND, "The Grey Ferry"): 5.0}
    prediction, engine = two_steps(
        small(score=score, memory=False), query=[ask(QUESTION, SECOND), ask(SECOND)], main=[]
    )
    assert prediction.trace.of(Queried)[0].queries == [QUESTION, SECOND]
    assert prediction.trace.of(Queried)[0].repeated == []
    assert list(prediction.trace.of(Reranked)[1].kept) == ["moor", "ferry"]
    assert [given["asked"] for given in inputs(engine, "query")[:2]] == [[QUESTION], [QUESTION]]
    assert prediction.trace.of(Queried)[1].queries == [SECOND]


def test_read_apart_reads_each_querys_passages_in_a_call_of_its_own():
    other = Passage("other", "Wick", "Wick is a town.")
    table = {**TABLE, THIRD: [other]}
    score = {**SCORES, (THIRD, "Wick"): 4.0}

    def leaf(_, given):
        return learn((f"From {given['passages'][0]['title']}.", 1), ("Both.", 1))

    apart, engine = two_steps(small(table, score, read_apart=True), leaf=leaf)
    read = [
        (given["queries"], [(p["id"], p["title"]) for p in given["passages"]]) for given in inputs(engine, "leaf")[1:]
    ]
    assert sorted(read) == [([SECOND], [(1, "Ada Moor")]), ([THIRD], [(1, "Wick")])]
    assert apart.known == ["From The Grey Ferry.", "Both.", "From Ada Moor.", "From Wick."]
    assert [s.statements for s in apart.trace.of(Extracted)][1:] == [
        ["From Ada Moor.", "Both."],
        ["From Wick.", "Both."],
    ]
    assert apart.trace.cost.lm_calls == 6
    assert apart.trace.cost.critical_calls == 5
    together, engine = two_steps(small(table, score), leaf=leaf)
    assert [given["queries"] for given in inputs(engine, "leaf")] == [[QUESTION], [SECOND, THIRD]]
    assert together.trace.cost.lm_calls == 5


@pytest.mark.parametrize("iterations", [1, 2, 3])
def test_iterations_are_a_cap_and_the_last_answer_follows(iterations):
    prediction, engine = two_steps(
        small(iterations=iterations),
        leaf=lambda _, given: learn((f"Something of {given['passages'][0]['title']}.", 1)),
        main=lambda *_: decide(NOT_YET, GAP),
        query=[ask(SECOND), ask(THIRD)],
        knowledge=lambda *_: {"passage": "Some fact."},
    )
    assert prediction.trace.cost.iterations == iterations
    assert len(prediction.trace.of(Retrieved)) == iterations
    assert acts(engine).count("main") == iterations - 1
    assert acts(engine)[-1] == "last"
    assert acts(engine).count("last") == 1
    assert prediction.trace.stopped == "iterations"
    assert (prediction.answer, prediction.confidence) == ("Wick", 2)
    assert inputs(engine, "last")[0]["known"] == prediction.known
    assert len(prediction.known) == iterations
    assert prediction.missing == (GAP if iterations > 1 else "")


def test_the_last_answer_is_not_asked_where_main_answers():
    _, engine = two_steps(small())
    assert "last" not in acts(engine)


def test_max_queries():
    queries = [f"Query {n}?" for n in range(5)]
    for most in (1, 3, 5):
        prediction, _ = two_steps(small(max_queries=most, iterations=2), query=[ask(*queries)])
        assert prediction.trace.of(Queried)[0].queries == queries[:most]
        assert prediction.trace.of(Retrieved)[1].queries == queries[:most]


def test_main_is_not_asked_where_nothing_new_was_learnt():
    prediction, engine = two_steps(
        small(table={QUESTION: [FERRY], SECOND: [MOOR]}),
        leaf=[learn((PAINTED, 1)), learn((PAINTED, 1))],
        main=[decide(NOT_YET, GAP)],
        query=[ask(SECOND), ask("A dead end?"), ask("Another?"), ask("And another?")],
    )
    assert acts(engine) == [
        *("leaf", "main", "query"),
        *("leaf", "query"),  # it learnt what it knew
        *("knowledge", "query"),
        *("knowledge", "query"),
        *("knowledge", "last"),
    ]
    assert len(prediction.trace.of(Missing)) == 1
    assert {given["missing"] for given in inputs(engine, "query")} == {GAP}
    assert prediction.missing == GAP


def test_main_is_asked_once_where_nothing_at_all_is_known():
    _, engine = two_steps(small({}), main=[decide(NOT_YET, GAP)], query=[ask(f"Query {n}?") for n in range(4)])
    assert acts(engine).count("main") == 1
    assert inputs(engine, "main")[0]["known"] == []


def test_where_all_queries_were_asked_the_missing_information_is_searched():
    prediction, _ = two_steps(small(), query=[ask(QUESTION, QUESTION.lower())])
    assert prediction.trace.of(Queried)[0].queries == [GAP]
    assert len(prediction.trace.of(Queried)[0].repeated) == 2
    assert prediction.trace.of(Retrieved)[1].queries == [GAP]


def test_where_nothing_new_can_be_asked_it_stops_and_answers():
    prediction, engine = two_steps(small(), query=[ask(QUESTION), ask(GAP)], main=[decide(NOT_YET, GAP)])
    assert [step.queries for step in prediction.trace.of(Queried)] == [[GAP], []]
    assert prediction.trace.stopped == "no new query"
    assert acts(engine)[-1] == "last"
    assert prediction.answer == "Wick"


@pytest.mark.parametrize(("said", "taken"), [(9, 5), (5, 5), (3, 3), (1, 1), (0, 1), (-4, 1)])
def test_confidence_is_held_between_one_and_five(said, taken):
    answered, _ = two_steps(small(), main=[decide("Wick", confidence=said)])
    assert answered.confidence == answered.trace.of(Answered)[0].confidence == taken
    at_last, _ = two_steps(small(iterations=1), last=[last("Wick", confidence=said)])
    assert at_last.confidence == taken


@pytest.mark.parametrize(
    ("missing", "taken"), [("", "Not said."), ("a date", "Not said."), ("ten chars!", "ten chars!")]
)
def test_missing_information_of_few_characters_gives_way_to_the_explanation(missing, taken):
    prediction, engine = two_steps(small(), main=[decide(NOT_YET, missing, explanation="Not said."), decide("Wick")])
    assert prediction.trace.of(Missing)[0].missing == taken
    assert inputs(engine, "query")[0]["missing"] == taken


@pytest.mark.parametrize("no_answer", [NOT_YET, "Unanswerable.", "The question is unanswerable", "", "  "])
def test_what_counts_as_no_answer_yet(no_answer):
    prediction, engine = two_steps(small(), main=[decide(no_answer, GAP), decide("Wick")])
    assert acts(engine).count("main") == 2
    assert prediction.answer == "Wick"


def test_a_last_answer_that_is_none_becomes_unknown():
    for answer in (NOT_YET, "", "Unanswerable."):
        prediction, _ = two_steps(small(iterations=1), last=[last(answer)])
        assert prediction.answer == "unknown"
        assert prediction.trace.of(Answered)[0].answer == "unknown"


def test_style_reaches_whoever_answers():
    _, engine = two_steps(small(style="yes_no", iterations=2), query=[ask(SECOND)])
    assert [given["style"] for given in (*inputs(engine, "main"), *inputs(engine, "last"))] == [STYLES["yes_no"]] * 2


# Output that cannot be read.


@pytest.mark.parametrize("act", ["leaf", "main", "query", "knowledge", "last"])
def test_unreadable_output_counts_as_nothing_found(act):
    program = small({} if act == "knowledge" else None, iterations=2)
    prediction, engine = two_steps(program, **{act: lambda *_: "Sorry, I cannot help with that."})
    assert {step.act for step in prediction.trace.of(Malformed)} == {act}
    assert prediction.answer == ("unknown" if act == "last" else "Wick")
    assert prediction.trace.stopped
    expected = {
        "leaf": lambda: prediction.known == [],
        "main": lambda: inputs(engine, "query")[0]["missing"] == QUESTION,
        "query": lambda: prediction.trace.of(Queried)[0].queries == [GAP],
        "knowledge": lambda: prediction.trace.of(Prompted) == [],
        "last": lambda: prediction.confidence == 1,
    }
    assert expected[act]()


def test_unreadable_summaries_count_as_irrelevant():
    prediction, engine = two_steps(small(compression="summary"), summary=lambda *_: "{", query=[ask()])
    assert "leaf" not in acts(engine)
    assert {step.act for step in prediction.trace.of(Malformed)} == {"summarise"}


def test_repeated_and_empty_statements_are_one_and_none():
    prediction, _ = two_steps(
        small(), leaf=[learn((PAINTED, 1), (f"  {PAINTED}\n", 1), ("   ", 1)), learn()], query=[ask()]
    )
    assert prediction.known == [PAINTED]


# Presets.


def test_presets_are_those_of_table_12():
    assert set(MIGRES.presets) == {"multi_hop", "open_domain", "commonsense"}
    for name, iterations, delta in (("multi_hop", 5, 3.0), ("open_domain", 3, 5.0), ("commonsense", 5, 0.0)):
        program = small(**MIGRES.preset(name))
        assert (program.iterations, program.threshold, program.top_k, program.retrieve_k) == (iterations, delta, 5, 50)
    assert small(**MIGRES.preset("commonsense")).style == "yes_no"
    with pytest.raises(UnknownName, match="unknown preset of migres 'multihop': did you mean 'multi_hop'"):
        MIGRES.preset("multihop")


def test_copies_share_retriever_reranker_and_entailment():
    program = small()
    twin = program.deepcopy()
    assert twin.reranker is program.reranker
    assert twin.entailment is program.entailment
    assert twin.retriever is program.retriever
    assert [name for name, _ in twin.named_predictors()] == [
        "leaf",
        "main",
        "last",
        "query",
        "knowledge",
        "summarise",
        "snippet",
    ]


def test_stops_are_recorded_once():
    for prediction in (two_steps(small())[0], two_steps(small(iterations=1))[0]):
        assert len(prediction.trace.of(Stopped)) == 1
        assert len(prediction.trace.of(Answered)) == 1
        assert prediction.trace.steps[-1].kind == "answered"
