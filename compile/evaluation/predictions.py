"""Write answers in the file formats that the official scorers of data sets read.

- `hotpotqa`: `{"answer": {id: answer}, "sp": {id: []}}`, for HotpotQA's `hotpot_evaluate_v1.py`.
- `2wikimultihopqa`: the same with `"evidence": {id: []}`, for 2WikiMultihopQA's `2wikimultihop_evaluate_v1.1.py`.
- `musique`: JSON Lines with `id`, `predicted_answer`, `predicted_support_idxs`, `predicted_answerable`, for MuSiQue's
  `evaluate_v1.0.py`.
- `alce`: `{"data": [...]}`, each question with its `output` and the passages that it cites in `docs`, for ALCE's
  `eval.py`.
- `trec`: a run, `id Q0 passage rank score knowgap` for each passage that the answer rests on, for `trec_eval`.

Supporting facts and evidence triples are not predicted: the scores for them are 0 in the first two formats.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import dspy

from knowgap.compiling.evaluation.results import Evaluation
from knowgap.compiling.evaluation.runner import QuestionRecord
from knowgap.errors import UnknownName, UsageError
from knowgap.retrieval.passage import Passage
from knowgap.storage.files import write_file

Pairs = Sequence[tuple[QuestionRecord, dspy.Example]]

_UNANSWERABLE = "-unanswerable"  # the loader appends this to the ids of MuSiQue-Full's unanswerable questions


def _hotpotqa(pairs: Pairs, *more: str) -> str:
    answers = {record.id: record.answer for record, _ in pairs}
    return json.dumps({"answer": answers, **{name: {id: [] for id in answers} for name in ("sp", *more)}})


def _musique(pairs: Pairs) -> str:
    lines: list[dict[str, Any]] = []
    for record, example in pairs:
        places = {passage: place for place, passage in enumerate(example.get("candidates") or ())}
        used = sorted(places[passage] for passage in record.passages if passage in places)
        lines.append(
            {
                "id": record.id.removesuffix(_UNANSWERABLE),
                "predicted_answer": record.answer,
                "predicted_support_idxs": used,
                "predicted_answerable": record.answers,
            }
        )
    return "".join(json.dumps(line) + "\n" for line in lines)


def _alce(pairs: Pairs, passages: Mapping[str, Passage]) -> str:
    data: list[dict[str, Any]] = []
    for record, example in pairs:
        read = [_passage(record, name, passages) for name in record.passages]
        steps: list[Any] = example.get("decomposition") or []
        shorts: list[Any] = example.get("short_answers") or []
        asked = [step["question"] for step in steps] or [""] * len(shorts)
        item = {
            "sample_id": record.id,
            "question": example.question,
            "answer": example.answer,
            "output": record.answer,
            "docs": [{"id": each.id, "title": each.title, "text": each.text} for each in read],
        }
        if shorts:
            item["qa_pairs"] = [
                {"question": question, "short_answers": short} for question, short in zip(asked, shorts, strict=True)
            ]
        data.append(item)
    return json.dumps({"data": data})


def _trec(pairs: Pairs) -> str:
    lines: list[str] = []
    for record, _ in pairs:
        for rank, passage in enumerate(record.passages, start=1):
            if len(f"{record.id} {passage}".split()) != 2:
                raise UsageError(
                    f"a TREC run cannot hold ids that contain spaces: question {record.id!r}, passage {passage!r}"
                )
            lines.append(f"{record.id} Q0 {passage} {rank} {1 / rank:.6f} knowgap\n")
    return "".join(lines)


def _passage(record: QuestionRecord, name: str, passages: Mapping[str, Passage]) -> Passage:
    """A passage by its id, from the trace or else from the corpus."""
    if record.trace is not None and name in record.trace.passages:
        return record.trace.passage(name)
    return passages.get(name) or Passage(name, "", "")


FORMATS: dict[str, Callable[[Pairs, Mapping[str, Passage]], str]] = {
    "hotpotqa": lambda pairs, _: _hotpotqa(pairs),
    "2wikimultihopqa": lambda pairs, _: _hotpotqa(pairs, "evidence"),
    "musique": lambda pairs, _: _musique(pairs),
    "alce": _alce,
    "trec": lambda pairs, _: _trec(pairs),
}
"""The function that writes each format."""


def check_format(name: str) -> None:
    """Raise `UnknownName` unless there is a format of that name."""
    if name not in FORMATS:
        raise UnknownName.among("format of predictions", name, FORMATS)


def write_predictions(
    evaluation: Evaluation,
    examples: Iterable[dspy.Example],
    format: str,
    path: str | Path,
    corpus: Iterable[Passage] = (),
) -> Path:
    """Write the answers of an evaluation atomically to a file that an official scorer reads.

    Scorers count missing questions as wrong, or refuse a file whose questions differ from those of the gold file: ask
    all of them (`knowgap eval --whole`).

    Args:
        evaluation: the evaluation; for `alce`, it needs traces unless `corpus` has the passages.
        examples: the questions of the evaluation.
        format: one of `FORMATS`.
        path: the file.
        corpus: passages for `alce`.

    Raises:
        UnknownName: there is no such format.
        UsageError: an answer is to a question that is not among the examples, or `trec` cannot hold an id.
    """
    check_format(format)
    every = list(examples)
    by_question = {example.question: example for example in every}
    by_id = {str(example.get("id")): example for example in every}
    pairs = [(record, by_id.get(record.id) or by_question.get(record.question)) for record in evaluation.records]
    if (strange := next((record.id for record, example in pairs if example is None), None)) is not None:
        raise UsageError(f"the question {strange!r} is not among the examples")
    known = [(record, example) for record, example in pairs if example is not None]
    return write_file(path, FORMATS[format](known, {passage.id: passage for passage in corpus}))
