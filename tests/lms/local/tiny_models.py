"""Language models with random weights, written to a folder: real architectures and tokenizers; and requests to them."""

from itertools import pairwise

from dspy.lm15 import Config, Message, Request

from tests.retrieval.tiny import random_model

CHAT = "{% for m in messages %}<|{{ m['role'] }}|>{{ m['content'] }}</s>{% endfor %}<|assistant|>"
NO_SYSTEM = "{% if messages[0]['role'] == 'system' %}{{ raise_exception('System role not supported') }}{% endif %}"

TEXTS = [
    "Who painted The Grey Ferry? Ada Moor painted ships in the harbour of Tarn. | Where was #1 born? known unknown"
]


def byte_tokenizer(texts, vocabulary, **special):
    """A byte-level tokenizer that is trained on texts; special tokens are named, as in `eos_token="</s>"`."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
    from transformers import PreTrainedTokenizerFast

    raw = Tokenizer(models.BPE())
    raw.pre_tokenizer, raw.decoder = pre_tokenizers.ByteLevel(add_prefix_space=False), decoders.ByteLevel()
    settings = {"special_tokens": [*special.values()], "initial_alphabet": pre_tokenizers.ByteLevel.alphabet()}
    raw.train_from_iterator(texts, trainers.BpeTrainer(vocab_size=vocabulary, show_progress=False, **settings))
    return PreTrainedTokenizerFast(tokenizer_object=raw, **special)


def random_llama(tokenizer, seed=1, **changes):
    """A one-layer Llama."""
    from transformers import LlamaConfig, LlamaForCausalLM

    settings = {"hidden_size": 16, "intermediate_size": 32, "num_hidden_layers": 1, "num_attention_heads": 2}
    settings |= {"initializer_range": 0.5, "bos_token_id": 0, "eos_token_id": 1, "pad_token_id": 0}
    return random_model(LlamaForCausalLM, LlamaConfig(vocab_size=len(tokenizer), **settings | changes), seed)


def write_language_model(folder, kind="causal", *, texts=TEXTS, seed=1, vocabulary=400, **changes):
    """A one-layer T5 ("seq2seq") or Llama, with a byte-level tokenizer."""
    from tokenizers.processors import TemplateProcessing
    from transformers import T5Config, T5ForConditionalGeneration

    tokenizer = byte_tokenizer(texts, vocabulary, pad_token="<pad>", eos_token="</s>")
    if kind == "causal":
        model = random_llama(tokenizer, seed, **changes)
    else:
        end = TemplateProcessing(single="$A </s>", special_tokens=[("</s>", 1)])
        tokenizer.backend_tokenizer.post_processor = end
        settings = {"d_model": 16, "d_kv": 8, "d_ff": 32, "num_layers": 1, "num_heads": 2, "initializer_factor": 5.0}
        config = T5Config(vocab_size=len(tokenizer), decoder_start_token_id=0, **settings | changes)
        model = random_model(T5ForConditionalGeneration, config, seed)
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


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
