"""Token log-probabilities of a reply: which tokens are the field's value, and how probable they were."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import dspy
from dspy.utils.exceptions import LMInvalidRequestError, LMUnsupportedFeatureError

if TYPE_CHECKING:
    from knowgap.programs.base import Program

__all__ = [
    "FieldLogprobs",
    "TokenReply",
    "ask_for_tokens",
    "field_logprobs",
    "perplexity",
    "pop_token_logprobs",
]


_SPACE = b" \t\r\n\f\v"


class FieldLogprobs(NamedTuple):
    """The natural log-probabilities of one output field.

    Attributes:
        generated: of every token from the start of the reply to the end of the field's value.
        value: of the tokens that make up the value; the last ones of `generated`.
    """

    generated: list[float]
    value: list[float]


class TokenReply(NamedTuple):
    """A reply with its tokens.

    Attributes:
        output: None if the reply could not be read.
        tokens: spelling and natural log-probability of each; empty if none came back.
        refused: whether the backend refused the request for log-probabilities.
    """

    output: dspy.Prediction | None
    tokens: list[tuple[bytes, float]]
    refused: bool


def ask_for_tokens(program: Program, predictor: dspy.Module, with_tokens: bool, **inputs: Any) -> TokenReply:
    """Ask the language model for a reply with its token log-probabilities.

    If the backend refuses such a request, it is asked again without.

    Args:
        program: asks.
        predictor: one of the program's.
        with_tokens: False asks without log-probabilities from the start.
        **inputs: of the predictor's signature.
    """
    refused = False
    tokens_too: dict[str, Any] = {"config": {"logprobs": True}} if with_tokens else {}
    try:
        output = program.ask(predictor, **inputs, **tokens_too)
    except (LMUnsupportedFeatureError, LMInvalidRequestError):
        if not with_tokens:
            raise
        refused, output = True, program.ask(predictor, **inputs)
    return TokenReply(output, pop_token_logprobs(output) if output is not None else [], refused)


def pop_token_logprobs(prediction: dspy.Prediction) -> list[tuple[bytes, float]]:
    """The reply's tokens with their log-probabilities, taken out of the prediction; empty where none came back.

    They are taken out because an optimizer makes demonstrations of predictions as they stand.
    """
    if "logprobs" not in prediction:
        return []
    content = _part(prediction["logprobs"], "content") or ()
    del prediction["logprobs"]
    return [(_spelled(token), float(_part(token, "logprob"))) for token in content]


def field_logprobs(tokens: Sequence[tuple[bytes, float]], field: str, value: str) -> FieldLogprobs | None:
    """Find the tokens of an output field's value in the reply.

    Args:
        tokens: from `pop_token_logprobs`; together they spell the reply in a chat, JSON or XML format. White space does
            not count, since some tokenizers lose it where they spell tokens one by one.
        field: name of the output field; its value is looked for behind the first place where it stands as a header.
        value: the value as it was parsed.

    Returns:
        The log-probabilities, or None where the value cannot be found in the reply.
    """
    if not tokens or not value:
        return None
    solid = [(spelling.translate(None, _SPACE), logprob) for spelling, logprob in tokens]
    reply = b"".join(spelling for spelling, _ in solid)
    header = re.search(rb'\[\[##%b##\]\]|"%b":|<%b>' % ((field.encode(),) * 3), reply)
    wanted = [value, json.dumps(value, ensure_ascii=False)[1:-1], json.dumps(value)[1:-1]]
    spellings = [text.encode(errors="replace").translate(None, _SPACE) for text in wanted]
    if header is None or not spellings[0]:
        return None
    places = ((reply.find(text, header.end()), len(text)) for text in spellings)
    start, length = next(((place, length) for place, length in places if place >= 0), (-1, 0))
    if start < 0:
        return None
    generated: list[float] = []
    chosen: list[float] = []
    position = 0
    for spelling, logprob in solid:
        if position >= start + length:
            break
        position += len(spelling)
        generated.append(logprob)
        if position > start:
            chosen.append(logprob)
    return FieldLogprobs(generated, chosen)


def perplexity(logprobs: Sequence[float]) -> float:
    """The exponential of the negative mean log-probability: 1 is certain; infinite where nothing was generated."""
    return math.exp(min(700.0, -sum(logprobs) / len(logprobs))) if logprobs else math.inf


def _part(source: Any, name: str) -> Any:
    return source.get(name) if isinstance(source, Mapping) else getattr(source, name, None)


def _spelled(token: Any) -> bytes:
    """A token's bytes: a letter beyond ASCII may be spread over several tokens, which only the bytes spell."""
    given = _part(token, "bytes")
    return bytes(given) if given is not None else str(_part(token, "token")).encode()
