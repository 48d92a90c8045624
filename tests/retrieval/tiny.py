"""Tiny models with random weights, written to a folder: real architectures, for tests of what loads real models."""

import json

import numpy as np

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


def logits_of(folder, pairs):
    """The logits of a sequence classifier for pairs of texts, one by one, [pairs, labels]."""
    import torch
    from transformers import AutoModelForSequenceClassification, AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(folder)
    model = AutoModelForSequenceClassification.from_pretrained(folder).eval()
    with torch.inference_mode():
        return torch.cat([model(**tokenizer(*pair, return_tensors="pt")).logits for pair in pairs])


def write_bi_encoder(folder, texts, *, seed=1):
    """A BertModel with two layers of random weights; sentence-transformers averages its token vectors."""
    from transformers import BertModel

    config = bert_config(write_tokenizer(folder, texts), initializer_range=0.3)
    random_model(BertModel, config, seed, add_pooling_layer=False).save_pretrained(folder)
    return folder
