"""Data sets by name and path: splits, users' own questions, ids."""

import json
from pathlib import Path

import pytest

from knowgap.compiling.data import SPLITS, load_dataset
from knowgap.compiling.data.dataset import split
from knowgap.errors import DataError
from knowgap.retrieval.passage import Passage


def write(path: Path, rows) -> Path:
    path.write_text("\n".join(map(json.dumps, rows)) if path.suffix == ".jsonl" else json.dumps(rows))
    return path


def questions(count, **more):
    return [{"question": f"What is the number {n}?", "answer": f"{n}", **more} for n in range(count)]


@pytest.fixture
def own(tmp_path):
    return write(tmp_path / "mine.jsonl", questions(40))


def sizes(data):
    return [len(data.splits[part]) for part in SPLITS]


def ids(examples):
    return [example.id for example in examples]


def test_one_file_is_divided_by_the_seed_and_not_by_its_order(own, tmp_path):
    other = write(tmp_path / "reordered.jsonl", questions(40)[::-1])
    loaded = [load_dataset(own), load_dataset(own), load_dataset(other), load_dataset(own, seed=1)]
    assert [sizes(data) for data in loaded] == [[20, 10, 10]] * 4
    assert loaded[0].name == "mine"
    assert len({id for part in SPLITS for id in ids(loaded[0].splits[part])}) == 40
    tests = [set(ids(data.splits["test"])) for data in loaded]
    assert tests[0] == tests[1] == tests[2] != tests[3]
    assert len({data.fingerprint for data in loaded}) == 1


def test_equal_questions_stay_together_and_none_is_lost(tmp_path):
    twice = [{"question": f"q{n // 2}", "answer": str(n)} for n in range(60)]
    data = load_dataset(write(tmp_path / "twice.jsonl", twice))
    assert sum(len({e.question for e in data.splits[part]}) for part in SPLITS) == 30
    assert len({id for part in SPLITS for id in ids(data.splits[part])}) == 60


def test_files_are_named_after_their_splits(tmp_path):
    write(tmp_path / "my_train.v1.2.jsonl", questions(6))
    write(tmp_path / "my-validation.jsonl", [{"question": "x?", "answer": "y"}])
    write(tmp_path / "corpus.jsonl", [{"id": "p", "title": "t", "text": "u"}])
    data = load_dataset(tmp_path)
    assert (data.name, sizes(data), data.corpus) == (tmp_path.name, [6, 1, 0], [Passage("p", "t", "u")])
    assert sizes(load_dataset(tmp_path, split_as="test")) == [6, 1, 0]


@pytest.mark.parametrize(
    ("files", "problem"),
    [
        ([], "holds no data files"),
        (["one_dev", "two_dev"], r"two_dev.jsonl and one_dev.jsonl: name one of them"),
        (["one_dev", "two"], r"two.jsonl and one_dev.jsonl: name one of them"),
        (["train", "test"], r"the id 'q1' is already used in test.jsonl:1"),
    ],
)
def test_ambiguous_folders_are_refused(tmp_path, files, problem):
    for name in files:
        write(tmp_path / f"{name}.jsonl", [{"id": "q1", "question": f"{name}?", "answer": "y"}])
    with pytest.raises(DataError, match=problem):
        load_dataset(tmp_path)


def test_the_sample_is_the_default_and_comes_with_the_package():
    data, other = load_dataset(), load_dataset("sample", seed=5)
    # Every published figure on the sample rests on this content; `tests/benchmarks/test_fictional.py` tests its making.
    assert data.fingerprint == other.fingerprint == "c9e5c77e0dbdf0f239f1e24a07bdfafe578987fc793680ce8ce8835f9cdadfbd"
    assert (data.name, sizes(data)) == ("sample", [100, 100, 100])


def test_limit_and_drawing(own):
    assert sizes(load_dataset(own, limit=4)) == [4, 4, 4]
    data = load_dataset(own, split_as="dev")
    whole = data.splits["dev"]
    assert sizes(data) == [0, 40, 0]
    assert [e.question for e in whole] == [row["question"] for row in questions(40)]
    assert split(whole, {"drawn": 500})["drawn"] == whole
    one, other = split(whole[::-1], {"one": 0.25, "other": 5}).values()
    assert (len(one), len(other), {*ids(one)} & {*ids(other)}) == (10, 5, set())


