"""MIGRES: the second case of table 14 round by round, its hyperparameters one by one, and what ends it.

The shape of the case is the paper's: how many queries, passages, statements and rounds there are, what is missing
after each, where the model's own knowledge stands in, and how it ends. Question, names and dates are the paper's;
queries and sentences are in our words.
"""

from itertools import accumulate

import pytest
from support import TableEntailment, TableReranker, TableRetriever, play

from knowgap.errors import UsageError
from knowgap.programs.migres import MIGRES
from knowgap.programs.trace.steps import Compressed, Extracted, Missing, Queried, Rejected, Reranked, Retrieved
from knowgap.retrieval.passage import Passage


def learn(*facts):
    """What the leaf module says: pairs of a statement and the numbers of its passages."""
    return {"statements": [{"statement": statement, "sources": list(sources)} for statement, *sources in facts]}


def decide(answer, missing="", confidence=1):
    """What the main module says."""
    said = {"answerable": answer != "", "answer": answer, "confidence": confidence, "missing": missing}
    return {**said, "explanation": "That much is known."}


# The case of table 14: of each round the queries, the passages, the statements with their passages, and the decision.

NOISE = Passage("noise", "Warsaw", "A city on a river.")
MEMORY = "Curtis Bernhardt, born in 1899, directed Payment On Demand. He died on 22 February 1981."
OWN = Passage("model:1", "the model's own knowledge", MEMORY)
ASKED = [
    ["Which film has the director died earlier, Payment On Demand or My Cousin From Warsaw?"],
    [
        "When did the director of Payment On Demand die?",
        "What is the death date of the director of Payment on Demand?",
        "When did the director of My Cousin From Warsaw die?",
    ],
    [
        "When did Carl Boese, the director of My Cousin From Warsaw, die?",
        "When did Carmine Gallone, the director of My Cousin From Warsaw, die?",
    ],
]
FOUND = [
    [
        Passage("french", "My Cousin from Warsaw (French)", "Carmine Gallone made it in French in 1931."),
        Passage("german", "My Cousin from Warsaw", "Carl Boese made this German comedy in 1931."),
    ],
    [],
    [
        Passage("boese", "Carl Boese", "A German director who lived from 1887 to 6 July 1958."),
        Passage("gallone", "Carmine Gallone", "An Italian director who lived from 1885 to 4 April 1973."),
    ],
]
LEARNT = [
    [("My Cousin from Warsaw is by Carl Boese.", 2), ("A French version is by Carmine Gallone.", 1)],
    [("Curtis Bernhardt, who directed Payment On Demand, died on 22 February 1981.", 1)],
    [("Carl Boese died on 6 July 1958.", 1), ("Carmine Gallone died on 4 April 1973.", 2)],
]
GAPS = [
    "When the directors of Payment On Demand and My Cousin From Warsaw died.",
    "When the director of My Cousin from Warsaw died.",
]


def test_case_of_table_14():
    table = {query: [*found, NOISE] for asked, found in zip(ASKED, FOUND, strict=True) for query in asked}
    reranker = TableReranker(lambda _, text: 2.9 if text == str(NOISE) else 9.0)
    program = MIGRES(
        TableRetriever(table), reranker=reranker, entailment=TableEntailment(), **MIGRES.presets["multi_hop"]
    )
    prediction, engine = play(
        program,
        ASKED[0][0],
        leaf=[learn(*facts) for facts in LEARNT],
        main=[*[decide("", gap) for gap in GAPS], decide("My Cousin from Warsaw", confidence=5)],
        query=[{"queries": queries} for queries in ASKED[1:]],
        knowledge=[{"knows": True, "passage": MEMORY}],
    )
    trace, shown = prediction.trace, [found or [OWN] for found in FOUND]
    assert engine.acts == [*["leaf", "main", "query"], "knowledge", *["leaf", "main", "query"], "leaf", "main"]
    assert (trace.stopped, trace.cost.iterations) == ("answered", 3)
    assert [(step.queries, step.k) for step in trace.of(Retrieved)] == [(queries, 50) for queries in ASKED]
    assert [(step.threshold, [*step.kept], step.dropped) for step in trace.of(Reranked)] == [
        (3.0, [passage.id for passage in found], {"noise": 2.9}) for found in FOUND
    ]
    assert read(engine) == [[(passage.title, passage.text) for passage in passages] for passages in shown]
    statements = [[statement for statement, _ in facts] for facts in LEARNT]
    cited = [[passages[n - 1] for _, n in facts] for facts, passages in zip(LEARNT, shown, strict=True)]
    assert [step.sources for step in trace.of(Extracted)] == [[[each.id] for each in passages] for passages in cited]
    known, history = list(accumulate(statements)), list(accumulate(ASKED))
    assert [given["known"] for given in engine.asked("main")] == known
    assert [step.missing for step in trace.of(Missing)] == GAPS
    asked = [(given["missing"], given["asked"]) for given in engine.asked("query")]
    assert asked == [*zip(GAPS, history[:2], strict=True)]
    assert (prediction.answer, prediction.confidence, prediction.missing) == ("My Cousin from Warsaw", 5, "")
    assert (prediction.known, prediction.supported) == (known[-1], True)
    assert prediction.passages == [passage for passages in cited for passage in passages]


