"""Language models with random weights, written to a folder: real architectures and tokenizers; and requests to them."""

from dspy.lm15 import Config, Message, Request

from tests.retrieval.tiny import random_model

CHAT = "{% for m in messages %}<|{{ m['role'] }}|>{{ m['content'] }}</s>{% endfor %}<|assistant|>"
NO_SYSTEM = "{% if messages[0]['role'] == 'system' %}{{ raise_exception('System role not supported') }}{% endif %}"

TEXTS = [
    "Who painted The Grey Ferry? Ada Moor painted ships in the harbour of Tarn. | Where was #1 born? known unknown"
]


def byte_tokenizer(texts, vocabulary, alphabet=None, **special):
    """A byte-level tokenizer that is trained on texts; special tokens are named, as in `eos_token="</s>"`."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
    from transformers import PreTrainedTokenizerFast

    raw = Tokenizer(models.BPE())
    raw.pre_tokenizer, raw.decoder = pre_tokenizers.ByteLevel(add_prefix_space=False), decoders.ByteLevel()
    letters = alphabet or pre_tokenizers.ByteLevel.alphabet()
    settings = {"special_tokens": [*special.values()], "initial_alphabet": letters}
    raw.train_from_iterator(texts, trainers.BpeTrainer(vocab_size=vocabulary, show_progress=False, **settings))
    return PreTrainedTokenizerFast(tokenizer_object=raw, **special)


def random_llama(tokenizer, seed=1, **changes):
    """A one-layer Llama."""
    from transformers import LlamaConfig, LlamaForCausalLM

    settings = {"hidden_size": 16, "intermediate_size": 32, "num_hidden_layers": 1, "num_attention_heads": 2}
    settings |= {"initializer_range": 0.5, "bos_token_id": 0, "eos_token_id": 1, "pad_token_id": 0}
    return random_model(LlamaForCausalLM, LlamaConfig(vocab_size=len(tokenizer), **settings | changes), seed)


def write_language_model(folder, kind="causal", *, texts=TEXTS, seed=1, vocabulary=400, alphabet=None, **changes):
    """A one-layer T5 ("seq2seq") or Llama, with a byte-level tokenizer of all bytes or of an alphabet."""
    from tokenizers.processors import TemplateProcessing
    from transformers import T5Config, T5ForConditionalGeneration

    tokenizer = byte_tokenizer(texts, vocabulary, alphabet, pad_token="<pad>", eos_token="</s>")
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
