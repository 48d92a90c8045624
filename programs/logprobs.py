"""The log-probabilities of the tokens of a reply: those of a field's value."""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Sequence
from typing import Any, NamedTuple

import dspy

from knowgap.lms.metering import get_part
from knowgap.programs.replies.text import text_of

_SPACE = b" \t\r\n\f\v"
_POPPING = threading.Lock()


class Token(NamedTuple):
    """A generated token: its bytes and natural log-probability."""

    spelling: bytes
    logprob: float


def tokens_of(output: dspy.Prediction | None, field: str, *, headed: bool = True) -> list[Token] | None:
    """The tokens of an output field's value; None if they are unknown. See `value_tokens` for `headed`."""
    return None if output is None else value_tokens(pop_tokens(output), field, text_of(output, field), headed=headed)


def pop_tokens(prediction: dspy.Prediction) -> list[Token]:
    """Remove the tokens from a prediction and return them; empty if none came back.

    Optimizers make demonstrations of whole predictions, which should not contain tokens. The prediction still gives
    them to a second request that shares the reply.
    """
    with _POPPING:  # nodes of a tree that ask the same share a reply, in threads of their own
        if "logprobs" in prediction:
            content = get_part(prediction["logprobs"], "content") or ()
            del prediction["logprobs"]
            prediction._tokens = [Token(*_spelled(token)) for token in content]
    return getattr(prediction, "_tokens", [])


def value_tokens(tokens: Sequence[Token], field: str, value: str, *, headed: bool = True) -> list[Token] | None:
    """Find the tokens of an output field's parsed value in the reply, without those of the format around it.

    All tokens together spell a reply in the chat format or in JSON. The value is searched for after the field's first
    header, or from the beginning of a reply that is not `headed`. White space is ignored, since some tokenizers lose it
    when they spell single tokens.

    Returns:
        The tokens, or None if the reply does not have the value. A token that reaches over a border of the value
        belongs to it, since its probability cannot be divided.
    """
    if not tokens or not value:
        return None
    solid = [token.spelling.translate(None, _SPACE) for token in tokens]
    reply = b"".join(solid)
    header = re.search(rb'\[\[##%b##\]\]|"%b":' % ((field.encode(),) * 2), reply)
    forms = [value, json.dumps(value, ensure_ascii=False)[1:-1], json.dumps(value)[1:-1]]
    spellings = [form.encode(errors="replace").translate(None, _SPACE) for form in forms]
    if (headed and header is None) or not spellings[0]:
        return None
    first = header.end() if headed and header is not None else 0
    spans = [(reply.find(spelling, first), len(spelling)) for spelling in spellings]
    start, length = next(((start, length) for start, length in spans if start >= 0), (-1, 0))
    if start < 0:
        return None
    found: list[Token] = []
    begin = 0
    for token, spelling in zip(tokens, solid, strict=True):
        end = begin + len(spelling)
        if begin < start + length and end > start:
            found.append(token)
        begin = end
    return found


def _spelled(token: Any) -> tuple[bytes, float]:
    """A token's bytes, since a letter beyond ASCII may be spread over several tokens; and its log-probability."""
    given = get_part(token, "bytes")
    spelling = bytes(given) if given is not None else str(get_part(token, "token")).encode()
    return spelling, float(get_part(token, "logprob"))
