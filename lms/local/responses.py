"""Turn what a local model wrote into DSPy's response."""

from __future__ import annotations

from dspy.lm15 import Message, Request, Response, TokenLogprob, TopLogprob, Usage

from knowgap.lms.local.jobs import GenerationJob, Reply
from knowgap.lms.local.loading import LocalModel

__all__ = ["make_response"]


def make_response(local: LocalModel, request: Request, job: GenerationJob, reply: Reply) -> Response:
    """The text of a reply up to the first of its stop texts, without special tokens, and its log-probabilities."""
    tokens = reply.tokens
    if tokens and tokens[-1] in local.end_ids:
        tokens = tokens[:-1]
    text = local.tokenizer.decode(tokens, skip_special_tokens=True)
    stops = [text.index(stop) for stop in job.stop if stop in text]
    if stops:
        text = text[: min(stops)]
    kept = _spelling(local, tokens, text) if stops else len(tokens)
    return Response(
        id=None,
        model=request.model,
        message=Message.assistant(text),
        finish_reason="stop" if reply.ended or stops else "length",
        usage=Usage(input_tokens=len(job.ids), output_tokens=len(reply.tokens)),
        logprobs=None if job.logprobs is None else _logprobs(local, reply, kept),
    )


def _spelling(local: LocalModel, tokens: list[int], text: str) -> int:
    """How many of the tokens are needed to spell the text."""
    lengths = (len(local.tokenizer.decode(tokens[:count], skip_special_tokens=True)) for count in range(len(tokens)))
    return next((count for count, length in enumerate(lengths) if length >= len(text)), len(tokens))


def _logprobs(local: LocalModel, reply: Reply, kept: int) -> tuple[TokenLogprob, ...]:
    decode = local.tokenizer.decode
    return tuple(
        TokenLogprob(
            decode([scored.token]),
            scored.logprob,
            token_id=scored.token,
            top=tuple(TopLogprob(decode([token]), value, token_id=token) for token, value in scored.top),
        )
        for scored in reply.scores[:kept]
    )
