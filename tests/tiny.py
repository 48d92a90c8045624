"""Tiny models, written to a folder: real architectures and tokenizers with random weights, and a trained generator."""

import json
import random

import numpy as np

from knowgap.compiling.training.generator import add_control_tokens, encode
from knowgap.lms.transcripts import TranscriptStep, transcript, written
from knowgap.retrieval.passage import Passage
from knowgap.signatures import STYLES

SPECIAL = ["[PAD]", "[unused0]", "[unused1]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *".,;'?()"]


def write_tokenizer(folder, texts):
    from transformers import BertTokenizerFast

    letters = [chr(code) for code in range(ord("a"), ord("z") + 1)] + [str(digit) for digit in range(10)]
    words = {word for text in texts for word in "".join(c if c.isalnum() else " " for c in text.lower()).split()}
    vocabulary = list(dict.fromkeys([*SPECIAL, *sorted(words), *letters, *("##" + letter for letter in letters)]))
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "vocab.txt").write_text("\n".join(vocabulary), encoding="utf-8")
    tokenizer = BertTokenizerFast(vocab=str(folder / "vocab.txt"), do_lower_case=True)
    tokenizer.save_pretrained(folder)
    return tokenizer


def bert_config(tokenizer, **changes):
    from transformers import BertConfig

    settings = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 64}
    return BertConfig(vocab_size=len(tokenizer), **(settings | changes))


def random_model(model_class, config, seed=1, **options):
    """A model with random weights, the same for the same seed."""
    import torch

    with torch.random.fork_rng():
        torch.manual_seed(seed)
        return model_class(config, **options)


_COLBERT = {
    "mask_punctuation": True,
    "attend_to_mask_tokens": False,
    "similarity": "cosine",
    "query_token_id": "[unused0]",
    "doc_token_id": "[unused1]",
    "query_token": "[Q]",
    "doc_token": "[D]",
}


def write_colbert(folder, texts, *, dim=16, seed=1, **metadata):
    """A ColBERT checkpoint folder with two layers of random weights."""
    from safetensors.numpy import save_file
    from transformers import BertModel

    tokenizer = write_tokenizer(folder, texts)
    config = bert_config(tokenizer, architectures=["HF_ColBERT"])
    model = random_model(BertModel, config, seed, add_pooling_layer=False)
    config.save_pretrained(folder)
    tensors = {f"bert.{name}": tensor.numpy() for name, tensor in model.state_dict().items()}
    tensors["linear.weight"] = np.random.default_rng(seed).normal(size=(dim, 32)).astype(np.float32)
    save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})
    record = _COLBERT | {"dim": dim, "query_maxlen": 32, "doc_maxlen": 120, "checkpoint": "bert-base-uncased"}
    (folder / "artifact.metadata").write_text(json.dumps(record | metadata), encoding="utf-8")
    return folder


def write_pylate(folder, texts, *, dim=16, seed=1):
    """A BertModel with two layers of random weights and a projection, in the layout of PyLate 1."""
    import string

    from safetensors.numpy import save_file
    from transformers import BertModel

    tokenizer = write_tokenizer(folder, texts)
    tokenizer.add_tokens(["[Q] ", "[D] "])
    tokenizer.save_pretrained(folder)
    random_model(BertModel, bert_config(tokenizer), seed, add_pooling_layer=False).save_pretrained(folder)
    (folder / "1_Dense").mkdir()
    weight = np.random.default_rng(seed).normal(size=(dim, 32)).astype(np.float32)
    save_file({"linear.weight": weight}, folder / "1_Dense" / "model.safetensors")
    dense = {"in_features": 32, "out_features": dim, "bias": False}
    records = {
        "1_Dense/config.json": dense | {"activation_function": "torch.nn.modules.linear.Identity"},
        "modules.json": [
            {"idx": 0, "name": "0", "path": "", "type": "sentence_transformers.models.Transformer"},
            {"idx": 1, "name": "1", "path": "1_Dense", "type": "pylate.models.Dense.Dense"},
        ],
        "sentence_bert_config.json": {"max_seq_length": 299, "do_lower_case": False},
        "config_sentence_transformers.json": {
            "model_type": "ColBERT", "prompts": {}, "similarity_fn_name": "MaxSim", "query_prefix": "[Q] ",
            "document_prefix": "[D] ", "query_length": 32, "document_length": 300,
            "attend_to_expansion_tokens": False, "skiplist_words": [*string.punctuation],
        },
    }  # fmt: skip
    for name, record in records.items():
        (folder / name).write_text(json.dumps(record), encoding="utf-8")
    return folder


