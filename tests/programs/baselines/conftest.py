"""What the tests of the baselines share: a corpus of two hops, and one way to ask under a script."""

import dspy
import pytest
from support import by_output, scripted_lm

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
def ask():
    """Call a program on the question under a script or rule: prediction, engine."""

    def call(program, script, question=QUESTION):
        lm, engine = scripted_lm(script if callable(script) else by_output(script))
        with dspy.context(lm=lm):
            return program(question=question), engine

    return call


@pytest.fixture
def kinds():
    """The kinds of a trace's steps in order."""
    return lambda prediction: [step.kind for step in prediction.trace.steps]
