"""The tokens of an output field are found in the reply, whatever its format and the tokens' borders."""

import dspy
import pytest

from knowgap.programs.logprobs import Token, set_tokens_aside, value_tokens


def tokens(*pieces):
    """Pieces with the log-probabilities -1, -2, -3, …"""
    return [Token(piece.encode(), -float(n)) for n, piece in enumerate(pieces, start=1)]


@pytest.mark.parametrize(
    ("pieces", "field", "value", "expected"),
    [
        # a word of the value before the header is not the value
        (("The answer", " is no.\n", "[[ ## answer ## ]]", "\nno", "\n"), "answer", "no", [-4]),
        # JSON, escaped or not; a token that reaches over a border of the value belongs to it
        (('{"answer"', ': "', 'say \\"', 'ja\\""', "}"), "answer", 'say "ja"', [-3, -4]),
        (('{"answer": "', "Malm\\u00f6", '"}'), "answer", "Malmö", [-2]),
        # tokens that lost their white space
        (("[[##", "answer", "##]]", "Villa", " ", "Rosa", "\n", "[["), "answer", "Villa Rosa", [-4, -5, -6]),
        # what cannot be found is not guessed
        (("Rome",), "answer", "Rome", None),
        (("[[ ## answer ## ]]\n", "Paris"), "answer", "Rome", None),
        (("[[ ## answer ## ]]\n",), "answer", "", None),
    ],
)
def test_the_tokens_of_a_value(pieces, field, value, expected):
    prediction = dspy.Prediction(**{field: value})
    prediction._tokens = tokens(*pieces)
    found = value_tokens(prediction, field)
    assert (found and [token.logprob for token in found]) == expected


def test_tokens_are_taken_out_of_the_prediction_and_spelled_by_their_bytes():
    first, second = "ö".encode()[:1], "ö".encode()[1:]
    content = [
        {"token": "[[ ## answer ## ]]\nMalm", "logprob": -1.0, "bytes": None},
        {"token": "\\xc3", "logprob": -2.0, "bytes": list(first)},
        {"token": "\\xb6", "logprob": -3.0, "bytes": list(second)},
    ]
    prediction = dspy.Prediction(answer="Malmö", logprobs={"content": content})
    set_tokens_aside(prediction)
    assert prediction.toDict() == {"answer": "Malmö"}
    assert [token.logprob for token in value_tokens(prediction, "answer")] == [-1, -2, -3]
    assert value_tokens(dspy.Prediction(answer="x"), "answer") is None
    assert value_tokens(None, "answer") is None
