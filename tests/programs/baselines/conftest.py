"""What the tests of the baselines share: a corpus of two hops, and one way to ask under a script."""

import dspy
import pytest
from support import ScriptedEngine, TableRetriever, by_output

from knowgap.retrieval.passage import Passage

FILM = Passage("film", "Lanternfish", "Lanternfish is a 1971 film. It was directed by Mira Osk. It won two prizes.")
DIRECTOR = Passage("director", "Mira Osk", "Mira Osk was a film director. She was born in Tarn.")
TOWN = Passage("town", "Tarn", "Tarn is a harbour town. It has a lighthouse.")
PRIZE = Passage("prize", "Osk Prize", "The Osk Prize honours short films. It is given every May.")
QUESTION = "Where was the director of Lanternfish born?"


@pytest.fixture
def corpus():
    return [FILM, DIRECTOR, TOWN, PRIZE]


@pytest.fixture
def whole(corpus):
    """A retriever that finds the corpus, in its order, for the question."""
    return TableRetriever({QUESTION: corpus})


@pytest.fixture
def ask():
    """Call a program on the question under a script, a rule or an engine: prediction, engine."""

    def call(program, script, question=QUESTION):
        engine = script
        if not isinstance(script, ScriptedEngine):
            engine = ScriptedEngine(script if callable(script) else by_output(script))
        with dspy.context(lm=dspy.LM("test/scripted", engine=engine, cache=False, num_retries=0)):
            return program(question=question), engine

    return call


@pytest.fixture
def kinds():
    """The kinds of a trace's steps in order."""
    return lambda prediction: [step.kind for step in prediction.trace.steps]
