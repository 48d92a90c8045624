"""`knowgap search` and `eval` over each kind of index that others built, and wrong ones."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.app.cli.conftest import Knowgap, Outside
from tests.retrieval.test_outside import ROWS, server, write_faiss

__all__ = ["server"]
TOWN = "Which town is on the Isk?"


@pytest.fixture
def places(knowgap: Knowgap, server: str) -> dict[str, str]:
    """What `--index` is given, by kind."""
    write_faiss(knowgap.folder / "wiki")
    return {
        "faiss": "faiss:wiki",
        "elasticsearch": f"elasticsearch+{server}/wiki",
        "opensearch": f"opensearch+{server}/wiki",
        "flashrag": f"flashrag+{server}",
    }


def test_each_kind_is_searched_and_programs_answer_over_it(knowgap: Knowgap, places: dict[str, str]):
    (knowgap.folder / "towns.jsonl").write_text(json.dumps({"question": TOWN, "answer": "Tarn", "gold_ids": ["tarn"]}))
    for place in places.values():
        printed, _ = knowgap("search", TOWN, "--index", place)
        assert "│ 1 " in printed
        assert "Tarn is a town on the river Isk." in printed
        given = ("--program", "rag", "--data", "towns.jsonl", "--whole", "--index", place, "--metric", "recall@1")
        assert knowgap.json("eval", *given)["scores"]["recall@1"]["mean"] == 1


@pytest.mark.parametrize(
    ("place", "problem"),
    [
        ("faiss:nowhere", "nowhere: there is no such folder"),
        ("faiss:", "it is named as in"),
        ("faiss:.", "must hold exactly one of *.faiss, *.index; found: none"),
        ("lucene:wiki", "is not a Lucene index"),
        ("lucene:nowhere", "there is no such folder"),
        ("lucene:", "it is named as in"),
        ("plaid:wiki", "metadata.json cannot be read"),
        ("plaid:nowhere", "there is no such folder"),
        ("plaid:", "it is named as in"),
        ("elasticsearch+{server}", "name the index, too"),
        ("elasticsearch+{server}/other", "refused the search (status 404"),
        ("opensearch+http://127.0.0.1:9/wiki", "no server answers"),
        ("flashrag+http://127.0.0.1:9", "no server answers"),
        ("flashrag+{server}/retrieve", "refused the search (status 404"),
        ("flashrag:{server}", "a server is named as flashrag+http://"),
        ("search+{server}", "unknown kind of server 'search'"),
    ],
)
def test_what_is_wrong_is_one_line(knowgap: Knowgap, server: str, place: str, problem: str):
    write_faiss(knowgap.folder / "wiki")
    assert problem in knowgap.refusal("search", TOWN, "--index", place.format(server=server))


def test_a_real_index_of_lucene_is_searched(tmp_path: Path, tmp_path_factory: pytest.TempPathFactory):
    pytest.importorskip("pyserini", reason="needs Java and pip install pyserini")
    outside = Outside(tmp_path, tmp_path_factory.mktemp("bin"))
    (tmp_path / "documents").mkdir()
    (tmp_path / "documents" / "all.jsonl").write_text("".join(json.dumps(row) + "\n" for row in ROWS))
    for name, stored in (("wiki", ["--storeRaw"]), ("lean", [])):
        made = ["--collection", "JsonCollection", "--input", "documents", "--index", name, "--threads", "1", *stored]
        command = [sys.executable, "-m", "pyserini.index.lucene", *made]
        subprocess.run(command, cwd=tmp_path, check=True, capture_output=True)
    assert "Tarn is a town on the river Isk." in outside("search", TOWN, "--index", "lucene:wiki")[0]
    assert "build it again with storeRaw" in outside("search", TOWN, "--index", "lean", code=2)[1]
    (tmp_path / "lean" / "segments_1").write_bytes(b"no index")
    assert "Lucene cannot open this index" in outside("search", TOWN, "--index", "lean", code=2)[1]
