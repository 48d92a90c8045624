"""The reader holds up on real questions: 2WikiMultihopQA and HotpotQA with their gold paragraphs."""

import os
from collections import Counter
from pathlib import Path

import pytest

from knowgap.compile.data import load_dataset
from knowgap.compile.evaluation.metrics.f1 import token_f1
from knowgap.lms.embedded.english.questions import parse
from knowgap.lms.embedded.english.sentences import read_passage
from knowgap.lms.embedded.solving import answer

FOLDER = Path(os.environ.get("KNOWGAP_TEST_DATA") or "/nonexistent")


def most_frequent_name(sentences):
    counts = Counter(span.text for sentence in sentences for span in sentence.spans if span.kind == "name")
    return counts.most_common(1)[0][0]


@pytest.mark.parametrize(
    ("file", "margin"),
    [("2wikimultihopqa/2wiki_dev_164.json", 0.45), ("hotpotqa/hotpot_dev_distractor_200.json", 0.12)],
)
def test_the_reader_is_far_better_than_the_most_frequent_name(file, margin):
    if not (FOLDER / file).is_file():
        pytest.skip(f"KNOWGAP_TEST_DATA names no folder with {file}")
    data = load_dataset(FOLDER / file, split_as="dev")
    passages = {passage.id: passage for passage in data.corpus}
    gains = []
    for example in data.splits["dev"]:
        gold = [passages[id] for id in example.candidates if id in example.gold_ids]
        sentences = [s for n, p in enumerate(gold, start=1) for s in read_passage(p.title, p.text, n)]
        reply = answer(parse(example.question), sentences).text
        gains.append(token_f1(reply, example.answer) - token_f1(most_frequent_name(sentences), example.answer))
    assert sum(gains) / len(gains) > margin