# A question of two steps, on a small corpus.

QUESTION = "In which town was the painter of The Grey Ferry born?"
FERRY = Passage("ferry", "The Grey Ferry", "Ada Moor painted it in 1911. It hangs in Tarn. It is small.")
MOOR = Passage("moor", "Ada Moor", "Ada Moor was born in Wick.")
FERRIES = Passage("noise", "Ferries", "Ferries carry people. They also carry cars.")
SECOND = "Where was Ada Moor born?"
THIRD = "Who was Ada Moor?"
PAINTED = "Ada Moor painted The Grey Ferry."
TABLE = {QUESTION: [FERRY, FERRIES], SECOND: [FERRY, MOOR], THIRD: [MOOR, FERRIES]}
SCORES = {
    **{(QUESTION, "The Grey Ferry"): 4.0, (QUESTION, "Ferries"): 1.0},
    **{(SECOND, "Ada Moor"): 6.0, (THIRD, "Ada Moor"): 5.0},
}
GAP = "Where Ada Moor was born."


def small(table=None, score=None, threshold=3.0, entails=lambda *_: 1.0, **kwargs):
    """A program on the small corpus; scores are by query and the beginning of the text."""

    def rule(query, text):
        found = (value for (q, start), value in (score or SCORES).items() if q == query and text.startswith(start))
        return next(found, -9.0)

    return MIGRES(
        TableRetriever(TABLE if table is None else table),
        reranker=TableReranker(rule, default_threshold=threshold),
        entailment=TableEntailment(entails),
        **kwargs,
    )


def two_steps(program, **script):
    """Two iterations: who painted it, then where she was born; then nothing more is learnt, asked or known."""
    plan = {
        "leaf": ([learn((PAINTED, 1)), learn(("Ada Moor was born in Wick.", 1))], learn()),
        "main": ([decide("", GAP), decide("Wick", confidence=5)], decide("", GAP)),
        "query": ([{"queries": [SECOND, THIRD]}], {"queries": []}),
        "last": ([], {"answer": "Wick", "confidence": 2, "explanation": "The best guess."}),
        "knowledge": ([], {"knows": False, "passage": ""}),
    }
    replies = {act: [*script.get(act, first), *[rest] * 9] for act, (first, rest) in plan.items()}
    others = {act: reply for act, reply in script.items() if act not in plan}
    return play(program, QUESTION, **replies, **others)


def read(engine):
    """Titles and texts of the passages in each call of the leaf module."""
    return [[(p["title"], p["text"]) for p in given["passages"]] for given in engine.asked("leaf")]


def test_delta_is_the_rerankers_own_unless_it_is_set_and_a_presets_is_for_bge_alone():
    assert list(two_steps(small(threshold=5.0))[0].trace.of(Reranked)[0].kept) == []
    assert list(two_steps(small(threshold=5.0, delta=1.0))[0].trace.of(Reranked)[0].kept) == ["ferry", "noise"]
    with pytest.raises(UsageError, match="table"):
        two_steps(small(threshold=None))
    bge, other = TableReranker(lambda *_: 0.0, 3.0), TableReranker(lambda *_: 0.0, -1.0)
    bge.name = "BAAI/bge-reranker-base"
    assert MIGRES.from_preset("open_domain", reranker=bge).delta == 5.0
    assert MIGRES.from_preset("open_domain", reranker=other).delta is None


