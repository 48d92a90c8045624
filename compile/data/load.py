"""Load a data set by name or path: detect its layout, divide it into splits, refuse duplicate and unknown ids."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import dspy

from knowgap.compiling.data.corpus import read_corpus
from knowgap.compiling.data.dataset import FRACTIONS, SPLITS, Dataset, PassagePool, fingerprint, split
from knowgap.compiling.data.layouts import LAYOUTS, detect_layout, find_reader
from knowgap.errors import DataError, UnknownName, UsageError, ValueOutOfBounds, is_address
from knowgap.plugins import is_reference, split_argument
from knowgap.retrieval.passage import Passage, document_id

DATASETS: dict[str, str] = {
    "sample": "a bundled fictional encyclopedia: about 900 passages and 300 questions of seven types",
    **{name: layout.about for name, layout in LAYOUTS.items()},
}
"""The names that `load_dataset` knows, with a line on each."""

_SAMPLE = Path(__file__).parent / "sample"
_SPLIT_WORDS = {
    "train": "train", "training": "train",
    "dev": "dev", "valid": "dev", "validation": "dev", "val": "dev",
    "test": "test", "testing": "test", "eval": "test",
}  # fmt: skip
_SUFFIXES = (".json", ".jsonl", ".tsv", ".csv", ".parquet")
_NOT_QUESTIONS = re.compile(r"(corpus.*|psgs.*|.*_paragraphs|id_aliases)")
_UNDIVIDED = "all"


def load_dataset(
    name_or_path: str | Path = "sample",
    *,
    corpus: str | Path | None = None,
    seed: int = 0,
    limit: int | None = None,
    split_as: str | None = None,
    undivided_as: str | None = None,
) -> Dataset:
    """Load a data set.

    Args:
        name_or_path: `sample`, a file, or a folder of files whose names tell their splits (`hotpot_train.json`,
            `dev.json`), in which a file named `corpus…` or `psgs…` is the corpus. The layout is detected from the first
            record, unless it is named: `LAYOUT:PATH` with a key of `LAYOUTS`, or `module:Name:PATH`, which hands the
            path to a loader from outside; see `find_reader`.
        corpus: a file or folder of passages to use instead of those that come with the questions; see `read_corpus`.
            Long texts are split. A gold id may name a document (the path of a file in the folder), and then matches any
            of its passages. Gold ids that the corpus does not have are matched by text or by an unambiguous title.
        seed: the seed of the division into splits.
        limit: keep the first `limit` questions of each split.
        split_as: put all questions into this split instead of dividing them.
        undivided_as: put all questions into this split if the data are not divided into splits.

    Returns:
        The data set. One file is divided into train, dev and test by `FRACTIONS`; several files keep their splits.

    Raises:
        DataError: a file or record cannot be read; names file, line and field.
        UsageError: an unknown name, layout or split, or a limit below 1.

    >>> import knowgap
    >>> knowgap.load_dataset("sample", limit=2)
    Dataset(sample: 2 train, 2 dev, 2 test questions; 936 passages)
    """
    for option, value in (("split_as", split_as), ("undivided_as", undivided_as)):
        if value is not None and value not in SPLITS:
            raise UnknownName.among(option, value, SPLITS)
    if limit is not None and limit < 1:
        raise ValueOutOfBounds(f"limit {limit}: must be at least 1")
    if is_address(str(name_or_path)):
        raise UsageError(f"{name_or_path} is a web address: name a file or folder on this machine instead")
    given = list(read_corpus(corpus, split="auto")) if corpus is not None else None
    name, splits, passages = _read(name_or_path, given)
    if split_as is not None:
        splits = {split_as: [example for examples in splits.values() for example in examples]}
    elif _UNDIVIDED in splits:
        undivided = splits[_UNDIVIDED]
        splits = {undivided_as: undivided} if undivided_as is not None else split(undivided, FRACTIONS, seed)
    splits = {each: splits.get(each, [])[:limit] for each in SPLITS}
    questions = [example for examples in splits.values() for example in examples]
    return Dataset(name=name, splits=splits, corpus=passages, fingerprint=fingerprint(questions, passages))


_Read = tuple[str, dict[str, list[dspy.Example]], list[Passage]]
"""Name, splits and passages; a single file has one split, `_UNDIVIDED`."""


def _read(source: str | Path, corpus: list[Passage] | None) -> _Read:
    source, layout = (str(source), None) if Path(source).exists() else _locate(str(source))
    path = Path(source)
    if not path.is_dir() or (layout is not None and layout not in LAYOUTS):
        return _by_their_splits(source, *_read_files({_UNDIVIDED: source}, layout, corpus))
    own = next((f for f in sorted(path.iterdir()) if re.match(r"(corpus|psgs)", f.name)), None)
    if corpus is None and own is not None:
        corpus = list(read_corpus(own))
    name, splits, passages = _read_files(_find_files(path), layout, corpus)
    return (name if name in LAYOUTS else path.resolve().name), splits, passages


def _locate(source: str) -> tuple[str, str | None]:
    """The path and layout meant by `sample`, `LAYOUT:PATH` or `module:Name:PATH`."""
    if source == "sample":
        return str(_SAMPLE), "jsonl"
    layout, (name, colon, path) = None, source.partition(":")
    if colon and name in LAYOUTS:
        source, layout = path, name
    elif colon and re.fullmatch(r"[\w.-]+", name):
        reference, argument = split_argument(source)
        if argument is None:
            reference, argument = name, path
            if is_reference(source) and "." not in path and not Path(path).exists():
                raise UsageError(f"data set {source}: name the file as well, as LAYOUT:PATH or module:Name:PATH")
        return argument, reference
    elif source in DATASETS:
        raise UsageError(f"{source} does not come with knowgap: download it and name its files, as {source}:PATH")
    elif not re.search(r"[./\\]", source):
        raise UnknownName.among("data set", source, DATASETS)
    if not Path(source).exists():
        raise DataError("there is no such file or folder", path=source)
    return source, layout


def _by_their_splits(source: str, name: str, splits: dict[str, list[dspy.Example]], passages: list[Passage]) -> _Read:
    """Divide questions by the splits that they name, if any does."""
    examples = splits[_UNDIVIDED]
    named = [example.get("split") for example in examples]
    if any(named):
        if not all(named):
            place = named.index(None) + 1
            raise DataError("names no split, although other questions do", path=source, line=place, field="split")
        splits = {split: [e for e in examples if e.split == split] for split in SPLITS}
    return name, splits, passages


def _split_name(path: Path) -> tuple[str, str]:
    """Stem and suffix of a file's name, apart from `.gz`."""
    name = Path(path.name.removesuffix(".gz"))
    return name.stem, name.suffix


