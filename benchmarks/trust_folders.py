"""What strangers' index folders can do, and what two commands do that write one folder.

Index folders that somebody changed and sealed again name a server, a model, another engine or other files. Such a
folder must answer or be refused with one line; nothing may be asked for over the network, and nothing in the folder
may be run.

Two `index` commands start at once on one folder, in rounds: on a new folder, on one whose documents have changed, and
with --overwrite. One of them has to build the whole index with the places of all its passages; the other has to do the
same after it, or to say in one line that it must wait. Nothing may be left beside the index.
"""

from __future__ import annotations

import argparse
import json
import os
import pickle
import random
import socket
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import Any

from forked import count_words
from table import Table, note

_ENGINES: dict[str, dict[str, Any]] = {"bm25": {}, "dense": {"encoder": count_words}}
_FILES = 120


def add_arguments(group: Any) -> None:
    """Add the options of this part."""
    group.add_argument("--folders-rounds", type=int, help="rounds of two builders of one folder (50; quick 6)")
    group.add_argument("--folders-seed", type=int, default=0, help="of the moments at which builders start (0)")


def measure(options: argparse.Namespace) -> Iterator[Table]:
    """Try everything of this part."""
    yield _strangers()
    yield _two_builders(options.folders_rounds or (6 if options.quick else 50), random.Random(options.folders_seed))


class _Runs:
    """What a pickle runs as it is read."""

    def __reduce__(self) -> tuple[Any, ...]:
        return (os.mkdir, ("run by a pickle",))


STRANGE: dict[str, Callable[[dict[str, Any], Path, str], object]] = {
    "a Qdrant server": lambda manifest, _, url: manifest.update(engine="qdrant", settings={"url": url, "name": "x"}),
    "a model on the hub": lambda manifest, _, url: manifest.update(
        engine="dense", settings={"dim": 8}, checkpoint={"name": "org/model", "digest": "0"}
    ),
    "a ColBERT checkpoint on the hub": lambda manifest, _, url: manifest.update(
        engine="colbert", settings={"dim": 8}, checkpoint={"name": "org/model", "digest": "0"}
    ),
    "a class as its engine": lambda manifest, _, url: manifest.update(engine="os:system"),
    "a folder above as its engine": lambda manifest, _, url: manifest.update(engine="../engine"),
    "no settings": lambda manifest, _, url: manifest.update(settings={}),
    "an engine without its settings": lambda manifest, _, url: manifest.update(engine="hybrid", settings={}),
    "a key of its own": lambda manifest, _, url: manifest.update(url=url),
    "no parts": lambda manifest, _, url: manifest.update(segments=[]),
    "parts of another folder": lambda manifest, _, url: manifest["segments"][0].update(name="../elsewhere"),
    "arrays that are pickles": lambda manifest, folder, url: [
        array.write_bytes(pickle.dumps(_Runs())) for array in folder.rglob("*.npy")
    ],
    "places of passages that are a pickle": lambda manifest, folder, url: (folder / "sources.db").write_bytes(
        pickle.dumps(_Runs())
    ),
}
"""What somebody changes in the manifest or the files of an index; the address is that of a server that listens."""


def _strangers() -> Table:
    """Open and search index folders that somebody changed, and sealed again."""
    from knowgap.compiling.data.indexing import build_index
    from knowgap.storage.files import file_digest, json_digest

    rows: list[list[Any]] = []
    for what, change in STRANGE.items():
        with tempfile.TemporaryDirectory() as place, socket.create_server(("127.0.0.1", 0)) as listening:
            folder, url = Path(place) / "index", f"http://127.0.0.1:{listening.getsockname()[1]}"
            (Path(place) / "documents").mkdir()
            (Path(place) / "documents" / "orle.txt").write_text("The Orle Bridge was designed by Ada Venn.")
            build_index(Path(place) / "documents", folder, engine="bm25")
            manifest = json.loads((folder / "manifest.json").read_text())
            change(manifest, folder, url)
            for name, record in manifest["files"].items():
                record.update(size=(folder / name).stat().st_size, sha256=file_digest(folder / name))
            manifest.pop("sha256")
            (folder / "manifest.json").write_text(json.dumps(manifest | {"sha256": json_digest(manifest)}))
            became = _opened(folder).replace(place, "…").replace(url.rpartition(":")[2], "PORT")
            listening.settimeout(0.2)
            try:
                listening.accept()[0].close()
                asked = "ASKED"
            except TimeoutError:
                asked = "no"
            ran = Path("run by a pickle").is_dir()
            held = asked == "no" and not ran and not became.startswith("broke")
            rows.append([what, became, asked, "yes" if ran else "no", "yes" if held else "NO"])
    title = f"Index folders of strangers: {sum(row[-1] == 'yes' for row in rows)} of {len(rows)} held"
    return Table(title, ["the folder names, or has", "what became of it", "its address was asked", "ran", "held"], rows)


