"""How thoroughly an index of many passages is searched; chosen when the index is opened."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from knowgap.errors import UnknownName, ValueOutOfBounds


@dataclass(frozen=True)
class SearchSettings:
    """How thoroughly an index of many passages is searched; higher values find more and take longer.

    The first 50 hits are the same however many are asked for. Beyond 50, twice as many clusters are probed.

    Args:
        nprobe: clusters of token vectors that each token of the query probes, from 1.
        n_rescored: passages of these clusters that are scored exactly, from 1; at least 50 are.
        n_rescored_per_hit: for more than 50 hits, the least number of passages per hit that are scored exactly, from 1.

    Raises:
        ValueOutOfBounds: a value is below 1.
    """

    nprobe: int
    n_rescored: int
    n_rescored_per_hit: int = 1

    def __post_init__(self) -> None:
        for name, value in vars(self).items():
            if value < 1:
                raise ValueOutOfBounds(f"{name} = {value!r}: must be at least 1")

    def __str__(self) -> str:
        return ", ".join(f"{name}={value}" for name, value in vars(self).items())


Quality: TypeAlias = str | SearchSettings
"""A key of `QUALITIES`, or settings."""

QUALITIES: dict[str, SearchSettings | None] = {
    "fast": SearchSettings(nprobe=1, n_rescored=128, n_rescored_per_hit=4),
    "balanced": SearchSettings(nprobe=2, n_rescored=256, n_rescored_per_hit=10),
    "exact": None,
}
"""Settings by name; None scores every passage."""


def settings_of(quality: Quality) -> SearchSettings | None:
    """The settings of a quality, given by its name or as settings.

    Raises:
        UnknownName: there is no quality of that name.
    """
    if isinstance(quality, SearchSettings):
        return quality
    if quality not in QUALITIES:
        raise UnknownName.among("quality", quality, QUALITIES)
    return QUALITIES[quality]
