"""The programs that every paper's tables build, compared with what the paper states."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from support import TableEntailment, TableReranker

from knowgap.compiling.experiments.cells import Cell, ExperimentSetup, paper_differences, prepare
from knowgap.compiling.experiments.table import ExperimentTable, read_table, shipped_tables

RERANKER, ENTAILMENT = TableReranker(lambda query, text: 0.0), TableEntailment()
RERANKER.name = "BAAI/bge-reranker-base"
MULTI_HOP, OPEN_DOMAIN = ("hotpotqa", "2wikimultihopqa", "musique"), ("nq_open", "triviaqa", "popqa")
TABLES = [name for name, path in shipped_tables().items() if read_table(path).paper is not None]

# Each paper's retriever, by data set where it names several: MIGRES, section 4.1; Adaptive-Note, "Retrievers &
# Corpora" and appendix C; RA-ISF, section 4.3; RQ-RAG, B.4; BlendFilter, section 4.1.4.
ENGINES: dict[str, dict[str, str]] = {
    "migres": {"": "bm25"},
    "adaptive_note": {"": "Elasticsearch's BM25 with boosted titles", "asqa": "GTR-XXL", "crud": "bge-base-zh-v1.5"},
    "ra_isf": {"": "contriever"},
    "rq_rag": {"": "duckduckgo", **dict.fromkeys(MULTI_HOP, "text-embedding-3-large")},
    "blend_filter": {"": "colbert"},
}

# The language model of rows that name none: MIGRES, sections 2.1 and 4.1; Adaptive-Note, "LLMs"; RA-ISF, section 4.2;
# RQ-RAG, section 4 and, for figures 4b, 5, 11 and 12, section 4.5; BlendFilter, section 4.1.4 and the titles of tables.
MODELS = {
    "migres": "gpt-3.5-turbo-1106",
    "migres_table1": "gpt-3.5-turbo",
    "migres_table2": "gpt-3.5-turbo",
    "adaptive_note": "gpt-3.5-turbo-0125",
    "ra_isf": "text-davinci-003",
    "rq_rag": "llama-2-7b",
    "rq_rag_figure4b": "llama-3-8b",
    "rq_rag_figure5": "llama-3-8b",
    "blend_filter": "gpt-3.5-turbo-instruct",
    "blend_filter_table3": "vicuna-13b-v1.5",
    "blend_filter_table4": "qwen-7b",
}
# What rows that name a language model of their own say in their label (RQ-RAG, footnote 3; MIGRES, table 6).
NAMED = {"rq_rag": {"GPT-3.5": "gpt-3.5-turbo-0125", "GPT-4": "gpt-4-0125-preview"}, "migres": {"GPT-4": "gpt-4-0613"}}


def paper_of(name: str) -> str:
    return next(paper for paper in ENGINES if name.startswith(f"{paper}_"))


def cells_of(name: str) -> tuple[ExperimentTable, list[Cell]]:
    setup = ExperimentSetup(output=Path(), reranker=RERANKER, entailment=ENTAILMENT)
    table = read_table(name)
    return table, [cell for cell in prepare(table, setup, dry=True) if cell.program is not None]


def stated(paper: str, cell: Cell) -> dict[str, Any]:
    """What the paper states of a cell's program, as far as the program has a hyperparameter for it."""
    program, dataset, label = cell.row.program, cell.column.dataset, cell.row.label
    facts: dict[str, Any] = {"top_k": 5}
    match paper:
        case "migres":  # table 12; tables 3 to 5: everything is reranked
            family = "open" if dataset in OPEN_DOMAIN else "commonsense" if dataset == "strategyqa" else "multi-hop"
            delta, steps = {"multi-hop": (3.0, 5), "open": (5.0, 3), "commonsense": (0.0, 5)}[family]
            facts |= {"delta": delta, "retrieve_k": 50, "prompt_knowledge": "without its knowledge" not in label}
            facts |= {"iterations": steps} if program == "migres" else {}
            facts |= {"iterations": 2} if program == "iter_retgen" else {}
        case "adaptive_note":  # "Settings of the adaptive process"; CRUD: top 2
            facts |= {"top_k": 2} if dataset == "crud" else {}
            facts |= {"iterations": 3, "invalid_updates": 1, "max_passages": 15} if program == "adaptive_note" else {}
            facts |= {"review": False} if label == "without AMR" else {}
        case "ra_isf":  # section 4.5, table 5; of the baselines, the paper does not say how many passages they read
            facts = {"depth": 3, "top_k": 5} if program == "ra_isf" else {}
        case "rq_rag":  # B.2, B.4, section 4.3
            chosen = label.lower() if label in ("Perplexity", "Confidence", "Ensemble") else "ensemble"
            depth = 4 if dataset in ("2wikimultihopqa", "musique") else 2
            facts |= {"top_k": 3, "depth": depth, "strategy": chosen}
            facts |= {"actions": label.lower()} if label in ("All", "Rewrite", "Decompose", "Disambiguate") else {}
    numbers = r"CI (?P<iterations>\d+)|IU (?P<invalid_updates>\d+)|(top|K =) (?P<top_k>\d+)|depth (?P<depth>\d+)"
    for match in re.finditer(numbers, label):
        facts |= {name: int(number) for name, number in match.groupdict().items() if number}
    return facts