def _find_files(folder: Path) -> dict[str, Path]:
    """The data files of a folder by the split in their names; a single file without one is `_UNDIVIDED`."""
    files: dict[str, Path] = {}
    for path in sorted(folder.iterdir()):
        stem, suffix = _split_name(path)
        if suffix not in _SUFFIXES or _NOT_QUESTIONS.fullmatch(stem):
            continue
        words = [word for word in re.split(r"[^a-z]+", stem.lower()) if word in _SPLIT_WORDS]
        split = _SPLIT_WORDS[words[0]] if words else _UNDIVIDED
        if split in files:
            what = f"hold the {split} split" if words else "have no split in their names"
            raise DataError(f"{files[split].name} and {path.name} both {what}: name one of them", path=folder)
        files[split] = path
    if not files:
        raise DataError(f"holds no data files ({', '.join(_SUFFIXES)})", path=folder)
    if _UNDIVIDED in files and len(files) > 1:
        raise DataError(f"{files[_UNDIVIDED].name}: its name has no split (train, dev or test)", path=folder)
    return files


def _read_files(files: Mapping[str, str | Path], layout: str | None, corpus: list[Passage] | None) -> _Read:
    pool, splits, names = PassagePool(), {}, []
    seen: dict[str, tuple[Path, int]] = {}
    own: list[tuple[Path, int | None, dspy.Example]] = []
    for each, source in files.items():
        path = Path(source)
        name = layout or detect_layout(path)
        read = find_reader(name)
        is_own = name == "jsonl" or name not in LAYOUTS
        names.append(_split_name(path)[0] if is_own else name)
        splits[each] = []
        for line, example in read(str(source), pool):
            if example.id in seen:
                other, at = seen[example.id]
                raise DataError(f"the id {example.id!r} is already used in {other.name}:{at}", path=path, line=line)
            seen[example.id] = path, line
            splits[each].append(example)
            if is_own:
                own.append((path, line, example))
    passages = pool.passages
    if corpus is not None:
        _match_ids([example for examples in splits.values() for example in examples], passages, corpus)
        passages = corpus
    if passages:
        _check_gold_ids(own, passages)
    return names[0], splits, passages


def _check_gold_ids(examples: Iterable[tuple[Path, int | None, dspy.Example]], corpus: Iterable[Passage]) -> None:
    """Refuse gold ids that name no passage or document of the corpus, since no retriever can return them."""
    known = _known_ids(corpus)
    for path, line, example in examples:
        for id in example.gold_ids:
            if id not in known:
                raise DataError(f"{id!r} is not in the corpus", path=path, line=line, field="gold_ids")


def _known_ids(corpus: Iterable[Passage]) -> set[str]:
    """The ids of passages, and of the documents of which they are parts."""
    ids = {passage.id for passage in corpus}
    return ids | {name for name in map(document_id, ids) if name is not None}


def _match_ids(examples: Iterable[dspy.Example], pooled: Iterable[Passage], corpus: Sequence[Passage]) -> None:
    """Rename gold and candidate ids to those of a given corpus, by text or by a title that only one document has."""
    titled: dict[str, set[str]] = {}
    for passage in corpus:
        titled.setdefault(passage.title, set()).add(document_id(passage.id) or passage.id)
    by_title = {title: next(iter(ids)) for title, ids in titled.items() if len(ids) == 1}
    by_text = {(passage.title, passage.text): passage.id for passage in reversed(corpus)}
    known, own = _known_ids(corpus), {passage.id: passage for passage in pooled}

    def rename(id: str) -> str:
        if id in own:
            passage = own[id]
            return by_text.get((passage.title, passage.text)) or by_title.get(passage.title, id)
        return id if id in known else by_title.get(id, id)

    for example in examples:
        example.gold_ids = list(dict.fromkeys(map(rename, example.gold_ids)))
        example.candidates = list(dict.fromkeys(map(rename, example.candidates)))
