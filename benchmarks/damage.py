"""Every file of an index and its changes, an artifact and a file of answers, damaged in many ways.

After each damage, whatever reads the file is called: a search, loading the artifact, continuing the evaluation. The
outcome is `right` if this gives what it gave before. Digests guard an index; in an artifact and in answers, JSON that
can still be read is taken as it is, as if a person had edited it.
"""

from __future__ import annotations

import argparse
import functools
import json
import random
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from forked import count_words, in_fork, rag_over_sample, sample, value_of
from table import Table, note

QUERIES = ["Who wrote The Glass Orchard?", "a river in the north", "painter born in the capital"]
OUTCOMES = ("refused in one line", "right", "wrong in silence", "traceback")


def add_arguments(group: Any) -> None:
    """Add the options of this benchmark."""
    group.add_argument("--damages", type=int, help="of each file (100; quick 2)")
    group.add_argument("--damaged", help="the subject that is damaged (all)")


def measure(options: argparse.Namespace) -> Iterator[Table]:
    """Damage every file."""
    import torch

    torch.set_num_threads(1)  # a fork has no other threads
    sample()
    count = options.damages or (2 if options.quick else 100)
    rows, wrong, totals = [], [], Counter[str]()
    with tempfile.TemporaryDirectory(prefix="knowgap-benchmark-") as name:
        for subject in _subjects(Path(name), options.damaged):
            for path in subject.files:
                note(f"damage: {subject.name}, {path.name}")
                outcomes = _damage_file(subject, path, count)
                wrong += [f"{path.name}, {kind}: {told}" for outcome, kind, told in outcomes if outcome in OUTCOMES[2:]]
                counts = Counter(outcome for outcome, _, _ in outcomes)
                totals += counts
                place = path.relative_to(subject.folder).as_posix()
                rows.append([subject.name, place, *(counts[outcome] for outcome in OUTCOMES)])
    rows.append(["all", f"{len(rows)} files", *(totals[outcome] for outcome in OUTCOMES)])
    yield Table(
        f"{totals.total():,} damages",
        ["subject", "file", *OUTCOMES],
        rows,
        [f"Damages of each file: deleted, emptied, and in turn {', '.join(KINDS)}.", *wrong[:20]],
    )


@dataclass(frozen=True)
class _Subject:
    """Something on disk, what reads it, and what is read while it is whole."""

    name: str
    folder: Path
    files: list[Path]
    read: Callable[[], Any]
    expected: Any


def _damage_file(subject: _Subject, path: Path, count: int) -> list[tuple[str, str, str]]:
    """Damage a file in so many ways, each time as it was before: outcome, kind of damage, and what was told."""
    alone = len(subject.files) > 3  # what reads an index leaves its other files as they are
    whole = {file: file.read_bytes() for file in ([path] if alone else subject.folder.rglob("*")) if file.is_file()}
    others = [file for file in subject.files if file != path] or [Path(__file__)]
    results = []
    for number in range(count):
        draw = random.Random(f"{path.name} {number}")
        kind = ["deleted", "emptied", *KINDS][number if number < 2 else 2 + (number - 2) % len(KINDS)]
        if kind == "deleted":
            path.unlink()
        else:
            path.write_bytes(_damaged(whole[path], kind, draw, draw.choice(others)))
        outcome, told = in_fork(subject.read)
        if outcome == "value":
            outcome = OUTCOMES[1] if told == subject.expected else OUTCOMES[2]
        elif outcome == "refused":
            outcome = OUTCOMES[0] if "\n" not in told.strip() else OUTCOMES[3]
        results.append((outcome, kind, str(told)[-300:]))
        for file, content in whole.items():
            if not file.exists() or file.read_bytes() != content:
                file.write_bytes(content)
        for file in [] if alone else [*subject.folder.rglob("*")]:
            if file not in whole and file.is_file():
                file.unlink()
    return results


KINDS = ("cut off", "bit flipped", "ten bits flipped", "blocks swapped", "bytes appended", "block of zeros")
KINDS = (*KINDS, "digit altered", "letter altered", "content of another file", "header altered")


