"""Read training sets in the layouts that the authors of RQ-RAG and RA-ISF describe.

RQ-RAG's (https://github.com/chanchimin/RQ-RAG) is JSON Lines of `id`, `dataset` and `messages`, whose assistant writes
queries, evidence and answer with control tokens between them. RA-ISF's (https://github.com/OceannTwT/ra-isf) is JSON
Lines of `question` and `answer`: `know` or `unknow`, `relevance` or `irrelevance`, or an object with a list `query`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from knowgap.compiling.data.records import read_lines
from knowgap.compiling.training.labelling import LabelledExample, Task
from knowgap.compiling.training.transcripts import KINDS, SearchStep, TranscriptRecord
from knowgap.errors import DataError
from knowgap.lms.transcripts import ACTION_TOKENS, CONTROL_TOKENS

_PART = re.compile("({})".format("|".join(map(re.escape, [*CONTROL_TOKENS, "[S_Response]"]))))
_PASSAGE = re.compile(r"Title: (.*?)\nText: (.*?)(?=\nTitle: |\Z)", re.DOTALL)
_ACTIONS: dict[str, Any] = {token: action for action, token in ACTION_TOKENS.items() if action != "answer"}
_YES: dict[str, set[str]] = {"know": {"know"}, "relevant": {"relevance"}}
_NO: dict[str, set[str]] = {"know": {"unknow", "unknown"}, "relevant": {"irrelevance"}}


def read_released_transcripts(file: str | Path) -> list[TranscriptRecord]:
    """Read RQ-RAG's training set: a transcript of every message of the assistant, with the messages before it.

    Answers to single readings of an ambiguous question, which follow `[S_Response]`, are left out, since transcripts
    have no field for them. The instruction shows the style of the answer: a choice, a short answer, or a long one.

    Raises:
        DataError: a line is no such record.
    """
    records: list[TranscriptRecord] = []
    for number, row in _rows(file):
        try:
            turns = [(str(turn["role"]), str(turn["content"])) for turn in row["messages"]]
            instruction = next((content for role, content in turns if role == "system"), "")
            turns = [(role, content) for role, content in turns if role != "system"]
            history: list[dict[str, str]] = []
            for place, (role, content) in enumerate(turns):
                if role == "assistant":
                    steps, content = _parse(content)
                    record = TranscriptRecord(
                        id=f"{row['id']}-{place}",
                        kind=_kind(steps, chat=len(turns) > 2),
                        question=history[-1]["content"],
                        style=_style(instruction),
                        history=history[:-1],
                        steps=steps,
                        answer=content,
                    )
                    records.append(record)
                history.append({"role": role, "content": content})
        except (KeyError, TypeError, IndexError, ValueError) as error:
            raise DataError(f"is not a record of RQ-RAG's training set ({error})", path=file, line=number) from None
    return records


def read_released_labels(file: str | Path, task: Task) -> list[LabelledExample]:
    """Read one of RA-ISF's training sets. For `relevant`, question and passage are one text, kept as the question.

    Raises:
        DataError: a line is no such record, or belongs to another sub-model.
    """
    examples: list[LabelledExample] = []
    for number, row in _rows(file):
        try:
            question, answer = str(row["question"]), row["answer"]
            if task == "decompose":
                parts = json.loads(answer) if isinstance(answer, str) else answer
                label: bool | list[str] = [str(part) for part in parts["query"]]
            elif answer in _YES[task] | _NO[task]:
                label = answer in _YES[task]
            else:
                raise ValueError(f"answer {answer!r}")
        except (KeyError, TypeError, ValueError) as error:
            raise DataError(
                f"is not a record of RA-ISF's training set of {task} ({error})", path=file, line=number
            ) from None
        examples.append(LabelledExample(id=str(number), question=question, label=label))
    return examples


def _rows(file: str | Path) -> Iterator[tuple[int, Any]]:
    for number, line in read_lines(Path(file)):
        if line.strip():
            try:
                yield number, json.loads(line)
            except ValueError:
                raise DataError("no JSON", path=file, line=number) from None


def _parse(content: str) -> tuple[list[SearchStep], str]:
    """The steps and the answer of a message of the assistant."""
    steps: list[SearchStep] = []
    pieces = _PART.split(content)
    if ACTION_TOKENS["answer"] not in pieces:
        raise ValueError(f"no {ACTION_TOKENS['answer']}")
    answer = ""
    for token, text in zip(pieces[1::2], pieces[2::2], strict=True):
        if token in _ACTIONS:
            steps.append(SearchStep(action=_ACTIONS[token], query=text.strip(), passages=[]))
        elif token == "[R_Evidences]":
            found = [(title.strip(), passage.strip()) for title, passage in _PASSAGE.findall(text.strip())]
            steps[-1].passages.extend({"id": title, "title": title, "text": passage} for title, passage in found)
        elif token == ACTION_TOKENS["answer"]:
            answer = text.strip()
    return steps, answer


def _kind(steps: list[SearchStep], *, chat: bool) -> str:
    if chat or not steps:
        return "chat" if chat else "single_hop"
    return {action: kind for kind, action in KINDS.items()}[steps[0].action]


def _style(instruction: str) -> str:
    if "choice" in instruction or "candidates" in instruction:
        return "choice"
    return "short" if "short" in instruction else "long"
