"""MIGRES: what it reads in any case, whether it answers, goes on or stops, and what it makes of broken output."""

import pytest
from migres_script import (
    BORN,
    FERRY,
    GAP,
    MOOR,
    NOISE,
    NOT_YET,
    PAINTED,
    PAPER,
    QUESTION,
    SCORES,
    SECOND,
    TABLE,
    THIRD,
    ask,
    decide,
    last,
    learn,
    paper,
    two_steps,
)
from support import PLAINLY, UNREADABLE, TableEntailment, TableReranker, TableRetriever

from knowgap.programs.baselines.alce import VanillaS
from knowgap.programs.migres import MIGRES
from knowgap.programs.trace.steps import (
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
from knowgap.retrieval import EmbeddedReranker
from knowgap.retrieval.passage import Passage

PASSAGES = [Passage(f"p{n}", f"P{n}", f"Text {n}.") for n in range(6)]


def five(scores, **kwargs):
    """A program whose two queries find the same passages, with these scores, under δ = 3."""

    def score(query, text):
        return next((value for n, value in enumerate(scores) if text.startswith(f"P{n}")), -9.0)

    return MIGRES(
        TableRetriever({query: PASSAGES[: len(scores)] for query in (QUESTION, SECOND)}),
        reranker=TableReranker(score, default_threshold=3.0),
        entailment=TableEntailment(),
        **{**PAPER, **kwargs},
    )


def titles(engine, act="leaf"):
    return [[passage["title"] for passage in given["passages"]] for given in engine.asked(act)]


@pytest.mark.parametrize(
    ("said", "answered"),
    [
        ({"answerable": True, "answer": "Wick"}, True),
        ({"answerable": True, "answer": "Wick", "missing": "Nothing."}, True),
        ({"answer": "Wick"}, True),  # it does not say, but it answers and misses nothing
        ({"answer": "Wick", "missing": GAP}, False),
        ({"answerable": False, "answer": "The information is insufficient.", "missing": GAP}, False),
        ({"answerable": False, "answer": "", "missing": GAP}, False),
        ({"answerable": True, "answer": " "}, False),
        ({"answerable": True, "answer": "It is called Unanswerable."}, True),  # no word in a text decides
    ],
)
def test_the_main_module_says_whether_it_answers(said, answered):
    prediction, engine = two_steps(paper(), main=[said, decide("Wick")])
    assert engine.acts.count("main") == (1 if answered else 2)
    assert prediction.trace.stopped == "answered"
    assert prediction.answer == (said["answer"] if answered else "Wick")


@pytest.mark.parametrize(
    ("said", "read"),
    [
        ({"knows": True, "passage": BORN}, True),
        ({"passage": BORN}, True),
        ({"knows": False, "passage": "I'm sorry, but I don't have any information about that."}, False),
        ({"knows": True, "passage": ""}, False),
        ({"knows": True, "passage": "The Unknown is a film of 1927."}, True),
    ],
)
def test_the_model_says_whether_it_knows(said, read):
    prediction, engine = two_steps(paper({}, iterations=1), knowledge=[said], leaf=[learn((BORN, 1))])
    assert [step.text for step in prediction.trace.of(Prompted)] == ([said["passage"]] if read else [])
    assert ("leaf" in engine.acts) is read
    assert [step.value for step in prediction.trace.of(Judged)] == ([] if read else [False])


@pytest.mark.parametrize(("how", "act"), [("summary", "summarise"), ("snippet", "snippet")])
def test_a_passage_is_judged_once_and_at_most_k_of_them_in_a_step(how, act):
    verdicts = [{"relevant": True}, {"relevant": False}, {}, {"relevant": True}]

    def compress(given):
        number = int(given["passage"][1])
        return {**verdicts[number], how: f"Irrelevant at first sight: {number}."}

    program = five((9.0, 8.0, 7.0, 6.0), compression=how, top_k=2, prompt_knowledge=False)
    leaf = [learn(), learn((PAINTED, 1))]
    prediction, engine = two_steps(program, leaf=leaf, query=[ask(SECOND), ask(), ask()], main=[], **{act: compress})
    assert engine.acts[:7] == [act, act, "leaf", "main", "query", act, act]
    assert titles(engine) == [["P0"], ["P2", "P3"]]
    assert prediction.passages == [PASSAGES[2]]  # as it was retrieved
    assert sorted(given["passage"][:2] for given in engine.asked(act)) == ["P0", "P1", "P2", "P3"]
    shortened = [(step.how, step.passage) for step in prediction.trace.of(Compressed)]
    assert shortened == [(how, "p0"), (how, "p2"), (how, "p3")]
    cost = prediction.trace.cost
    assert cost.critical_calls == cost.lm_calls - 2  # two passages at a time
    assert cost.knowledge_tokens == 4 * 3 + 3 * 6  # four passages, and what three of them come to


@pytest.mark.parametrize("least", [0, 1, 3])
def test_the_best_passages_are_read_although_they_score_below_delta(least):
    program = five((2.0, 1.0, 2.5, 0.0), min_passages=least, prompt_knowledge=False)
    prediction, engine = two_steps(program, leaf=[learn()], query=[ask()])
    best = ["p2", "p0", "p1"][:least]
    first = prediction.trace.of(Reranked)[0]
    assert (list(first.kept), first.threshold) == (best, 3.0)
    assert titles(engine)[:1] == ([[name.upper() for name in best]] if least else [])


def test_the_papers_reranker_brings_defaults_of_its_own_and_the_presets_are_the_papers():
    def reading(program):
        return program.min_passages, program.compression, program.title_in_sentences

    bge, other = TableReranker(lambda *_: 0.0), TableReranker(lambda *_: 0.0)
    bge.name = "BAAI/bge-reranker-base"
    paper, retriever = (0, "sentences", True), TableRetriever({})
    for reranker in (None, EmbeddedReranker(), other):
        assert reading(MIGRES(retriever, reranker=reranker)) == (3, "none", False)
    assert reading(MIGRES(retriever, reranker=bge)) == paper
    assert reading(MIGRES(retriever, reranker=bge, compression="none")) == (0, "none", True)
    for name in MIGRES.presets:
        with pytest.warns(UserWarning, match="delta"):
            assert reading(MIGRES.from_preset(name)) == paper


@pytest.mark.parametrize("name", ["BAAI/bge-reranker-base", "/models/BGE-Reranker-Base/", "bge-reranker-large"])
def test_a_presets_delta_is_for_bge_reranker_base_and_left_out_for_another_with_a_warning(name):
    reranker = TableReranker(lambda *_: 0.0, -1.0)
    reranker.name = name
    for program in (MIGRES, VanillaS):
        if "base" in name.casefold():
            assert program.from_preset("open_domain", reranker=reranker).threshold == 5.0
        else:
            with pytest.warns(UserWarning, match=f"preset multi_hop: delta=3 is left out: .*the reranker is {name}"):
                assert program.from_preset("multi_hop", reranker=reranker).threshold == -1.0
        assert program.from_preset("multi_hop", reranker=reranker, delta=1.0).threshold == 1.0


@pytest.mark.parametrize("learnt", [True, False])
def test_without_knowledge_of_its_own_the_last_word_is_the_main_modules(learnt):
    leaf = [learn((PAINTED, 1)), learn((BORN, 1)) if learnt else learn()]
    prediction, engine = two_steps(paper(prompt_knowledge=False, iterations=2), leaf=leaf)
    assert engine.acts == ["leaf", "main", "query", "leaf", *(["main"] if learnt else [])]
    assert prediction.answer == ("Wick" if learnt else "unknown")
    assert prediction.trace.stopped == ("answered" if learnt else "iterations")
    assert prediction.missing == ("" if learnt else GAP)


def test_a_statement_may_rest_on_two_passages_together():
    joined = "The painter of The Grey Ferry was born in Wick."

    def entails(premise, hypothesis):
        return 0.9 if "P0" in premise and ("P1" in premise or hypothesis != joined) else 0.1

    program = five((9.0, 8.0, 7.0), prompt_knowledge=False)
    program.entailment = TableEntailment(entails)
    leaf = [learn((joined, 1, 2), (PAINTED, 2, 1), ("Of both.", 2, 3), ("Of one.", 2))]
    prediction, _ = two_steps(program, leaf=leaf, query=[ask()])
    first = prediction.trace.of(Extracted)[0]
    assert (first.statements, first.sources) == ([joined, PAINTED], [["p0", "p1"], ["p0"]])
    assert [step.what for step in prediction.trace.of(Rejected)] == ["Of both.", "Of one."]


@pytest.mark.parametrize("limit", [1, 2, 5])
def test_the_query_module_is_told_how_many_queries_it_may_write_and_what_found_nothing(limit):
    queries = [f"Query {n}?" for n in range(6)]
    noise = queries[:3]  # of the rest, nothing is read
    table, score = {**TABLE, **{query: [NOISE] for query in noise}}, {**SCORES, (noise[0], "Ferries"): 4.0}
    program = paper(table, score, max_queries=limit, iterations=3)
    prediction, engine = two_steps(program, main=[], query=[ask(SECOND, *queries), ask(*queries)])
    first, second = engine.asked("query")
    assert int(first["max_queries"]) == limit == len(prediction.trace.of(Queried)[0].queries)
    assert (first["found_nothing"], first["asked"]) == ([], [QUESTION])
    # The new statement does not rest on the passage that was read of the second query and those after it.
    assert second["asked"] == [QUESTION, SECOND, *queries[: limit - 1]]
    assert second["found_nothing"] == noise[: limit - 1]


@pytest.mark.parametrize("iterations", [1, 2, 3])
def test_iterations_are_a_cap_and_the_last_answer_follows(iterations):
    prediction, engine = two_steps(
        paper(iterations=iterations),
        leaf=lambda given: learn((f"Something of {given['passages'][0]['title']}.", 1)),
        main=lambda _: decide(NOT_YET, GAP),
        query=[ask(SECOND), ask(THIRD)],
        knowledge=lambda _: {"knows": True, "passage": "Some fact."},
    )
    assert prediction.trace.cost.iterations == iterations == len(prediction.trace.of(Retrieved))
    assert (engine.acts.count("main"), engine.acts.count("last")) == (iterations - 1, 1)
    assert engine.acts[-1] == "last"
    assert prediction.trace.stopped == "iterations"
    assert (prediction.answer, prediction.confidence) == ("Wick", 2)
    assert engine.asked("last")[0]["known"] == prediction.known
    assert len(prediction.known) == iterations
    assert prediction.missing == (GAP if iterations > 1 else "")


def test_main_is_not_asked_if_nothing_new_was_learnt():
    prediction, engine = two_steps(
        paper(table={QUESTION: [FERRY], SECOND: [MOOR]}),
        leaf=[learn((PAINTED, 1)), learn((PAINTED, 1))],
        main=[decide(NOT_YET, GAP)],
        query=[ask(SECOND), ask("A dead end?"), ask("Another?"), ask("And another?")],
    )
    assert engine.acts == [
        *("leaf", "main", "query"),
        *("leaf", "query"),  # it learnt what it knew
        *("knowledge", "query"),
        *("knowledge", "query"),
        *("knowledge", "last"),
    ]
    assert len(prediction.trace.of(Missing)) == 1
    assert {given["missing"] for given in engine.asked("query")} == {GAP}
    assert prediction.missing == GAP


def test_if_all_queries_were_asked_the_missing_information_is_searched():
    prediction, _ = two_steps(paper(), query=[ask(QUESTION, QUESTION.lower())])
    assert prediction.trace.of(Queried)[0].queries == [GAP]
    assert len(prediction.trace.of(Queried)[0].repeated) == 2
    assert prediction.trace.of(Retrieved)[1].queries == [GAP]


def test_if_nothing_new_can_be_asked_it_stops_and_answers():
    prediction, engine = two_steps(paper(), query=[ask(QUESTION), ask(GAP)], main=[decide(NOT_YET, GAP)])
    assert [step.queries for step in prediction.trace.of(Queried)] == [[GAP], []]
    assert [step.reason for step in prediction.trace.of(Stopped)] == ["no new query"]
    assert engine.acts[-1] == "last"
    assert prediction.answer == "Wick"


@pytest.mark.parametrize(("said", "taken"), [(9, 5), (5, 5), (3, 3), (1, 1), (0, 1), (-4, 1)])
def test_confidence_is_held_between_one_and_five(said, taken):
    answered, _ = two_steps(paper(), main=[decide("Wick", confidence=said)])
    assert answered.confidence == answered.trace.of(Answered)[0].confidence == taken
    at_last, _ = two_steps(paper(iterations=1), last=[last("Wick", confidence=said)])
    assert at_last.confidence == taken


@pytest.mark.parametrize(
    ("missing", "taken"), [("", "Not said."), ("a date", "Not said."), ("ten chars!", "ten chars!")]
)
def test_missing_information_of_few_characters_gives_way_to_the_explanation(missing, taken):
    prediction, engine = two_steps(paper(), main=[decide(NOT_YET, missing, explanation="Not said."), decide("Wick")])
    assert prediction.trace.of(Missing)[0].missing == taken
    assert engine.asked("query")[0]["missing"] == taken


# Output that cannot be read.


@pytest.mark.parametrize(
    ("act", "shows"),
    [
        ("leaf", lambda prediction, _: prediction.known == []),
        ("main", lambda _, engine: engine.asked("query")[0]["missing"] == QUESTION),
        ("query", lambda prediction, _: prediction.trace.of(Queried)[0].queries == [GAP]),
        ("knowledge", lambda prediction, _: prediction.trace.of(Prompted) == []),
        ("last", lambda _, engine: engine.acts[-1] == "reader"),
        ("summarise", lambda _, engine: "leaf" not in engine.acts),
    ],
)
def test_unreadable_output_counts_as_nothing_found(act, shows):
    compression = "summary" if act == "summarise" else "sentences"
    program = paper({} if act == "knowledge" else None, iterations=2, compression=compression)
    prediction, engine = two_steps(program, **{act: UNREADABLE}, reader=PLAINLY)
    assert {step.act for step in prediction.trace.of(Malformed)} == {act}
    assert prediction.answer == (PLAINLY if act == "last" else "Wick")
    assert shows(prediction, engine)


def test_repeated_and_empty_statements_are_one_and_none():
    leaf = [learn((PAINTED, 1), (f"  {PAINTED}\n", 1), ("   ", 1)), learn()]
    assert two_steps(paper(), leaf=leaf, query=[ask()])[0].known == [PAINTED]


# Presets.


@pytest.mark.parametrize(
    ("name", "iterations", "delta", "style"),
    [("multi_hop", 5, 3.0, "short"), ("open_domain", 3, 5.0, "short"), ("commonsense", 5, 0.0, "yes_no")],
)
def test_presets_are_those_of_table_12(name, iterations, delta, style):
    bge = TableReranker(lambda query, text: 0.0, -1.0)
    bge.name = "BAAI/bge-reranker-base"
    parts = {"entailment": TableEntailment()}
    program = MIGRES.from_preset(name, reranker=bge, **parts)
    assert (program.iterations, program.threshold, program.style) == (iterations, delta, style)
    assert (program.top_k, program.retrieve_k, program.max_queries) == (5, 50, 3)
