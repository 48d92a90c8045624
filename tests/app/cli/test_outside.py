"""A program, a metric and a retriever in a folder of their own, used by commands that are started there."""

from __future__ import annotations

import json

import pytest

from tests.app.cli.conftest import Outside

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


@pytest.fixture(scope="module")
def outside(tmp_path_factory: pytest.TempPathFactory) -> Outside:
    """A folder with mine.py, rivers.csv and towns.jsonl, and `compiled/artifact`."""
    folder = tmp_path_factory.mktemp("outside")
    (folder / "mine.py").write_text(MINE)
    rows = [f"Which river flows through {town}?,{river},{town}" for town, river in TOWNS.items()]
    (folder / "rivers.csv").write_text("\n".join(["question,answer,gold_ids", *rows]))
    documents = [{"id": t, "title": t, "text": f"{t} is a town. The {r} flows through it."} for t, r in TOWNS.items()]
    (folder / "towns.jsonl").write_text("".join(json.dumps(document) + "\n" for document in documents))
    knowgap = Outside(folder, tmp_path_factory.mktemp("bin"))
    words = ("--program", "mine:Twice", *OURS, "--n-trials", "3", "--output-dir", "compiled")
    printed, _ = knowgap("compile", *words)
    assert "saved in compiled/artifact" in printed
    return knowgap


def test_an_own_program_is_scored_by_an_own_metric(outside):
    words = ("--program", "mine:Twice", "--set", "top_k=3", *OURS, "--whole")
    result = json.loads(outside("eval", *words, "--json")[0])
    assert result["scores"]["mine:mentions"]["mean"] == 1.0
    origin = result["provenance"]
    assert (origin["program"], origin["hyperparameters"]["top_k"]) == ("Twice", 3)
    named = {role: facts["name"] for role, facts in origin["outside"].items()}
    assert named == {"program": "mine:Twice", "retriever": "mine:Words", "metric mine:mentions": "mine:mentions"}
    words = ("--program", "rag,mine:Once", *OURS, "--whole")
    costs = json.loads(outside("eval", *words, "--json")[0])["mine:Once"]["costs"]
    assert [costs[name] for name in ("retrievals", "lm_calls", "passages")] == [1, 1, 1]
    estimates = json.loads(outside("eval", *words, "--dry-run", "--json")[0])
    assert [estimate["calls"] for estimate in estimates.values()] == [6, 6]


def test_its_artifact_is_asked_where_the_program_is_named(outside):
    folder = outside.folder / "compiled" / "artifact"
    assert sorted(file.name for file in folder.iterdir()) == ["card.md", "config.json", "program.json"]
    assert "| From outside: program | `mine:Twice`, digest `" in (folder / "card.md").read_text()
    words = ("ask", "Which river flows through Orle?", "--index", OURS[-1])
    _, refused = outside(*words, "--program", "compiled/artifact", code=2)
    assert "holds the program mine:Twice, which is not part of knowgap" in refused
    assert "--program mine:Twice:FOLDER" in refused
    printed, _ = outside(*words, "--program", "mine:Twice:compiled/artifact")
    assert "Lome" in printed.splitlines()[-2]
