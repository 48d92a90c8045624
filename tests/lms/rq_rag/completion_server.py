"""An OpenAI-compatible server around a tiny generator: completions of token ids, greedily, with log-probabilities."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any


def _complete(model: Any, body: dict[str, Any], as_ids: Any) -> dict[str, Any]:
    import torch

    ids, written, scores = list(body["prompt"]), list[int](), list[float | None]()
    reason = "length"
    with torch.inference_mode():
        for _ in range(body["max_tokens"]):
            logprobs = model(input_ids=torch.tensor([[*ids, *written]])).logits[0].log_softmax(-1)
            written.append(int(logprobs[-1].argmax()))
            scores.append(float(logprobs[-1].max()))
            if written[-1] in body.get("stop_token_ids", ()):
                reason = "stop"
                break
    choice = {"logprobs": {"tokens": as_ids(written), "token_logprobs": scores}, "finish_reason": reason, "text": ""}
    return {"choices": [choice]}


@contextmanager
def serving(folder: Path, *, by_text: bool = False) -> Iterator[tuple[str, list[dict[str, Any]]]]:
    """Serve a model; yields the address and the requests. Tokens are named by id, as vLLM does, or by text."""
    from transformers import AutoModelForCausalLM, AutoTokenizer

    model = AutoModelForCausalLM.from_pretrained(folder).eval()
    tokenizer = AutoTokenizer.from_pretrained(folder)
    asked: list[dict[str, Any]] = []

    def name(ids: list[int]) -> list[str]:
        return tokenizer.convert_ids_to_tokens(ids) if by_text else [f"token_id:{token}" for token in ids]

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self._answer({"data": [{"id": str(folder)}]})

        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            asked.append(body)
            self._answer(_complete(model, body, name))

        def _answer(self, value: dict[str, Any]) -> None:
            content = json.dumps(value).encode()
            self.send_response(200)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, format: str, *args: Any) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{server.server_address[1]}/v1", asked
        server.shutdown()
        thread.join()
