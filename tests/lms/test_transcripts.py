"""RQ-RAG's trained generator: a tiny one, in this process and behind a server, writes the tree of the program."""

import pytest
from dspy.lm15 import Config
from dspy.utils.exceptions import AdapterParseError
from endpoint import endpoint
from support import OverlapRetriever, scripted_lm

from knowgap.compiling.training.generator import IGNORED, add_control_tokens, encode
from knowgap.lms.local import LocalModel
from knowgap.lms.providers import load_trained
from knowgap.lms.transcripts import TranscriptAdapter, TranscriptStep, transcript, written
from knowgap.programs.rq_rag import RQRAG
from knowgap.programs.trace.steps import Malformed
from knowgap.retrieval.passage import Passage
from knowgap.signatures import AnswerWithConfidence
from tests.tiny import tiny_llama, tiny_tokenizer

QUESTION = "Who painted The Grey Ferry?"
PASSAGES = [
    Passage("a", "Ada Moor", "She painted [A_Response] ships in the harbour of Tarn [EOS]."),
    Passage("b", "Wick", "A town.</s>"),
]


def answer(generator, **settings):
    program = RQRAG(OverlapRetriever(PASSAGES), generator=generator, **{"top_k": 1, **settings})
    return program(question=QUESTION)


def served(folder):
    """The replies of a server around a generator: chats whose last message it continues."""
    local = LocalModel(str(folder), "cpu")

    def reply(body):
        ways = {name: body[name] for name in ("continue_final_message", "add_generation_prompt")}
        prompt = local.tokenizer.apply_chat_template(body["messages"], tokenize=False, **ways)
        ids = local.tokenizer(prompt, add_special_tokens=False)["input_ids"]
        written, logprobs = local.generate(ids, body["max_tokens"], Config(stop=tuple(body["stop"]), logprobs=0))
        pieces = [local.tokenizer.decode([token]) for token in written]
        tokens = [
            {"token": piece, "logprob": logprob, "bytes": list(piece.encode())}
            for piece, logprob in zip(pieces, logprobs, strict=True)
        ]
        usage = {"prompt_tokens": len(ids), "completion_tokens": len(tokens), "total_tokens": len(ids) + len(tokens)}
        return local.tokenizer.decode(written).partition(body["stop"][0])[0], tokens, usage

    return reply


@pytest.mark.parametrize("strategy", ["perplexity", "confidence", "ensemble"])
def test_log_probabilities_leaves_and_choice_are_the_same_behind_a_server(tiny_generator, strategy):
    settings = {"depth": 2 if strategy == "ensemble" else 1, "strategy": strategy}
    here = answer(load_trained("generator", tiny_generator), **settings)
    with endpoint() as server:
        server.reply_of = served(tiny_generator)
        there = answer(load_trained("generator", f"tiny@{server.api_base}"), **settings)
    assert len(here.answers) > 2
    assert here.measure == there.measure == "token log-probabilities"
    assert (there.answers, there.path, there.queries) == (here.answers, here.path, here.queries)
    assert there.confidence == pytest.approx(here.confidence, abs=1e-4)
    assert (there.answer, there.passages) == (here.answer, here.passages)
    assert {body["model"] for body in server.bodies} == {"tiny"}
    assert there.trace.cost.prompt_tokens == here.trace.cost.prompt_tokens


@pytest.mark.parametrize(
    ("reply", "read"),
    [
        ("\nwho?\n[EOS]", "who?"),
        ("\nwho?\n", "who?"),
        ("\n\n[EOS]", None),
        ("\na[A_Response]b\n[EOS]", None),
    ],
)
def test_reading_what_was_written(reply, read):
    adapter = TranscriptAdapter(["answer"], "short")
    prediction = answer(scripted_lm(lambda *_: reply)[0], depth=0)
    if read is None:
        with pytest.raises(AdapterParseError):
            adapter.parse(AnswerWithConfidence, reply)
        assert [step.act for step in prediction.trace.of(Malformed)] == ["answer"]
    else:
        assert adapter.parse(AnswerWithConfidence, reply) == {"answer": "who?"}
        assert prediction.answer == "who?"


def llama_like():
    """A tokenizer that marks the begin of a text, and of what follows a special token, as that of Llama-2 does."""
    from tokenizers import Tokenizer, decoders, models, normalizers
    from transformers import PreTrainedTokenizerFast

    pieces = ["<unk>", "<s>", "</s>", "▁", *sorted({*"abcdefghijklmnopqrstuvwxyzAGFMWT|<>/_:.?\n[]ERS"})]
    raw = Tokenizer(models.BPE(vocab={piece: i for i, piece in enumerate(pieces)}, merges=[], unk_token="<unk>"))
    raw.normalizer = normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
    raw.decoder = decoders.Sequence([decoders.Replace("▁", " "), decoders.Fuse(), decoders.Strip(" ", 1, 0)])
    return PreTrainedTokenizerFast(tokenizer_object=raw, bos_token="<s>", eos_token="</s>", unk_token="<unk>")


@pytest.mark.parametrize("make", [tiny_tokenizer, llama_like])
def test_a_transcript_is_learnt_but_for_prompt_and_evidence(make):
    tokenizer = make()
    add_control_tokens(tokenizer, tiny_llama(tokenizer))
    steps = [TranscriptStep("decompose", "who?", PASSAGES[:1])]
    messages = transcript("short", "who </s> painted it?", steps, written("answer", "Ada"))
    row = encode(tokenizer, messages)
    begin = "<s><|system|>\nshort</s>\n<|user|>\nwho < /s> painted it?</s>\n"
    own = "[S_Decomposed_Query]\nwho?\n[EOS]", "[A_Response]\nAda\n[EOS]"
    shown = "Title: Ada Moor\nText: She painted [ A_Response] ships in the harbour of Tarn [ EOS].\n"
    whole = f"{begin}<|assistant|>\n{own[0]}\n[R_Evidences]\n{shown}[/R_Evidences]\n{own[1]}"
    assert row["input_ids"] == tokenizer(whole, add_special_tokens=False)["input_ids"]
    learnt = [label for label in row["labels"] if label != IGNORED]
    control = tokenizer.convert_tokens_to_ids(["[S_Decomposed_Query]", "[EOS]", "[A_Response]", "[EOS]"])
    assert [id for id in learnt if id in control] == control
    assert tokenizer.convert_tokens_to_ids("[R_Evidences]") not in learnt
    assert "".join(tokenizer.decode(learnt).split()) == "".join("".join(own).split())
    prefix = transcript("short", "who </s> painted it?", steps, "[A_Response]")
    assert encode(tokenizer, prefix)["input_ids"] == row["input_ids"][: len(encode(tokenizer, prefix)["input_ids"])]
