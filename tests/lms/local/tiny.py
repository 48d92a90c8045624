"""A tiny chat model with random weights, and requests to it."""

from itertools import pairwise

from dspy.lm15 import Config, Message, Request

from tests.lms.local.tiny_models import write_language_model

CHAT = "{% for m in messages %}<|{{ m['role'] }}|>{{ m['content'] }}</s>{% endfor %}<|assistant|>"
NO_SYSTEM = "{% if messages[0]['role'] == 'system' %}{{ raise_exception('System role not supported') }}{% endif %}"
SILENT = "{% for m in messages %}{% if m['role'] != 'system' %}[{{ m['content'] }}]{% endif %}{% endfor %}"


def write_chat_model(folder, kind="causal", template=CHAT, **changes):
    from transformers import AutoTokenizer

    write_language_model(folder, kind, texts=["who wrote the book"], vocabulary=300, **changes)
    tokenizer = AutoTokenizer.from_pretrained(folder)
    tokenizer.chat_template = template
    tokenizer.save_pretrained(folder)
    return folder


def ask(question="who wrote it?", *, system="Answer.", **config):
    return Request(model="hf/tiny", messages=(Message.user(question),), system=system, config=Config(**config))


def write_fixed_reply(folder, pieces):
    """A chat model that always replies with the same pieces of text, each of them one token."""
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer

    write_chat_model(folder, max_position_embeddings=8192)
    tokenizer = AutoTokenizer.from_pretrained(folder)
    tokenizer.add_tokens(["<|assistant|>", *pieces])
    tokenizer.save_pretrained(folder)
    model = AutoModelForCausalLM.from_pretrained(folder)
    model.resize_token_embeddings(len(tokenizer), mean_resizing=False)
    chain = tokenizer.convert_tokens_to_ids(["<|assistant|>", *pieces, "</s>"])
    with torch.no_grad():  # the layers add nothing, and the last one makes each token the next of the chain
        for layer in model.model.layers:
            layer.self_attn.o_proj.weight.zero_()
            layer.mlp.down_proj.weight.zero_()
        model.model.embed_tokens.weight.zero_()
        model.lm_head.weight.zero_()
        for position, (token, following) in enumerate(pairwise(chain)):
            model.model.embed_tokens.weight[token, position] = 1.0
            model.lm_head.weight[following, position] = 1.0
    model.save_pretrained(folder)
    return folder
