"""Transcripts that a teacher writes: queries, what they find, and an answer from that; kept, or dropped and counted."""

import pytest
from support import UNREADABLE, OverlapRetriever, scripted_lm

from knowgap.compiling.data.dataset import make_example
from knowgap.compiling.run import Run
from knowgap.compiling.training import GeneratorConfig
from knowgap.compiling.training.generator import encode_record
from knowgap.compiling.training.language_model import IGNORED
from knowgap.compiling.training.transcripts import (
    SearchStep,
    TranscriptRecord,
    construct_transcripts,
    count_transcripts,
    kind_of,
)
from knowgap.errors import UsageError
from knowgap.lms.transcripts import add_control_tokens
from knowgap.retrieval.passage import Passage, part_id
from tests.lms.tiny_generator import tiny_tokenizer

CORPUS = [
    Passage("ferry", "The Grey Ferry", "The Grey Ferry was painted by Ada Moor."),
    Passage("moor", "Ada Moor", "Ada Moor was born in Wick."),
    Passage("tarn", "Tarn", "Tarn is a town by the sea."),
    Passage("film", "Tarn (film)", "Tarn is a film of 1950."),
]
HOPS = "Where was the painter of The Grey Ferry born?"
EXAMPLES = [
    make_example(id="one", question="Who painted The Grey Ferry?", answers=["Ada Moor"], type="", gold_ids=["ferry"]),
    make_example(id="two", question=HOPS, answers=["Wick"], type="bridge", gold_ids=["ferry", "moor"]),
    make_example(id="either", question="What is Tarn?", answers=["a town", "a film"], type="ambiguous"),
    make_example(id="hello", question="Thank you!", answers=["You are welcome."], type="chat",
                 history=[{"role": "user", "content": "Who painted it?"}, {"role": "assistant", "content": "Moor."}]),
]  # fmt: skip
PLANS = {
    "Who painted The Grey Ferry?": {"search": True, "queries": ["painter of The Grey Ferry"]},
    "Thank you!": {"search": False, "queries": []},
    HOPS: {"queries": ["1. Who painted The Grey Ferry?", "2. Where was Ada Moor born?"]},
    "What is Tarn?": {"queries": ["What is the town Tarn?", "What is the film Tarn?"]},
}
ANSWERS = {HOPS: "Wick", "What is Tarn?": "Tarn is a town or a film", "Thank you!": "With pleasure."}


def teach(plans=PLANS, answers=ANSWERS, supported=True):
    """A teacher by table; unlisted questions are answered with Ada Moor."""

    def rule(outputs, inputs):
        question = inputs["question"]
        if "queries" in outputs:
            return plans[question]
        return {"answer": answers.get(question, "Ada Moor"), "supported": supported}

    return scripted_lm(rule)


def construct(path, examples=EXAMPLES, teacher=None, **config):
    lm, engine = teacher or teach()
    run = Run(lm, num_threads=1)
    made = construct_transcripts(examples, OverlapRetriever(CORPUS), CORPUS, path, GeneratorConfig(**config), run)
    return made, engine


def test_a_transcript_of_every_kind(tmp_path):
    made, engine = construct(tmp_path / "t.jsonl", top_k=2)
    one, two, either, hello = made.records
    assert [record.kind for record in made.records] == ["single_hop", "multi_hop", "ambiguous", "chat"]
    assert [record.dropped for record in made.records] == ["", "", "", ""]
    assert [(step.action, step.query) for step in one.steps] == [("rewrite", "painter of The Grey Ferry")]
    assert [step.query for step in two.steps] == ["Who painted The Grey Ferry?", "Where was Ada Moor born?"]
    assert [passage["id"] for passage in two.steps[1].passages] == ["moor", "ferry"]
    assert {step.action for step in either.steps} == {"disambiguate"}
    assert (hello.steps, hello.answer, hello.style) == ([], "With pleasure.", "long")
    assert made.calls == len(engine.calls) == 8
    seen = {inputs["question"]: inputs for outputs, inputs in engine.calls if "queries" in outputs}
    assert [passage["title"] for passage in seen[HOPS]["passages"]] == ["The Grey Ferry", "Ada Moor"]  # table 5
    assert [turn["role"] for turn in seen["Thank you!"]["history"]] == ["user", "assistant"]  # table 4
    answering = [inputs for outputs, inputs in engine.calls if "answer" in outputs and inputs["question"] == HOPS]
    assert [step["query"] for step in answering[0]["searched"]] == [step.query for step in two.steps]
    assert "Wick" not in str(answering[0]["style"])


