"""The tokens of an output field are found in the reply, whatever its format and the tokens' borders."""

import math

import dspy
import pytest

from knowgap.programs.logprobs import field_logprobs, perplexity, pop_token_logprobs


def tokens(*pieces):
    """Pieces with the log-probabilities -1, -2, -3, …"""
    return [(piece.encode(), -float(n)) for n, piece in enumerate(pieces, start=1)]


def test_the_value_behind_its_header_in_the_chat_format():
    reply = tokens("[[ ## ", "answer", " ## ]]", "\n", "Vill", "a Rosa", "\n\n[[ ##", " confidence ## ]]\n0.7")
    found = field_logprobs(reply, "answer", "Villa Rosa")
    assert found == ([-1, -2, -3, -4, -5, -6], [-5, -6])


def test_a_word_of_the_value_before_the_header_is_not_the_value():
    reply = tokens("The answer", " is no.\n", "[[ ## answer ## ]]", "\nno", "\n")
    assert field_logprobs(reply, "answer", "no").value == [-4]


def test_the_value_in_json_escaped_or_not():
    assert field_logprobs(tokens('{"answer"', ': "', 'say \\"', 'ja\\"', '"}'), "answer", 'say "ja"').value == [-3, -4]
    assert field_logprobs(tokens('{"answer": "', "Malm\\u00f6", '"}'), "answer", "Malmö").value == [-2]
    assert field_logprobs(tokens('{"answer": "', "Malmö", '"}'), "answer", "Malmö").value == [-2]


def test_the_value_in_xml():
    assert field_logprobs(tokens("<query>", "\nwho", " was he", "\n</query>"), "query", "who was he").value == [-2, -3]


def test_a_token_that_reaches_over_a_border_of_the_value_belongs_to_it():
    assert field_logprobs(tokens('{"answer":', ' "Ro', 'me"', "}"), "answer", "Rome") == ([-1, -2, -3], [-2, -3])


def test_tokens_that_lost_their_white_space_are_found_all_the_same():
    reply = tokens("[[", "##", "answer", "##", "]]", "Villa", " ", "Rosa", "\n", "[[")
    assert field_logprobs(reply, "answer", "Villa Rosa") == ([-1, -2, -3, -4, -5, -6, -7, -8], [-6, -7, -8])


@pytest.mark.parametrize("reply", [(), ("Rome",), ("[[ ## answer ## ]]\n", "Paris")])
def test_what_cannot_be_found_is_not_guessed(reply):
    assert field_logprobs(tokens(*reply), "answer", "Rome") is None


def test_an_empty_value_has_no_tokens():
    assert field_logprobs(tokens("[[ ## answer ## ]]\n"), "answer", "") is None


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
