"""How the setting of a cell differs from the paper's, in words."""

from __future__ import annotations

from knowgap.compiling.evaluation.provenance import lm_name, model_name
from knowgap.compiling.experiments.cells import Cell, ExperimentSetup
from knowgap.compiling.experiments.table import ExperimentTable, PaperSetting

CANDIDATES = "each question's own paragraphs"
"""The corpus of a row that searches candidates only, in the words of the tables."""


def paper_differences(cell: Cell, table: ExperimentTable, setup: ExperimentSetup) -> list[str]:
    """Name the differences; empty if none is known, or if the paper has no figure for the cell."""
    paper, row, program = table.paper, cell.row, cell.program
    printed = table.printed(cell.row_number, cell.column_number)
    if paper is None or program is None or all(figure is None for figure in printed.values()):
        return []
    differences = []
    ours, theirs = lm_name(cell.lm), row.lm or paper.lm
    if ours.rpartition("/")[2].lower() != theirs.lower():
        differences.append(f"language model: {ours or 'none yet'}, not {theirs}")
    if program.needs_retriever:
        differences += _retrieval_differences(cell, paper, setup)
    if "questions" not in setup.as_paper:
        if cell.dataset is not None and cell.questions == cell.column.questions:
            differences.append(f"questions: {cell.questions}, as many as the paper's, perhaps others")
        else:
            asked = cell.questions if cell.dataset is not None else "none yet"
            differences.append(f"questions: {asked}, not {cell.column.questions}")
    models = [model for name in ("reranker", "entailment") if (model := program.parts().get(name)) is not None]
    if paper.models and models and "models" not in setup.as_paper:
        differences.append(f"reranker and entailment: {', '.join(map(model_name, models))}, not {paper.models}")
    if cell.delta_left_out:
        differences.append("relevance threshold: the reranker's own, since the paper's is on another scale")
    shown = paper.demonstrations if row.demonstrations is None else row.demonstrations
    if shown and not row.artifact:
        differences.append(f"demonstrations: none, not {shown}")
    if printed.get("knowledge_tokens") is not None:
        differences.append("knowledge tokens: words, where the paper counts its language model's tokens")
    return [*differences, row.differs] if row.differs else differences


def _retrieval_differences(cell: Cell, paper: PaperSetting, setup: ExperimentSetup) -> list[str]:
    differences = []
    engine = cell.row.engine or cell.column.paper_engine or paper.engine
    if cell.engine != engine:
        differences.append(f"retriever: {cell.engine}, not {engine}")
    searched, corpus = _searched(cell, setup), cell.column.paper_corpus or paper.corpus
    if "corpus" not in setup.as_paper and searched != corpus:
        differences.append(f"corpus: {searched}, not {corpus}")
    return differences


def _searched(cell: Cell, setup: ExperimentSetup) -> str:
    """What our row searches, in words."""
    if cell.row.candidates and (cell.dataset is None or any(each.get("candidates") for each in cell.examples)):
        return CANDIDATES
    own = cell.column.dataset in setup.corpora or cell.column.dataset in setup.indexes
    return "a corpus of one's own" if own else "the passages that come with the questions"
