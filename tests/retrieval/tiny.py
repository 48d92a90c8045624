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


def write_colbert(folder, texts, *, dim=16, seed=1, **metadata):
    """A ColBERT checkpoint folder with two layers of random weights."""
    import torch
    from safetensors.numpy import save_file
    from transformers import BertModel

    tokenizer = write_tokenizer(folder, texts)
    config = bert_config(tokenizer)
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        model = BertModel(config, add_pooling_layer=False)
    config.save_pretrained(folder)
    tensors = {f"bert.{name}": tensor.numpy() for name, tensor in model.state_dict().items()}
    tensors["linear.weight"] = np.random.default_rng(seed).normal(size=(dim, 32)).astype(np.float32)
    save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})
    record = {
        "dim": dim,
        "query_maxlen": 32,
        "doc_maxlen": 120,
        "mask_punctuation": True,
        "attend_to_mask_tokens": False,
        "similarity": "cosine",
        "query_token_id": "[unused0]",
        "doc_token_id": "[unused1]",
        "query_token": "[Q]",
        "doc_token": "[D]",
        "checkpoint": "bert-base-uncased",
    }
    (folder / "artifact.metadata").write_text(json.dumps(record | metadata), encoding="utf-8")
    return folder
