"""RQ-RAG's generator behind a server that completes prompts and returns log-probabilities, such as vLLM."""

from __future__ import annotations

import os
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from functools import cached_property
from typing import Any

import httpx

from knowgap.errors import LanguageModelError, shorten
from knowgap.lms.rq_rag.layout import TranscriptLayout
from knowgap.lms.rq_rag.tree import TranscriptTree, Written

_KEY = "KNOWGAP_GENERATOR_KEY"
_ID = "token_id:"  # what vLLM writes before the id of a token


class CompletionServer:
    """An OpenAI-compatible server with `/completions`, which takes token ids and returns log-probabilities.

    The request also has vLLM's fields for token ids: `stop_token_ids`, `return_tokens_as_token_ids`,
    `skip_special_tokens` and `add_special_tokens`.

    Args:
        url: its address, such as http://localhost:8000/v1; the key in KNOWGAP_GENERATOR_KEY is sent to it.
        name: the folder or name of the generator, which selects its model among those of the server.
        timeout: seconds to wait for an answer.

    Raises:
        LanguageModelError: at a request, if the server cannot be reached, refuses it, or returns no log-probabilities.
    """

    def __init__(self, url: str, name: str, *, timeout: float = 600) -> None:
        self.url, self.name = url.rstrip("/"), name
        key = os.environ.get(_KEY)
        headers = {"Authorization": f"Bearer {key}"} if key else {}
        self._client = httpx.Client(timeout=timeout, headers=headers, trust_env=False)

    @cached_property
    def model(self) -> str:
        """The server's name for the model: the only one that it serves, or the one that is the generator's name."""
        served = [str(model["id"]) for model in self._send("GET", "/models")["data"]]
        named = [model for model in served if model in (self.name, os.path.basename(self.name))]
        if len(served) != 1 and not named:
            raise LanguageModelError(f"{self.url} serves {', '.join(served) or 'nothing'}, but not {self.name}")
        return (named or served)[0]

    def complete(self, prompt: Sequence[int], **options: Any) -> tuple[list[str], list[float | None], str]:
        """The tokens of a completion, their log-probabilities, and why it ended (`stop` or `length`)."""
        body = {"model": self.model, "prompt": list(prompt), "logprobs": 1, "temperature": 0, **options}
        answer = self._send("POST", "/completions", json=body)
        try:
            [choice] = answer["choices"]
            scores = choice["logprobs"]
            return list(scores["tokens"]), list(scores["token_logprobs"]), str(choice.get("finish_reason"))
        except (KeyError, TypeError, ValueError):
            raise LanguageModelError(f"{self.url} returns completions without log-probabilities of tokens") from None

    def close(self) -> None:
        """Close its connections."""
        self._client.close()

    def _send(self, method: str, path: str, **content: Any) -> Any:
        try:
            response = self._client.request(method, self.url + path, **content)
            response.raise_for_status()
            return response.json()
        except httpx.HTTPStatusError as error:
            said = shorten(error.response.text)
            raise LanguageModelError(f"{self.url}{path}: HTTP {error.response.status_code}: {said}") from error
        except (httpx.HTTPError, httpx.InvalidURL, ValueError) as error:
            raise LanguageModelError(f"{self.url}{path}: {shorten(error) or type(error).__name__}") from error


class ServedTree(TranscriptTree):
    """One question's transcript as a tree, whose branches a server writes; its own cache shares prefixes.

    The other arguments are those of `TranscriptTree`; `batch_size` is how many requests are sent at once.
    """

    def __init__(self, server: CompletionServer, layout: TranscriptLayout, prompt: Sequence[int], **settings: Any):
        super().__init__(None, layout, prompt, share=False, **settings)
        self._server = server

    def write(self, branches: Sequence[tuple[str, str]]) -> list[Written]:
        """Write queries or answers at nodes; see `TranscriptTree.write`."""
        rows = [self._row(path, action) for path, action in branches]

        def request(row: Any) -> tuple[list[str], list[float | None], str]:
            return self._server.complete(
                [*row.node.ids, *row.ids],
                max_tokens=row.limit,
                stop_token_ids=sorted(self.layout.stops),
                return_tokens_as_token_ids=True,
                skip_special_tokens=False,
                add_special_tokens=False,
            )

        going = [row for row in rows if row.limit > 0]
        for row, (tokens, logprobs, reason) in zip(going, self._at_once(request, going), strict=True):
            row.ids += map(self._id_of, tokens)
            row.logprobs += [float(logprob or 0.0) for logprob in logprobs]
            if reason == "stop" and row.ids[-1] not in self.layout.stops:  # servers may leave it out
                row.ids.append(self.layout.end)
            self.counts.read += len(row.node.ids)
            self.counts.written += len(tokens)
        return [self._finish(row, len(row.node.ids)) for row in rows]

    def _at_once(self, ask: Any, requests: Sequence[Any]) -> list[Any]:
        if not requests:
            return []
        with ThreadPoolExecutor(min(self.batch_size, len(requests))) as pool:
            asked = [pool.submit(copy_context().run, ask, request) for request in requests]
            return [each.result() for each in asked]

    def _id_of(self, token: str) -> int:
        """The id of a token that a server names by its id, or by its text."""
        if token.startswith(_ID):
            return int(token.removeprefix(_ID))
        known = self.layout.tokenizer.get_vocab()
        ids = [known[token]] if token in known else self.layout.tokenizer(token, add_special_tokens=False)["input_ids"]
        if len(ids) != 1:
            raise LanguageModelError(f"{self._server.url} names the token {token!r}, which the tokenizer does not have")
        return int(ids[0])
