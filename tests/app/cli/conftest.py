"""The command `knowgap`, as tests call it, in a folder with documents and questions."""

import json
from pathlib import Path
from typing import Any

import pytest

from knowgap.cli.main import main

DOCUMENTS = [
    {"id": "orle", "title": "Orle Bridge", "text": "The Orle Bridge was designed by Ada Venn. It opened in 1931."},
    {"id": "venn", "title": "Ada Venn", "text": "Ada Venn (1890 – 1960) was an engineer. She was born in Tarn."},
    {"id": "tarn", "title": "Tarn", "text": "Tarn is a town on the river Isk. It has a cheese market."},
    {"id": "isk", "title": "Isk", "text": "The Isk is a river. It is 120 kilometres long and flows into the sea."},
    {"id": "moth", "title": "Grey moth", "text": "The grey moth is a moth. Its larvae feed on willow."},
    {"id": "hall", "title": "Hall", "text": "The hall was built by Jon Reth in 1870."},
]
QUESTIONS = [
    {"question": "Who designed the Orle Bridge?", "answer": "Ada Venn", "gold_ids": ["orle"]},
    {"question": "Where was Ada Venn born?", "answer": "Tarn", "gold_ids": ["venn"]},
    {"question": "How long is the Isk?", "answer": ["120 kilometres", "120 km"], "gold_ids": ["isk"]},
    {"question": "Who built the hall?", "answer": "Jon Reth", "gold_ids": ["hall"]},
]


class Knowgap:
    """Calls the command with words; `folder` is the working folder."""

    def __init__(self, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
        self.folder, self._capsys = folder, capsys

    def __call__(self, *words: str, code: int = 0) -> tuple[str, str]:
        """What it prints on standard output and on standard error; it must exit with the code."""
        self._capsys.readouterr()
        with pytest.raises(SystemExit) as end:
            main(list(words))
        captured = self._capsys.readouterr()
        assert int(end.value.code or 0) == code, captured.err
        return captured.out, captured.err

    def json(self, *words: str) -> Any:
        """What it prints with --json."""
        return json.loads(self(*words, "--json")[0])

    def refusal(self, *words: str) -> str:
        """The one line that bad input gets, on standard error, with exit code 2."""
        _, printed = self(*words, code=2)
        assert printed.count("error:") == 1
        assert "Traceback" not in printed
        return " ".join(printed[printed.index("error:") :].split())


def write_lines(path: Path, records: list[dict]) -> None:
    path.write_text("".join(json.dumps(record) + "\n" for record in records), encoding="utf-8")


@pytest.fixture
def knowgap(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Knowgap:
    """The command in a folder with docs.jsonl and questions.jsonl; a new index is one of words unless it says more."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("KNOWGAP_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("KNOWGAP_ENGINE", "bm25")
    write_lines(tmp_path / "docs.jsonl", DOCUMENTS)
    write_lines(tmp_path / "questions.jsonl", QUESTIONS)
    return Knowgap(tmp_path, capsys)


@pytest.fixture
def indexed(knowgap: Knowgap) -> Knowgap:
    """The same, with an index of the documents in the folder idx."""
    knowgap("index", "--corpus", "docs.jsonl", "--index", "idx")
    return knowgap
