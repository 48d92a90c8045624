"""Questions that a language model writes from an index: kept, dropped with reasons, continued."""

import json
import re

import pytest
from dspy.utils.exceptions import LMAuthError, LMInvalidRequestError, LMTransportError
from support import UNREADABLE, scripted_lm

from knowgap.compiling.data import load_dataset
from knowgap.compiling.evaluation.evaluator import evaluate
from knowgap.compiling.questions.writing import write_questions
from knowgap.compiling.run import Run
from knowgap.errors import LanguageModelError, LanguageModelUnreachable, UnknownName, UsageError
from knowgap.lms import make_lm
from knowgap.programs.baselines.rag import RAG
from knowgap.retrieval.indexes import BM25Index
from knowgap.retrieval.outside import RemoteRetriever
from knowgap.retrieval.passage import Passage
from knowgap.retrieval.words import words

NAMES = ["Ada Castle", "Bo Windmill", "Cy Lighthouse", "Di Brewery",
         "Ed Chapel", "Flo Opera", "Gus Prison", "Hal School"]  # fmt: skip
FATES = ["painted", "flooded", "locked", "swept", "haunted", "rented", "gilded", "shut"]
HOUSES = [
    Passage(name.split()[0], name, f"{name} stands beside {other} on the long road to the harbour, and it was {fate}.")
    for name, other, fate in zip(NAMES, [*NAMES[1:], NAMES[0]], FATES, strict=True)
]


NAMED = re.compile(r"«(.*?)»")


def last_word(passage):
    return words(passage["text"])[-1]


def good_author(outputs, inputs, **changed):
    """Replies of an author whose questions pass every check; `changed` has other replies: write, read, settle."""
    if "possible" in outputs:
        titles = " and ".join(f"«{passage['title']}»" for passage in inputs["passages"])
        answer, question = last_word(inputs["passages"][-1]), f"How does {titles} end?"
        if "link" in inputs:
            question = f"What became of the engineer who once linked {titles}?"
        steps = [{"question": "What ends it?", "answer": "that"}]
        reply = {"possible": True, "steps": steps, "question": question, "answer": answer}
        return changed.get("write", reply)
    if "clear" in outputs:
        return changed.get("read", {"clear": True, "knows": False, "answer": ""})
    if "settled" in outputs:
        needed = NAMED.findall(inputs["question"])
        there = [p for p in inputs["passages"] if p["title"] in needed]
        answer = last_word(inputs["passages"][-1])
        return changed.get("settle", {"settled": len(there) == len(needed), "answer": answer})
    assert "correct" in outputs
    return {"correct": inputs["prediction"].startswith(inputs["reference"])}


def author(**changed):
    return lambda outputs, inputs: good_author(outputs, inputs, **changed)


@pytest.fixture(scope="module")
def index():
    return BM25Index.from_passages(HOUSES)


def write(index, folder, rule, **options):
    lm, engine = scripted_lm(rule)
    own = {name: options.pop(name) for name in ("seed", "progress") if name in options}
    run = Run(lm=lm, num_threads=options.pop("num_threads", 1), **own)
    return write_questions(index, folder / "q.jsonl", run=run, **{"n": 4, **options}), engine


def test_questions_of_every_kind_are_own_questions_with_gold_passages(index, tmp_path):
    done, engine = write(index, tmp_path, author())
    assert [draft.kind for draft in done.kept] == ["one_hop", "one_hop", "two_hop", "two_hop"]
    assert done.calls == len(engine.calls) == 3 + 3 + 5 + 5
    data = load_dataset(tmp_path / "q.jsonl", split_as="test")
    for example, draft in zip(data.questions("test"), done.kept, strict=True):
        assert (example.question, example.type, example.id) == (draft.question, draft.kind, draft.id)
        assert example.gold_ids == [passage["id"] for passage in draft.passages]
        assert len(example.gold_ids) == (2 if draft.kind == "two_hop" else 1)
        assert not index.missing_ids(example.gold_ids)
    scored = evaluate(RAG(index), data.questions("test"), run=Run(lm=make_lm("extractive")))
    assert scored.evidence()


def written(question, answer, **more):
    return {"write": {"possible": True, "question": question, "answer": answer}, **more}


@pytest.mark.parametrize(
    ("kind", "reason", "changed"),
    [
        ("two_hop", "the passages give no question of the kind", written("", "Wick")),
        ("one_hop", "the answer has more than 12 words", written("What is it?", "harbour " * 13)),
        ("one_hop", "the answer stands in the question", written("Where is the harbour?", "harbour")),
        ("one_hop", "the answer is not worded as in the passages", written("What is it?", "Tarn")),
        ("one_hop", "the question is not understood by itself", {"read": {"clear": False, "knows": False}}),
        ("one_hop", "its passages do not settle it", {"settle": {"settled": False, "answer": ""}}),
        ("two_hop", "another answer is found in its passages", {"settle": {"settled": True, "answer": "Tarn"}}),
        (
            "two_hop",
            "one of its two passages settles it",
            written("Where?", "harbour", settle={"settled": True, "answer": "harbour"}),
        ),
    ],
)
def test_what_fails_a_check_is_dropped_and_counted(index, tmp_path, kind, reason, changed):
    with pytest.raises(UsageError, match="'kept': 0"):
        write(index, tmp_path, author(**changed), n=1, kinds=[kind])
    records = [json.loads(line) for line in (tmp_path / "q.jsonl.drafts").read_text().splitlines()[1:]]
    assert [record["dropped"] for record in records] == [reason] * 3


