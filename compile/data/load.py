"""Loading a data set by name or path: layouts told apart, splits made, every duplicate refused."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

import dspy

from knowgap.compile.data.beir import is_beir, read_beir
from knowgap.compile.data.corpus import read_corpus
from knowgap.compile.data.dataset import SPLITS, Dataset, PassagePool, fingerprint, sample_split, split_examples
from knowgap.compile.data.fictional import fictional, sample
from knowgap.compile.data.layouts.registry import LAYOUTS, detect_layout
from knowgap.errors import DataError, UnknownName, UsageError, ValueOutOfBounds
from knowgap.retrieval.passage import Passage

__all__ = ["DATASETS", "load_dataset"]

DATASETS: dict[str, str] = {
    "sample": "a bundled fictional encyclopedia: about 1,000 passages and 300 questions of eight types",
    "fictional:N": "the same, with about N passages",
    **{name: layout.about for name, layout in LAYOUTS.items()},
    "beir": "retrieval test collections: a folder with corpus, queries and judgements (BEIR's layout)",
}
"""What `load_dataset` knows by name, with a line on each."""

_SPLIT_WORDS = {
    "train": "train", "training": "train",
    "dev": "dev", "valid": "dev", "validation": "dev", "val": "dev",
    "test": "test", "testing": "test", "eval": "test",
}  # fmt: skip
_COMPANIONS = re.compile(r"(corpus.*|psgs.*|.*_paragraphs|id_aliases|.*_quest_gt_save)")


def load_dataset(
    name_or_path: str | Path | Mapping[str, str | Path] = "sample",
    *,
    layout: str | None = None,
    corpus: str | Path | None = None,
    seed: int = 0,
    limit: int | None = None,
    split: str | None = None,
    split_as: str | None = None,
    sampling: str | None = None,
) -> Dataset:
    """Load a data set.

    Args:
        name_or_path: `sample`, `fictional:N`, a file, a folder of files whose names tell their splits
            (`hotpot_train.json`, `dev.json`), `LAYOUT:PATH`, or a mapping from splits to files. In a folder, a file
            named `corpus…` or `psgs…` is the corpus.
        layout: a key of `LAYOUTS`, or `beir`; found from the first record where it is not given.
        corpus: passages to use instead of those that come with the questions; see `read_corpus`. Gold ids that it does
            not have are matched by title where that is unambiguous.
        seed: of the division into splits and of `sampling="random-N"`. The fictional data sets do not depend on it.
        limit: keep the first so many questions of each split.
        split: load this split only; the others stay empty. The corpus stays whole.
        split_as: do not divide: every question goes into this split.
        sampling: `first-N` or `random-N` of each split, as papers report it.

    Returns:
        The data set. One file is divided into train, dev and test by `FRACTIONS`; several files stay what they are.

    Raises:
        DataError: a file or record that cannot be read, naming file, line and field.
        UsageError: an unknown name, layout, split or sampling, or a limit below 1.
    """
    for option, value in (("split", split), ("split_as", split_as)):
        if value is not None and value not in SPLITS:
            raise UnknownName.among(f"{option}", value, SPLITS)
    if limit is not None and limit < 1:
        raise ValueOutOfBounds(f"limit {limit}: must be at least 1")
    name, splits, passages = _read(name_or_path, layout, corpus, split if split_as is None else None)
    if split_as is None and _ALL in splits:
        splits = split_examples(splits[_ALL], seed)
    if split_as is not None:
        splits = {split_as: [example for part in splits.values() for example in part]}
    splits = {each: splits.get(each, []) if split in (None, each) else [] for each in SPLITS}
    if sampling is not None:
        splits = {each: sample_split(examples, sampling, seed) for each, examples in splits.items()}
    splits = {each: examples[:limit] for each, examples in splits.items()}
    every = [example for examples in splits.values() for example in examples]
    return Dataset(name=name, splits=splits, corpus=passages, fingerprint=fingerprint(every, passages))


_ALL = "all"
_Read = tuple[str, dict[str, list[dspy.Example]], list[Passage]]
_Place = tuple[dspy.Example, Path, "int | None"]


def _read(
    source: str | Path | Mapping[str, str | Path],
    layout: str | None,
    corpus: str | Path | None,
    split: str | None,
) -> _Read:
    """Name, splits and passages; the only split of a single file is `_ALL`."""
    if isinstance(source, Mapping):
        for name in source:
            if name not in SPLITS:
                raise UnknownName.among("split", name, SPLITS)
        return _read_files({name: Path(path) for name, path in source.items()}, layout, corpus, split)
    if isinstance(source, str) and not Path(source).exists():
        known, colon, rest = source.partition(":")
        if source == "sample" or (known == "fictional" and rest.isdecimal() and int(rest) > 0):
            data = sample() if source == "sample" else fictional(int(rest))
            return data.name, dict(data.splits), list(data.corpus)
        if colon and (known in LAYOUTS or known == "beir"):
            return _read(Path(rest), known, corpus, split)
        if source in DATASETS:
            raise UsageError(f"{source} does not come with knowgap: download it and name its files, as {source}:PATH")
        if not re.search(r"[./\\]", source):
            raise UnknownName.among("data set", source, DATASETS)
    path = Path(source)
    if not path.exists():
        raise DataError("there is no such file or folder", path=path)
    if path.is_dir() and (layout == "beir" or (layout is None and is_beir(path))):
        splits, passages = read_beir(path, split), list(read_corpus(corpus or path / "corpus.jsonl"))
        _check_gold({e.id: (e, path, None) for part in splits.values() for e in part}, passages)
        return path.name, splits, passages
    if path.is_dir():
        files = _split_files(path)
        beside = next((f for f in sorted(path.iterdir()) if re.match(r"(corpus|psgs)", f.name)), None)
        if len(files) > 1 or None not in files:
            named = {name: file for name, file in files.items() if name}
            return _read_files(named, layout, corpus or beside, split)
        path, corpus = files[None], corpus or beside
    return _read_files({_ALL: path}, layout, corpus, None)


def _stem(path: Path) -> tuple[str, str]:
    """Stem and suffix of a file's name, `.gz` left aside."""
    inner = Path(path.name.removesuffix(".gz"))
    return inner.stem, inner.suffix