@pytest.mark.parametrize(
    ("whole", "sentences", "text", "compression"),
    [
        (4.0, (5.0, -1.0, 3.0), "Ada Moor painted it in 1911. It is small.", "sentences"),
        (6.0, (5.0, 4.0, -1.0), FERRY.text, "sentences"),  # it outscores all its sentences
        (5.0, (5.0, -1.0, -1.0), "Ada Moor painted it in 1911.", "sentences"),  # it does not outscore the best
        (4.0, (5.0, -1.0, -1.0), FERRY.text, "none"),
    ],
)
def test_sentence_filter_and_the_whole_passage_if_it_outscores_its_sentences(whole, sentences, text, compression):
    starts = [f"{FERRY.title}: {start}" for start in ("Ada", "It hangs", "It is")]
    score = {(QUESTION, str(FERRY)): whole, **{(QUESTION, s): v for s, v in zip(starts, sentences, strict=True)}}
    program = small({QUESTION: [FERRY]}, score, compression=compression)
    prediction, engine = two_steps(program, query=[{"queries": []}])
    assert read(engine)[0] == [(FERRY.title, text)]
    assert [step.text for step in prediction.trace.of(Compressed)] == ([] if text == FERRY.text else [text])
    assert program.entailment.pairs[0] == (str(FERRY), PAINTED)  # entailment is asked with the whole passage


@pytest.mark.parametrize(("how", "act"), [("summary", "summarise"), ("snippet", "snippet")])
def test_the_model_summarises_or_excerpts_until_enough_are_relevant(how, act):
    def compress(given):
        return {"relevant": given["passage"].startswith("The Grey Ferry"), how: "By Ada Moor."}

    first = {(QUESTION, "The Grey Ferry"): 4.0, (QUESTION, "Ferries"): 5.0}  # the noise ranks first
    prediction, engine = two_steps(small(score=first, compression=how, top_k=1, iterations=1), **{act: compress})
    assert read(engine) == [[(FERRY.title, "By Ada Moor.")]]
    assert [given["passage"] for given in engine.asked(act)] == [str(FERRIES), str(FERRY)]
    assert prediction.passages == [FERRY]  # as it was retrieved


@pytest.mark.parametrize("max_calls", [None, 3])
def test_without_prompted_knowledge_it_goes_on_and_the_last_answer_may_still_use_its_own(max_calls):
    program = small({}, prompt_knowledge=False, iterations=2, max_calls=max_calls)
    claimed = {**decide("Wick"), "missing": GAP}  # without a statement, it is no answer
    prediction, engine = two_steps(program, main=[claimed])
    assert engine.acts == ["main", "query", "last"]  # a module that would be asked the same is asked once
    assert (prediction.answer, prediction.trace.stopped, prediction.supported) == ("Wick", "iterations", False)
    assert (prediction.missing, prediction.passages) == (GAP, [])


def test_a_statement_is_kept_with_the_cited_passages_that_entail_it_alone():
    said = "Ada Moor painted it in 1911."
    program = small(entails=lambda premise, hypothesis: 0.8 * (hypothesis in premise), delta=0.0, compression="none")
    others = ["It hangs in Wick.", "Out of nowhere."]
    leaf = [learn((said, 1, 2, 7), (others[0], 1), (others[1],))]
    prediction, engine = two_steps(program, leaf=leaf)
    (extracted, *_) = prediction.trace.of(Extracted)
    assert (extracted.statements, extracted.sources) == ([said], [["ferry"]])
    assert [step.statement for step in prediction.trace.of(Rejected)] == others
    assert engine.asked("main")[0]["known"] == [said]


@pytest.mark.parametrize(("threshold", "taken"), [(None, True), (0.61, False)])
def test_entailment_threshold(threshold, taken):
    program = small(entails=lambda *_: 0.6, entailment_threshold=threshold)
    assert (PAINTED in two_steps(program)[0].known) is taken


@pytest.mark.parametrize(
    ("said", "answered"),
    [
        ({"answerable": True, "answer": "Wick"}, True),
        ({"answer": "Wick"}, True),  # it does not say, but it answers and misses nothing
        ({"answer": "Wick", "missing": GAP}, False),
        ({"answer": "unknown"}, False),
        ({"answerable": True, "answer": "Not stated."}, False),
    ],
)
def test_the_main_module_says_whether_it_answers(said, answered):
    prediction, engine = two_steps(small(), main=[said, decide("Wick")])
    assert engine.acts.count("main") == (1 if answered else 2)
    assert (prediction.trace.stopped, prediction.supported) == ("answered", True)
    assert prediction.answer == (said["answer"] if answered else "Wick")


def test_memory_leaves_out_passages_read_and_queries_asked_and_the_highest_of_several_scores_counts():
    queries = [QUESTION.upper().rstrip("?"), THIRD, SECOND, f" {SECOND} "]
    prediction, engine = two_steps(small(delta=0.0), query=[{"queries": queries}])
    assert prediction.trace.of(Queried)[0].queries == [THIRD, SECOND]
    assert [step.kept for step in prediction.trace.of(Reranked)] == [{"ferry": 4.0, "noise": 1.0}, {"moor": 6.0}]
    assert engine.asked("leaf")[1]["queries"] == [SECOND]
