"""A local Transformers model as an engine, with a tiny one of random weights made here."""

import asyncio
import copy
import math
import shutil

import dspy
import pytest
from dspy.lm15 import Config, Message, Request

from knowgap.errors import LanguageModelError
from knowgap.lms import AsyncHFEngine, HFEngine, check_reachable, make_lm

CHAT = "{% for m in messages %}<|{{ m['role'] }}|>{{ m['content'] }}</s>{% endfor %}<|assistant|>"


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    import torch
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
    from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

    path = tmp_path_factory.mktemp("tiny")
    raw = Tokenizer(models.BPE())
    raw.pre_tokenizer, raw.decoder = pre_tokenizers.ByteLevel(add_prefix_space=False), decoders.ByteLevel()
    special = ["<s>", "</s>", "<|user|>", "<|system|>", "<|assistant|>"]
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    raw.train_from_iterator(
        ["who wrote the book"], trainers.BpeTrainer(vocab_size=300, special_tokens=special, initial_alphabet=alphabet)
    )
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=raw, eos_token="</s>", chat_template=CHAT)
    tokenizer.save_pretrained(path)
    torch.manual_seed(0)
    config = LlamaConfig(vocab_size=len(tokenizer), hidden_size=16, intermediate_size=32, num_hidden_layers=1,
                         num_attention_heads=2, bos_token_id=0, eos_token_id=1)  # fmt: skip
    LlamaForCausalLM(config).save_pretrained(path)
    return path


@pytest.fixture(scope="module")
def engine(folder):
    return HFEngine(str(folder), device="cpu", max_new_tokens=8)


def request(**config):
    question = Message.user("who wrote it?")
    return Request(model="hf/tiny", messages=(question,), system="Answer.", config=Config(**config))


def test_greedy_replies_are_equal_and_sampling_follows_the_seed(engine):
    first, second = engine.complete(request()), engine.complete(request())
    assert first.message.text == second.message.text
    assert first.usage.output_tokens <= 8
    assert first.usage.input_tokens > 5
    assert first.finish_reason in ("stop", "length")
    assert engine.complete(request(max_tokens=3)).usage.output_tokens <= 3
    warm = [engine.complete(request(temperature=1.5, seed=seed, max_tokens=8)).message.text for seed in (1, 1, 2, 3, 4)]
    assert warm[0] == warm[1]
    assert len(set(warm)) > 1


def test_log_probabilities_are_given_when_asked_for(engine):
    assert engine.complete(request()).logprobs is None
    reply = engine.complete(request(logprobs=2))
    assert reply.usage.output_tokens - 1 <= len(reply.logprobs) <= reply.usage.output_tokens
    for token in reply.logprobs:
        assert token.logprob <= 0
        assert len(token.top) == 2
        assert token.logprob == pytest.approx(token.top[0].logprob)  # greedy takes the best
        assert sum(math.exp(t.logprob) for t in token.top) <= 1


def test_it_answers_through_dspy(folder):
    lm = make_lm(f"hf/{folder}", device="cpu", max_new_tokens=4, cache=False)
    check_reachable(lm)
    assert len(asyncio.run(lm.acall("who wrote it?"))) == 1
    (output,) = lm("who wrote it?", logprobs=True, top_logprobs=1)
    assert all(token.logprob <= 0 for token in output["logprobs"].content)
    assert lm.history[-1]["usage"]["completion_tokens"] <= 4


def test_it_is_loaded_once_shared_by_copies_and_released(folder, tmp_path):
    engine = HFEngine(str(shutil.copytree(folder, tmp_path / "model")), device="cpu", max_new_tokens=2)
    assert copy.deepcopy(engine) is engine
    first = engine.complete(request()).message.text
    shutil.rmtree(tmp_path / "model")
    assert engine.complete(request()).message.text == first
    engine.close()
    with pytest.raises(LanguageModelError, match="cannot be loaded"):
        engine.complete(request())


def test_its_settings_are_saved(folder):
    engine = HFEngine(str(folder), device="cpu", max_new_tokens=2)
    assert HFEngine.load_state(engine.dump_state()).dump_state() == engine.dump_state()
    assert AsyncHFEngine.load_state(AsyncHFEngine(engine).dump_state()).dump_state() == engine.dump_state()
    state = dspy.LM("hf/tiny", engine=engine, async_engine=AsyncHFEngine(engine)).dump_state()
    assert dspy.LM.load_state(state, allow_custom_lm_class=True).engine.max_new_tokens == 2