def _split_files(folder: Path) -> dict[str | None, Path]:
    """The data files of a folder by the split that their names tell."""
    files: dict[str | None, Path] = {}
    for file in sorted(folder.iterdir()):
        stem, suffix = _stem(file)
        if suffix not in (".json", ".jsonl", ".tsv") or _COMPANIONS.fullmatch(stem):
            continue
        words = [_SPLIT_WORDS[word] for word in re.split(r"[^a-z]+", stem.lower()) if word in _SPLIT_WORDS]
        split = words[0] if words else None
        if split in files:
            what = f"the {split} split" if split else "no split in their names"
            raise DataError(f"{files[split].name} and {file.name} both hold {what}: name one of them", path=folder)
        files[split] = file
    if not files:
        raise DataError("holds no data files (.json, .jsonl, .tsv)", path=folder)
    if None in files and len(files) > 1:
        raise DataError(f"{files[None].name}: its name tells no split (train, dev or test)", path=folder)
    return files


def _read_files(files: Mapping[str, Path], layout: str | None, corpus: str | Path | None, split: str | None) -> _Read:
    pool, splits, names = PassagePool(), {}, []
    seen: dict[str, _Place] = {}
    own: dict[str, _Place] = {}
    for each, path in files.items():
        if split not in (None, each):
            continue
        name = layout or detect_layout(path)
        if name not in LAYOUTS:
            raise UnknownName.among("layout", name, LAYOUTS)
        names.append(_stem(path)[0] if name == "jsonl" else name)
        splits[each] = []
        for line, example in LAYOUTS[name].reader(path, pool):
            if example.id in seen:
                _, other, at = seen[example.id]
                raise DataError(f"the id {example.id!r} stood before, in {other.name}:{at}", path=path, line=line)
            seen[example.id] = (example, path, line)
            splits[each].append(example)
            if name == "jsonl":
                own[example.id] = seen[example.id]
    if not splits:
        raise UsageError(f"there is no {split} split among {', '.join(path.name for path in files.values())}")
    passages = pool.passages
    if corpus is not None:
        given = list(read_corpus(corpus))
        _align([example for part in splits.values() for example in part], passages, given)
        passages = given
    if passages:
        _check_gold(own, passages)
    return names[0], splits, passages


def _check_gold(places: Mapping[str, _Place], corpus: list[Passage]) -> None:
    """Refuse gold ids that the corpus does not have: nothing could ever find them."""
    known = {passage.id for passage in corpus}
    for example, path, line in places.values():
        for id in example.gold_ids:
            if id not in known:
                raise DataError(f"{id!r} is not in the corpus", path=path, line=line, field="gold_ids")


def _align(examples: list[dspy.Example], pooled: list[Passage], corpus: list[Passage]) -> None:
    """Rename gold and candidate ids to those of a given corpus, by text or by a title that has one passage only."""
    known = {passage.id for passage in corpus}
    by_text: dict[tuple[str, str], str] = {}
    by_title: dict[str, list[str]] = {}
    for passage in corpus:
        by_text.setdefault((passage.title, passage.text), passage.id)
        by_title.setdefault(passage.title, []).append(passage.id)
    own = {passage.id: passage for passage in pooled}

    def rename(id: str) -> str:
        passage = own.get(id)
        if passage is None and id in known:
            return id
        title = passage.title if passage else id
        same_title = by_title.get(title, [])
        same_text = by_text.get((title, passage.text)) if passage else None
        return same_text or (same_title[0] if len(same_title) == 1 else id)

    for example in examples:
        example.gold_ids = list(dict.fromkeys(map(rename, example.gold_ids)))
        example.candidates = list(dict.fromkeys(map(rename, example.candidates)))
