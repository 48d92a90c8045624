"""A local Transformers model as an engine, with tiny ones of random weights made here."""

import asyncio
import copy
import json
import shutil
from concurrent.futures import ThreadPoolExecutor

import dspy
import pytest
from dspy.utils.exceptions import LMError

from knowgap.compiling.evaluation.failures import fatal_cause
from knowgap.errors import LanguageModelError, UsageError
from knowgap.lms import HFEngine, check_reachable, make_lm
from tests.lms.local.tiny import NO_SYSTEM, QUESTIONS, SILENT, ask, ask_together, write_chat_model, write_fixed_reply


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return write_chat_model(tmp_path_factory.mktemp("models") / "causal")


@pytest.fixture(scope="module")
def t5(tmp_path_factory):
    return write_chat_model(tmp_path_factory.mktemp("models") / "t5", "seq2seq", template=None)


@pytest.fixture(scope="module")
def engine(folder):
    return HFEngine(str(folder), device="cpu", max_new_tokens=8)


def texts(replies):
    return [reply.message.text for reply in replies]


def test_greedy_replies_are_equal_and_sampling_follows_the_seed(engine):
    first, second = engine.complete(ask()), engine.complete(ask())
    assert first.message.text == second.message.text
    assert first.usage.output_tokens <= 8
    assert first.usage.input_tokens > 5
    assert first.finish_reason in ("stop", "length")
    assert engine.complete(ask(max_tokens=3)).usage.output_tokens <= 3
    warm = [engine.complete(ask(temperature=1.5, seed=seed, max_tokens=8)).message.text for seed in (1, 1, 2, 3, 4)]
    assert warm[0] == warm[1]
    assert len(set(warm)) > 1


def test_a_reply_that_repeats_itself_is_cut_off(tmp_path):
    engine = HFEngine(str(write_fixed_reply(tmp_path, ["so", "on"], ends=False)), device="cpu", max_new_tokens=600)
    greedy, short = ask_together(engine, [ask(), ask(max_tokens=20)])
    assert (greedy.finish_reason, greedy.usage.output_tokens) == ("length", 96)
    assert (short.finish_reason, short.usage.output_tokens) == ("length", 20)
    drawn = engine.complete(ask(temperature=0.01, seed=1, max_tokens=120))
    assert drawn.usage.output_tokens == 120


