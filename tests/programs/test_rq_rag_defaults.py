"""RQ-RAG by default: a query where one is needed, an end when an answer is supported, each set of passages once."""

import pytest
from support import PLAINLY, UNREADABLE, TableRetriever, play

from knowgap.programs.rq_rag import RQRAG
from knowgap.programs.trace.steps import Refined, Rejected, Selected
from knowgap.programs.trajectory import Trajectory, select_trajectory
from knowgap.retrieval.passage import Passage

QUESTION = "In which country was the director of The Salt Road born?"
WHO, WHERE, FILM = "Who directed The Salt Road?", "Where was Ivo Brandt born?", "The Salt Road 1955 film"
ROAD = Passage("road", "The Salt Road", "Ivo Brandt directed it in 1955.")
BRANDT = Passage("brandt", "Ivo Brandt", "Ivo Brandt was born in Varna, Bulgaria.")
TABLE = {WHO: [ROAD], WHERE: [BRANDT], FILM: [ROAD]}


def run(*queries, table=None, answer=None, **settings):
    """Ask; the replies of `refine` in order, and answers whose confidence grows with the passages."""

    def supported(given):
        names = {0: ("France", 0.9), 1: ("Germany", 0.5), 2: ("Bulgaria", 0.95)}
        return dict(zip(("answer", "confidence"), names[len(given["passages"])], strict=True))

    refine = [{"queries": list(each)} for each in queries]
    program = RQRAG(TableRetriever(TABLE if table is None else table), **settings)
    return play(program, QUESTION, refine=refine, answer=answer or supported)


def paths(prediction):
    return [leaf["path"] for leaf in prediction.leaves]


def test_two_steps_take_four_calls_and_a_supported_answer_ends_the_search():
    prediction, engine = run([WHO], [WHERE])
    assert engine.acts == ["refine", "answer"] * 2
    assert (prediction.answer, prediction.path, prediction.trace.stopped) == ("Bulgaria", "1/1", "enough")
    assert (prediction.confidence, prediction.measure) == (0.95, "stated confidence")
    assert prediction.passages == [ROAD, BRANDT]
    assert [(step.action, step.query) for step in prediction.trace.of(Refined)] == [("refine", WHO), ("refine", WHERE)]
    assert [len(given["passages"]) for given in engine.asked("refine")] == [0, 1]
    (step,) = prediction.trace.of(Selected)
    assert (step.strategy, step.scores) == ("supported", {"1": 0.5, "1/1": 0.95})
    assert paths(prediction) == ["1", "1/1"]  # the root, which read nothing, is not asked


def test_enough_ends_the_search_at_the_children_of_the_root():
    prediction, engine = run([WHO], stop_confidence=0.5)
    assert (engine.acts, prediction.trace.stopped) == (["refine", "answer"], "enough")
    assert prediction.answer == "Germany"


def test_without_enough_the_tree_grows_to_its_depth():
    prediction, engine = run([WHO], [WHERE], depth=2, stop_confidence=None)
    assert (prediction.trace.stopped, prediction.trace.cost.critical_calls) == ("depth", 3)
    assert sorted(engine.acts) == ["answer", "answer", "refine", "refine"]


@pytest.mark.parametrize("queries", [[], [WHO], [f" {WHO.lower()} "]])
def test_an_empty_list_or_one_of_earlier_queries_ends_the_path(queries):
    prediction, engine = run([WHO], queries)
    assert engine.acts == ["refine", "answer", "refine"]
    assert (prediction.answer, prediction.trace.stopped) == ("Germany", "no new query")
    assert len(prediction.trace.of(Rejected)) == len(queries)


def test_a_question_that_needs_no_query_is_answered_from_memory():
    prediction, engine = run([])
    assert engine.acts == ["refine", "answer"]
    assert (prediction.answer, prediction.path, prediction.passages) == ("France", "direct", [])


@pytest.mark.parametrize(("most", "refined"), [(1, [WHO]), (2, [WHO, WHERE]), (3, [WHO, WHERE, FILM])])
def test_a_node_gets_max_queries_at_most(most, refined):
    prediction, engine = run([WHO, WHERE, FILM], depth=1, max_queries=most, answer_once=False)
    assert [step.query for step in prediction.trace.of(Refined)] == refined
    over = [step.what for step in prediction.trace.of(Rejected) if "limit" in step.why]
    assert [*refined, *over] == [WHO, WHERE, FILM]
    assert int(engine.asked("refine")[0]["max_queries"]) == most
    assert paths(prediction) == ["1", "2", "3"][:most]


@pytest.mark.parametrize("once", [True, False])
def test_what_another_path_has_found_is_answered_once(once):
    prediction, engine = run([WHO, FILM], depth=1, max_queries=2, answer_once=once)
    assert paths(prediction) == ["1", "2"][: 1 if once else 2]
    assert len(engine.asked("answer")) == (1 if once else 2)
    why = [(step.what, step.why) for step in prediction.trace.of(Rejected)]
    assert why == ([(FILM, "another path has found the same passages")] if once else [])


def test_a_level_that_finds_nothing_new_ends_the_search():
    prediction, engine = run([WHO], [FILM])
    assert (engine.acts, prediction.trace.stopped) == (["refine", "answer", "refine"], "nothing new")
    assert prediction.answer == "Germany"


@pytest.mark.parametrize("unread", [UNREADABLE, {"answer": "", "confidence": 0}])
def test_memory_answers_only_where_no_path_with_passages_does(unread):
    def answer(given):
        return unread if given["passages"] else {"answer": "France", "confidence": 0.2}

    prediction, _ = run([WHO], [], answer=answer)
    assert (prediction.answer, prediction.path) == ("France", "direct")


@pytest.mark.parametrize(
    ("depth", "answer", "searched", "expected"),
    [(4, UNREADABLE, [QUESTION], PLAINLY), (4, {"answer": "France"}, [], "France"), (0, UNREADABLE, [], "unknown")],
)
def test_a_question_whose_replies_cannot_be_read_is_answered_by_plain_retrieval(depth, answer, searched, expected):
    retriever = TableRetriever({QUESTION: [ROAD]})
    prediction, _ = play(RQRAG(retriever, depth=depth), QUESTION, refine=UNREADABLE, answer=answer)
    assert (prediction.answer, retriever.searched) == (expected, searched)
    assert prediction.passages == [ROAD] * len(searched)


def test_a_supported_answer_is_chosen_before_one_from_memory():
    memory = Trajectory(answer="France", stated=0.9)
    doubtful = Trajectory("1", ((WHO, (ROAD,)),), answer="Germany", stated=0.3)
    better = Trajectory("2", ((WHERE, (BRANDT,)),), answer="Bulgaria", stated=0.4)
    for leaves, best in (([memory, doubtful, better], better), ([memory, doubtful], doubtful), ([memory], memory)):
        selection = select_trajectory("supported", leaves)
        assert selection is not None
        assert (selection.best.answer, selection.measured) == (best.answer, False)
    assert select_trajectory("confidence", [memory, doubtful]).best.answer == "France"
