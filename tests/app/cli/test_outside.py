"""A program, a metric and a retriever in a folder of their own, used by commands that are started there."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tests.app.cli.conftest import Knowgap, write_lines

MINE = '''
import dspy
import knowgap
from knowgap.compiling.data import read_corpus
from knowgap.programs.hyperparameters import Integer
from knowgap.retrieval import rank_hits
from knowgap.signatures import AnswerFromPassages


class Twice(knowgap.Program):
    """Search for the question, and for the answer to it."""

    top_k = Integer(2, "passages", low=1, high=6)

    def __init__(self, retriever=None, **hyperparameters):
        super().__init__(retriever, **hyperparameters)
        self.answer = dspy.Predict(AnswerFromPassages)

    def forward(self, question):
        passages = self.retrieve_passages(question, self.top_k)
        first = self.ask(self.answer, question=question, passages=passages, style=self.wording)
        more = self.retrieve_passages(first.answer, self.top_k)
        passages += [passage for passage in more if passage not in passages]
        second = self.ask(self.answer, question=question, passages=passages, style=self.wording)
        return self.conclude(second.answer, passages)


class Once(dspy.Module):
    def __init__(self):
        self.search, self.answer = dspy.Retrieve(k=1), dspy.Predict("context: list[str], question -> answer")

    def forward(self, question):
        return self.answer(context=self.search(question).passages, question=question)


def mentions(example, prediction):
    """1 if the answer mentions the expected one."""
    return example.answer.lower() in prediction.answer.lower()


class Words:
    def __init__(self, path):
        self.passages = list(read_corpus(path))

    def search(self, queries, k):
        return [rank_hits([(p, self.overlap(query, p)) for p in self.passages], k) for query in queries]

    def overlap(self, query, passage):
        return len({*query.lower().strip("?").split()} & {*f"{passage.title} {passage.text}".lower().split()})
'''
TOWNS = {"Tarn": "Isk", "Orle": "Lome", "Venn": "Arde", "Bremm": "Ossel", "Kolm": "Teel", "Sarr": "Umbe"}
OURS = ("--metric", "mine:mentions", "--data", "rivers.csv", "--index", "mine:Words:towns.jsonl")


@pytest.fixture
def outside(folder: Path, knowgap: Knowgap) -> Knowgap:
    """The command in a folder with mine.py, rivers.csv and towns.jsonl."""
    (folder / "mine.py").write_text(MINE)
    rows = [f"Which river flows through {town}?,{river},{town}" for town, river in TOWNS.items()]
    (folder / "rivers.csv").write_text("\n".join(["question,answer,gold_ids", *rows]))
    documents = [{"id": t, "title": t, "text": f"{t} is a town. The {r} flows through it."} for t, r in TOWNS.items()]
    write_lines(folder / "towns.jsonl", documents)
    return knowgap


def test_own_programs_and_modules_are_scored_by_an_own_metric(outside):
    words = ("--program", "mine:Twice", "--set", "top_k=3", *OURS, "--whole")
    result = outside.json("eval", *words)
    assert result["scores"]["mine:mentions"]["mean"] == 1.0
    origin = result["provenance"]
    assert (origin["program"], origin["hyperparameters"]["top_k"]) == ("Twice", 3)
    named = {role: facts["name"] for role, facts in origin["outside"].items()}
    assert named == {"program": "mine:Twice", "retriever": "mine:Words", "metric mine:mentions": "mine:mentions"}
    words = ("--program", "rag,mine:Once", *OURS, "--whole")
    costs = outside.json("eval", *words)["mine:Once"]["costs"]
    assert [costs[name] for name in ("retrievals", "lm_calls", "passages")] == [1, 1, 1]
    estimates = outside.json("eval", *words, "--dry-run")
    assert [estimate["calls"] for estimate in estimates.values()] == [6, 6]


def test_an_artifact_is_asked_where_its_program_is_named(outside):
    outside("compile", "--program", "mine:Twice", *OURS, "--n-trials", "3", "--output-dir", "compiled")
    artifact = outside.folder / "compiled" / "artifact"
    assert sorted(file.name for file in artifact.iterdir()) == ["card.md", "config.json", "program.json"]
    assert "program: `mine:Twice`" in (artifact / "card.md").read_text()
    words = ("ask", "Which river flows through Orle?", "--index", OURS[-1])
    del sys.modules["mine"]
    assert "--program mine:Twice:FOLDER" in outside.refusal(*words, "--program", "compiled/artifact")
    assert "Lome" in outside.json(*words, "--program", "mine:Twice:compiled/artifact")["answer"]
