"""The file of answers: a killed run continues from it; another, a foreign or a damaged one is refused."""

from __future__ import annotations

import dspy
import orjson
import pytest
from compile_helpers import reading_lm, reading_rule
from support import scripted_lm

from knowgap.compiling import evaluate
from knowgap.errors import DataError, UsageError


def test_a_killed_run_continues_from_its_file(program, examples, tmp_path):
    path = tmp_path / "deep" / "answers.jsonl"
    lm, engine = reading_lm()
    whole = evaluate(program, examples, "exact_match", lm=lm, output=path)
    assert len(engine.calls) == 8
    lines = path.read_bytes().splitlines(keepends=True)
    assert len(lines) == 9
    path.write_bytes(b"".join(lines[:4]) + lines[4][:25])  # three answers and a torn one
    again = evaluate(program, examples, "exact_match", lm=lm, output=path)
    assert len(engine.calls) == 8 + 5
    assert [(r.id, r.scores) for r in again.records] == [(r.id, r.scores) for r in whole.records]
    assert len(path.read_bytes().splitlines()) == 9
    evaluate(program, examples, "exact_match", lm=lm, output=path)
    assert len(engine.calls) == 13
    path.write_bytes(lines[0][:19])  # a torn header: everything is asked anew
    evaluate(program, examples, "exact_match", lm=lm, output=path)
    assert len(engine.calls) == 21
    assert path.read_bytes().splitlines(keepends=True)[0] == lines[0]


def test_another_evaluation_is_refused(program, examples, tmp_path, lm):
    path = tmp_path / "answers.jsonl"
    evaluate(program, examples, "exact_match", lm=lm, output=path)
    with pytest.raises(UsageError, match="differs in: metrics"):
        evaluate(program, examples, "f1", lm=lm, output=path)
    with pytest.raises(UsageError, match="differs in: data, program"):
        evaluate(program.deepcopy().configure(top_k=2), examples[:4], "exact_match", lm=lm, output=path)
    program.answer.demos = [dspy.Example(question="x", passages=[], style="short", answer="y")]
    program.retriever.quality = "exact"
    with pytest.raises(UsageError, match="differs in: index, program"):
        evaluate(program, examples, "exact_match", lm=lm, output=path)
    with pytest.raises(UsageError, match="is a folder"):
        evaluate(program, examples, "exact_match", lm=lm, output=tmp_path)


def test_a_foreign_or_damaged_file_is_refused(program, examples, tmp_path, lm):
    path = tmp_path / "answers.jsonl"
    for content in ("a shopping list", "a shopping list\n", '{"kind": "other"}\n'):
        path.write_text(content)
        with pytest.raises(UsageError, match="not a file of answers"):
            evaluate(program, examples, "f1", lm=lm, output=path)
        assert path.read_text() == content
    path.unlink()
    evaluate(program, examples, "f1", lm=lm, output=path)
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join([lines[0], lines[1][:9] + b"\n", *lines[2:]]))
    with pytest.raises(DataError, match=r"answers\.jsonl:2: damaged line"):
        evaluate(program, examples, "f1", lm=lm, output=path)


def test_altered_lines_and_those_of_another_file_are_refused(program, examples, tmp_path, lm):
    path, other = tmp_path / "answers.jsonl", tmp_path / "other.jsonl"
    evaluate(program, examples, "f1", lm=lm, output=path)
    evaluate(program.deepcopy().configure(top_k=2), examples, "f1", lm=lm, output=other)
    lines, foreign = (file.read_bytes().splitlines(keepends=True) for file in (path, other))
    head = orjson.loads(lines[0])
    for position, wrong in (
        (0, orjson.dumps({**head, "check": "0" * 16}) + b"\n"),
        (0, lines[0].replace(b'"check"', b'"chekc"')),
        (3, lines[3].replace(b'"f1":1.0', b'"f1":0.0')),
        (3, lines[3].replace(b',"check"', b',"chekc"')),
        (3, foreign[3]),
    ):
        path.write_bytes(b"".join([*lines[:position], wrong, *lines[position + 1 :]]))
        with pytest.raises(DataError, match=rf"answers\.jsonl:{position + 1}: damaged line"):
            evaluate(program, examples, "f1", lm=lm, output=path)
    records = [{key: value for key, value in orjson.loads(line).items() if key != "check"} for line in lines]
    path.write_bytes(b"".join(orjson.dumps(record) + b"\n" for record in records[:-1]))  # of an earlier version
    assert len(evaluate(program, examples, "f1", lm=lm, output=path).records) == len(examples)
    assert b"check" not in path.read_bytes()


def test_a_full_disk_ends_the_run_and_keeps_what_was_answered(program, examples, tmp_path, lm):
    resource = pytest.importorskip("resource")  # not on Windows
    path, engine = tmp_path / "answers.jsonl", lm.engine
    whole = evaluate(program, examples, "f1", lm=lm, output=path)
    limit = len(b"".join(path.read_bytes().splitlines(keepends=True)[:4])) + 20  # into the fourth answer
    path.unlink()
    before, asked = resource.getrlimit(resource.RLIMIT_FSIZE), len(engine.calls)
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, before[1]))
    try:
        with pytest.raises(OSError, match=r"File too large.*answers\.jsonl"):
            evaluate(program, examples, "f1", lm=lm, output=path, num_threads=1)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert len(path.read_bytes().splitlines()) == 4
    assert len(engine.calls) == asked + 4
    again = evaluate(program, examples, "f1", lm=lm, output=path)
    assert len(engine.calls) == asked + 4 + len(examples) - 3
    assert [(r.id, r.scores) for r in again.records] == [(r.id, r.scores) for r in whole.records]


def test_two_evaluations_do_not_write_to_one_file(program, examples, tmp_path):
    path = tmp_path / "answers.jsonl"
    refused = []

    def rule(outputs, inputs):
        if not refused:
            with pytest.raises(UsageError, match="another evaluation is writing") as caught:
                evaluate(program, examples, "f1", lm=lm, output=path)
            refused.append(str(caught.value))
        return reading_rule(outputs, inputs)

    lm, _ = scripted_lm(rule)
    assert evaluate(program, examples, "f1", lm=lm, output=path, num_threads=1).mean() == 1.0
    assert len(refused) == 1
    assert len(path.read_bytes().splitlines()) == 9
