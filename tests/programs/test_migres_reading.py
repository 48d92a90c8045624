"""MIGRES: what is found, cut down, read, believed and remembered, switch by switch."""

import pytest
from migres_script import (
    BORN,
    FERRY,
    GAP,
    NOISE,
    NOT_YET,
    PAINTED,
    QUESTION,
    SCORES,
    SECOND,
    TABLE,
    THIRD,
    acts,
    ask,
    decide,
    inputs,
    learn,
    run,
    small,
    two_steps,
)
from support import TableEntailment, TableReranker, TableRetriever

from knowgap.errors import UsageError
from knowgap.programs.migres import MIGRES
from knowgap.programs.trace.steps import Compressed, Extracted, Judged, Prompted, Queried, Rejected, Reranked, Retrieved
from knowgap.retrieval.passage import Passage


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


@pytest.mark.parametrize(("compression", "words"), [("sentences", 3 + 6 + 3), ("none", 3 + 6 + 4 + 3)])
def test_the_sentence_filter_saves_tokens_of_external_knowledge(compression, words):
    program = small({QUESTION: [FERRY]}, sentence_scores(4.0, 5.0, -1.0, 3.0), compression=compression)
    prediction, _ = two_steps(program, leaf=[learn((PAINTED, 1))], query=[ask()])
    assert prediction.trace.cost.knowledge_tokens == words  # title and sentences; what was learnt from them is none


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
    assert prediction.trace.cost.knowledge_tokens == 4 * 3 + 2 * 3  # four passages, and what two of them come to


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
