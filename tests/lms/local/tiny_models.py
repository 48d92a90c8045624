"""Language models with random weights, written to a folder: real architectures and tokenizers."""

from tests.retrieval.tiny import random_model

TEXTS = [
    "Who painted The Grey Ferry? Ada Moor painted ships in the harbour of Tarn. | Where was #1 born? known unknown"
]


def byte_tokenizer(texts, special, vocabulary):
    """A byte-level tokenizer that is trained on texts."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

    raw = Tokenizer(models.BPE())
    raw.pre_tokenizer, raw.decoder = pre_tokenizers.ByteLevel(add_prefix_space=False), decoders.ByteLevel()
    settings = {"special_tokens": special, "initial_alphabet": pre_tokenizers.ByteLevel.alphabet()}
    raw.train_from_iterator(texts, trainers.BpeTrainer(vocab_size=vocabulary, show_progress=False, **settings))
    return raw


def write_language_model(folder, kind, *, texts=TEXTS, seed=1, vocabulary=400, **changes):
    """A one-layer T5 or Llama, with a byte-level tokenizer."""
    import transformers as tf
    from tokenizers import processors

    raw = byte_tokenizer(texts, ["<pad>", "</s>"], vocabulary)
    if kind == "seq2seq":
        raw.post_processor = processors.TemplateProcessing(single="$A </s>", special_tokens=[("</s>", 1)])
    tokenizer = tf.PreTrainedTokenizerFast(tokenizer_object=raw, pad_token="<pad>", eos_token="</s>")
    folder.mkdir(parents=True, exist_ok=True)
    tokenizer.save_pretrained(folder)
    if kind == "seq2seq":
        settings = {"d_model": 16, "d_kv": 8, "d_ff": 32, "num_layers": 1, "num_heads": 2, "initializer_factor": 5.0}
        config = tf.T5Config(vocab_size=len(tokenizer), decoder_start_token_id=0, **{**settings, **changes})
        random_model(tf.T5ForConditionalGeneration, config, seed).save_pretrained(folder)
    else:
        settings = {"hidden_size": 16, "intermediate_size": 32, "num_hidden_layers": 1, "num_attention_heads": 2}
        settings |= {"initializer_range": 0.5}
        config = tf.LlamaConfig(
            vocab_size=len(tokenizer), bos_token_id=0, eos_token_id=1, pad_token_id=0,
            **{**settings, **changes},
        )  # fmt: skip
        random_model(tf.LlamaForCausalLM, config, seed).save_pretrained(folder)
    return folder
