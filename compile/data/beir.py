"""The layout of BEIR (Thakur et al., 2021): a folder with `corpus.jsonl`, `queries.jsonl` and `qrels/<split>.tsv`.

Queries are `{"_id", "text", "metadata"}`. Judgements are rows `query-id<TAB>corpus-id<TAB>score` under a header; a
passage with a score above 0 is gold. The answer is the query's `metadata.answer`, or empty where there is none: such
data measure retrieval alone.
"""

from __future__ import annotations

from pathlib import Path

import dspy

from knowgap.compiling.data.dataset import SPLITS, make_example
from knowgap.compiling.data.records import Record, read_records
from knowgap.errors import DataError


def is_beir(folder: Path) -> bool:
    """Whether a folder has this layout."""
    return (folder / "queries.jsonl").is_file() and (folder / "qrels").is_dir()


def read_beir(folder: Path, split: str | None = None) -> dict[str, list[dspy.Example]]:
    """Return the judged queries by split; queries without a judgement are left out.

    Args:
        folder: has the files of the layout.
        split: read the judgements of this split only.

    Raises:
        DataError: a file cannot be read, has no judgement, or judges a query that does not exist or that another split
            judges too.
    """
    queries: dict[str, Record] = {}
    for record in read_records(folder / "queries.jsonl"):
        id = record.identifier("_id")
        if id in queries:
            raise record.error(f"the id {id!r} stood before, in line {queries[id].line}", "_id")
        queries[id] = record
    names = [name for name in SPLITS if split in (None, name)]
    files = {name: file for name in names if (file := folder / "qrels" / f"{name}.tsv").is_file()}
    if not files:
        raise DataError(f"holds none of {', '.join(f'{name}.tsv' for name in names)}", path=folder / "qrels")
    splits: dict[str, list[dspy.Example]] = {}
    judged: dict[str, str] = {}
    for name, file in files.items():
        splits[name] = []
        for id, gold in _read_judgements(file, queries).items():
            if id in judged:
                raise DataError(f"the query {id!r} is judged in {judged[id]}.tsv as well", path=file)
            judged[id] = name
            record = queries[id]
            answer = record.object("metadata").get("answer", str, "") if record.data.get("metadata") else ""
            question = record.text("text")
            splits[name].append(
                make_example(id=id, question=question, answers=[answer], type="retrieval", gold_ids=gold)
            )
    return splits


def _read_judgements(file: Path, queries: dict[str, Record]) -> dict[str, list[str]]:
    gold: dict[str, list[str]] = {}
    for row in read_records(file):
        id, passage, score = row.text("query-id"), row.text("corpus-id"), row.text("score")
        if id not in queries:
            raise row.error(f"{id!r} is not among the queries", "query-id")
        if not score.lstrip("-").isdecimal():
            raise row.error(f"must be a whole number, is {score!r}", "score")
        gold.setdefault(id, []).extend([passage] if int(score) > 0 else [])
    return gold
