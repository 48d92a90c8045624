"""2WikiMultihopQA (Ho et al., 2020): HotpotQA's layout with `evidences`, `[[subject, relation, object]]`.

Worded sub-questions are read where a file has them in `qa_pairs`. Where the release's `id_aliases.json` lies beside the
file, the aliases of an answer's entity (`answer_id`) count as answers too.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import dspy

from knowgap.compile.data.dataset import PassagePool, make_example
from knowgap.compile.data.layouts.hotpotqa import pool_context, read_supporting_titles
from knowgap.compile.data.records import Record, read_json_array, read_json_lines

__all__ = ["read_twowiki"]


def read_twowiki(path: Path, pool: PassagePool) -> Iterator[tuple[int, dspy.Example]]:
    """Line or record numbers and examples of a file; their paragraphs go into the pool."""
    aliases = _read_aliases(path.with_name("id_aliases.json"))
    for record in read_json_array(path):
        ids = pool_context(record, pool)
        answer = record.text("answer")
        yield (
            record.line,
            make_example(
                id=record.identifier("_id"),
                question=record.text("question"),
                answers=[answer, *aliases.get(record.get("answer_id", str, ""), [])],
                type=record.text("type"),
                gold_ids=[ids.get(title, title) for title in read_supporting_titles(record)],
                candidates=ids.values(),
                evidences=_read_evidences(record),
                decomposition=_read_pairs(record),
            ),
        )


def _read_evidences(record: Record) -> list[list[str]]:
    triples = record.need("evidences", list)
    for triple in triples:
        if not isinstance(triple, list) or len(triple) != 3 or not all(isinstance(part, str) for part in triple):
            raise record.error(f"must hold [subject, relation, object], holds {str(triple)[:60]}", "evidences")
    return triples


def _read_pairs(record: Record) -> list[dict[str, str]]:
    pairs = []
    for pair in record.get("qa_pairs", list, []):
        if not isinstance(pair, dict) or not all(isinstance(pair.get(key), str) for key in ("question", "answer")):
            raise record.error(f'must hold {{"question", "answer"}}, holds {str(pair)[:60]}', "qa_pairs")
        pairs.append({"question": pair["question"], "answer": pair["answer"]})
    return pairs


def _read_aliases(path: Path) -> dict[str, list[str]]:
    if not path.exists():
        return {}
    return {record.text("Q_id"): record.texts("aliases") for record in read_json_lines(path)}
