"""StrategyQA (Geva et al., 2021): yes/no questions whose strategy is implicit, a JSON array in the official layout.

`{"qid", "question", "answer": bool, "decomposition": [str], "evidence": per annotator, per step, lists of ids}`

Paragraphs come from a second file beside the questions, `<stem>_paragraphs.jsonl` (records with `title`, `para_index`
and `contents`) or the release's `<stem>_paragraphs.json` (one object, by id); without it the corpus is empty. A passage
id is `Title-para_index`, as in the evidence. Gold passages are those of any annotator.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from knowgap.compiling.data.dataset import Examples, PassagePool, make_example
from knowgap.compiling.data.records import Record, read_json_object, read_records

_NOT_IDS = frozenset({"operation", "no_evidence"})


def read_strategyqa(path: Path, pool: PassagePool) -> Examples:
    """Yield record numbers and examples of a file; the paragraphs beside it go into the pool."""
    for record in _read_paragraphs(path):
        title, index = record.text("title"), record.need("para_index", int)
        text = record.text("contents" if "contents" in record.data else "content")
        pool.add(title, text, f"{title}-{index}", source=(record, "para_index"))
    for record in read_records(path):
        steps = [{"question": step, "answer": ""} for step in record.texts("decomposition")]
        example = make_example(
            id=record.identifier("qid"),
            question=record.text("question"),
            answers=["yes" if record.need("answer", bool) else "no"],
            type="yes_no",
            gold_ids=_leaves(record, record.get("evidence", list, [])),
            decomposition=steps,
        )
        yield record.line, example


def _leaves(record: Record, value: Any) -> Iterator[str]:
    if isinstance(value, list):
        for item in value:
            yield from _leaves(record, item)
    elif not isinstance(value, str):
        raise record.error(f"must hold paragraph ids in nested lists, holds {value!r}", "evidence")
    elif value not in _NOT_IDS:
        yield value


def _read_paragraphs(path: Path) -> Iterator[Record]:
    lines = path.with_name(f"{path.stem}_paragraphs.jsonl")
    if lines.exists():
        yield from read_records(lines)
        return
    release = path.with_name(f"{path.stem}_paragraphs.json")
    if release.exists():
        paragraphs = Record(read_json_object(release), release, 1)
        yield from (paragraphs.object(id) for id in paragraphs.data)
