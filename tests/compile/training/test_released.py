"""The authors' training sets load in their own layouts; the records here are made up."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from knowgap.compiling.training.released import read_released_labels, read_released_transcripts
from knowgap.errors import DataError

DECOMPOSED = (
    "[S_Decomposed_Query]\nWho built the mill?\n[EOS]\n[R_Evidences]\nTitle: Mill\nText: Ada Moor\nbuilt it.\n"
    "Title: Moor\nText: A family.\n[/R_Evidences]\n[S_Decomposed_Query]\nWhere was she born?\n[EOS]\n[R_Evidences]\n"
    "Title: Ada Moor\nText: Born in Wick.\n[/R_Evidences]\n[A_Response]\nWick\n[EOS]"
)
CHAT = (
    "[S_Rewritten_Query]\ngrey ferry painter\n[EOS][R_Evidences]\nTitle: T\nText: x\n[/R_Evidences]"
    "[A_Response]\nAda\n[EOS]"
)


def write(file: Path, rows: list[object]) -> Path:
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return file


def messages(*turns: str) -> list[dict[str, str]]:
    return [{"role": role, "content": content} for role, content in zip(turns[::2], turns[1::2], strict=True)]


def test_transcripts(tmp_path: Path):
    hop = messages("system", "Give a short and concise response.", "user", "Where?", "assistant", DECOMPOSED)
    chat = messages("user", "Hello", "assistant", "[A_Response]\nHi\n[EOS]", "user", "Who?", "assistant", CHAT)
    rows = [{"id": "a", "dataset": "m", "messages": hop}, {"id": "b", "dataset": "s", "messages": chat}]
    one, greeting, last = read_released_transcripts(write(tmp_path / "total.jsonl", rows))
    assert (one.kind, one.style, one.question, one.answer) == ("multi_hop", "short", "Where?", "Wick")
    assert [(step.action, step.query) for step in one.steps] == [
        ("decompose", "Who built the mill?"), ("decompose", "Where was she born?"),
    ]  # fmt: skip
    assert [(p.title, p.text) for p in one.steps[0].found] == [("Mill", "Ada Moor\nbuilt it."), ("Moor", "A family.")]
    assert (greeting.steps, greeting.answer, greeting.kind) == ([], "Hi", "chat")
    assert last.history == messages("user", "Hello", "assistant", "Hi")
    assert (last.steps[0].action, last.answer, last.style) == ("rewrite", "Ada", "long")
    with pytest.raises(DataError, match=r"no \[A_Response\]"):
        read_released_transcripts(
            write(tmp_path / "bad.jsonl", [{"id": "c", "messages": messages("user", "?", "assistant", "x")}])
        )


def test_labels(tmp_path: Path):
    know = write(
        tmp_path / "k.jsonl", [{"question": "Who?", "answer": "know"}, {"question": "Where?", "answer": "unknow"}]
    )
    assert [example.label for example in read_released_labels(know, "know")] == [True, False]
    parts = write(tmp_path / "d.jsonl", [{"question": "Both?", "answer": '{"query": ["One?", "Two?"]}'}])
    assert [example.label for example in read_released_labels(parts, "decompose")] == [["One?", "Two?"]]
    odd = json.dumps(
        {"question": "Who\u2028is\x85it?", "answer": "know"}, ensure_ascii=False
    )  # they end no line of JSON
    (tmp_path / "odd.jsonl").write_text(odd + "\n", encoding="utf-8")
    assert [example.question for example in read_released_labels(tmp_path / "odd.jsonl", "know")] == [
        "Who\u2028is\x85it?"
    ]
    (tmp_path / "latin.jsonl").write_bytes(b'{"question": "Caf\xe9?", "answer": "know"}\n')
    with pytest.raises(DataError, match="is not UTF-8"):
        read_released_labels(tmp_path / "latin.jsonl", "know")
    with pytest.raises(DataError, match="is not a record of RA-ISF's training set of relevant"):
        read_released_labels(know, "relevant")
