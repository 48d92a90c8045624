"""What a hostile passage, folder, client or document can do: what was tried, what held and what broke.

Each part is a module in this folder that tries one kind of attack in many forms.
"""

from __future__ import annotations

import argparse
import importlib
from collections.abc import Iterator

PARTS = ("trust_clients", "trust_folders", "trust_requests")


def add_arguments(group: argparse._ArgumentGroup) -> None:
    """Add the options of this benchmark, and those of its parts."""
    group.add_argument("--trust-parts", nargs="*", choices=PARTS, default=PARTS, help="which parts to run (all)")
    for part in PARTS:
        if hasattr(module := importlib.import_module(part), "add_arguments"):
            module.add_arguments(group)


def measure(options: argparse.Namespace) -> Iterator[str]:
    """Yield the tables of the parts."""
    for part in options.trust_parts:
        yield from importlib.import_module(part).measure(options)