@pytest.mark.parametrize(("name", "mark"), [("dev.csv", ","), ("dev.csv", ";"), ("dev.TSV", "\t")])
def test_questions_in_a_table(tmp_path, name, mark):
    rows = [["question", "answer", "id", "aliases", "gold_ids"], ['"Who, and when?"', "Ada Venn", "q1", "", " "]]
    rows.append(['"Where; in?"', '"Orle\nBridge"', "q2", "Orle town", "orle"])
    (tmp_path / name).write_text("\n".join(map(mark.join, rows)))
    one, other = load_dataset(tmp_path / name, split_as="dev").questions("dev")
    assert (one.id, one.question, one.aliases, one.gold_ids) == ("q1", "Who, and when?", ["Ada Venn"], [])
    assert (other.answer, other.aliases, other.gold_ids) == ("Orle\nBridge", ["Orle\nBridge", "Orle town"], ["orle"])


def test_every_field(tmp_path):
    row = {"id": 7, "question": " Who? ", "answer": ["Ada", "A. Venn"], "aliases": ["Venn"], "type": "who",
           "gold_ids": ["b"], "context": ["plain text", {"id": "b", "title": "T", "text": "more"}]}  # fmt: skip
    others = [{"question": "Is it?", "answer": True}, {"question": "How many?", "answer": 12}]
    data = load_dataset(write(tmp_path / "mine.jsonl", [row, *others]), split_as="test")
    first, second, third = data.splits["test"]
    passages = [passage.id for passage in data.corpus]
    assert [p.text for p in data.corpus] == ["plain text", "more"]
    expected = row | {"id": "7", "question": "Who?", "answer": "Ada", "aliases": ["Ada", "A. Venn", "Venn"]}
    del expected["context"]
    assert {field: first[field] for field in [*expected, "candidates"]} == expected | {"candidates": passages}
    assert (second.answer, third.answer) == ("yes", "12")
    assert dict(first.inputs()) == {"question": "Who?"}
    assert set(first.keys()) == set(second.keys()) == set(load_dataset().splits["test"][0].keys())


BAD = {
    "question": [None, "  ", 3],
    "answer": ["", [], ["a", 1], {"a": 1}],
    "context": [5, [{"title": "no text"}]],
    "gold_ids": [{"a": 1}],
    "id": [True],
}


@pytest.mark.parametrize(
    ("rows", "problem"),
    [
        *(([{}, {name: value}], rf"mine.jsonl:2 \({name}[.)]") for name, values in BAD.items() for value in values),
        ([{"id": "a"}, {"id": "a"}], r"mine.jsonl:2: the id 'a' is already used in mine.jsonl:1"),
        (
            [{"context": [{"id": "p", "text": n}]} for n in "12"],
            r"mine.jsonl:2: two different passages have the id 'p'",
        ),
        ([{"question": "x\ud83d"}], r"mine.jsonl:1 .*unicode"),  # half a character, as in a cut text
    ],
)
def test_a_bad_record_is_named_by_file_line_and_field(tmp_path, rows, problem):
    path = write(tmp_path / "mine.jsonl", [{"question": "x?", "answer": "y"} | row for row in rows])
    with pytest.raises(DataError, match=problem):
        load_dataset(path)


def test_fingerprint_is_of_the_content(tmp_path):
    rows = questions(5, context=["a text"])
    changes = ({}, {}, {"answer": "6"}, {"question": "Other?"}, {"context": ["another text"]})
    paths = [write(tmp_path / f"{n}.jsonl", [*rows[:-1], rows[-1] | change]) for n, change in enumerate(changes)]
    prints = [load_dataset(path).fingerprint for path in paths]
    assert (len({*prints}), prints[0]) == (4, prints[1])


def test_a_given_corpus_takes_the_place_of_the_passages_of_the_questions(tmp_path):
    path = write(tmp_path / "mine.jsonl", questions(1, context=["a text"], gold_ids=["p"]))
    corpus = write(tmp_path / "corpus.jsonl", [{"id": "p", "text": "another"}])
    assert load_dataset(path, corpus=corpus).corpus == [Passage("p", "", "another")]
