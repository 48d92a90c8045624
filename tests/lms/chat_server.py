"""An OpenAI-compatible server around a tiny generator: chats whose last message it continues, greedily."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any


def _reply(model: Any, tokenizer: Any, body: dict[str, Any]) -> dict[str, Any]:
    import torch

    ways = {name: body[name] for name in ("continue_final_message", "add_generation_prompt")}
    prompt = tokenizer.apply_chat_template(body["messages"], tokenize=False, **ways)
    ids, content = tokenizer(prompt, add_special_tokens=False)["input_ids"], list[dict[str, Any]]()
    text, reason, read = "", "length", len(ids)
    with torch.inference_mode():
        for _ in range(body["max_tokens"]):
            logprobs = model(input_ids=torch.tensor([ids])).logits[0, -1].log_softmax(-1)
            ids.append(int(logprobs.argmax()))
            token = tokenizer.decode([ids[-1]])
            content.append({"token": token, "logprob": float(logprobs.max()), "bytes": list(token.encode())})
            text = tokenizer.decode(ids[read:])
            if any(stop in text for stop in body["stop"]) or ids[-1] == tokenizer.eos_token_id:
                text, reason = text.partition(body["stop"][0])[0], "stop"
                break
    message = {"role": "assistant", "content": text}
    choice = {"index": 0, "message": message, "logprobs": {"content": content}, "finish_reason": reason}
    usage = {"prompt_tokens": read, "completion_tokens": len(content), "total_tokens": len(ids)}
    answer = {"id": "1", "object": "chat.completion", "created": 0, "model": body["model"], "usage": usage}
    return {**answer, "choices": [choice]}


@contextmanager
def serving(folder: Path) -> Iterator[tuple[str, list[dict[str, Any]]]]:
    """Serve a model; yields the address and the requests."""
    from transformers import AutoModelForCausalLM, AutoTokenizer

    model, tokenizer = AutoModelForCausalLM.from_pretrained(folder).eval(), AutoTokenizer.from_pretrained(folder)
    asked: list[dict[str, Any]] = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            asked.append(body)
            content = json.dumps(_reply(model, tokenizer, body)).encode()
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
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
