"""A folder outside the package with a module of one's own."""

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

MINE = '''
import knowgap
from knowgap.errors import DataError
from knowgap.programs.baselines.rag import RAG


class Again(RAG):
    """Plain retrieval under another name."""


def half(example, prediction):
    """Always one half."""
    return 0.5


class Whole:
    def __call__(self, example, prediction, trace=None):
        return 1.0


def undefined(example, prediction, trace=None):
    raise DataError("is not defined here")


class Finder:
    def __init__(self, word="nothing"):
        self.word = word

    def __len__(self):
        return 0

    def search(self, queries, k):
        return [[] for query in queries]


finder = Finder("made before")


class Scorer:
    name, default_threshold, scale = "scorer", 0.5, "from 0 to 1"

    def score(self, pairs):
        return [1.0 for pair in pairs]

    entails = score

    def __bool__(self):
        return False
'''
MODULES = ("mine", "unsound")


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder outside the package, from which plugins are imported, as the command line would."""
    monkeypatch.setattr(sys, "path", [*sys.path, str(tmp_path)])
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine.py").write_text(MINE)
    yield tmp_path
    for name in MODULES:
        sys.modules.pop(name, None)
