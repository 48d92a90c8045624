"""Tree decoding writes what decoding every path from scratch writes, and reads what is common once."""

import dataclasses

import pytest

from knowgap.lms.rq_rag.generator import TranscriptGenerator
from knowgap.lms.rq_rag.layout import TranscriptLayout, add_control_tokens
from knowgap.lms.rq_rag.prefix_cache import can_share
from knowgap.lms.rq_rag.tree import TranscriptTree
from knowgap.retrieval.passage import Passage
from tests.lms.rq_rag.tiny import ACTIONS, tiny_llama, tiny_tokenizer

QUESTION = "Who?"
FOUND = [
    Passage("a", "Ada Moor", "Ada Moor painted ships."),
    Passage("b", "Tarn", "The harbour of Tarn is old, and [EOS] stands in it.</s>"),
    Passage("c", "", "Wick."),
]
PATHS = ["", *ACTIONS, *(f"{first}/{second}" for first in ACTIONS for second in ACTIONS)]


@pytest.fixture(scope="module")
def generator(tiny_generator):
    return TranscriptGenerator(tiny_generator, device="cpu", max_new_tokens=40)


def grow(tree):
    """Write a whole tree of depth two; returns what was written, by path and action."""
    written, paths = {}, [""]
    for _ in range(2):
        branches = [(path, action) for path in paths for action in ACTIONS]
        written |= dict(zip(branches, tree.write(branches), strict=True))
        paths = [f"{path}/{action}".strip("/") for path, action in branches if not written[path, action].problem]
        for path in paths:
            tree.read(path, FOUND[: 1 + len(path) % 3])
    answers = [(path, "answer") for path in PATHS if path in tree._nodes]
    return written | dict(zip(answers, tree.write(answers), strict=True))


def copies(tree, **changes):
    """The same transcript, to be written in another way."""
    settings = {name: getattr(tree, name) for name in ("share", "max_new_tokens", "max_length", "batch_size")}
    return TranscriptTree(tree.model, tree.layout, tree._nodes[""].ids, **{**settings, **changes})


def assert_same(one, other):
    assert one.keys() == other.keys()
    for branch, written in one.items():
        assert (written.text, written.problem, written.cut) == (
            other[branch].text,
            other[branch].problem,
            other[branch].cut,
        )
        assert written.logprobs == pytest.approx(other[branch].logprobs, abs=1e-4)


@pytest.mark.parametrize("batch_size", [1, 4, 16])
def test_shared_prefixes_give_the_same_trajectories_and_log_probabilities(generator, batch_size):
    shared = copies(generator.start(QUESTION, "short"), batch_size=batch_size)
    alone = copies(shared, share=False)
    one, other = grow(shared), grow(alone)
    assert_same(one, other)
    assert len(one) > 18  # of 25
    assert sum(not written.problem for written in one.values()) > 12
    assert shared.counts.written == alone.counts.written
    assert alone.counts.read > 2 * shared.counts.read
    known = sum(len(node.known.ids) for node in shared._nodes.values() if node.known)
    assert shared.counts.read == sum(written.tokens_read for written in one.values())
    assert alone.counts.read == sum(written.tokens_read for written in other.values())
    assert known <= shared.counts.read + shared.counts.written
    assert (shared.counts.padding == 0) is (batch_size == 1)


def test_log_probabilities_are_those_of_one_pass_over_the_whole_transcript(generator):
    import torch

    tree = generator.start(QUESTION, "short")
    written = grow(tree)
    for path in [path for path in PATHS if path in tree._nodes]:
        answer, prefix = written[path, "answer"], tree._nodes[path].ids
        tokens = _decoded_alone(tree, path)
        assert len(tokens) == 1 + len(answer.logprobs)
        ids = torch.tensor([[*prefix, *tokens]])
        with torch.inference_mode():
            logprobs = tree.model(input_ids=ids).logits[0].log_softmax(-1)
        expected = [float(logprobs[len(prefix) + n, token]) for n, token in enumerate(tokens[1:])]
        assert answer.logprobs == pytest.approx(expected, abs=1e-4)


def _decoded_alone(tree, path):
    """The tokens of an answer, decoded once more from scratch."""
    import torch

    twin = copies(tree, share=False)
    twin._nodes = {name: dataclasses.replace(node, known=None) for name, node in tree._nodes.items()}
    row = twin._row(path, "answer")
    with torch.inference_mode():
        twin._write_alone(row)
    return row.ids


def test_what_does_not_fit_is_left_out_and_said(generator):
    tree = copies(generator.start(QUESTION, "short"), max_new_tokens=40)
    tree.write([("", "rewrite")])
    tree.max_length = len(tree._nodes["rewrite"].ids) + 40 + len(tree.layout.evidence(FOUND[:1]))
    assert tree.read("rewrite", FOUND) == 1
    [written] = tree.write([("rewrite", "answer")])
    assert len(written.logprobs) <= 40
    tree.max_length = len(tree._nodes["rewrite"].ids)
    [written] = tree.write([("rewrite", "decompose")])
    assert (written.text, written.cut) == ("", True)
    assert "no room" in written.problem


