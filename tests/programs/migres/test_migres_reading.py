"""MIGRES: what is found, cut down, read, believed and remembered, switch by switch."""

import pytest
from migres_script import BORN, FERRY, PAINTED, QUESTION, SCORES, SECOND, TABLE, THIRD, ask, learn, paper, two_steps

from knowgap.errors import UsageError
from knowgap.programs.trace.steps import Compressed, Extracted, Queried, Rejected, Reranked
from knowgap.retrieval.passage import Passage


def rejected(prediction):
    return [(step.what, step.why) for step in prediction.trace.of(Rejected)]


def read(engine):
    """Titles and texts of the passages in each call of the leaf module."""
    return [[(p["title"], p["text"]) for p in given["passages"]] for given in engine.asked("leaf")]


def test_delta_defaults_to_the_rerankers_own_and_must_be_known():
    assert paper(threshold=1.5).threshold == 1.5
    assert paper(threshold=1.5, delta=0.0).threshold == 0.0
    with pytest.raises(UsageError, match="the reranker table has no default threshold: set delta, or calibrate it"):
        two_steps(paper(threshold=None))
    assert two_steps(paper(threshold=None, delta=3.0))[0].answer == "Wick"


@pytest.mark.parametrize(
    ("delta", "kept"), [(1.0, ["ferry", "noise"]), (1.01, ["ferry"]), (4.0, ["ferry"]), (4.01, [])]
)
def test_delta_keeps_scores_at_or_above_it(delta, kept):
    prediction, _ = two_steps(paper(delta=delta, compression="none"), leaf=[learn()] * 3, query=[ask()])
    first = prediction.trace.of(Reranked)[0]
    assert (first.threshold, list(first.kept)) == (delta, kept)
    assert set(first.kept) | set(first.dropped) == {"ferry", "noise"}


def test_a_passage_hit_by_several_queries_keeps_its_highest_score():
    for queries in ([SECOND, THIRD], [THIRD, SECOND]):
        prediction, engine = two_steps(paper(), query=[ask(*queries)])
        assert prediction.trace.of(Reranked)[1].kept == {"moor": 6.0}
        assert engine.asked("leaf")[1]["queries"] == [SECOND]


def test_ties_are_broken_by_id():
    passages = [Passage(name, name.upper(), "Text.") for name in "cab"]
    score = {(QUESTION, name.upper()): 5.0 for name in "abc"}
    _, engine = two_steps(paper({QUESTION: passages}, score), leaf=[learn()], query=[ask()])
    assert [title for title, _ in read(engine)[0]] == ["A", "B", "C"]


def sentence_scores(whole, *sentences):
    starts = ["Ada", "It hangs", "It is"]
    return {(QUESTION, str(FERRY)): whole, **{(QUESTION, s): v for s, v in zip(starts, sentences, strict=True)}}


@pytest.mark.parametrize(
    ("whole", "sentences", "text", "words"),
    [
        (4.0, (5.0, -1.0, 3.0), "Ada Moor painted it in 1911. It is small.", 3 + 6 + 3),
        (4.0, (2.9, 4.0, -1.0), "It hangs in Tarn.", 3 + 4),
        (6.0, (5.0, 4.0, -1.0), FERRY.text, 3 + 13),  # it outscores all its sentences
        (5.0, (5.0, -1.0, -1.0), "Ada Moor painted it in 1911.", 3 + 6),  # it does not outscore the best
        (3.0, (1.0, 1.0, 1.0), FERRY.text, 3 + 13),
        (3.5, (4.0, 4.0, 4.0), FERRY.text, 3 + 13),  # nothing to cut
    ],
)
def test_sentence_filter_and_the_whole_passage_if_it_outscores_its_sentences(whole, sentences, text, words):
    program = paper({QUESTION: [FERRY]}, sentence_scores(whole, *sentences), title_in_sentences=False)
    prediction, engine = two_steps(program, leaf=[learn((PAINTED, 1))], query=[ask()])
    assert read(engine)[0] == [(FERRY.title, text)]
    assert [step.text for step in prediction.trace.of(Compressed)] == ([] if text == FERRY.text else [text])
    assert prediction.trace.cost.knowledge_tokens == words  # title and sentences; what was learnt from them is none
    # Sentences are scored without the title; entailment is asked with the whole passage.
    alone = ["Ada Moor painted it in 1911.", "It hangs in Tarn.", "It is small."]
    assert program.reranker.pairs[:4] == [(QUESTION, str(FERRY)), *[(QUESTION, sentence) for sentence in alone]]
    assert program.entailment.pairs == [(str(FERRY), PAINTED)]


@pytest.mark.parametrize("titles", [False, True])
def test_sentences_can_be_scored_with_the_title_before_them(titles):
    program = paper({QUESTION: [FERRY]}, title_in_sentences=titles)
    two_steps(program, leaf=[learn()], query=[ask()])
    before = f"{FERRY.title}: " if titles else ""
    assert program.reranker.pairs[1] == (QUESTION, f"{before}Ada Moor painted it in 1911.")


def entails_literally(premise, hypothesis):
    return 0.8 if hypothesis in premise else 0.3