def test_a_reply_ends_before_a_stop_text(folder):
    engine = HFEngine(str(folder), device="cpu", max_new_tokens=12)
    [whole] = texts([engine.complete(ask())])
    end = whole[len(whole) // 2 :][:3]
    first, second = ask_together(engine, [ask(stop=(end, "never")), ask()])
    assert first.message.text == whole.partition(end)[0]
    assert first.finish_reason == "stop"
    assert first.usage.output_tokens < second.usage.output_tokens
    assert second.message.text == whole


def test_log_probabilities_are_given_when_asked_for(engine):
    assert engine.complete(ask()).logprobs is None
    reply, local = engine.complete(ask(logprobs=2)), engine.load()
    assert reply.usage.output_tokens - 1 <= len(reply.logprobs) <= reply.usage.output_tokens
    assert engine.complete(ask(logprobs=0, temperature=2.0, seed=1)).logprobs != reply.logprobs
    prompt = local.chat_ids([{"role": "system", "content": "Answer."}, {"role": "user", "content": "who wrote it?"}])
    [scores] = engine.score([prompt], [[token.token_id for token in reply.logprobs]])
    assert [token.logprob for token in reply.logprobs] == pytest.approx(scores[0], abs=1e-4)


@pytest.mark.parametrize("kind", ["causal", "t5"])
def test_a_batch_gives_each_request_the_reply_that_it_gets_alone(kind, folder, t5):
    engine = HFEngine(str(folder if kind == "causal" else t5), device="cpu", max_new_tokens=8)
    settings = [
        {}, {"max_tokens": 3}, {"logprobs": 1}, {"temperature": 1.0, "seed": 3, "logprobs": 0},
        {"temperature": 1.5, "top_p": 0.8, "seed": 3}, {"temperature": 1.0, "top_k": 5, "seed": 4},
    ]  # fmt: skip
    requests = [ask(question, **settings[i % 6]) for i, question in enumerate(QUESTIONS)]
    alone = [engine.complete(request) for request in requests]
    together = ask_together(engine, requests)
    assert texts(together) == texts(alone)
    assert [reply.usage for reply in together] == [reply.usage for reply in alone]
    assert len({reply.usage.output_tokens for reply in alone}) > 1
    for one, other in zip(alone, together, strict=True):
        assert (one.logprobs is None) == (other.logprobs is None)
        for token, same in zip(one.logprobs or (), other.logprobs or (), strict=True):
            assert same.token_id == token.token_id
            assert same.logprob == pytest.approx(token.logprob, abs=1e-4)


@pytest.mark.parametrize("kind", ["GPT2LMHeadModel", "BloomForCausalLM", "BartForConditionalGeneration"])
def test_models_that_know_positions_in_another_way(kind, folder, t5, tmp_path):
    import torch
    import transformers

    tokenizer = transformers.AutoTokenizer.from_pretrained(t5 if kind.startswith("Bart") else folder)
    model_class = getattr(transformers, kind)
    small = {"n_layer": 1, "n_head": 2, "initializer_range": 0.5}
    sizes = {
        "GPT2LMHeadModel": {"n_embd": 32, **small},
        "BloomForCausalLM": {"hidden_size": 32, **small},
        "BartForConditionalGeneration": {
            "d_model": 32, "encoder_layers": 1, "decoder_layers": 1, "encoder_attention_heads": 2, "init_std": 0.5,
            "decoder_attention_heads": 2, "decoder_start_token_id": 1, "forced_eos_token_id": 1,
        },
    }  # fmt: skip
    config = model_class.config_class(
        vocab_size=len(tokenizer), bos_token_id=0, eos_token_id=1, pad_token_id=0, **sizes[kind]
    )
    with torch.random.fork_rng():
        torch.manual_seed(1)
        model_class(config).save_pretrained(tmp_path)
    tokenizer.save_pretrained(tmp_path)
    requests = [ask(question) for question in QUESTIONS]
    engine = HFEngine(str(tmp_path), device="cpu", max_new_tokens=6)
    alone = texts(map(engine.complete, requests))
    assert texts(ask_together(engine, requests)) == alone
    assert len(set(alone)) > 5
    scores = engine.choose(QUESTIONS[0], ["known", "known or not, as may be"])
    assert scores == pytest.approx({label: engine.choose(QUESTIONS[0], [label])[label] for label in scores}, rel=1e-4)


@pytest.mark.parametrize("template", [NO_SYSTEM + "{{ messages[0]['content'] }}", SILENT])
def test_a_template_without_a_system_role_gets_it_in_the_first_turn(template, tmp_path):
    folder = write_chat_model(tmp_path / "model", template=template)
    engine = HFEngine(str(folder), device="cpu", max_new_tokens=2)
    plain = engine.complete(ask("Answer.\n\nwho?", system=None)).usage.input_tokens
    assert engine.complete(ask("who?")).usage.input_tokens == plain
    broken = write_chat_model(tmp_path / "broken", template="{{ raise_exception('no turns') }}")
    with pytest.raises(LanguageModelError, match=r"chat template of .* cannot render .*no turns"):
        HFEngine(str(broken), device="cpu").complete(ask())


@pytest.mark.parametrize("kind", ["causal", "t5"])
def test_labels_get_the_probability_of_being_the_whole_reply(kind, folder, t5):
    import torch

    engine = HFEngine(str(folder if kind == "causal" else t5), device="cpu")
    labels = ["known", "unknown", "known or not, as may be"]
    found = {question: engine.choose(question, labels) for question in QUESTIONS[:4]}
    local = engine.load()
    for question, scores in found.items():
        prompt = local.tokenizer(question).input_ids
        for label in labels:
            target = [*local.tokenizer(label, add_special_tokens=False).input_ids, 1]
            with torch.inference_mode():
                if kind == "causal":
                    logits = local.model(torch.tensor([[*prompt, *target]])).logits[0, len(prompt) - 1 : -1]
                else:
                    inputs = torch.tensor([prompt])
                    logits = local.model(input_ids=inputs, labels=torch.tensor([target])).logits[0]
            steps = logits.log_softmax(-1)[range(len(target)), target]
            assert scores[label] == pytest.approx(float(steps.sum()), rel=1e-4)
    with ThreadPoolExecutor(4) as threads:
        together = list(threads.map(lambda question: engine.choose(question, labels), found))
    for scores, expected in zip(together, found.values(), strict=True):
        assert scores == pytest.approx(expected, rel=1e-4)


def test_labels_that_cannot_be_chosen_among(engine):
    for prompt, labels in (("who?", []), ("who?", [""]), ("who?", ["a", "a"]), ("", ["a"])):
        with pytest.raises(UsageError, match="labels that all differ and are not empty"):
            engine.choose(prompt, labels)
    chat = engine.choose([{"role": "user", "content": "who?"}], ["a", "b"])
    assert chat != engine.choose("who?", ["a", "b"])


def test_a_prompt_longer_than_the_window(tmp_path):
    folder = write_chat_model(tmp_path / "model", max_position_embeddings=64)
    lm = make_lm(f"hf/{folder}", device="cpu", cache=False)
    with pytest.raises(
        dspy.ContextWindowExceededError, match=r"the prompt has \d+ tokens, .* reads at most 64"
    ) as error:
        lm("who wrote it? " * 40)
    assert fatal_cause(error.value) is None  # it is the end of one question
    engine = lm.engine
    with pytest.raises(dspy.ContextWindowExceededError):
        engine.choose("who wrote it? " * 40, ["a"])
    reply = engine.complete(ask("book " * 5, max_tokens=200))
    assert reply.usage.input_tokens + reply.usage.output_tokens <= 64
    assert reply.finish_reason in ("stop", "length")


@pytest.mark.parametrize("damage", ["empty", "config", "weights", "other", "device"])
def test_a_folder_that_is_no_model(damage, folder, tmp_path):
    model = shutil.copytree(folder, tmp_path / "model")
    if damage == "empty":
        model = tmp_path / "nothing"
        model.mkdir()
    elif damage == "config":
        (model / "config.json").write_text("{", encoding="utf-8")
    elif damage == "weights":
        (model / "model.safetensors").write_bytes(b"torn")
    elif damage == "other":  # an encoder has no weights that write
        config = json.loads((model / "config.json").read_text())
        (model / "config.json").write_text(json.dumps({**config, "num_hidden_layers": 2}), encoding="utf-8")
    engine = HFEngine(str(model), device="nowhere" if damage == "device" else "cpu")
    expected = "cannot generate: its checkpoint lacks 9 " if damage == "other" else "cannot be loaded"
    with pytest.raises(LanguageModelError, match=expected):
        engine.complete(ask())
    with pytest.raises(LMError) as error:
        dspy.LM("hf/model", engine=engine, cache=False)("who?")
    assert isinstance(fatal_cause(error.value), LanguageModelError)  # it is the end of the run


def test_it_answers_through_dspy_and_its_settings_are_saved_and_part_of_the_key_of_the_cache(folder):
    short, long = (make_lm(f"hf/{folder}", device="cpu", max_new_tokens=n) for n in (2, 6))
    check_reachable(short)
    (output,) = long("who wrote it?", logprobs=True)
    assert all(token.logprob <= 0 for token in output["logprobs"].content)
    for lm in (short, short, long):
        lm("who wrote it?")
    assert [lm.history[-1]["usage"].get("completion_tokens") for lm in (short, long)] == [None, 6]
    loaded = dspy.LM.load_state(short.dump_state(), allow_custom_lm_class=True)
    assert loaded.engine.dump_state() == short.engine.dump_state()
    assert len(asyncio.run(loaded.acall("who wrote it?"))) == 1
    with pytest.raises(UsageError, match="does not take the options frequency_penalty"):
        make_lm(f"hf/{folder}", frequency_penalty=1.0)


def test_it_is_loaded_once_shared_by_copies_and_released(folder, tmp_path):
    engine = HFEngine(str(shutil.copytree(folder, tmp_path / "model")), device="cpu", max_new_tokens=2)
    assert copy.deepcopy(engine) is engine
    first = engine.complete(ask()).message.text
    shutil.rmtree(tmp_path / "model")
    assert engine.complete(ask()).message.text == first
    engine.close()
    with pytest.raises(LanguageModelError, match="cannot be loaded"):
        engine.complete(ask())
