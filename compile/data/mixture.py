"""Make one data set of several, with a part of the questions of each."""

from __future__ import annotations

import random
from collections.abc import Sequence
from itertools import chain

import dspy

from knowgap.compiling.data.dataset import SPLITS, Dataset, fingerprint
from knowgap.errors import ValueOutOfBounds
from knowgap.retrieval.passage import Passage


def mix(parts: Sequence[tuple[Dataset, float]], seed: int = 0) -> Dataset:
    """Draw a part of the questions of each split of several data sets, and pool their passages.

    If an earlier data set has the same question id, or another passage by the same id, the id gets a prefix: the name
    and the number of its own data set.

    Args:
        parts: each data set with a share of its questions, above 0 and at most 1, or how many to take, from 2 on. The
            drawn questions keep their order.
        seed: the seed of the random draws.

    Raises:
        ValueOutOfBounds: an amount is neither a share nor a number.

    >>> import knowgap
    >>> from knowgap.compiling.data import mix
    >>> sample = knowgap.load_dataset("sample")
    >>> len(mix([(sample, 20), (sample, 0.1)]).splits["train"]) == 20 + round(0.1 * len(sample.splits["train"]))
    True
    """
    splits: dict[str, list[dspy.Example]] = {split: [] for split in SPLITS}
    passages: dict[str, Passage] = {}
    known: set[str] = set()
    for number, (data, amount) in enumerate(parts):
        if not (0 < amount <= 1 or (amount >= 2 and amount == int(amount))):
            raise ValueOutOfBounds(
                f"{data.name}={amount:g}: must be a share above 0 and up to 1, or a whole number of at least 2"
            )
        prefix = f"{data.name}-{number}:"
        renamed = {p.id: prefix + p.id for p in data.corpus if passages.get(p.id, p) != p}
        for passage in data.corpus:
            id = renamed.get(passage.id, passage.id)
            passages[id] = Passage(id=id, title=passage.title, text=passage.text)
        for split in SPLITS:
            every = data.splits.get(split, [])
            count = min(len(every), round(amount * len(every)) if amount <= 1 else int(amount))
            drawn = sorted(random.Random(f"{seed} {number} {split}").sample(range(len(every)), count))
            for example in (every[place] for place in drawn):
                id = prefix + example.id if example.id in known else example.id
                ids = {
                    name: [renamed.get(each, each) for each in example.get(name) or ()]
                    for name in ("gold_ids", "candidates")
                }
                known.add(id)
                splits[split].append(example.copy(id=id, **ids).with_inputs("question"))
    corpus = list(passages.values())
    name = "+".join(dict.fromkeys(data.name for data, _ in parts))
    return Dataset(name, splits, corpus, fingerprint(chain.from_iterable(splits.values()), corpus))
