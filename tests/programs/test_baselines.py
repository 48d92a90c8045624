"""What the baselines ask, search and record, each in its paper's way."""

import pytest
from support import OverlapRetriever, TableRetriever, play

from knowgap.programs.baselines.ircot import IRCoT
from knowgap.programs.baselines.iter_retgen import IterRetGen
from knowgap.programs.baselines.least_to_most import LeastToMost
from knowgap.programs.baselines.rag import RAG, ChainOfNote, ChainOfThought, Direct, RAGChainOfThought
from knowgap.programs.baselines.react import ReAct
from knowgap.programs.baselines.self_ask import SelfAsk
from knowgap.retrieval.passage import Passage
from knowgap.signatures import STYLES

FILM = Passage("film", "Lanternfish", "Lanternfish is a 1971 film. It was directed by Mira Osk. It won two prizes.")
DIRECTOR = Passage("director", "Mira Osk", "Mira Osk was a film director. She was born in Tarn.")
TOWN = Passage("town", "Tarn", "Tarn is a harbour town. It has a lighthouse.")
PRIZE = Passage("prize", "Osk Prize", "The Osk Prize honours short films. It is given every May.")
CORPUS = [FILM, DIRECTOR, TOWN, PRIZE]
QUESTION = "Where was the director of Lanternfish born?"
WHO, WHERE = "Who directed Lanternfish?", "Where was Mira Osk born?"
ONE, TWO = "Mira Osk directed Lanternfish.", "Mira Osk was born in Tarn."
SHORT, LONG = STYLES["short"], STYLES["long"]


@pytest.fixture
def retriever():
    return TableRetriever(
        {
            QUESTION: [FILM, PRIZE],
            ONE: [DIRECTOR, FILM],
            f"{ONE} unknown {QUESTION}": [DIRECTOR, FILM],
            WHO: [FILM, DIRECTOR],
            WHERE: [DIRECTOR, TOWN],
            "Lanternfish director": [FILM, PRIZE],
            "Mira Osk birthplace": [DIRECTOR, FILM, TOWN],
        }
    )


# Direct, CoT, RAG, RAG with CoT, Chain-of-Note

REPLY = {"reasoning": "It says so.", "note": "1: she directed it. 2: she was born in Tarn.", "answer": " Tarn "}


@pytest.mark.parametrize(
    ("program", "outputs"),
    [
        (Direct, ("answer",)),
        (ChainOfThought, ("reasoning", "answer")),
        (RAG, ("answer",)),
        (RAGChainOfThought, ("reasoning", "answer")),
        (ChainOfNote, ("note", "answer")),
    ],
)
def test_one_call_answers_from_the_first_k_passages(program, outputs):
    read = CORPUS[:3] if program.needs_retriever else []
    asked = program(TableRetriever({QUESTION: CORPUS}), **({"top_k": 3} if read else {}))
    prediction, engine = play(asked, QUESTION, answer={name: REPLY[name] for name in outputs})
    assert (prediction.answer, prediction.passages) == ("Tarn", read)
    [(fields, inputs)] = engine.calls
    assert fields == outputs
    assert [(p["id"], p["title"]) for p in inputs.get("passages", [])] == [(n, p.title) for n, p in enumerate(read, 1)]
    for name in set(outputs) - {"answer"}:
        assert prediction[name] == REPLY[name]


# ITER-RETGEN


def test_iter_retgen_searches_with_the_last_output(retriever):
    replies = [{"reasoning": ONE, "answer": "unknown"}, {"reasoning": TWO, "answer": "Tarn"}]
    prediction, engine = play(IterRetGen(retriever), QUESTION, answer=replies)
    assert (prediction.answer, prediction.reasoning, prediction.passages) == ("Tarn", TWO, [DIRECTOR, FILM])
    assert retriever.searched == [QUESTION, f"{ONE} unknown {QUESTION}"]
    assert [p["title"] for p in engine.calls[1][1]["passages"]] == ["Mira Osk", "Lanternfish"]


# IRCoT


def sentence(text, finished=False):
    return {"reasoning": text, "finished": finished}


