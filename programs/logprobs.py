"""Token log-probabilities of replies: asking for them, and finding those of a field's value."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import dspy
from dspy.utils.exceptions import LMInvalidRequestError, LMUnsupportedFeatureError

from knowgap.programs.outputs import text_of

if TYPE_CHECKING:
    from knowgap.programs.base import Program

__all__ = ["FieldLogprobs", "TokenReply", "ask_for_tokens", "field_logprobs", "perplexity", "pop_token_logprobs"]

_SPACE = b" \t\r\n\f\v"


class FieldLogprobs(NamedTuple):
    """The natural log-probabilities of an output field.

    Attributes:
        generated: of all tokens from the start of the reply to the end of the field's value.
        value: of the tokens of the value, the last ones of `generated`.
    """

    generated: list[float]
    value: list[float]


class TokenReply(NamedTuple):
    """A reply with its tokens.

    Attributes:
        output: None if the reply could not be read.
        tokens: spelling and natural log-probability of each; empty if none came back.
        refused: whether the backend refused to give log-probabilities.
    """

    output: dspy.Prediction | None
    tokens: list[tuple[bytes, float]]
    refused: bool

    def logprobs_of(self, field: str) -> FieldLogprobs | None:
        """The log-probabilities of an output field; None if they are unknown."""
        return field_logprobs(self.tokens, field, text_of(self.output, field))


def ask_for_tokens(program: Program, predictor: dspy.Module, with_tokens: bool, **inputs: Any) -> TokenReply:
    """Ask the language model for a reply with token log-probabilities; ask again without if the backend refuses.

    Args:
        program: the program that asks.
        predictor: one of the program's.
        with_tokens: False asks without log-probabilities from the start.
        **inputs: inputs of the predictor's signature.
    """
    if not with_tokens:
        return TokenReply(program.ask(predictor, **inputs), [], refused=False)
    try:
        output, refused = program.ask(predictor, **inputs, config={"logprobs": True}), False
    except (LMUnsupportedFeatureError, LMInvalidRequestError):
        output, refused = program.ask(predictor, **inputs), True
    return TokenReply(output, pop_token_logprobs(output) if output is not None else [], refused)


def pop_token_logprobs(prediction: dspy.Prediction) -> list[tuple[bytes, float]]:
    """Remove the tokens with their log-probabilities from a prediction and return them; empty if none came back.

    They must go because optimizers make demonstrations of whole predictions.
    """
    if "logprobs" not in prediction:
        return []
    content = _part(prediction["logprobs"], "content") or ()
    del prediction["logprobs"]
    return [(_spelling(token), float(_part(token, "logprob"))) for token in content]


def field_logprobs(tokens: Sequence[tuple[bytes, float]], field: str, value: str) -> FieldLogprobs | None:
    """Find the tokens of an output field's value in the reply.

    Args:
        tokens: from `pop_token_logprobs`; together they spell the reply in a chat, JSON or XML format. White space is
            ignored, since some tokenizers lose it when they spell single tokens.
        field: name of the output field; its value is searched for after the field's first header.
        value: the value as parsed.

    Returns:
        The log-probabilities, or None if the reply does not have the value.
    """
    if not tokens or not value:
        return None
    solid = [(spelling.translate(None, _SPACE), logprob) for spelling, logprob in tokens]
    reply = b"".join(spelling for spelling, _ in solid)
    header = re.search(rb'\[\[##%b##\]\]|"%b":|<%b>' % ((field.encode(),) * 3), reply)
    forms = [value, json.dumps(value, ensure_ascii=False)[1:-1], json.dumps(value)[1:-1]]
    spellings = [form.encode(errors="replace").translate(None, _SPACE) for form in forms]
    if header is None or not spellings[0]:
        return None
    spans = [(reply.find(spelling, header.end()), len(spelling)) for spelling in spellings]
    start, length = next(((start, length) for start, length in spans if start >= 0), (-1, 0))
    if start < 0:
        return None
    generated: list[float] = []
    value_logprobs: list[float] = []
    position = 0
    for spelling, logprob in solid:
        if position >= start + length:
            break
        position += len(spelling)
        generated.append(logprob)
        if position > start:
            value_logprobs.append(logprob)
    return FieldLogprobs(generated, value_logprobs)


def perplexity(logprobs: Sequence[float]) -> float:
    """The exponential of the negative mean log-probability: 1 is certain; infinite without tokens."""
    return math.exp(min(700.0, -sum(logprobs) / len(logprobs))) if logprobs else math.inf


def _part(source: Any, name: str) -> Any:
    return source.get(name) if isinstance(source, Mapping) else getattr(source, name, None)


def _spelling(token: Any) -> bytes:
    """A token's bytes; a letter beyond ASCII may be spread over several tokens, which only the bytes spell."""
    given = _part(token, "bytes")
    return bytes(given) if given is not None else str(_part(token, "token")).encode()
