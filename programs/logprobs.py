"""The log-probabilities of the tokens of a reply: those of a field's value."""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Sequence
from typing import Any, NamedTuple

import dspy

from knowgap.lms.metering import get_part
from knowgap.programs.replies.text import text_of

_SPACE = b" \t\r\n\f\v"


class Token(NamedTuple):
    """A generated token: its bytes and natural log-probability."""

    spelling: bytes
    logprob: float


def set_tokens_aside(prediction: dspy.Prediction) -> None:
    """Move the tokens of a reply out of its fields, of which optimizers make demonstrations; see `value_tokens`."""
    if "logprobs" in prediction:
        content = get_part(prediction["logprobs"], "content") or ()
        prediction._tokens = [Token(_spelling_of(token), float(get_part(token, "logprob"))) for token in content]
        del prediction["logprobs"]


def value_tokens(output: dspy.Prediction | None, field: str, *, headed: bool = True) -> list[Token] | None:
    """Find the tokens of an output field's parsed value in the reply, without those of the format around it.

    All tokens together spell a reply in the chat format or in JSON. The value is searched for after the field's first
    header, or from the beginning of a reply that is not `headed`. White space is ignored, since some tokenizers lose it
    when they spell single tokens.

    Returns:
        The tokens, or None if they are unknown or the reply does not have the value. A token that reaches over a border
        of the value belongs to it, since its probability cannot be divided.
    """
    tokens: Sequence[Token] = getattr(output, "_tokens", ())
    value = text_of(output, field)
    solid = [token.spelling.translate(None, _SPACE) for token in tokens]
    reply = b"".join(solid)
    header = re.search(rb'\[\[##%b##\]\]|"%b":' % ((field.encode(),) * 2), reply) if headed else None
    first = header.end() if header else 0
    forms = [value, json.dumps(value, ensure_ascii=False)[1:-1], json.dumps(value)[1:-1]]
    spellings = [form.encode(errors="replace").translate(None, _SPACE) for form in forms]
    spelling = next((each for each in spellings if each in reply[first:]), b"")
    if not spelling or (headed and header is None):
        return None
    start = reply.index(spelling, first)
    ends = list(itertools.accumulate(map(len, solid)))
    borders = zip(tokens, (0, *ends), ends, strict=False)
    return [token for token, begin, end in borders if begin < start + len(spelling) and end > start]


def _spelling_of(token: Any) -> bytes:
    """A token's bytes, since a letter beyond ASCII may be spread over several tokens."""
    given = get_part(token, "bytes")
    return bytes(given) if given is not None else str(get_part(token, "token")).encode()
