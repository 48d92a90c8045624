"""Data sets: questions with known answers, and the corpora they are asked of.

Your own questions
==================

A JSON Lines file, one question per line (a JSON array of such objects is read too)::

    {"question": "Who designed the Orle bridge?", "answer": "Ada Venn"}
    {"question": "Where is it?", "answer": ["Orle", "the town of Orle"], "id": "q2", "gold_ids": ["bridge-1"]}

=================  ====================================================================================================
``question``       what is asked
``answer``         a string, a list of acceptable strings (the first is shown), a number, or true/false for yes/no
``id``             optional; unique
``aliases``        optional; more acceptable answers
``gold_ids``       optional; ids of the passages that hold the answer, or of documents that were split into passages
``type``           optional; kind of question, for scores by kind
``context``        optional; the question's own passages, strings or ``{"title", "text", "id"}`` objects
=================  ====================================================================================================

The corpus is the ``context`` of all questions together, or a file or a folder of documents (`read_corpus`)::

    {"id": "bridge-1", "title": "Orle bridge", "text": "The bridge at Orle was designed by Ada Venn."}

Half of the questions become the train split, a quarter each dev and test. A folder with `train.jsonl`,
`dev.jsonl`, `test.jsonl` and `corpus.jsonl` is taken as it is; the sample in the folder `sample` is one.
"""

from __future__ import annotations

from knowgap.compiling.data.corpus import read_corpus
from knowgap.compiling.data.dataset import SPLITS, Dataset, split
from knowgap.compiling.data.indexing import build_index
from knowgap.compiling.data.load import DATASETS, load_dataset

__all__ = [
    "DATASETS",
    "SPLITS",
    "Dataset",
    "build_index",
    "load_dataset",
    "read_corpus",
    "split",
]
