"""A file that an evaluation writes as it goes, and continues from after a crash: JSON Lines, one question a line."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import orjson
from pydantic import ValidationError

from knowgap.compile.evaluation.runner import QuestionRecord
from knowgap.errors import DataError, UsageError

__all__ = ["AnswersFile"]

_KIND = "knowgap evaluation"


class AnswersFile:
    """Records of one evaluation on disk.

    The first line says what is evaluated; a line is appended and flushed for every question. A last line that a crash
    cut short is dropped.

    Args:
        path: the file; made where it is absent, with its folder.
        identity: what is evaluated, as digests by name; an existing file with another identity is refused.

    Raises:
        UsageError: the file holds another evaluation, or something else, or is being written to.
        DataError: a line before the last one is damaged.
    """

    def __init__(self, path: str | Path, identity: dict[str, str]):
        self.path, self.identity = Path(path), identity
        self._lock = threading.Lock()
        self.records: dict[str, QuestionRecord] = {}
        if self.path.is_dir():
            raise UsageError(f"{self.path} is a folder: name a file for the answers")
        self.path.parent.mkdir(parents=True, exist_ok=True)
        self._file = self.path.open("a+b")
        try:
            self._keep_to_itself()
            whole = self._read()
        except BaseException:
            self._file.close()
            raise
        self._file.truncate(whole)
        if not whole:
            self._write({"kind": _KIND, "identity": identity})

    def append(self, record: QuestionRecord) -> None:
        """Add a question's record; it is on its way to the disk when this returns."""
        self._write(record.model_dump(mode="json"))

    def close(self) -> None:
        """Close the file."""
        self._file.close()

    def _write(self, value: dict[str, Any]) -> None:
        with self._lock:
            self._file.write(orjson.dumps(value) + b"\n")
            self._file.flush()

    def _keep_to_itself(self) -> None:
        try:
            import fcntl
        except ImportError:
            return  # a system without such locks: two evaluations at once are not noticed there
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise UsageError(
                f"another evaluation is writing to {self.path}: wait for it, or name another file"
            ) from None

    def _read(self) -> int:
        """Take over the records that are there; return how many bytes of the file are whole lines."""
        self._file.seek(0)
        content = self._file.read()
        whole = content.rfind(b"\n") + 1
        for number, line in enumerate(content[:whole].splitlines(), start=1):
            try:
                value = orjson.loads(line)
                if number == 1:
                    self._check(value)
                    continue
                record = QuestionRecord.model_validate(value)
            except (orjson.JSONDecodeError, ValidationError):
                if number == 1:
                    self._check(None)
                raise DataError("damaged line: remove it, or the file", path=self.path, line=number) from None
            self.records[record.id] = record
        if content and not whole and not content.startswith(b'{"kind"'):
            self._check(None)
        return whole

    def _check(self, header: Any) -> None:
        if not isinstance(header, dict) or header.get("kind") != _KIND:
            raise UsageError(f"{self.path} is not a file of answers: name another one")
        found = header.get("identity", {})
        differing = sorted(key for key in {*found, *self.identity} if found.get(key) != self.identity.get(key))
        if differing:
            raise UsageError(
                f"{self.path} holds another evaluation (it differs in: {', '.join(differing)}): "
                "name another file, or remove this one"
            )