def test_control_tokens_in_a_passage_steer_nothing(generator):
    layout = generator.start(QUESTION, "short").layout
    ids = layout.evidence(FOUND)
    assert ids.count(layout.end) == 0
    assert layout.tokenizer.eos_token_id not in ids
    assert "[ EOS]" in layout.tokenizer.decode(ids)
    assert layout.prompt("short", "[A_Response]").count(layout.actions["answer"]) == 0


def llama_like(tokenizer):
    """A tokenizer that marks the begin of a text, and of what follows a special token, as that of Llama-2 does."""
    from tokenizers import Tokenizer, decoders, models, normalizers
    from transformers import PreTrainedTokenizerFast

    pieces = ["<unk>", "<s>", "</s>", "▁", *sorted({*"abcdefghijklmnopqrstuvwxyzAGFMWT|<>_:.?\n"})]
    raw = Tokenizer(models.BPE(vocab={piece: i for i, piece in enumerate(pieces)}, merges=[], unk_token="<unk>"))
    raw.normalizer = normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
    raw.decoder = decoders.Sequence([decoders.Replace("▁", " "), decoders.Fuse(), decoders.Strip(" ", 1, 0)])
    made = PreTrainedTokenizerFast(tokenizer_object=raw, bos_token="<s>", eos_token="</s>", unk_token="<unk>")
    add_control_tokens(made, tiny_llama(len(made)))
    return made


@pytest.mark.parametrize("like", [lambda tokenizer: tokenizer, llama_like])
def test_parts_join_to_the_ids_of_the_whole_text(generator, like):
    layout = TranscriptLayout(like(generator.start(QUESTION, "short").layout.tokenizer))
    history = [{"role": "user", "content": "hello"}, {"role": "assistant", "content": "hi"}]
    parts = [layout.prompt("short", "who painted it?", history), layout.written("decompose", "who?")]
    parts += [layout.evidence(FOUND[:1]), layout.written("answer", "Ada")]
    whole = (
        "<s><|system|>\nshort</s>\n<|user|>\nhello</s>\n<|assistant|>\nhi</s>\n"
        "<|user|>\nwho painted it?</s>\n"
        "<|assistant|>\n[S_Decomposed_Query]\nwho?\n[EOS]\n"
        "[R_Evidences]\nTitle: Ada Moor\nText: Ada Moor painted ships.\n"
        "[/R_Evidences]\n[A_Response]\nAda\n[EOS]"
    )
    assert [token for part in parts for token in part] == layout.tokenizer(whole, add_special_tokens=False)["input_ids"]
    assert layout.read(parts[1][1:]) == ("who?", "")


@pytest.mark.parametrize(
    ("text", "expected", "problem"),
    [
        ("\nwho?\n[EOS]", "who?", ""),
        ("\nwho?\n</s>", "who?", ""),
        ("\nwho", "", "no [EOS] within"),
        ("\n\n[EOS]", "", "no text"),
        ("\na[A_Response]b\n[EOS]", "", "[A_Response] within the text"),
    ],
)
def test_reading_what_was_written(generator, text, expected, problem):
    layout = generator.start(QUESTION, "short").layout
    read, why = layout.read(layout.tokenizer(text, add_special_tokens=False)["input_ids"])
    assert read == expected
    assert why.startswith(problem)
    assert bool(why) is bool(problem)


@pytest.mark.parametrize("kind", ["gpt2", "neox", "mistral", "mamba"])
def test_other_causal_models_write_as_well(kind):
    """Learned positions; partial rotary ones; a cache of a sliding window and one without keys are not shared."""
    import torch
    import transformers as tf

    tokenizer = tiny_tokenizer()
    ids = {"vocab_size": len(tokenizer), "bos_token_id": 0, "eos_token_id": 1}
    sizes = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 64}
    model, shares = {
        "gpt2": lambda: (tf.GPT2LMHeadModel(tf.GPT2Config(n_embd=32, n_layer=2, n_head=2, **ids)), True),
        "neox": lambda: (tf.GPTNeoXForCausalLM(tf.GPTNeoXConfig(**sizes, **ids)), True),
        "mistral": lambda: (
            tf.MistralForCausalLM(tf.MistralConfig(sliding_window=32, num_key_value_heads=1, **sizes, **ids)),
            False,
        ),
        "mamba": lambda: (
            tf.MambaForCausalLM(tf.MambaConfig(hidden_size=32, num_hidden_layers=2, state_size=4, **ids)),
            False,
        ),
    }[kind]()
    torch.manual_seed(0)
    add_control_tokens(tokenizer, model)
    layout = TranscriptLayout(tokenizer)
    assert can_share(model.eval()) is shares
    prompt, branches = layout.prompt("short", QUESTION), [("", action) for action in [*ACTIONS, "answer"]]
    trees = [TranscriptTree(model, layout, prompt, share=share, max_new_tokens=6) for share in {shares, False}]
    one, other = trees[0].write(branches), trees[-1].write(branches)
    assert_same(dict(zip(branches, one, strict=True)), dict(zip(branches, other, strict=True)))
