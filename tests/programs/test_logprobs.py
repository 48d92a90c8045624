"""The tokens of an output field are found in the reply, whatever its format and the tokens' borders."""

import time
from concurrent.futures import ThreadPoolExecutor

import dspy
import pytest

from knowgap.programs.logprobs import Token, pop_tokens, value_tokens


def tokens(*pieces):
    """Pieces with the log-probabilities -1, -2, -3, …"""
    return [Token(piece.encode(), -float(n)) for n, piece in enumerate(pieces, start=1)]


@pytest.mark.parametrize(
    ("pieces", "field", "value", "expected"),
    [
        (  # the chat format
            ("[[ ## ", "answer", " ## ]]", "\n", "Vill", "a Rosa", "\n\n[[ ##", " confidence ## ]]\n0.7"),
            "answer",
            "Villa Rosa",
            [-5, -6],
        ),
        (  # a word of the value before the header is not the value
            ("The answer", " is no.\n", "[[ ## answer ## ]]", "\nno", "\n"),
            "answer",
            "no",
            [-4],
        ),
        (  # JSON, escaped or not
            ('{"answer"', ': "', 'say \\"', 'ja\\"', '"}'),
            "answer",
            'say "ja"',
            [-3, -4],
        ),
        (('{"answer": "', "Malm\\u00f6", '"}'), "answer", "Malmö", [-2]),
        # a token that reaches over a border of the value belongs to it
        (('{"answer":', ' "Ro', 'me"', "}"), "answer", "Rome", [-2, -3]),
        (  # tokens that lost their white space
            ("[[", "##", "answer", "##", "]]", "Villa", " ", "Rosa", "\n", "[["),
            "answer",
            "Villa Rosa",
            [-6, -7, -8],
        ),
        # what cannot be found is not guessed
        (("Rome",), "answer", "Rome", None),
        (("[[ ## answer ## ]]\n", "Paris"), "answer", "Rome", None),
        (("[[ ## answer ## ]]\n",), "answer", "", None),
    ],
)
def test_the_tokens_of_a_value(pieces, field, value, expected):
    found = value_tokens(tokens(*pieces), field, value)
    assert (found and [token.logprob for token in found]) == expected


def test_letters_spread_over_several_tokens_are_put_together_by_their_bytes():
    first, second = "ö".encode()[:1], "ö".encode()[1:]
    content = [
        {"token": "[[ ## answer ## ]]\nMalm", "logprob": -1.0, "bytes": None},
        {"token": "\\xc3", "logprob": -2.0, "bytes": list(first)},
        {"token": "\\xb6", "logprob": -3.0, "bytes": list(second)},
    ]
    prediction = dspy.Prediction(answer="Malmö", logprobs={"content": content})
    assert [token.logprob for token in value_tokens(pop_tokens(prediction), "answer", "Malmö")] == [-1, -2, -3]


def test_tokens_are_taken_out_of_the_prediction():
    prediction = dspy.Prediction(answer="x", logprobs={"content": [{"token": "x", "logprob": -0.5}]})
    assert pop_tokens(prediction) == [Token(b"x", -0.5)]
    assert prediction.toDict() == {"answer": "x"}
    assert pop_tokens(prediction) == [Token(b"x", -0.5)]  # for an equal request


def test_threads_that_share_a_reply_get_the_same_tokens():
    class Slow(list):
        def __iter__(self):
            time.sleep(0.02)
            return super().__iter__()

    prediction = dspy.Prediction(answer="x", logprobs={"content": Slow([{"token": "x", "logprob": -0.5}])})
    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(pop_tokens, [prediction] * 4)) == [[Token(b"x", -0.5)]] * 4
