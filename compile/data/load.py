"""Load a data set by name or path: detect its layout, divide it into splits, refuse duplicate ids."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

import dspy

from knowgap.compiling.data.corpus import read_corpus
from knowgap.compiling.data.dataset import FRACTIONS, SPLITS, Dataset, fingerprint, split
from knowgap.compiling.data.layouts import LAYOUTS, detect_layout, read_examples
from knowgap.errors import DataError, UnknownName, UsageError, ValueOutOfBounds
from knowgap.retrieval.passage import Passage

DATASETS: dict[str, str] = {
    "sample": "a bundled fictional encyclopedia: about 900 passages and 300 questions of seven types",
    **{name: str(layout.fields.__doc__).splitlines()[0] for name, layout in LAYOUTS.items()},
}
"""The names that `load_dataset` knows, with a line on each."""

_SAMPLE = Path(__file__).parent / "sample"
_SPLIT_WORDS = {
    "train": "train", "training": "train",
    "dev": "dev", "valid": "dev", "validation": "dev", "val": "dev",
    "test": "test", "testing": "test", "eval": "test",
}  # fmt: skip
_SUFFIXES = (".json", ".jsonl", ".tsv", ".csv", ".parquet")
_NOT_QUESTIONS = re.compile(r"(corpus|psgs).*|.*_paragraphs")
_UNDIVIDED = "all"


def load_dataset(
    name_or_path: str | Path = "sample",
    *,
    corpus: str | Path | None = None,
    seed: int = 0,
    limit: int | None = None,
    split_as: str | None = None,
) -> Dataset:
    """Load a data set.

    Args:
        name_or_path: `sample`, a file, or a folder of files whose names tell their splits (`hotpot_train.json`,
            `dev.json`), in which a file named `corpus…` or `psgs…` is the corpus. The layout is detected from the first
            record, unless it is named: `LAYOUT:PATH` with a key of `LAYOUTS`.
        corpus: a file or folder of passages to use instead of those that come with the questions; see `read_corpus`.
            Long texts are split. A gold id may name a document (the path of a file in the folder), and then matches any
            of its passages.
        seed: the seed of the division into splits.
        limit: keep the first `limit` questions of each split.
        split_as: put all questions of one file into this split instead of dividing them.

    Returns:
        The data set. One file is divided into train, dev and test by `FRACTIONS`; several files keep their splits.

    Raises:
        DataError: a file or record cannot be read; names file, line and field.
        UsageError: an unknown name, layout or split, or a limit below 1.

    >>> import knowgap
    >>> knowgap.load_dataset("sample", limit=2)
    Dataset(sample: 2 train, 2 dev, 2 test questions; 936 passages)
    """
    if split_as is not None and split_as not in SPLITS:
        raise UnknownName.among("split_as", split_as, SPLITS)
    if limit is not None and limit < 1:
        raise ValueOutOfBounds(f"limit {limit}: must be at least 1")
    path, layout = (Path(name_or_path), None) if Path(name_or_path).exists() else _locate(str(name_or_path))
    files = _find_files(path) if path.is_dir() else {_UNDIVIDED: path}
    own = (file for file in sorted(path.iterdir()) if re.match("corpus|psgs", file.name)) if path.is_dir() else ()
    passages: list[Passage] | None = None
    if corpus is not None:
        passages = list(read_corpus(corpus, split=True))
    elif (file := next(iter(own), None)) is not None:
        passages = list(read_corpus(file))
    name, splits, passages = _read_files(files, layout, passages)
    if path.is_dir() and name not in LAYOUTS:
        name = path.resolve().name
    if _UNDIVIDED in splits:
        undivided = splits[_UNDIVIDED]
        splits = {split_as: undivided} if split_as is not None else split(undivided, FRACTIONS, seed)
    splits = {each: splits.get(each, [])[:limit] for each in SPLITS}
    questions = [example for examples in splits.values() for example in examples]
    return Dataset(name=name, splits=splits, corpus=passages, fingerprint=fingerprint(questions, passages))


def _locate(source: str) -> tuple[Path, str | None]:
    """The path and layout meant by `sample` or `LAYOUT:PATH`."""
    if source == "sample":
        return _SAMPLE, "jsonl"
    layout, colon, path = source.partition(":")
    if colon and layout in LAYOUTS:
        source = path
    elif source in DATASETS:
        raise UsageError(f"{source} does not come with knowgap: download it and name its files, as {source}:PATH")
    elif colon or not re.search(r"[./\\]", source):
        raise UnknownName.among("layout" if colon else "data set", layout, LAYOUTS if colon else DATASETS)
    if not Path(source).exists():
        raise DataError("there is no such file or folder", path=source)
    return Path(source), layout if colon else None


def _find_files(folder: Path) -> dict[str, Path]:
    """The data files of a folder by the split in their names; a single file without one is `_UNDIVIDED`."""
    files: dict[str, Path] = {}
    for path in sorted(folder.iterdir()):
        if path.suffix not in _SUFFIXES or _NOT_QUESTIONS.fullmatch(path.stem):
            continue
        words = [word for word in re.split(r"[^a-z]+", path.stem.lower()) if word in _SPLIT_WORDS]
        split = _SPLIT_WORDS[words[0]] if words else _UNDIVIDED
        if files and (split in files or _UNDIVIDED in (split, *files)):
            others = ", ".join(other.name for other in files.values())
            raise DataError(f"{path.name} and {others}: name one of them, or a split in each name", path=folder)
        files[split] = path
    if not files:
        raise DataError(f"holds no data files ({', '.join(_SUFFIXES)})", path=folder)
    return files


def _read_files(
    files: Mapping[str, Path], layout: str | None, corpus: list[Passage] | None
) -> tuple[str, dict[str, list[dspy.Example]], list[Passage]]:
    """The name, the splits and the passages of files of questions, in which an id may be used once."""
    pool, splits, names = dict[str, Passage](), dict[str, list[dspy.Example]](), list[str]()
    places: dict[str, tuple[Path, int]] = {}
    for each, path in files.items():
        name = layout or detect_layout(path)
        names.append(path.stem if name == "jsonl" else name)
        splits[each] = []
        for line, example in read_examples(path, name, pool):
            if example.id in places:
                other, at = places[example.id]
                raise DataError(f"the id {example.id!r} is already used in {other.name}:{at}", path=path, line=line)
            places[example.id] = path, line
            splits[each].append(example)
    return names[0], splits, [*pool.values()] if corpus is None else corpus
