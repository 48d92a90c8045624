"""A local Transformers model as an engine, with tiny ones of random weights made here."""

import copy
import json
import shutil

import dspy
import pytest
from dspy.lm15 import Config, Message, Request
from dspy.utils.exceptions import LMError

from knowgap.compiling.evaluation.runner import fatal_cause
from knowgap.errors import LanguageModelError, UsageError
from knowgap.lms import HFEngine, check_reachable, make_lm
from tests.tiny import CHAT, write_chat_model

NO_SYSTEM = "{% if messages[0]['role'] == 'system' %}{{ raise_exception('System role not supported') }}{% endif %}"


def ask(question="who wrote it?", *, system="Answer.", **config):
    return Request(model="hf/tiny", messages=(Message.user(question),), system=system, config=Config(**config))


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return write_chat_model(tmp_path_factory.mktemp("models") / "causal")


@pytest.fixture(scope="module")
def engine(folder):
    return HFEngine(str(folder), device="cpu", max_new_tokens=8)


@pytest.mark.parametrize(("kind", "template"), [("causal", CHAT), ("seq2seq", None)])
def test_greedy_replies_are_equal_and_sampling_follows_the_seed(tmp_path, kind, template):
    folder = write_chat_model(tmp_path / "model", kind, template)
    engine = HFEngine(str(folder), device="cpu", max_new_tokens=8)
    first, second = engine.complete(ask()), engine.complete(ask())
    assert first.message.text == second.message.text
    assert first.usage.output_tokens <= 8
    assert first.usage.input_tokens > 5
    assert first.finish_reason in ("stop", "length")
    assert engine.complete(ask(max_tokens=3)).usage.output_tokens <= 3
    warm = [engine.complete(ask(temperature=1.5, seed=seed, max_tokens=8)).message.text for seed in (1, 1, 2, 3, 4)]
    assert warm[0] == warm[1]
    assert len(set(warm)) > 1


def test_a_reply_ends_before_a_stop_text(tmp_path):
    folder = write_chat_model(tmp_path / "letters", alphabet=["w"])
    engine = HFEngine(str(folder), device="cpu", max_new_tokens=12)
    whole = engine.complete(ask())
    before, stop, after = whole.message.text[:6], whole.message.text[6:9], whole.message.text[9:]
    first = engine.complete(ask(stop=(stop, "never"), logprobs=0))
    assert after
    assert first.message.text == (before + stop).partition(stop)[0]
    assert (first.finish_reason, len(first.logprobs)) == ("stop", first.usage.output_tokens)
    assert first.usage.output_tokens < whole.usage.output_tokens


def test_log_probabilities_are_given_when_asked_for(engine):
    import torch

    assert engine.complete(ask()).logprobs is None
    reply, local = engine.complete(ask(logprobs=2)), engine.local
    assert reply.usage.output_tokens - 1 <= len(reply.logprobs) <= reply.usage.output_tokens
    assert engine.complete(ask(logprobs=0, temperature=2.0, seed=1)).logprobs != reply.logprobs
    prompt = local.chat_ids([{"role": "system", "content": "Answer."}, {"role": "user", "content": "who wrote it?"}])
    written = [token.token_id for token in reply.logprobs]
    with torch.inference_mode():
        logits = local.model(torch.tensor([[*prompt, *written]])).logits[0, len(prompt) - 1 : -1]
    expected = logits.log_softmax(-1)[range(len(written)), written].tolist()
    assert [token.logprob for token in reply.logprobs] == pytest.approx(expected, abs=1e-4)


def test_a_template_without_a_system_role_gets_it_in_the_first_turn(tmp_path):
    folder = write_chat_model(tmp_path / "model", template=NO_SYSTEM + "{{ messages[0]['content'] }}")
    engine = HFEngine(str(folder), device="cpu", max_new_tokens=2)
    plain = engine.complete(ask("Answer.\n\nwho?", system=None)).usage.input_tokens
    assert engine.complete(ask("who?")).usage.input_tokens == plain
    broken = write_chat_model(tmp_path / "broken", template="{{ raise_exception('no turns') }}")
    with pytest.raises(LanguageModelError, match=r"chat template of .* cannot render .*no turns"):
        HFEngine(str(broken), device="cpu").complete(ask())


def test_a_prompt_longer_than_the_window(tmp_path):
    folder = write_chat_model(tmp_path / "model", max_position_embeddings=64)
    lm = make_lm(f"hf/{folder}", device="cpu", cache=False)
    with pytest.raises(
        dspy.ContextWindowExceededError, match=r"the prompt has \d+ tokens, .* reads at most 64"
    ) as error:
        lm("who wrote it? " * 40)
    assert fatal_cause(error.value) is None  # it is the end of one question
    engine = lm.engine
    reply = engine.complete(ask("book " * 5, max_tokens=200))
    assert reply.usage.input_tokens + reply.usage.output_tokens <= 64
    assert reply.finish_reason in ("stop", "length")


def test_a_folder_that_is_no_model(folder, tmp_path):
    model = shutil.copytree(folder, tmp_path / "model")
    config = json.loads((model / "config.json").read_text())
    (model / "config.json").write_text(json.dumps({**config, "num_hidden_layers": 2}), encoding="utf-8")
    for device, problem in (("cpu", "its checkpoint lacks 9 "), ("nowhere", "cannot be loaded")):
        engine = HFEngine(str(model), device=device)
        with pytest.raises(LanguageModelError, match=problem):
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
    assert len(loaded("who wrote it?")) == 1
    with pytest.raises(UsageError, match="does not take the options frequency_penalty"):
        make_lm(f"hf/{folder}", frequency_penalty=1.0)


def test_it_is_loaded_once_and_shared_by_copies(folder, tmp_path):
    engine = HFEngine(str(shutil.copytree(folder, tmp_path / "model")), device="cpu", max_new_tokens=2)
    assert copy.deepcopy(engine) is engine
    first = engine.complete(ask()).message.text
    shutil.rmtree(tmp_path / "model")
    assert engine.complete(ask()).message.text == first