def test_statements_that_no_cited_passage_entails_are_rejected():
    said = "Ada Moor painted it in 1911."
    program = paper(entails=entails_literally, compression="none", delta=0.0)
    leaf = [learn((said, 1, 2), ("It hangs in Wick.", 1), ("Out of nowhere.",), ("Of passage 7.", 7, 0, -1))]
    prediction, engine = two_steps(program, leaf=leaf)
    (extracted, *_) = prediction.trace.of(Extracted)
    assert (extracted.statements, extracted.sources) == ([said], [["ferry"]])  # of the two cited, the one that says it
    assert rejected(prediction) == [
        ("It hangs in Wick.", "no cited passage entails it"),
        ("Out of nowhere.", "no passage cited"),
        ("Of passage 7.", "no passage cited"),
    ]
    assert engine.asked("main")[0]["known"] == [said]


@pytest.mark.parametrize(("threshold", "taken"), [(0.3, True), (0.31, False)])
def test_entailment_threshold(threshold, taken):
    program = paper(entails=entails_literally, entailment_threshold=threshold)
    prediction, _ = two_steps(program, leaf=[learn((PAINTED, 1)), learn()], query=[ask(), ask()])
    assert (PAINTED in prediction.known) is taken


def test_entailment_switched_off_asks_nobody_and_takes_every_statement():
    program = paper(entails=lambda *_: 0.0, check_entailment=False)
    prediction, _ = two_steps(program, leaf=[learn((PAINTED, 1), ("Out of nowhere.",)), learn((BORN, 1))])
    assert prediction.known == [PAINTED, "Out of nowhere.", BORN]
    assert program.entailment.pairs == rejected(prediction) == []
    assert [passage.id for passage in prediction.passages] == ["ferry", "moor"]


@pytest.mark.parametrize("check", [False, True])
def test_the_question_itself_is_no_statement(check):
    program = paper(entails=lambda *_: 1.0, check_entailment=check)
    prediction, _ = two_steps(program, leaf=[learn((QUESTION.rstrip("?").upper(), 1), (PAINTED, 1)), learn((BORN, 1))])
    assert prediction.known == [PAINTED, BORN]
    assert rejected(prediction) == [(QUESTION.rstrip("?").upper(), "it repeats the question")]


@pytest.mark.parametrize("read_apart", [False, True])
def test_own_knowledge_is_numbered_and_read_for_all_queries(read_apart):
    leaf = [learn(("One.", 1)), learn(("Another.", 1))]
    program = paper({}, read_apart=read_apart)
    prediction, engine = two_steps(
        program, leaf=leaf, knowledge=[{"passage": "One fact."}, {"passage": "Another fact."}]
    )
    assert [given["queries"] for given in engine.asked("leaf")] == [[QUESTION], [SECOND, THIRD]]
    own = [(passage.id, passage.text) for passage in prediction.passages]
    assert own == [("model:1", "One fact."), ("model:2", "Another fact.")]


def test_memory_leaves_out_passages_read_and_queries_asked():
    prediction, _ = two_steps(paper(delta=0.0), query=[ask(QUESTION.upper().rstrip("?"), SECOND, f" {SECOND} ")])
    assert prediction.trace.of(Queried)[0].queries == [SECOND]
    assert len(prediction.trace.of(Queried)[0].repeated) == 2
    assert [list(step.kept) for step in prediction.trace.of(Reranked)] == [["ferry", "noise"], ["moor"]]


def test_without_memory_passages_are_read_and_queries_asked_again():
    program = paper(score={**SCORES, (SECOND, "The Grey Ferry"): 5.0}, memory=False)
    prediction, engine = two_steps(program, query=[ask(QUESTION, SECOND), ask(SECOND)], main=[])
    queried = [(step.queries, step.repeated) for step in prediction.trace.of(Queried)]
    assert queried[:2] == [([QUESTION, SECOND], []), ([SECOND], [])]
    assert list(prediction.trace.of(Reranked)[1].kept) == ["moor", "ferry"]
    assert [given["asked"] for given in engine.asked("query")[:2]] == [[QUESTION], [QUESTION]]


def test_read_apart_reads_each_querys_passages_in_a_call_of_its_own():
    table = {**TABLE, THIRD: [Passage("other", "Wick", "Wick is a town.")]}
    score = {**SCORES, (THIRD, "Wick"): 4.0}

    def leaf(given):
        return learn((f"From {given['passages'][0]['title']}.", 1), ("Both.", 1))

    apart, engine = two_steps(paper(table, score, read_apart=True), leaf=leaf)
    calls = [(given["queries"], [(p["id"], p["title"]) for p in given["passages"]]) for given in engine.asked("leaf")]
    assert sorted(calls[1:]) == [([SECOND], [(1, "Ada Moor")]), ([THIRD], [(1, "Wick")])]
    assert apart.known == ["From The Grey Ferry.", "Both.", "From Ada Moor.", "From Wick."]
    statements = [step.statements for step in apart.trace.of(Extracted)]
    assert statements[1:] == [["From Ada Moor.", "Both."], ["From Wick.", "Both."]]
    assert (apart.trace.cost.lm_calls, apart.trace.cost.critical_calls) == (6, 5)
    together, engine = two_steps(paper(table, score), leaf=leaf)
    assert [given["queries"] for given in engine.asked("leaf")] == [[QUESTION], [SECOND, THIRD]]
    assert together.trace.cost.lm_calls == 5
