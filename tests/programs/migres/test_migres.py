"""MIGRES: the second case of table 14, round by round.

The shape of the case is the paper's: how many queries, passages, statements and rounds there are, what is missing
after each, where the model's own knowledge stands in, and how it ends. Question, names and dates are the paper's;
queries and sentences are in our words.
"""

from dataclasses import dataclass
from itertools import accumulate

from migres_script import ask, learn, scores
from support import TableEntailment, TableRetriever, play

from knowgap.programs.migres import MIGRES
from knowgap.programs.trace.steps import Extracted, Missing, Prompted, Queried, Reranked, Retrieved
from knowgap.retrieval.passage import Passage

NOISE = Passage("noise", "Warsaw", "A city on a river.")


@dataclass
class Round:
    """One iteration: what is asked, what is read, what is learnt from it, and what is missing then."""

    queries: list[str]
    passages: list[Passage]
    learnt: list[tuple[str, int]]
    missing: str = ""
    own_knowledge: str = ""
    answer: str = ""

    @property
    def shown(self) -> list[Passage]:
        return self.passages or [Passage("model:1", "the model's own knowledge", self.own_knowledge)]

    @property
    def decision(self) -> dict:
        answerable = bool(self.answer)
        confidence = 5 if answerable else 1
        said = {"answerable": answerable, "answer": self.answer, "confidence": confidence, "missing": self.missing}
        return {**said, "explanation": "That much is known."}


ROUNDS = [
    Round(
        ["Which film has the director died earlier, Payment On Demand or My Cousin From Warsaw?"],
        [
            Passage("german", "My Cousin from Warsaw", "Carl Boese made this German comedy in 1931."),
            Passage("french", "My Cousin from Warsaw (French)", "Carmine Gallone made it in French in 1931."),
        ],
        [("My Cousin from Warsaw is by Carl Boese.", 1), ("A French version is by Carmine Gallone.", 2)],
        missing="When the directors of Payment On Demand and My Cousin From Warsaw died.",
    ),
    Round(
        [
            "When did the director of Payment On Demand die?",
            "What is the death date of the director of Payment on Demand?",
            "When did the director of My Cousin From Warsaw die?",
        ],
        [],
        [("Curtis Bernhardt, who directed Payment On Demand, died on 22 February 1981.", 1)],
        missing="When the director of My Cousin from Warsaw died.",
        own_knowledge="Curtis Bernhardt, born in 1899, directed Payment On Demand. He died on 22 February 1981.",
    ),
    Round(
        [
            "When did Carl Boese, the director of My Cousin From Warsaw, die?",
            "When did Carmine Gallone, the director of My Cousin From Warsaw, die?",
        ],
        [
            Passage("gallone", "Carmine Gallone", "An Italian director who lived from 1885 to 4 April 1973."),
            Passage("boese", "Carl Boese", "A German director who lived from 1887 to 6 July 1958."),
        ],
        [("Carl Boese died on 6 July 1958.", 2), ("Carmine Gallone died on 4 April 1973.", 1)],
        answer="My Cousin from Warsaw",
    ),
]


def test_case_of_table_14():
    rounds = ROUNDS
    [question] = rounds[0].queries
    table = {query: [*each.passages, NOISE] for each in rounds for query in each.queries}
    relevant = {
        (query, str(passage)): 9.0 - place - 0.5 * any(passage.title in q for q in each.queries if q != query)
        for each in rounds
        for query in each.queries
        for place, passage in enumerate(each.passages)
    }
    entailment = TableEntailment()
    program = MIGRES(
        TableRetriever(table),
        reranker=scores(relevant, default=2.9),
        entailment=entailment,
        **MIGRES.preset("multi_hop"),
    )
    prediction, engine = play(
        program,
        question,
        leaf=[learn(*each.learnt) for each in rounds],
        main=[each.decision for each in rounds],
        query=[ask(*each.queries) for each in rounds[1:]],
        knowledge=[{"knows": True, "passage": each.own_knowledge} for each in rounds if each.own_knowledge],
    )
    trace = prediction.trace
    asked = ["leaf", "main", "query"]
    assert engine.acts == [*asked, "knowledge", *asked, *asked[:-1]]
    assert trace.stopped == "answered"
    assert trace.cost.iterations == len(rounds)
    assert [(step.queries, step.k) for step in trace.of(Retrieved)] == [(each.queries, 50) for each in rounds]
    kept = [{passage.id: 9.0 - place for place, passage in enumerate(each.passages)} for each in rounds]
    assert [(step.threshold, step.kept, step.dropped) for step in trace.of(Reranked)] == [
        (3.0, scored, {"noise": 2.9}) for scored in kept
    ]
    leaf = engine.asked("leaf")
    assert [[(p["title"], p["text"]) for p in given["passages"]] for given in leaf] == [
        [(passage.title, passage.text) for passage in each.shown] for each in rounds
    ]
    statements = [[statement for statement, _ in each.learnt] for each in rounds]
    assert [step.statements for step in trace.of(Extracted)] == statements
    sources = [[each.shown[number - 1].id for _, number in each.learnt] for each in rounds]
    assert [step.sources for step in trace.of(Extracted)] == [[[one] for one in ids] for ids in sources]
    known = list(accumulate(statements))
    assert [given["known"] for given in engine.asked("main")] == known
    assert all(given.keys() == {"passages", "queries"} for given in leaf)  # not the question above them
    assert [given["queries"] for given in leaf] == [each.queries for each in rounds]
    assert [(step.missing, step.known) for step in trace.of(Missing)] == [
        (each.missing, learnt) for each, learnt in zip(rounds[:-1], known, strict=False)
    ]
    history = list(accumulate(each.queries for each in rounds))
    assert [(given["missing"], given["asked"]) for given in engine.asked("query")] == [
        (each.missing, asked) for each, asked in zip(rounds[:-1], history, strict=False)
    ]
    assert [(step.queries, step.repeated) for step in trace.of(Queried)] == [(each.queries, []) for each in rounds[1:]]
    assert [step.text for step in trace.of(Prompted)] == [each.own_knowledge for each in rounds if each.own_knowledge]
    assert (prediction.answer, prediction.confidence, prediction.missing) == (rounds[-1].answer, 5, "")
    assert prediction.known == known[-1]
    cited = [each.shown[number - 1] for each in rounds for _, number in each.learnt]
    assert prediction.passages == cited
    assert entailment.pairs == list(zip(map(str, cited), known[-1], strict=True))
    assert prediction.supported is True
