"""HotpotQA (Yang et al., 2018), distractor and full-wiki settings: a JSON array in the official layout.

`{"_id", "question", "answer", "type", "supporting_facts": [[title, sentence]], "context": [[title, [sentence]]]}`
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from knowgap.compiling.data.dataset import Examples, PassagePool, make_example
from knowgap.compiling.data.records import Record, read_records
from knowgap.errors import shorten


def read_hotpotqa(path: Path, pool: PassagePool) -> Examples:
    """Yield record numbers and examples of a file; their paragraphs go into the pool.

    A supporting title that is not among the question's own paragraphs, as can happen in the full-wiki setting, is the
    gold id itself.
    """
    for record in read_records(path):
        ids = pool_context(record, pool)
        example = make_example(
            id=record.identifier("_id"),
            question=record.text("question"),
            answers=[record.text("answer")],
            type=record.get("type", str, "bridge"),
            gold_ids=[ids.get(title, title) for title in read_supporting_titles(record)],
            candidates=ids.values(),
        )
        yield record.line, example


def pool_context(record: Record, pool: PassagePool) -> dict[str, str]:
    """Pool a record's `context` and return passage ids by title, in order; the first of equal titles counts."""
    ids: dict[str, str] = {}
    for paragraph in record.need("context", list):
        title, sentences = _pair(record, paragraph, "context", "[title, [sentence, ...]]")
        if not isinstance(sentences, list) or not all(isinstance(sentence, str) for sentence in sentences):
            raise record.error(f"the sentences of {title!r} must be a list of strings", "context")
        text = " ".join(stripped for sentence in sentences if (stripped := sentence.strip()))
        ids.setdefault(title, pool.add(title, text))
    return ids


def read_supporting_titles(record: Record) -> list[str]:
    """Return the titles in a record's `supporting_facts`, each once."""
    facts = record.need("supporting_facts", list)
    pairs = (_pair(record, fact, "supporting_facts", "[title, sentence number]") for fact in facts)
    return list(dict.fromkeys(title for title, _ in pairs))


def _pair(record: Record, value: Any, field: str, shape: str) -> tuple[str, Any]:
    if not isinstance(value, list) or len(value) != 2 or not isinstance(value[0], str):
        raise record.error(f"must hold {shape}, holds {shorten(value, 60)}", field)
    return value[0], value[1]
