"""A tiny generator of RQ-RAG, made here: a byte-level tokenizer with control tokens, and a causal model."""

import random

from knowgap.compiling.training.generator import add_control_tokens, encode
from knowgap.lms.transcripts import TranscriptStep, transcript, written
from knowgap.retrieval.passage import Passage
from knowgap.signatures import STYLES
from tests.lms.local.tiny_models import byte_tokenizer, random_llama

FIRST = {"rewrite": "Ada Moor", "decompose": "The Grey Ferry", "disambiguate": "harbour"}
SECOND = {"rewrite": "Tarn", "decompose": "Wick", "disambiguate": "ships"}
ACTIONS = list(FIRST)

TEXTS = ["Who painted The Grey Ferry? Ada Moor painted ships in the harbour of Tarn. She was born in Wick."]


def tiny_tokenizer(texts=(*TEXTS, STYLES["short"])):
    return byte_tokenizer(texts, 450, bos_token="<s>", eos_token="</s>")


def tiny_llama(tokenizer):
    changes = {"hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4}
    return random_llama(tokenizer, initializer_range=0.1, **changes)


def write_base_model(folder):
    """A causal model that knows no control tokens."""
    tokenizer = tiny_tokenizer(TEXTS)
    tiny_llama(tokenizer).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


def write_generator(folder):
    """A generator that writes the format: trained for a few seconds on what each action writes first and second."""
    import torch

    tokenizer = tiny_tokenizer()
    model = tiny_llama(tokenizer)
    add_control_tokens(tokenizer, model)
    optimizer, dice = torch.optim.Adam(model.parameters(), lr=0.01), random.Random(0)

    def some():
        begin = dice.randrange(60)
        return TEXTS[0][begin : begin + dice.randrange(4, 40)]

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
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder
