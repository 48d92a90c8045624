"""The answers file: an evaluation writes it question by question, and continues from it after it was killed.

The file is JSON Lines. The first line is a header::

    {"kind": "knowgap evaluation", "identity": {"program": "3f…", "data": "a0…", …}, "check": "5c…"}

Its identity has a digest for each thing that answers and scores depend on. Every other line is a `QuestionRecord`, in
the order in which the questions were finished; it is handed to the operating system before its thread takes the next
question. Of several records of one question the last one counts. `check` is a digest of the line without it, and of the
identity: a line that was altered, or comes from another file, is noticed. Files of earlier versions have no checks.

To continue, an evaluation

1. takes the lock `.NAME.lock` beside the file, which it holds until it ends: one evaluation at a time writes to a file;
2. cuts off everything behind the last line end, since a kill can leave a part of a line there;
3. refuses a file with another identity;
4. asks the questions that have no record, and once more those for which the language model could not be reached, or
   none of its replies could be read.

A reader needs no lock: it ignores what is behind the last line end.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import orjson
from filelock import Timeout
from typing_extensions import Self

from knowgap.compiling.evaluation.metrics import EVIDENCE
from knowgap.compiling.evaluation.provenance import Provenance, digest
from knowgap.compiling.evaluation.results import Evaluation
from knowgap.compiling.evaluation.runner import FIRST_SEARCH_RECALL, QuestionRecord
from knowgap.errors import DataError, UsageError
from knowgap.storage.files import acquire_lock, naming, release_lock

__all__ = ["HEADER", "AnswersFile", "identity_of", "load_answers"]

HEADER = b'{"kind":"knowgap evaluation"'
"""How an answers file begins."""

_CHECK = "check"


def identity_of(origin: Provenance, metrics: Sequence[str], k_recall: Sequence[int]) -> dict[str, str]:
    """Digests of everything that answers and scores depend on, by name."""
    index = [origin.retriever.get(key) for key in ("name", "digest", "corpus_digest", "quality")]
    trained = {name: facts.get("digest") or facts.get("name") for name, facts in origin.sub_models.items()}
    measured = {role: facts for role, facts in origin.outside.items() if role.startswith("metric ")}
    others = {role: facts for role, facts in origin.outside.items() if role not in measured}
    parts: dict[str, Any] = {
        "program": [origin.program, origin.state, *([others] if others else [])],
        "data": origin.data,
        "language model": [origin.lm, origin.lm_settings],
        "metrics": [list(metrics), list(k_recall), list(EVIDENCE), *([measured] if measured else [])],
        "index": index,
        "reranker and entailment": [origin.reranker, origin.entailment],
        "split": origin.split,
        **({"trained models": trained} if trained else {}),
    }
    return {name: digest(value)[:16] for name, value in parts.items()}


class AnswersFile:
    """An answers file that is being written. Use it as a context manager.

    Args:
        path: the file; it is made, with its folder, if it is not there.
        identity: what is evaluated: from `identity_of`.

    Attributes:
        records: those that were in the file when it was opened, by question id.

    Raises:
        UsageError: the file holds another evaluation, or something else, or is being written to.
        DataError: a line is damaged.
        OSError: the file cannot be written.
    """

    def __init__(self, path: str | Path, identity: dict[str, str]):
        self.path, self._writing = Path(path), threading.Lock()
        if self.path.is_dir():
            raise UsageError(f"{self.path} is a folder: name a file for the answers")
        self.path.parent.mkdir(parents=True, exist_ok=True)
        try:
            lock = acquire_lock(self.path, timeout=0)
        except Timeout:
            raise UsageError(
                f"another evaluation is writing to {self.path}: wait for it, or name another file"
            ) from None
        with ExitStack() as stack:
            stack.callback(release_lock, lock)
            self._file = stack.enter_context(self.path.open("a+b", buffering=0))
            self._file.seek(0)
            content = self._file.read()
            if content and not content.startswith(HEADER) and not HEADER.startswith(content):
                raise UsageError(f"{self.path} is not a file of answers: name another one")
            earlier, self.records, self._checked = _parse(self.path, content)
            self._identity = identity
            differing = sorted(key for key in {*earlier, *identity} if earlier.get(key) != identity.get(key))
            if earlier and differing:
                raise UsageError(
                    f"{self.path} holds another evaluation (it differs in: {', '.join(differing)}): "
                    "name another file, or remove this one"
                )
            self._file.truncate(content.rfind(b"\n") + 1)
            if not earlier:
                self._write({"kind": "knowgap evaluation", "identity": identity})
            self._held = stack.pop_all()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *problem: object) -> None:
        self._held.close()

    def append(self, record: QuestionRecord) -> None:
        """Add a question's record."""
        self._write(record.model_dump(mode="json"))

    def _write(self, value: dict[str, Any]) -> None:
        if self._checked:
            value = {**value, _CHECK: _check(self._identity, value)}
        line = orjson.dumps(value) + b"\n"
        with self._writing, naming(self.path):
            end = self._file.seek(0, os.SEEK_END)
            try:
                while line:
                    line = line[self._file.write(line) :]
            except OSError:
                self._file.truncate(end)  # a part of a line would spoil the next one
                raise


def load_answers(path: Path) -> Evaluation:
    """Read an answers file as an evaluation; its provenance has the split and a digest of the data only.

    Raises:
        DataError: a line is damaged, or there is no answer yet.
    """
    identity, records, _ = _parse(path, path.read_bytes())
    if not records:
        raise DataError("no question has been answered yet", path=path)
    names = dict.fromkeys(name for record in records.values() for name in record.scores)
    metrics = [name for name in names if name not in EVIDENCE and not name.startswith(FIRST_SEARCH_RECALL)]
    splits = {digest(split)[:16]: split for split in ("train", "dev", "test")}
    origin = Provenance(split=splits.get(identity.get("split", ""), ""), data=f"answers:{identity.get('data', '')}")
    return Evaluation(records=list(records.values()), metrics=metrics or list(names), provenance=origin)


def _parse(path: Path, content: bytes) -> tuple[dict[str, str], dict[str, QuestionRecord], bool]:
    """The identity, empty if there is no whole header; the records by question id; whether lines have checks."""
    identity: dict[str, str] = {}
    records: dict[str, QuestionRecord] = {}
    checked = True
    for number, line in enumerate(content.split(b"\n")[:-1], start=1):
        try:
            value = orjson.loads(line)
            if number == 1:
                identity, checked = dict(value["identity"]), _CHECK in value
            if checked and value.pop(_CHECK) != _check(identity, value):
                raise ValueError("the line was altered")
            if number > 1:
                record = QuestionRecord.model_validate(value)
                records[record.id] = record
            elif value.keys() != {"kind", "identity"}:
                raise ValueError("the header has something else")
        except (AttributeError, KeyError, TypeError, ValueError):  # pydantic's and orjson's errors are ValueErrors
            raise DataError("damaged line: remove it, or the file", path=path, line=number) from None
    return identity, records, checked


def _check(identity: dict[str, str], value: dict[str, Any]) -> str:
    return digest([identity, value])[:16]
