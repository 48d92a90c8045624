"""The reader holds up on real questions: 2WikiMultihopQA and HotpotQA with their gold paragraphs.

Runs where `KNOWGAP_TEST_DATA` names a folder with these data sets in their official layouts.
"""

import json
import os
from collections import Counter
from pathlib import Path

import pytest

from knowgap.compile.evaluation.metrics.f1 import token_f1
from knowgap.lms.embedded.english.questions import parse
from knowgap.lms.embedded.english.sentences import read_passage
from knowgap.lms.embedded.solving import answer

FOLDER = Path(os.environ.get("KNOWGAP_TEST_DATA") or "/nonexistent")
FILES = {
    "2wikimultihopqa/2wiki_dev_164.json": 0.45,
    "hotpotqa/hotpot_dev_distractor_200.json": 0.12,
}


def gold_sentences(record):
    gold = {title for title, _ in record["supporting_facts"]}
    paragraphs = [(title, " ".join(text)) for title, text in record["context"] if title in gold]
    return [s for number, (title, text) in enumerate(paragraphs, 1) for s in read_passage(title, text, number)]


def most_frequent_name(sentences):
    counts = Counter(span.text for sentence in sentences for span in sentence.spans if span.kind == "name")
    return counts.most_common(1)[0][0]


@pytest.mark.parametrize(("file", "margin"), FILES.items())
def test_the_reader_is_far_better_than_the_most_frequent_name(file, margin):
    if not (FOLDER / file).is_file():
        pytest.skip(f"KNOWGAP_TEST_DATA names no folder with {file}")
    records = json.loads((FOLDER / file).read_text(encoding="utf-8"))
    reader = baseline = 0.0
    for record in records:
        sentences = gold_sentences(record)
        reader += token_f1(answer(parse(record["question"]), sentences).text, record["answer"])
        baseline += token_f1(most_frequent_name(sentences), record["answer"])
    assert (reader - baseline) / len(records) > margin
