"""A tiny chat model with random weights, and requests to it."""

from concurrent.futures import ThreadPoolExecutor

from dspy.lm15 import Config, Message, Request

from tests.lms.ra_isf.tiny import write_language_model

CHAT = "{% for m in messages %}<|{{ m['role'] }}|>{{ m['content'] }}</s>{% endfor %}<|assistant|>"
NO_SYSTEM = "{% if messages[0]['role'] == 'system' %}{{ raise_exception('System role not supported') }}{% endif %}"
SILENT = "{% for m in messages %}{% if m['role'] != 'system' %}[{{ m['content'] }}]{% endif %}{% endfor %}"
QUESTIONS = [f"who wrote {'the long ' * (7 * i % 13)}book {i}?" for i in range(12)]


def write_chat_model(folder, kind="causal", template=CHAT, *, ends=True, **changes):
    """`ends`: whether the model has a token that ends a reply."""
    from transformers import AutoTokenizer, GenerationConfig

    write_language_model(folder, kind, texts=["who wrote the book"], vocabulary=300, **changes)
    tokenizer = AutoTokenizer.from_pretrained(folder)
    tokenizer.chat_template = template
    if not ends:
        tokenizer.eos_token = None
        GenerationConfig(pad_token_id=0).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


def ask(question="who wrote it?", *, system="Answer.", **config):
    return Request(model="hf/tiny", messages=(Message.user(question),), system=system, config=Config(**config))


def ask_together(engine, requests):
    """Ask from a thread for each request, so that they come in one batch."""
    with ThreadPoolExecutor(len(requests)) as threads:
        return list(threads.map(engine.complete, requests))
