"""The layout of BEIR (Thakur et al., 2021): a folder with `corpus.jsonl`, `queries.jsonl` and `qrels/<split>.tsv`.

Queries are `{"_id", "text", "metadata"}`; judgements are rows `query-id<TAB>corpus-id<TAB>score` under a header, and a
score above 0 makes a passage gold. The answer is the query's `metadata.answer` where there is one, else empty: such
data measure retrieval alone.
"""

from __future__ import annotations

from pathlib import Path

import dspy

from knowgap.compile.data.dataset import SPLITS, make_example
from knowgap.compile.data.records import Record, read_json_lines, read_table
from knowgap.errors import DataError

__all__ = ["is_beir", "read_beir"]


def is_beir(folder: Path) -> bool:
    """Whether a folder has this layout."""
    return (folder / "queries.jsonl").is_file() and (folder / "qrels").is_dir()


def read_beir(folder: Path, split: str | None = None) -> dict[str, list[dspy.Example]]:
    """The judged queries by split; queries without a judgement are no questions.

    Args:
        folder: holds the layout.
        split: read only the judgements of this one.

    Raises:
        DataError: a file cannot be read, judges a query that is not there, or holds no judgement.
    """
    queries: dict[str, Record] = {}
    for record in read_json_lines(folder / "queries.jsonl"):
        id = record.identifier("_id")
        if id in queries:
            raise record.error(f"the id {id!r} stood before, in line {queries[id].line}", "_id")
        queries[id] = record
    wanted = [name for name in SPLITS if split in (None, name)]
    files = {name: file for name in wanted if (file := folder / "qrels" / f"{name}.tsv").is_file()}
    if not files:
        raise DataError(f"holds none of {', '.join(f'{name}.tsv' for name in wanted)}", path=folder / "qrels")
    splits: dict[str, list[dspy.Example]] = {}
    judged: dict[str, str] = {}
    for name, file in files.items():
        splits[name] = []
        for id, gold in _read_judgements(file, queries).items():
            if id in judged:
                raise DataError(f"the query {id!r} is judged in {judged[id]}.tsv as well", path=file)
            judged[id] = name
            splits[name].append(_example(id, queries[id], gold))
    return splits


def _read_judgements(file: Path, queries: dict[str, Record]) -> dict[str, list[str]]:
    gold: dict[str, list[str]] = {}
    for row in read_table(file):
        id, passage, score = row.text("query-id"), row.text("corpus-id"), row.text("score")
        if id not in queries:
            raise row.error(f"{id!r} is not among the queries", "query-id")
        if not score.lstrip("-").isdecimal():
            raise row.error(f"must be a whole number, is {score!r}", "score")
        gold.setdefault(id, []).extend([passage] if int(score) > 0 else [])
    return gold


def _example(id: str, record: Record, gold: list[str]) -> dspy.Example:
    answer = Record(record.get("metadata", dict, {}), record.path, record.line).get("answer", str, "")
    return make_example(id=id, question=record.text("text"), answers=[answer], type="retrieval", gold_ids=gold)
