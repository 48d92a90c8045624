"""The tokens of an output field are found in the reply, whatever its format and the tokens' borders."""

import math

import dspy
import pytest

from knowgap.programs.logprobs import field_logprobs, perplexity, pop_token_logprobs


def tokens(*pieces):
    """Pieces with the log-probabilities -1, -2, -3, …"""
    return [(piece.encode(), -float(n)) for n, piece in enumerate(pieces, start=1)]


@pytest.mark.parametrize(
    ("pieces", "field", "value", "expected"),
    [
        (  # the chat format
            ("[[ ## ", "answer", " ## ]]", "\n", "Vill", "a Rosa", "\n\n[[ ##", " confidence ## ]]\n0.7"),
            "answer",
            "Villa Rosa",
            ([-1, -2, -3, -4, -5, -6], [-5, -6]),
        ),
        (  # a word of the value before the header is not the value
            ("The answer", " is no.\n", "[[ ## answer ## ]]", "\nno", "\n"),
            "answer",
            "no",
            ([-1, -2, -3, -4], [-4]),
        ),
        (  # JSON, escaped or not
            ('{"answer"', ': "', 'say \\"', 'ja\\"', '"}'),
            "answer",
            'say "ja"',
            ([-1, -2, -3, -4], [-3, -4]),
        ),
        (('{"answer": "', "Malm\\u00f6", '"}'), "answer", "Malmö", ([-1, -2], [-2])),
        (('{"answer": "', "Malmö", '"}'), "answer", "Malmö", ([-1, -2], [-2])),
        # XML
        (("<query>", "\nwho", " was he", "\n</query>"), "query", "who was he", ([-1, -2, -3], [-2, -3])),
        # a token that reaches over a border of the value belongs to it
        (('{"answer":', ' "Ro', 'me"', "}"), "answer", "Rome", ([-1, -2, -3], [-2, -3])),
        (  # tokens that lost their white space
            ("[[", "##", "answer", "##", "]]", "Villa", " ", "Rosa", "\n", "[["),
            "answer",
            "Villa Rosa",
            ([-1, -2, -3, -4, -5, -6, -7, -8], [-6, -7, -8]),
        ),
        # what cannot be found is not guessed
        ((), "answer", "Rome", None),
        (("Rome",), "answer", "Rome", None),
        (("[[ ## answer ## ]]\n", "Paris"), "answer", "Rome", None),
        (("[[ ## answer ## ]]\n",), "answer", "", None),
    ],
)
def test_the_tokens_of_a_value(pieces, field, value, expected):
    assert field_logprobs(tokens(*pieces), field, value) == expected


def test_letters_spread_over_several_tokens_are_put_together_by_their_bytes():
    first, second = "ö".encode()[:1], "ö".encode()[1:]
    content = [
        {"token": "[[ ## answer ## ]]\nMalm", "logprob": -1.0, "bytes": None},
        {"token": "\\xc3", "logprob": -2.0, "bytes": list(first)},
        {"token": "\\xb6", "logprob": -3.0, "bytes": list(second)},
    ]
    prediction = dspy.Prediction(answer="Malmö", logprobs={"content": content})
    assert field_logprobs(pop_token_logprobs(prediction), "answer", "Malmö").value == [-1, -2, -3]


def test_tokens_are_taken_out_of_the_prediction():
    prediction = dspy.Prediction(answer="x", logprobs={"content": [{"token": "x", "logprob": -0.5}]})
    assert pop_token_logprobs(prediction) == [(b"x", -0.5)]
    assert prediction.toDict() == {"answer": "x"}
    assert pop_token_logprobs(prediction) == []
    assert pop_token_logprobs(dspy.Prediction(answer="x", logprobs={"content": []})) == []


def test_perplexity_by_hand():
    assert perplexity([math.log(0.5), math.log(0.125)]) == pytest.approx(4.0)  # 1 / sqrt(1/16)
    assert perplexity([0.0]) == 1.0
    assert perplexity([]) == math.inf
    assert math.isfinite(perplexity([-10_000.0]))
