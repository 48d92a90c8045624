"""The format of an index: immutable segments, and the manifest that names them.

    index/
        manifest.json          engine, settings, checkpoint, segments; SHA-256 of every file below
        checkpoint/            the embedded ColBERT checkpoint, if the index was encoded with it
        segment-0/             what the build wrote: passages.* (`passage_store`), and
            tokens.i16, lengths.i32, means.npy    vectors (`vectors`), if the settings have `dim`
            bm25/                  postings of words (`knowgap.retrieval.postings`), if they have `stemmer`
        segment-3/             what the third change added
        .checked.json          which files had the right digests, and their sizes and times at that moment
        .writer.lock           locked by the process that changes the index
    .index.building/           an unfinished build
    .index.lock                locked by the process that builds

No path is recorded, so the folder can be moved and copied. A checkpoint outside the index is recorded by name and
digest. The positions of passages are counted through the segments in the order of the manifest. A segment is written
once and never changed; every recorded file must have its digest (`knowgap.storage.manifest`).

**Building** (`base`). A build writes to `.index.building`, first a manifest without files, by which the same command
knows it again: after a kill, it continues behind the passages whose vectors are on disk. When every byte is on disk,
the manifest gets its files, and the folder replaces its target. If the target already is the same index, nothing is
built.

**Changing** (`folder_index`). A writer takes `.writer.lock`, and writes the added passages as a new segment. The change
takes effect when it replaces the manifest, which names the segments and the deleted passages; segments that it no
longer names are then removed. A kill leaves the old index or the new one, and perhaps a segment that the next change
removes. A reader keeps the files that it has opened until it refreshes. If an addition would make more than four
segments, it is merged with the last ones in the same step; and all are, when a fifth of the passages is deleted.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from knowgap.errors import IndexDamaged, IndexForeign, IndexMissing
from knowgap.storage.files import json_digest, write_file
from knowgap.storage.manifest import find_damage

FORMAT_VERSION = 9
MANIFEST, FIRST_SEGMENT, CHECKPOINT = "manifest.json", "segment-0", "checkpoint"
FORMAT = "knowgap-index"


@dataclass(frozen=True)
class Segment:
    """A part of an index that is never changed.

    Args:
        name: its folder.
        passages: how many it has, including those that were deleted since.
        corpus_digest: SHA-256 over their ids, titles and texts in their order.
    """

    name: str
    passages: int
    corpus_digest: str


@dataclass(frozen=True)
class Manifest:
    """The identity of an index.

    Args:
        engine: a key of `ENGINES`.
        segments: its segments, in order.
        settings: the settings of the build.
        checkpoint: name and digest of the encoder, if the engine has one.
        deleted: the positions of the passages that were deleted, ascending.
        changes: how many times the index was changed since it was built.
        files: relative path → SHA-256, for every file.
    """

    engine: str
    segments: tuple[Segment, ...]
    settings: dict[str, Any] = field(default_factory=dict)
    checkpoint: dict[str, Any] = field(default_factory=dict)
    deleted: list[int] = field(default_factory=list)
    changes: int = 0
    files: dict[str, str] = field(default_factory=dict)

    @property
    def corpus_digest(self) -> str:
        """The digest of the passages; with several segments or deletions, a digest of those of the segments."""
        parts = [segment.corpus_digest for segment in self.segments]
        return json_digest([*parts, self.deleted]) if self.deleted or len(parts) != 1 else parts[0]

    @property
    def digest(self) -> str:
        """A digest of what the index is made of (engine, settings, corpus, checkpoint), wherever it was built."""
        encoder = self.checkpoint.get("digest")
        return json_digest([self.engine, self.settings, self.corpus_digest, encoder, FORMAT_VERSION])

    @classmethod
    def read(cls, folder: str | Path, *, engine: str | None = None) -> Manifest:
        """Read the manifest of an index, of any engine for None, and check that its files are as they were recorded.

        Raises:
            IndexMissing: nothing is at that path.
            IndexForeign: something else is there, or an index of another format or another engine.
            IndexDamaged: a file of the index is missing or damaged.
        """
        manifest = cls.parse(folder, engine=engine)
        if damage := find_damage(Path(folder), manifest.files):
            raise IndexDamaged(f"{folder}: {damage}; copy the index again, or build it again (--overwrite)")
        return manifest

    @classmethod
    def parse(cls, folder: str | Path, *, engine: str | None = None) -> Manifest:
        """Read the manifest of an index without looking at its files; see `read`."""
        folder = Path(folder)
        try:
            record = json.loads((folder / MANIFEST).read_bytes())
        except (FileNotFoundError, NotADirectoryError):
            if folder.exists():
                raise IndexForeign(
                    f"{folder}: not an index, since it has no {MANIFEST}; `knowgap index` builds one"
                ) from None
            unfinished = "no index there; its build was not finished: the same command continues it"
            wrong = "there is no such folder: name an index, or with --index a folder of documents"
            raise IndexMissing(f"{folder}: {unfinished if building_folder(folder).exists() else wrong}") from None
        except (OSError, ValueError) as error:
            raise IndexDamaged(f"{folder}: {MANIFEST} cannot be read ({error}); build the index again") from error
        kind = [record.pop("format", None), record.pop("version", None)]
        if kind != [FORMAT, FORMAT_VERSION]:
            raise IndexForeign(f"{folder}: an index of format {kind}, not {FORMAT_VERSION}; build it again")
        if engine not in (None, record["engine"]):
            raise IndexForeign(f"{folder}: an index of the engine {record['engine']!r}, not {engine!r}")
        return cls(segments=tuple(Segment(**segment) for segment in record.pop("segments")), **record)

    def write(self, folder: Path) -> None:
        """Write the manifest of a folder, in one step."""
        segments = [vars(segment) for segment in self.segments]
        record = vars(self) | {"segments": segments, "format": FORMAT, "version": FORMAT_VERSION}
        write_file(folder / MANIFEST, json.dumps(record, sort_keys=True))  # indented, it takes milliseconds more


def building_folder(target: Path) -> Path:
    """The hidden folder beside an index in which it is built."""
    return target.with_name(f".{target.name}.building")
