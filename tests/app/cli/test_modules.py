"""A folder with a multi-hop `dspy.Module` and a `dspy.ReAct` of somebody who has not heard of knowgap."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

import pytest
from endpoint import Endpoint, endpoint
from support import in_chat_format, read_prompt

from tests.app.cli.conftest import Outside, write_lines

HOPS = '''
import dspy

from knowgap.programs.hyperparameters import Integer


class Hops(dspy.Module):
    """Look a claim up in several steps."""

    num_docs = Integer(1, "passages of each search", low=1, high=7)
    num_hops = Integer(2, "searches", low=1, high=3, tune=False)

    def __init__(self):
        self.search = dspy.Retrieve(k=7)
        self.write_query = dspy.ChainOfThought("claim, notes: list[str] -> query")
        self.judge = dspy.ChainOfThought("claim, notes: list[str] -> verdict")

    def forward(self, claim):
        notes = []
        for _ in range(self.num_hops):
            query = self.write_query(claim=claim, notes=notes).query
            notes += self.search(query, k=self.num_docs).passages
        return dspy.Prediction(verdict=self.judge(claim=claim, notes=notes).verdict, notes=notes)


def find(query: str) -> list[str]:
    """Find passages."""
    return dspy.Retrieve(k=3)(query).passages


agent = dspy.ReAct("question -> answer", tools=[find], max_iters=4)
'''
RIVERS = ["Isk", "Lome", "Arde", "Ossel", "Teel", "Umbe"]
TOWNS = {f"{river}ford": river for river in RIVERS}
PER_CALL = 12  # tokens that the endpoint says


def answer(body: dict[str, Any]) -> str:
    """What a model says that reads: it answers if the river stands in its prompt."""
    *_, last = body["messages"]
    fields, inputs = read_prompt(last["content"], body["messages"][0]["content"])
    question = inputs.get("question") or inputs.get("claim")
    town = str(question).split()[-1].strip("?")
    seen = re.search(rf"{town} lies on the (\w+)", str({k: v for k, v in inputs.items() if k != "question"}))
    values: dict[str, Any] = dict.fromkeys(fields, seen[1] if seen else "unknown")
    values |= {"reasoning": "as it is", "query": question, "next_thought": "look"}
    done = "observation" in str(inputs.get("trajectory"))
    values |= {"next_tool_name": "finish" if done else "find", "next_tool_args": {} if done else {"query": question}}
    return in_chat_format({name: values[name] for name in fields})


@pytest.fixture(scope="module")
def bench(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Outside, Endpoint]]:
    """The folder, with an index in which the passage with the answer is the third one found, and a language model."""
    folder = tmp_path_factory.mktemp("modules")
    (folder / "hops.py").write_text(HOPS)
    questions = [f"Which river is at {town}?" for town in TOWNS]
    rows = [{"question": q, "answer": r, "gold_ids": [t]} for q, (t, r) in zip(questions, TOWNS.items(), strict=True)]
    write_lines(folder / "rivers.jsonl", rows)
    documents = [
        document
        for town, river in TOWNS.items()
        for document in (
            {"id": f"{town} 1", "title": "", "text": f"Which river is at {town}? Which river is it?"},
            {"id": f"{town} 2", "title": "", "text": f"Which river is at {town}?"},
            {"id": town, "title": "", "text": f"{town} lies on the {river}."},
        )
    ]
    write_lines(folder / "towns.jsonl", documents)
    outside = Outside(folder, tmp_path_factory.mktemp("bin"))
    outside("index", "--corpus", "towns.jsonl", "--engine", "bm25", "--index", "idx")
    with endpoint() as server:
        server.reply_of = answer
        yield outside, server


def lm(server: Endpoint) -> list[str]:
    return ["--lm", "openai/m", "--api-base", server.api_base]


def test_modules_are_scored_beside_programs_and_their_calls_are_those_of_the_server(bench):
    outside, server = bench
    words = ("--program", "rag,hops:Hops,hops:agent", "--data", "rivers.jsonl", "--whole", "--index", "idx")
    printed, _ = outside("eval", *words, *lm(server), "--json")
    results, requests = json.loads(printed), len(server.bodies)
    calls = {label: result["costs"]["lm_calls"] for label, result in results.items()}
    assert calls["hops:Hops"] == 3
    assert calls["hops:agent"] == 3
    from_cache = sum(result["costs"]["cached_calls"] for result in results.values())
    probe = 1  # whether the model answers
    assert requests == probe + 6 * (sum(calls.values()) - from_cache)
    assert results["hops:agent"]["costs"]["tokens"] == 3 * PER_CALL
    assert results["hops:Hops"]["scores"]["f1"]["mean"] == 0
    assert results["hops:agent"]["scores"]["f1"]["mean"] == 1
    assert [results[name]["costs"]["retrievals"] for name in ("rag", "hops:Hops", "hops:agent")] == [1, 2, 1]
    assert results["hops:agent"]["costs"]["passages"] == 3
    assert results["hops:agent"]["scores"]["shown"]["mean"] == 1
    origin = results["hops:Hops"]["provenance"]
    assert origin["outside"]["program"]["name"] == "hops:Hops"
    assert origin["hyperparameters"] == {"num_docs": 1, "num_hops": 2}