def test_ircot_searches_with_each_sentence(retriever):
    script = {"step": [sentence(ONE), sentence(TWO, True)], "reader": {"reasoning": "So.", "answer": "Tarn"}}
    prediction, engine = play(IRCoT(retriever), QUESTION, **script)
    assert (prediction.answer, prediction.reasoning, prediction.chain) == ("Tarn", "So.", [ONE, TWO])
    assert retriever.searched == [QUESTION, ONE]
    assert prediction.passages == [FILM, PRIZE, DIRECTOR]
    assert prediction.trace.stopped == "answered"
    assert [inputs.get("known") for _, inputs in engine.calls] == [[], [ONE], None]


# Least-to-Most

KNOWN = [{"question": WHO, "answer": "Mira Osk"}, {"question": WHERE, "answer": "Tarn"}]


def test_least_to_most_answers_with_the_help_of_earlier_answers():
    script = {"decompose": {"questions": [WHO, QUESTION.upper(), WHERE]}, "solve": ["Mira Osk", "Tarn", "in Tarn"]}
    prediction, engine = play(LeastToMost(style="long"), QUESTION, **script)
    assert (prediction.answer, prediction.passages) == ("in Tarn", [])
    asked = [(i["question"], i["sub_answers"], i["style"]) for i in engine.asked("solve")]
    assert asked == [(WHO, [], SHORT), (WHERE, KNOWN[:1], SHORT), (QUESTION, KNOWN, LONG)]
    assert [sub.model_dump() for sub in prediction.sub_answers] == KNOWN


# Self-Ask


def follow(query):
    return {"needed": bool(query), "query": query}


def test_self_ask_looks_up_follow_ups_until_none_is_needed(retriever):
    script = {"follow_up": [follow(WHO), follow(WHERE), follow("")], "intermediate": ["Mira Osk", "Tarn"]}
    prediction, engine = play(SelfAsk(retriever, style="long"), QUESTION, **script, final="Tarn!")
    assert (prediction.answer, prediction.trace.stopped) == ("Tarn!", "no follow-up needed")
    assert retriever.searched == [WHO, WHERE]
    assert [sub.model_dump() for sub in prediction.sub_answers] == KNOWN
    assert prediction.passages == [FILM, DIRECTOR, TOWN]
    assert [inputs["sub_answers"] for inputs in engine.asked("follow_up")] == [[], KNOWN[:1], KNOWN]
    assert [(i["question"], i["style"]) for i in engine.asked("intermediate")] == [(WHO, SHORT), (WHERE, SHORT)]
    assert [(i["sub_answers"], i["style"]) for i in engine.asked("final")] == [(KNOWN, LONG)]


def test_self_ask_looks_up_the_question_if_it_needs_no_follow_up():
    program = SelfAsk(OverlapRetriever(CORPUS), style="long")
    prediction, engine = play(program, QUESTION, follow_up=follow(""), intermediate="Tarn")
    assert (prediction.answer, prediction.sub_answers) == ("Tarn", [])
    assert engine.calls[-1][1]["style"] == LONG
    assert [p["title"] for p in engine.calls[-1][1]["passages"]] == [p.title for p in prediction.passages]


# ReAct


def turn(thought, tool="search", **arguments):
    return {"next_thought": thought, "next_tool_name": tool, "next_tool_args": arguments}


def test_react_thinks_searches_and_answers_from_the_trajectory(retriever):
    turns = [
        turn("I need the director.", query="Lanternfish director"),
        turn("Now her birthplace.", query="Mira Osk birthplace"),
        turn("That settles it.", "finish"),
    ]
    prediction, engine = play(ReAct(retriever), QUESTION, **{"turn": turns, "extract.predict": "Tarn"})
    assert (prediction.answer, prediction.passages) == ("Tarn", [FILM, PRIZE, DIRECTOR, TOWN])
    assert retriever.searched == ["Lanternfish director", "Mira Osk birthplace"]
    assert prediction.trace.stopped == "finished"
    seen = [inputs["trajectory"] for _, inputs in engine.calls]
    assert "Lanternfish: Lanternfish is a 1971 film." in seen[1]
    assert "Mira Osk was a film director" not in seen[1]
    assert seen[2] == seen[3]
    assert "I need the director." in seen[3]