@pytest.mark.parametrize(
    ("teacher", "reason"),
    [
        ({"plans": {HOPS: UNREADABLE}}, "unreadable"),
        ({"plans": {HOPS: {"queries": []}}}, "no query"),
        ({"plans": {HOPS: {"queries": ["Who painted The Grey Ferry?"]}}}, "gold not found"),
        ({"supported": False}, "not supported"),
        ({"answers": {HOPS: "Tarn"}}, "other answer"),
        ({"answers": {HOPS: UNREADABLE}}, None),
    ],
)
def test_what_does_not_match_is_dropped_and_counted(tmp_path, teacher, reason):
    made, _ = construct(tmp_path / "t.jsonl", EXAMPLES[1:2], teach(**teacher), top_k=1)
    [record] = made.records
    assert record.dropped == (reason or "other answer")
    [(words, count)] = count_transcripts(made.records).items()
    assert (words[:9], count) == ("dropped: ", 1)
    switches = {"gold not found": "drop_unfound", "not supported": "drop_answers", "other answer": "drop_answers"}
    for switch in {*switches.values()} if reason in switches else ():
        kept, _ = construct(tmp_path / f"{switch}.jsonl", EXAMPLES[1:2], teach(**teacher), top_k=1, **{switch: False})
        assert [record.dropped for record in kept.records] == ["" if switch == switches[reason] else reason]


def test_a_part_of_a_gold_document_is_a_gold_passage(tmp_path):
    parts = [Passage(part_id(p.id, "0123456789"), p.title, p.text) for p in CORPUS]
    config, run = GeneratorConfig(top_k=2), Run(teach()[0])
    made = construct_transcripts(EXAMPLES[1:2], OverlapRetriever(parts), [], tmp_path / "t.jsonl", config, run)
    assert [record.dropped for record in made.records] == [""]


def test_a_killed_run_is_continued(tmp_path):
    path = tmp_path / "t.jsonl"
    whole, _ = construct(path)
    lines = path.read_text().splitlines(keepends=True)
    path.write_text("".join(lines[:3]) + lines[3][:20])  # two records, and a part of a third
    again, engine = construct(path)
    assert again.records == whole.records
    assert len(engine.calls) == 4
    assert path.read_text() == "".join(lines)
    assert construct(path)[0].calls == 0


def test_a_file_of_something_else_is_refused(tmp_path):
    path = tmp_path / "t.jsonl"
    construct(path)
    with pytest.raises(UsageError, match="about another top_k"):
        construct(path, top_k=1)
    renamed = [EXAMPLES[0].copy(id="new"), EXAMPLES[1].copy(id="one")]
    assert construct(path, renamed)[0].calls == 4  # another question with an id that is in the file


def test_kinds_go_by_type_else_by_steps():
    assert kind_of(EXAMPLES[0].copy(type="instruction")) == "chat"
    assert kind_of(EXAMPLES[0].copy(type="long_form")) == "ambiguous"
    assert kind_of(EXAMPLES[0].copy(decomposition=[{"question": "a"}, {"question": "b"}])) == "multi_hop"
    assert kind_of(EXAMPLES[0]) == "single_hop"


def test_only_what_the_model_writes_is_learnt():
    tokenizer = tiny_tokenizer()
    add_control_tokens(tokenizer)
    steps = [SearchStep(action="decompose", query="Who?", passages=[CORPUS[0].to_dict()])]
    record = TranscriptRecord(id="1", kind="multi_hop", question=HOPS, steps=steps, answer="Wick")
    example = encode_record(tokenizer, record)
    learnt = [token for token, label in zip(example["input_ids"], example["labels"], strict=True) if label != IGNORED]
    assert tokenizer.decode(learnt) == "[S_Decomposed_Query]\nWho?\n[EOS][A_Response]\nWick\n[EOS]"
    whole = tokenizer.decode(example["input_ids"])
    assert whole.startswith("<s><|system|>\n")
    assert f"<|user|>\n{HOPS}</s>\n<|assistant|>\n[S_Decomposed_Query]\nWho?\n[EOS]\n[R_Evidences]\nTitle: The" in whole


def test_the_papers_run_keeps_answers_that_are_none_of_the_known_ones(tmp_path):
    """Section 4.4: new answers are not tied to the data set's own."""
    lm, _ = teach(answers={HOPS: "Osk"}, supported=False)
    config = GeneratorConfig.as_in_paper(top_k=1, max_queries=2)
    made = construct_transcripts([EXAMPLES[1]], OverlapRetriever(CORPUS), CORPUS, tmp_path / "t.jsonl", config, Run(lm))
    assert [(record.answer, record.dropped) for record in made.records] == [("Osk", "")]


def test_a_question_is_searched_among_its_own_candidates(tmp_path):
    """Appendix B.4: by BM25."""

    class Elsewhere:
        def search(self, queries, k):
            raise AssertionError("the whole index was searched")

    example = make_example(
        id="two", question=HOPS, answers=["Wick"], type="bridge", gold_ids=["ferry", "moor"],
        candidates=["tarn", "moor", "ferry"],
    )  # fmt: skip
    config = GeneratorConfig(top_k=1)
    made = construct_transcripts([example], Elsewhere(), CORPUS, tmp_path / "t.jsonl", config, Run(teach()[0]))
    assert [[p["id"] for p in step.passages] for step in made.records[0].steps] == [["ferry"], ["moor"]]