def test_what_the_model_knows_is_kept_and_marked_and_another_wording_becomes_an_alias(index, tmp_path):
    def rule(outputs, inputs):
        reply = dict(good_author(outputs, inputs))
        if "clear" in outputs:
            wrong, unsure = ("Ada" in inputs["question"], "Bo" in inputs["question"])
            return {"clear": True, "knows": not unsure, "answer": "Tarn" if wrong else answers[inputs["question"]]}
        if "settled" in outputs:
            reply["answer"] += " by hand"
        if "possible" in outputs:
            answers[reply["question"]] = reply["answer"]
        return reply

    answers = {}
    done, _ = write(index, tmp_path, rule, n=8, kinds=["one_hop"])
    known = {draft.question: draft.from_memory for draft in done.kept}
    assert known == {question: "Ada" not in question and "Bo" not in question for question in answers}
    assert done.counts()["kept, but known from memory"] == 6
    assert sum(json.loads(line)["from_memory"] for line in (tmp_path / "q.jsonl").read_text().splitlines()) == 6
    aliases = [example.aliases for example in load_dataset(tmp_path / "q.jsonl", split_as="test").questions("test")]
    assert aliases == [[draft.answer, f"{draft.answer} by hand"] for draft in done.kept]


def test_a_repeated_question_is_dropped(index, tmp_path):
    same, seen = written("Where does the road lead?", "harbour", settle={"settled": True, "answer": "harbour"}), []
    heard = {"progress": lambda *report: seen.append(report[:2])}
    done, _ = write(index, tmp_path, author(**same), n=2, kinds=["one_hop"], **heard)
    assert [draft.dropped for draft in done.drafts] == ["", *["it asks the same as an earlier one"] * 5]
    assert seen == [(1, 2), (2, 2), (3, 3), (4, 4), (5, 5), (6, 6)]  # the drafts of earlier rounds on both sides


@pytest.mark.parametrize("num_threads", [1, 4])
def test_a_killed_run_continues_and_asks_nothing_twice(index, tmp_path, num_threads):
    whole, before = write(index, tmp_path, author(), n=8, num_threads=num_threads)
    text, drafts = (tmp_path / "q.jsonl").read_text(), tmp_path / "q.jsonl.drafts"
    lines = drafts.read_text().splitlines(keepends=True)
    drafts.write_text("".join(lines[:6]) + lines[6][:30])
    again, engine = write(index, tmp_path, author(), n=8)
    assert (again.drafts, (tmp_path / "q.jsonl").read_text()) == (whole.drafts, text)
    assert 0 < again.calls == len(engine.calls) < whole.calls
    mine = text.replace(whole.kept[0].question, "Who asks?").strip()
    (tmp_path / "q.jsonl").write_text(mine)
    write(index, tmp_path, author(), n=2)
    more, engine = write(index, tmp_path, author(), n=12)
    added = (tmp_path / "q.jsonl").read_text().removeprefix(mine).splitlines()
    assert [json.loads(line)["id"] for line in added[1:]] == [each.id for each in more.kept if each.id not in mine]
    assert len(more.kept) == 12
    assert not {str(call) for call in engine.calls} & {str(call) for call in before.calls}
    assert {draft.id for draft in whole.kept} <= {draft.id for draft in more.kept}


def test_a_reply_that_fails_costs_its_question_alone(index, tmp_path):
    faults = {"Ada Castle": UNREADABLE, "Bo Windmill": LMInvalidRequestError("filtered")}

    def rule(outputs, inputs):
        fault = faults.get(inputs["passages"][0]["title"]) if "possible" in outputs else None
        if isinstance(fault, Exception):
            raise fault
        return fault or good_author(outputs, inputs)

    done, _ = write(index, tmp_path, rule, n=8, kinds=["one_hop"])
    assert sorted(draft.dropped for draft in done.drafts) == [
        *[""] * 6,
        "a reply of the language model could not be read",
        "the language model refused the request",
    ]


@pytest.mark.parametrize(
    ("fault", "error"),
    [(LMTransportError("the wire is cut"), LanguageModelUnreachable), (LMAuthError("no such key"), LanguageModelError)],
)
def test_a_model_that_cannot_be_asked_ends_the_run(index, tmp_path, fault, error):
    def rule(outputs, inputs):
        raise fault

    with pytest.raises(error):
        write(index, tmp_path, rule)
    assert not (tmp_path / "q.jsonl").exists()


def test_refusals(index, tmp_path):
    for error, match, retriever, options in (
        (UnknownName, "'two_hop'", index, {"kinds": ["two-hop"]}),
        (UsageError, "n = -2", index, {"n": -2}),
        (UsageError, "does not list its passages", RemoteRetriever("http://127.0.0.1:1"), {}),
        (UsageError, "12 words", BM25Index.from_passages([Passage("a", "A", "Short.")]), {}),
    ):
        with pytest.raises(error, match=match):
            write(retriever, tmp_path, author(), **options)
    write(index, tmp_path, author())
    (tmp_path / "q.jsonl.drafts").unlink()
    with pytest.raises(UsageError, match=r"q\.jsonl\.drafts"):
        write(index, tmp_path, author())
    with pytest.raises(UsageError, match="already exists"):
        write_questions(index, ".", run=Run(lm=scripted_lm(author())[0]))