def write_cross_encoder(folder, texts, *, labels=1, names=None, seed=1):
    """A BertForSequenceClassification with two layers of random weights."""
    from transformers import BertForSequenceClassification

    tokenizer = write_tokenizer(folder, texts)
    changes = {"id2label": dict(enumerate(names))} if names else {"num_labels": labels}
    config = bert_config(tokenizer, initializer_range=0.5, **changes)
    random_model(BertForSequenceClassification, config, seed).save_pretrained(folder)
    return folder


def write_bi_encoder(folder, texts, *, seed=1):
    """A BertModel with two layers of random weights; sentence-transformers averages its token vectors."""
    from transformers import BertModel

    config = bert_config(write_tokenizer(folder, texts), initializer_range=0.3)
    random_model(BertModel, config, seed, add_pooling_layer=False).save_pretrained(folder)
    return folder


# Language models.

CHAT = "{% for m in messages %}<|{{ m['role'] }}|>{{ m['content'] }}</s>{% endfor %}<|assistant|>"

LEARNT = ["Who painted The Grey Ferry? Ada Moor painted ships in the harbour of Tarn. She was born in Wick."]


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


def save(folder, model, tokenizer):
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


def random_llama(tokenizer, seed=1, **changes):
    """A one-layer Llama."""
    from transformers import LlamaConfig, LlamaForCausalLM

    settings = {"hidden_size": 16, "intermediate_size": 32, "num_hidden_layers": 1, "num_attention_heads": 2}
    settings |= {"initializer_range": 0.5, "bos_token_id": 0, "eos_token_id": 1, "pad_token_id": 0}
    return random_model(LlamaForCausalLM, LlamaConfig(vocab_size=len(tokenizer), **settings | changes), seed)


def write_language_model(
    folder, kind="causal", *, texts=LEARNT, seed=1, vocabulary=400, alphabet=None, template=None, **changes
):
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
    tokenizer.chat_template = template
    return save(folder, model, tokenizer)


def write_chat_model(folder, kind="causal", template=CHAT, **changes):
    texts = ["who wrote the book"]
    return write_language_model(folder, kind, texts=texts, vocabulary=300, template=template, **changes)


# A generator of RQ-RAG.

FIRST = {"rewrite": "Ada Moor", "decompose": "The Grey Ferry", "disambiguate": "harbour"}
SECOND = {"rewrite": "Tarn", "decompose": "Wick", "disambiguate": "ships"}
ACTIONS = list(FIRST)


def tiny_tokenizer(texts=(*LEARNT, STYLES["short"])):
    return byte_tokenizer(texts, 450, bos_token="<s>", eos_token="</s>")


def tiny_llama(tokenizer):
    changes = {"hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4}
    return random_llama(tokenizer, initializer_range=0.1, **changes)


def write_base_model(folder):
    """A causal model that knows no control tokens."""
    tokenizer = tiny_tokenizer(LEARNT)
    return save(folder, tiny_llama(tokenizer), tokenizer)


def write_generator(folder):
    """A generator that writes the format: trained for a few seconds on what each action writes first and second."""
    import torch

    tokenizer = tiny_tokenizer()
    model = tiny_llama(tokenizer)
    add_control_tokens(tokenizer, model)
    optimizer, dice = torch.optim.Adam(model.parameters(), lr=0.01), random.Random(0)

    def some():
        begin = dice.randrange(60)
        return LEARNT[0][begin : begin + dice.randrange(4, 40)]

    def step(action, query):
        return TranscriptStep(action, query, [Passage("a", some(), some())])

    for _ in range(200):
        rows = []
        for first in ACTIONS:
            second = dice.choice(ACTIONS)
            steps = [step(first, FIRST[first])] if dice.random() < 0.8 else []
            steps += [step(second, SECOND[second])] if dice.random() < 0.7 else []
            style = dice.choice([some(), STYLES["short"]])
            rows.append(encode(tokenizer, transcript(style, some(), steps, written("answer", "Wick"))))
        width = max(len(row["input_ids"]) for row in rows)
        ids = torch.tensor([row["input_ids"] + [0] * (width - len(row["input_ids"])) for row in rows])
        learnt = torch.tensor([row["labels"] + [-100] * (width - len(row["labels"])) for row in rows])
        model(input_ids=ids, labels=learnt).loss.backward()
        optimizer.step()
        optimizer.zero_grad()
    return save(folder, model, tokenizer)
