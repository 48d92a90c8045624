"""How the files of a corpus differ from those that an index was made of."""

from __future__ import annotations

from dataclasses import dataclass

from knowgap.retrieval.documents.reading import ReadFile
from knowgap.retrieval.documents.sources import FileRecord, Sources
from knowgap.retrieval.passage import Passage

__all__ = ["CorpusChanges", "Update"]


@dataclass(frozen=True)
class Update:
    """What an index was changed by.

    Attributes:
        files: how many files are new, changed or gone.
        added: how many passages were added, those that replace others included.
        removed: how many passages were removed, those that were replaced included.
        kept: how many passages stayed as they were.
        rebuilt: whether the index was built again as a whole, because its engine cannot be changed in place.
    """

    files: int
    added: int
    removed: int
    kept: int
    rebuilt: bool


class CorpusChanges:
    """The comparison, file by file.

    Attributes:
        sources: where the passages of the index come from.
        known: the files that it was made of.
        stale: ids of passages that are to be removed.
    """

    def __init__(self, sources: Sources, known: dict[str, FileRecord]) -> None:
        self.sources, self.known = sources, known
        self.stale: dict[str, None] = {}
        self._names: set[str] = set()
        self._old: dict[str, str] = {}
        self._files = self._added = self._replaced = self._kept = 0

    def compare(self, file: ReadFile) -> list[Passage]:
        """The passages of a file that the index does not have, or has with another content."""
        self._names.add(file.name)
        if file.passages is None or file.records is None:
            self._kept += len(self.sources.records(file.name))
            return []
        if not file.continued:
            self._files += 1
            self._old = {record.id: record.digest for record in self.sources.records(file.name)}
            self.stale.update(dict.fromkeys(self._old))
        new = []
        for passage, record in zip(file.passages, file.records, strict=True):
            self.stale.pop(passage.id, None)
            if self._old.get(passage.id) == record.digest:
                self._kept += 1
            else:
                new.append(passage)
                self._replaced += passage.id in self._old
        self._added += len(new)
        return new

    def gone(self) -> list[str]:
        """The files that are no longer there, after all others were compared; their passages become stale."""
        names = sorted(self.known.keys() - self._names)
        for name in names:
            self.stale.update((record.id, None) for record in self.sources.records(name))
        self._files += len(names)
        return names

    def summary(self, *, rebuilt: bool) -> Update:
        """The figures, after all files were compared."""
        return Update(self._files, self._added, len(self.stale) + self._replaced, self._kept, rebuilt)