@pytest.mark.parametrize("name", TABLES)
def test_a_table_builds_what_its_paper_states(name: str):
    paper, (table, cells) = paper_of(name), cells_of(name)
    assert table.paper is not None
    for cell in cells:
        program, where = cell.program, f"{name}, {cell.row.label}, {cell.column.dataset}"
        values, facts = program.values(), stated(paper, cell)
        if name == "migres_table6":  # its title: δ = 1
            facts["delta"] = 1.0
        if not name.startswith("migres_table1"):  # a study of one module, with passages of its own
            assert {key: values[key] for key in facts if key in values} == {
                key: value for key, value in facts.items() if key in values
            }, where
        engine = cell.row.engine or cell.column.paper_engine or table.paper.engine
        theirs = "bm25" if "BM25" in cell.row.label or name == "blend_filter_table5" else None
        assert engine == (theirs or ENGINES[paper].get(cell.column.dataset, ENGINES[paper][""])), where
        parts = program.parts()
        assert parts.get("reranker", RERANKER) is RERANKER, where
        assert parts.get("entailment", ENTAILMENT) is ENTAILMENT, where
        if paper == "rq_rag" and program.needs_retriever and cell.column.dataset in MULTI_HOP:
            assert cell.row.candidates, where
        if paper == "migres" and cell.row.group == "Zero-shot":
            assert "reranker" in parts, where  # section 4.2: all of them rerank
        named = next((lm for words, lm in NAMED.get(paper, {}).items() if words in cell.row.label and cell.row.lm), "")
        if not cell.row.lm:
            assert table.paper.lm == MODELS.get(name, MODELS[paper]), where
        elif named:
            assert cell.row.lm == named, where


def test_the_numbers_on_the_axes_are_the_papers():
    passages = {cell.program.values()["top_k"] for cell in cells_of("ra_isf_figure3")[1]}
    assert passages == {1, 3, 5, 7, 9}  # appendix C
    for name in ("ra_isf_figure2", "ra_isf_figure3"):
        models = {cell.row.lm for cell in cells_of(name)[1]}
        assert models == {"", "llama-2-7b", "llama-2-13b"}
    sampled = [cell.row for cell in cells_of("blend_filter_figure5")[1] if cell.row.top_p]
    assert {row.top_p for row in sampled} == {(0.0, 0.5, 1.0)}  # section 4.7
    assert all(row.best_of_answers for row in sampled)


def test_what_a_paper_searches_is_compared_data_set_by_data_set():
    table, cells = cells_of("rq_rag_table2")
    tree = next(cell for cell in cells if cell.row.label == "RQ-RAG")
    differences = paper_differences(tree, table, ExperimentSetup(output=Path()))
    assert "retriever: dense, not text-embedding-3-large" in differences
    assert not any(difference.startswith("corpus") for difference in differences)
    table, cells = cells_of("adaptive_note_table1")
    asqa = next(cell for cell in cells if cell.row.label == "Vanilla" and cell.column.dataset == "asqa")
    assert "retriever: bm25, not GTR-XXL" in paper_differences(asqa, table, ExperimentSetup(output=Path()))
