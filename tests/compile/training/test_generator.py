"""RQ-RAG's generator: a teacher's transcripts are kept, or dropped and counted; a causal model learns to write them."""

import pytest
from safetensors.numpy import load_file
from support import UNREADABLE, OverlapRetriever, scripted_lm

from knowgap.compiling.data import Dataset
from knowgap.compiling.data.dataset import make_example
from knowgap.compiling.run import Run
from knowgap.compiling.training import train
from knowgap.compiling.training.config import GeneratorConfig, Job
from knowgap.compiling.training.generator import TranscriptRecord, action_of, construct_transcripts, train_generator
from knowgap.errors import UsageError
from knowgap.lms.providers import load_trained
from knowgap.programs.rq_rag import RQRAG
from knowgap.retrieval.passage import Passage
from tests.tiny import write_base_model

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
    job = Job(examples, index, corpus, path, "", GeneratorConfig(top_k=top_k), run)
    return construct_transcripts(job, path), engine


def test_a_transcript_of_every_kind(tmp_path):
    (records, calls), engine = construct(tmp_path / "t.jsonl")
    one, two, either, hello = records
    assert [record.action for record in records] == ["rewrite", "decompose", "disambiguate", "rewrite"]
    assert [record.dropped for record in records] == ["", "", "", ""]
    assert action_of(EXAMPLES[0].copy(type="long_form")) == "disambiguate"
    assert [query for query, _ in one.steps] == ["painter of The Grey Ferry"]
    assert [query for query, _ in two.steps] == ["Who painted The Grey Ferry?", "Where was Ada Moor born?"]
    assert [passage.id for passage in two.steps[1][1]] == ["moor", "ferry"]
    assert [query for query, _ in either.steps] == ["What is the town Tarn?", "What is the film Tarn?"]
    assert (hello.steps, hello.answer, hello.style) == ([], "With pleasure.", "long")
    assert calls == len(engine.calls) == 8
    seen = {inputs["question"]: inputs for outputs, inputs in engine.calls if "queries" in outputs}
    assert [passage["title"] for passage in seen[HOPS]["passages"]] == ["The Grey Ferry", "Ada Moor"]  # table 5
    answering = [inputs for outputs, inputs in engine.calls if "answer" in outputs and inputs["question"] == HOPS]
    assert [step["query"] for step in answering[0]["searched"]] == [query for query, _ in two.steps]


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


def test_a_file_of_something_else_is_refused_and_what_is_missing_written(tmp_path):
    path = tmp_path / "t.jsonl"
    construct(path)
    assert construct(path)[0][1] == 0
    with pytest.raises(UsageError, match="top_k"):
        construct(path, top_k=1)
    renamed = [EXAMPLES[0].copy(id="new"), EXAMPLES[1].copy(id="one")]
    assert construct(path, renamed)[0][1] == 4  # another question with an id that is in the file


def test_a_question_is_searched_among_its_own_candidates(tmp_path):
    """Appendix B.4: by BM25."""

    class Elsewhere:
        def search(self, queries, k):
            raise AssertionError("the whole index was searched")

    example = EXAMPLES[1].copy(candidates=["tarn", "moor", "ferry"])
    ([record], _), _ = construct(tmp_path / "t.jsonl", [example], index=Elsewhere(), top_k=1)
    assert [[p.id for p in found] for _, found in record.steps] == [["ferry"], ["moor"]]


PASSAGES = [Passage(name, name, f"{name} is old.") for name in ("Orle", "Tarn", "Venn", "Moss", "Fell", "Dune")]
SMALL = {"batch_size": 6, "gradient_accumulation": 1, "max_length": 512}
CONFIG = GeneratorConfig(epochs=30, learning_rate=5e-3, seed=1, **SMALL)


def record(passage, action="rewrite"):
    return TranscriptRecord(
        id=f"{passage.id}-{action}",
        action=action,
        question=f"How old is {passage.id}?",
        steps=[("age", [passage])],
        answer="old",
    )


RECORDS = [record(passage, action) for passage in PASSAGES[:4] for action in ("rewrite", "decompose", "disambiguate")]


@pytest.fixture(scope="module")
def base(tmp_path_factory):
    return str(write_base_model(tmp_path_factory.mktemp("base") / "llama"))


def train_tiny(records, output, base, config=CONFIG):
    return train_generator(Job([], INDEX, CORPUS, output, base, config, Run()), records)


def test_held_out_transcripts_can_be_read(base, tmp_path):
    dropped = record(PASSAGES[5]).model_copy(update={"dropped": "no query", "id": "dropped"})
    result = train_tiny([*RECORDS, dropped], tmp_path / "generator", base)
    assert (result.examples, result.steps, result.folder) == (12, 60, tmp_path / "generator")
    generator = load_trained("generator", tmp_path / "generator")
    program = RQRAG(OverlapRetriever(PASSAGES), generator=generator, depth=1, top_k=1)
    costs = [program(question=f"How old is {passage.id}?").trace.cost for passage in PASSAGES[4:]]
    calls, unreadable = (sum(getattr(cost, name) for cost in costs) for name in ("lm_calls", "unreadable"))
    assert calls >= 8
    assert unreadable / calls < 0.5
    assert sum(cost.cut for cost in costs) == 0


def test_with_lora_the_new_tokens_are_learnt_and_the_matrices_merged(base, tmp_path):
    config = GeneratorConfig(epochs=2, learning_rate=1e-3, lora_rank=4, **SMALL)
    train_tiny(RECORDS, tmp_path / "one", base, config)
    before, after = load_file(f"{base}/model.safetensors"), load_file(tmp_path / "one" / "model.safetensors")
    words = before["model.embed_tokens.weight"].shape[0]
    assert after["model.embed_tokens.weight"].shape[0] == words + 7
    assert (after["model.embed_tokens.weight"][:words] == before["model.embed_tokens.weight"]).all()
    changed = "model.layers.0.self_attn.q_proj.weight"
    assert (before[changed] != after[changed]).any()
    assert load_trained("generator", tmp_path / "one")("Who?", max_tokens=4)


def test_a_teachers_transcripts_are_learnt_and_those_too_long_counted(base, tmp_path):
    examples = [make_example(id=p.id, question=f"How old is {p.id}?", answers=["old"], type="") for p in PASSAGES[:2]]
    examples[1].question = "How " + "very " * 200 + "old is Tarn?"
    rule = {"queries": ["age"], "answer": "old", "search": True}
    teacher, _ = scripted_lm(lambda outputs, inputs: {name: rule[name] for name in outputs})
    data = Dataset("data", {"train": examples}, PASSAGES, "")
    [made] = train("rq-rag", data, OverlapRetriever(PASSAGES), tmp_path / "made", base=base, run=Run(teacher), **SMALL)
    assert (made.examples, made.steps) == (1, 1)
    assert all(part in made.notes[0] for part in ("2 written, rewrite", "1 learnt", "4 calls"))
    assert (tmp_path / "made-transcripts.jsonl").exists()