def _opened(folder: Path) -> str:
    """What comes of opening and searching an index."""
    from knowgap.errors import KnowgapError
    from knowgap.retrieval import open_index

    try:
        hits = open_index(folder).search(["bridge"], 1)
    except KnowgapError as error:
        return f"refused: {error}"
    except Exception as error:
        return f"broke: {type(error).__name__}: {error}"
    return "answers" if hits[0] else "finds nothing"


def _two_builders(rounds: int, chance: random.Random) -> Table:
    """Two builders of one folder, as many times for each way."""
    rows, started = [], get_context("forkserver")
    started.set_forkserver_preload(["knowgap.compiling.data.indexing", "knowgap.retrieval.bm25"])
    pool = ProcessPoolExecutor(2, mp_context=started)
    for way in ("new", "changed", "overwrite"):
        for engine in _ENGINES:
            note(f"two builders: {way}, {engine}")
            counts, broke, how = Counter[str](), 0, Counter[str]()
            for _ in range(rounds):
                with tempfile.TemporaryDirectory() as folder:
                    outcomes = Counter(_round(pool, Path(folder), way, engine, chance.uniform(0, 0.1)))
                broken = {outcome: outcomes.pop(outcome) for outcome in list(outcomes) if outcome.startswith("broke")}
                counts += outcomes
                broke += bool(broken)
                how += Counter({outcome.replace(folder, "…")[:100]: count for outcome, count in broken.items()})
            problems = "; ".join(f"{count} × {problem}" for problem, count in how.most_common(3)) or "–"
            rows.append([way, engine, rounds, counts["built"], counts["said to wait"], broke, problems])
    pool.shutdown()
    return Table(
        "Two `index` commands on one folder",
        ["folder", "engine", "rounds", "built or found whole", "said to wait", "rounds that broke", "how, most often"],
        rows,
        ["Each round has two commands: the third and fourth figure sum to twice the rounds where nothing breaks."],
    )


def _round(pool: ProcessPoolExecutor, folder: Path, way: str, engine: str, delay: float) -> Iterator[str]:
    """The outcome of each of two builders, and what is wrong with the index after them."""
    documents, target = folder / "documents", folder / "index"
    documents.mkdir()
    for number in range(_FILES):
        (documents / f"{number}.md").write_text(f"# Town {number}\n\nIt was founded in {1000 + number}.\n")
    if way != "new":
        _build(documents, target, engine)
        for number in range(_FILES, _FILES + 20):
            (documents / f"{number}.md").write_text(f"# Town {number}\n\nIt was founded in {1000 + number}.\n")

    started = [pool.submit(_build, documents, target, engine, way == "overwrite", wait) for wait in (0.0, delay)]
    outcomes = [future.result() for future in started]
    for kind, value in outcomes:
        said = kind == "refused" and ("wait for it to finish" in value or "try again later" in value)
        lines = str(value).strip().splitlines()
        yield "built" if kind == "value" else "said to wait" if said else f"broke: {kind}: {lines[-1]}"
    if problem := _missing(target, {path.name for path in documents.iterdir()}):
        yield f"broke afterwards: {problem}"
    if all(kind != "value" for kind, _ in outcomes):
        yield "broke: none of the two built"


def _build(documents: Path, target: Path, engine: str, overwrite: bool = False, wait: float = 0) -> tuple[str, str]:
    """Build an index after so many seconds: "value", or the kind of error and its text."""
    from knowgap.compiling.data.indexing import build_index
    from knowgap.errors import KnowgapError

    time.sleep(wait)
    try:
        build_index(documents, target, engine=engine, overwrite=overwrite, **_ENGINES[engine])
    except (KnowgapError, OSError) as error:
        return "refused", str(error)
    except Exception as error:
        return "traceback", f"{type(error).__name__}: {error}"
    return "value", ""


def _missing(target: Path, files: set[str]) -> str:
    """What an index of documents lacks, or what lies beside it; empty for nothing."""
    from knowgap.errors import KnowgapError
    from knowgap.retrieval import open_index
    from knowgap.retrieval.documents.sources import sources_of
    from knowgap.retrieval.index.manifest import Manifest

    try:
        Manifest.read(target).verify(target)
        index: Any = open_index(target)
    except KnowgapError as error:
        return str(error)
    sources = sources_of(index)
    if sources is None:
        return "the places of the passages are lost"
    ids = [passage.id for passage in index]
    if len(sources.find(ids)) != len(ids) or set(sources.files()) != files or len(ids) != len(files):
        return f"{len(ids)} passages and places of {len(sources.find(ids))}, from {len(files)} files"
    beside = sorted(path.name for path in target.parent.iterdir() if path.name not in ("documents", "index"))
    return f"left beside the index: {', '.join(beside)}" if beside else ""
