"""A program, a metric, a loader and a retriever in a folder of their own, used by commands that are started there."""

from __future__ import annotations

import json

import pytest

from tests.app.cli.conftest import Outside

MINE = '''
import csv

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


def mentions(example, prediction):
    """1 if the answer mentions the expected one."""
    return example.answer.lower() in prediction.answer.lower()


def load(path):
    with open(path, newline="") as file:
        for row in csv.DictReader(file):
            yield {"question": row["q"], "answer": row["a"], "gold_ids": [row["source"]]}


class Words:
    def __init__(self, path):
        self.passages = list(read_corpus(path))

    def search(self, queries, k):
        return [rank_hits([(p, self.overlap(query, p)) for p in self.passages], k) for query in queries]

    def overlap(self, query, passage):
        return len({*query.lower().strip("?").split()} & {*f"{passage.title} {passage.text}".lower().split()})
'''
ODD = """
import dspy
import knowgap


class Planner(knowgap.Program):
    def __init__(self, retriever=None, **hyperparameters):
        super().__init__(retriever, **hyperparameters)
        self.plan = dspy.Predict("question -> plan: list[str]")

    def forward(self, question):
        return self.conclude(" ".join(self.ask(self.plan, question=question).plan), [])
"""
TOWNS = {"Tarn": "Isk", "Orle": "Lome", "Venn": "Arde", "Bremm": "Ossel", "Kolm": "Teel", "Sarr": "Umbe"}
OURS = ("--metric", "mine:mentions", "--data", "mine:load:rivers.csv", "--index", "mine:Words:towns.jsonl")
TABLE = """
title = "Ours"
[[columns]]
dataset = "rivers"
metrics = ["mine:mentions", "lm_calls"]
[[rows]]
label = "ours"
program = "mine:Twice"
[[rows]]
label = "compiled"
program = "mine:Twice"
artifact = "compiled/artifact"
"""


@pytest.fixture(scope="module")
def outside(tmp_path_factory: pytest.TempPathFactory) -> Outside:
    """A folder with mine.py, rivers.csv and towns.jsonl, and `compiled/artifact`, which two processes compile."""
    folder = tmp_path_factory.mktemp("outside")
    (folder / "mine.py").write_text(MINE)
    (folder / "odd.py").write_text(ODD)
    rows = [f"Which river flows through {town}?,{river},{town}" for town, river in TOWNS.items()]
    (folder / "rivers.csv").write_text("\n".join(["q,a,source", *rows]))
    documents = [{"id": t, "title": t, "text": f"{t} is a town. The {r} flows through it."} for t, r in TOWNS.items()]
    (folder / "towns.jsonl").write_text("".join(json.dumps(document) + "\n" for document in documents))
    (folder / "ours.toml").write_text(TABLE)
    knowgap = Outside(folder, tmp_path_factory.mktemp("bin"))
    words = ("--program", "mine:Twice", *OURS, "--n-trials", "3", "--num-workers", "2", "--output-dir", "compiled")
    printed, said = knowgap("compile", *words)
    assert "saved in compiled/artifact" in printed
    assert "a worker stopped early" not in said
    return knowgap


def test_an_own_program_is_scored_by_an_own_metric(outside):
    words = ("--program", "mine:Twice", "--set", "top_k=3", *OURS, "--whole")
    result = json.loads(outside("eval", *words, "--json")[0])
    assert result["scores"]["mine:mentions"]["mean"] == 1.0
    origin = result["provenance"]
    assert (origin["program"], origin["hyperparameters"]["top_k"]) == ("Twice", 3)
    named = {role: facts["name"] for role, facts in origin["outside"].items()}
    assert named == {"program": "mine:Twice", "retriever": "mine:Words", "metric mine:mentions": "mine:mentions"}
    [estimate] = json.loads(outside("eval", *words, "--dry-run", "--json")[0]).values()
    assert (estimate["calls"], estimate["asked"]) == (6, 3)


def test_its_artifact_names_the_class_and_holds_no_code(outside):
    folder = outside.folder / "compiled" / "artifact"
    assert sorted(file.name for file in folder.iterdir()) == ["card.md", "config.json", "program.json"]
    config = json.loads((folder / "config.json").read_text())
    assert config["program"] == "mine:Twice"
    card = (folder / "card.md").read_text()
    assert "| From outside: program | `mine:Twice`, digest of its file `" in card
    assert "import mine\n" in card


def test_its_artifact_is_asked_where_the_program_is_named(outside):
    words = ("ask", "Which river flows through Orle?", "--index", OURS[-1])
    _, refused = outside(*words, "--program", "compiled/artifact", code=2)
    assert "holds the program mine:Twice, which is not part of knowgap" in refused
    assert "--program mine:Twice:FOLDER" in refused
    printed, said = outside(*words, "--program", "mine:Twice:compiled/artifact")
    assert "Lome" in printed.splitlines()[-2]
    assert f"the program mine:Twice of compiled/artifact runs {outside.folder / 'mine.py'}" in said


@pytest.mark.long
def test_programs_are_compared_and_tables_run(outside):
    printed, _ = outside(
        "eval", "--program", "rag,mine:Twice,mine:Twice:compiled/artifact", *OURS, "--whole", "-o", "scores"
    )
    assert all(name in printed for name in ("rag", "mine:Twice", "compiled/artifact"))
    assert (outside.folder / "scores" / "mine-Twice.json").exists()
    outside("report", "scores/mine-Twice.json", "--output", "page.html")
    assert "program: mine:Twice (file " in (outside.folder / "page.html").read_text()
    data = ("--data-path", "rivers=mine:load:rivers.csv", "--index", f"rivers={OURS[-1]}")
    printed, _ = outside("experiment", "ours.toml", *data, "--limit", "2", "--output-dir", "table", "--json")
    cells = json.loads(printed)["cells"]
    assert [(cell["questions"], cell["failed"]) for cell in cells] == [(2, 0), (2, 0)]
    assert [cell["figures"][0]["ours"]["mean"] for cell in cells] == [1.0, 1.0]


def test_what_packages_offer_is_listed(knowgap, offer):
    offer("offering", "knowgap.programs", again="mine:Again")
    offer("offering", "knowgap.metrics", half="mine:half", gone="mine:gone")
    offer("offering", "knowgap.retrievers", finder="mine:Finder")
    listed = knowgap("ls")[0]
    assert all(said in listed for said in ("Plain retrieval under another", "Always one half.", "'gone'", "finder"))
    for name in ("again", "mine:Again"):
        assert "top_k" in knowgap("ls", name)[0]
    assert "did you mean 'again'?" in knowgap.refusal("ls", "agian")


def test_own_models_take_part(knowgap, folder):
    models = ("--part", "reranker=mine:Scorer", "--part", "entailment=mine:Scorer")
    data = ("--data", "questions.jsonl", "--corpus", "docs.jsonl", "--engine", "bm25", "--whole")
    printed = knowgap.json("eval", "--program", "migres", *models, *data)
    origin = printed["provenance"]
    assert (origin["reranker"], origin["entailment"]) == ("scorer", "scorer")
    assert {role: facts["name"] for role, facts in origin["outside"].items()} == {
        "reranker": "mine:Scorer",
        "entailment": "mine:Scorer",
    }
