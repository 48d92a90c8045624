"""An OpenAI-compatible server around a tiny generator: chats whose last message it continues, greedily."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from endpoint import Endpoint, endpoint


@contextmanager
def serving(folder: Path) -> Iterator[Endpoint]:
    """Serve a model."""
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer

    model, tokenizer = AutoModelForCausalLM.from_pretrained(folder).eval(), AutoTokenizer.from_pretrained(folder)

    def reply(body: dict[str, Any]) -> tuple[str, list[dict[str, Any]], dict[str, int]]:
        ways = {name: body[name] for name in ("continue_final_message", "add_generation_prompt")}
        prompt = tokenizer.apply_chat_template(body["messages"], tokenize=False, **ways)
        ids, text = tokenizer(prompt, add_special_tokens=False)["input_ids"], ""
        read, tokens = len(ids), list[dict[str, Any]]()
        with torch.inference_mode():
            while len(tokens) < body["max_tokens"] and not any(stop in text for stop in body["stop"]):
                logprobs = model(input_ids=torch.tensor([ids])).logits[0, -1].log_softmax(-1)
                ids.append(int(logprobs.argmax()))
                token = tokenizer.decode([ids[-1]])
                tokens.append({"token": token, "logprob": float(logprobs.max()), "bytes": list(token.encode())})
                text = tokenizer.decode(ids[read:])
                if ids[-1] == tokenizer.eos_token_id:
                    break
        usage = {"prompt_tokens": read, "completion_tokens": len(tokens), "total_tokens": len(ids)}
        return text.partition(body["stop"][0])[0], tokens, usage

    with endpoint() as server:
        server.reply_of = reply
        yield server