def _damaged(content: bytes, kind: str, draw: random.Random, other: Path) -> bytes:
    """The content after a damage that alters it."""
    for _ in range(50):
        result = bytearray(content)
        size, place = len(result), draw.randrange(max(1, len(result)))
        block = draw.choice([1, 16, 512, 4096])
        if kind == "emptied":
            return b""
        if kind == "cut off":
            del result[place:]
        elif kind in ("bit flipped", "ten bits flipped") and size:
            for at in [place] if kind == "bit flipped" else [draw.randrange(size) for _ in range(10)]:
                result[at] ^= 1 << draw.randrange(8)
        elif kind == "blocks swapped" and size > 2 * block:
            one, two = sorted(draw.sample(range(0, size - block, block), 2)) if size > 3 * block else (0, block)
            result[one : one + block], result[two : two + block] = result[two : two + block], result[one : one + block]
        elif kind == "bytes appended":
            result += draw.choice([b"\0" * block, draw.randbytes(block), bytes(result[-block:])])
        elif kind == "block of zeros":
            result[place : place + block] = bytes(len(result[place : place + block]))
        elif kind in ("digit altered", "letter altered"):
            signs = b"0123456789" if kind == "digit altered" else b"abcdefghijklmnopqrstuvwxyz"
            places = [at for at in range(place, min(size, place + 5000)) if result[at] in signs]
            if places:
                result[draw.choice(places)] = draw.choice(signs)
        elif kind == "content of another file":
            result = bytearray(other.read_bytes())
        elif kind == "header altered" and size:
            result[draw.randrange(min(size, 100))] = draw.randrange(256)
        if result != content:
            return bytes(result)
    return b"\0"  # nothing of this kind can be done to it


def _subjects(folder: Path, only: str | None) -> Iterator[_Subject]:
    """Make what is damaged, each in a process of its own; only that of a given name if there is one."""
    engines = {"index, BM25": "bm25", "index, vectors": "dense", "index, changed": "dense, changed"}
    subjects: dict[str, tuple[Callable[[Path], Any], Callable[[Path], Any]]] = {
        **{name: (functools.partial(_make_index, engine), _search) for name, engine in engines.items()},
        "artifact": (_make_artifact, _load),
        "answers file": (_evaluate, _evaluate),
    }
    for name, (make, read) in subjects.items():
        if only in (None, name):
            place = folder / name
            value_of(functools.partial(make, place))
            reading = functools.partial(read, place)
            files = [path for path in sorted(place.rglob("*")) if path.is_file() and not path.name.endswith("lock")]
            yield _Subject(name, place, files, reading, value_of(reading))


def _make_index(engine: str, path: Path) -> None:
    from knowgap.retrieval import BM25Index, DenseIndex

    passages = sample()[0].corpus
    if engine == "bm25":
        BM25Index.build(passages[:60], path)
        return
    index = DenseIndex.build(passages[:60], path, encoder=count_words)
    if engine == "dense, changed":
        index.add(passages[60:80])
        index.delete([passages[3].id, passages[65].id])


def _search(path: Path) -> Any:
    from knowgap.retrieval import Manifest, open_index

    options = {} if Manifest.read(path).engine == "bm25" else {"encoder": count_words}
    hits = open_index(path, **options).search(QUERIES, 5)
    return [[(hit.passage, hit.score) for hit in each] for each in hits]


def _make_artifact(path: Path) -> None:
    from knowgap.compiling import compile, save
    from knowgap.lms import extractive_lm

    program, examples = rag_over_sample(6)
    lm = extractive_lm(cache=False)
    found = compile(program, examples, "f1", trainset=examples, optimizer="bootstrap", lm=lm, num_threads=1)
    save(found.program, path, lm=lm)


def _load(path: Path) -> Any:
    from knowgap.compiling import load, read_config
    from knowgap.compiling.evaluation.provenance import state_of

    return json.dumps([state_of(load(path, retriever=rag_over_sample(1)[0].retriever)), read_config(path)], default=str)


def _evaluate(folder: Path) -> Any:
    from knowgap.compiling import Run, evaluate
    from knowgap.lms import extractive_lm

    program, examples = rag_over_sample(12)
    file = folder / "answers.jsonl"
    result = evaluate(program, examples, ["f1", "exact_match"], run=Run(lm=extractive_lm(cache=False)), output=file)
    return [(record.id, record.answer, record.scores, record.passages) for record in result.records]
