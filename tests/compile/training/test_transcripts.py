"""Transcripts that a teacher writes: queries, what they find, and an answer from that; kept, or dropped and counted."""

import pytest
from support import UNREADABLE, OverlapRetriever, scripted_lm

from knowgap.compiling.data.dataset import make_example
from knowgap.compiling.run import Run
from knowgap.compiling.training.config import GeneratorConfig
from knowgap.compiling.training.generator import action_of, construct_transcripts
from knowgap.errors import UsageError
from knowgap.retrieval.passage import Passage, part_id

CORPUS = [
    Passage("ferry", "The Grey Ferry", "The Grey Ferry was painted by Ada Moor."),
    Passage("moor", "Ada Moor", "Ada Moor was born in Wick."),
    Passage("tarn", "Tarn", "Tarn is a town by the sea."),
    Passage("film", "Tarn (film)", "Tarn is a film of 1950."),
]
INDEX = OverlapRetriever(CORPUS)
HOPS = "Where was the painter of The Grey Ferry born?"
EXAMPLES = [
    make_example(id="one", question="Who painted The Grey Ferry?", answers=["Ada Moor"], type="", gold_ids=["ferry"]),
    make_example(id="two", question=HOPS, answers=["Wick"], type="bridge", gold_ids=["ferry", "moor"]),
    make_example(id="either", question="What is Tarn?", answers=["a town", "a film"], type="ambiguous"),
    make_example(id="hello", question="Thank you!", answers=["You are welcome."], type="chat"),
]  # fmt: skip
PLANS = {
    "Who painted The Grey Ferry?": {"search": True, "queries": ["painter of The Grey Ferry"]},
    "Thank you!": {"search": False, "queries": []},
    HOPS: {"queries": ["1. Who painted The Grey Ferry?", "2. Where was Ada Moor born?"]},
    "What is Tarn?": {"queries": ["What is the town Tarn?", "What is the film Tarn?"]},
}
ANSWERS = {HOPS: "Wick", "What is Tarn?": "Tarn is a town or a film", "Thank you!": "With pleasure."}


def teach(plans=PLANS, answers=ANSWERS):
    """A teacher by table; unlisted questions are answered with Ada Moor."""

    def rule(outputs, inputs):
        table = plans if "queries" in outputs else answers
        return table.get(inputs["question"], "Ada Moor")

    return scripted_lm(rule)


def construct(path, examples=EXAMPLES, teacher=None, index=INDEX, corpus=CORPUS, top_k=2):
    lm, engine = teacher or teach()
    run = Run(lm, num_threads=1)
    return construct_transcripts(examples, index, corpus, path, GeneratorConfig(top_k=top_k), run), engine


def test_a_transcript_of_every_kind(tmp_path):
    (records, calls), engine = construct(tmp_path / "t.jsonl")
    one, two, either, hello = records
    assert [record.action for record in records] == ["rewrite", "decompose", "disambiguate", "rewrite"]
    assert [record.dropped for record in records] == ["", "", "", ""]
    assert [step.query for step in one.steps] == ["painter of The Grey Ferry"]
    assert [step.query for step in two.steps] == ["Who painted The Grey Ferry?", "Where was Ada Moor born?"]
    assert [passage.id for passage in two.steps[1].passages] == ["moor", "ferry"]
    assert [step.query for step in either.steps] == ["What is the town Tarn?", "What is the film Tarn?"]
    assert (hello.steps, hello.answer, hello.style) == ([], "With pleasure.", "long")
    assert calls == len(engine.calls) == 8
    seen = {inputs["question"]: inputs for outputs, inputs in engine.calls if "queries" in outputs}
    assert [passage["title"] for passage in seen[HOPS]["passages"]] == ["The Grey Ferry", "Ada Moor"]  # table 5
    answering = [inputs for outputs, inputs in engine.calls if "answer" in outputs and inputs["question"] == HOPS]
    assert [step["query"] for step in answering[0]["searched"]] == [step.query for step in two.steps]


@pytest.mark.parametrize(
    ("teacher", "reason"),
    [
        ({"plans": {HOPS: UNREADABLE}}, "could not be read"),
        ({"plans": {HOPS: {"queries": []}}}, "no query"),
        ({"plans": {HOPS: {"queries": ["Who painted The Grey Ferry?"]}}}, "did not find all gold"),  # appendix B.4
        ({"answers": {HOPS: UNREADABLE}}, "could not be read"),
        ({"answers": {HOPS: "Osk"}}, ""),  # section 4.4: new answers are not tied to the data set's own
    ],
)
def test_what_gives_no_transcript_is_dropped_and_counted(tmp_path, teacher, reason):
    ([record], _), _ = construct(tmp_path / "t.jsonl", EXAMPLES[1:2], teach(**teacher), top_k=1)
    assert reason in record.dropped
    assert bool(record.dropped) == bool(reason)


def test_a_part_of_a_gold_document_is_a_gold_passage(tmp_path):
    parts = [Passage(part_id(p.id, "0123456789"), p.title, p.text) for p in CORPUS]
    (records, _), _ = construct(tmp_path / "t.jsonl", EXAMPLES[1:2], index=OverlapRetriever(parts), corpus=[])
    assert [record.dropped for record in records] == [""]


def test_a_file_of_something_else_is_refused_and_what_is_missing_written(tmp_path):
    path = tmp_path / "t.jsonl"
    construct(path)
    assert construct(path)[0][1] == 0
    with pytest.raises(UsageError, match="top_k"):
        construct(path, top_k=1)
    renamed = [EXAMPLES[0].copy(id="new"), EXAMPLES[1].copy(id="one")]
    assert construct(path, renamed)[0][1] == 4  # another question with an id that is in the file


def test_actions_go_by_type_else_by_gold_passages():
    assert action_of(EXAMPLES[0].copy(type="long_form")) == "disambiguate"
    assert action_of(EXAMPLES[0].copy(gold_ids=["a", "b"])) == "decompose"
    assert action_of(EXAMPLES[0]) == "rewrite"


def test_a_question_is_searched_among_its_own_candidates(tmp_path):
    """Appendix B.4: by BM25."""

    class Elsewhere:
        def search(self, queries, k):
            raise AssertionError("the whole index was searched")

    example = EXAMPLES[1].copy(candidates=["tarn", "moor", "ferry"])
    ([record], _), _ = construct(tmp_path / "t.jsonl", [example], index=Elsewhere(), top_k=1)
    assert [[p.id for p in step.passages] for step in record.steps] == [["ferry"], ["moor"]]
