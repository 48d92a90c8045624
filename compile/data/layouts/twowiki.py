"""2WikiMultihopQA (Ho et al., 2020): HotpotQA's layout with `evidences`, `[[subject, relation, object]]`.

Sub-questions are read from `qa_pairs` if a file has them. With the release's `id_aliases.json` beside the file, the
aliases of the answer's entity (`answer_id`) count as answers too.
"""

from __future__ import annotations

from pathlib import Path

from knowgap.compiling.data.dataset import Examples, PassagePool, make_example
from knowgap.compiling.data.layouts.hotpotqa import pool_context, read_supporting_titles
from knowgap.compiling.data.records import read_records


def read_twowiki(path: Path, pool: PassagePool) -> Examples:
    """Yield record numbers and examples of a file; their paragraphs go into the pool."""
    aliases = _read_aliases(path.with_name("id_aliases.json"))
    for record in read_records(path):
        ids = pool_context(record, pool)
        answer = record.text("answer")
        example = make_example(
            id=record.identifier("_id"),
            question=record.text("question"),
            answers=[answer, *aliases.get(record.get("answer_id", str, ""), [])],
            type=record.text("type"),
            gold_ids=[ids.get(title, title) for title in read_supporting_titles(record)],
            candidates=ids.values(),
            evidences=record.triples("evidences"),
            decomposition=[
                {"question": pair.text("question"), "answer": pair.text("answer")}
                for pair in record.objects("qa_pairs", optional=True)
            ],
        )
        yield record.line, example


def _read_aliases(path: Path) -> dict[str, list[str]]:
    if not path.exists():
        return {}
    return {record.text("Q_id"): record.texts("aliases") for record in read_records(path)}
